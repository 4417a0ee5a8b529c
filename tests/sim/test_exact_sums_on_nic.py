# SPDX-License-Identifier: BSD-2-Clause
"""Sums on the lattice of planes pass the real NIC unchanged, so NICs do not change an exact sum."""

import numpy as np
import pytest
from exact_sums import compare

from inceptionn.sim.golden import lattice, packets
from inceptionn.sim.nic_link import NicLink
from inceptionn.sim.verilated import VerilatedNic


def sums(count: int, seed: int) -> np.ndarray:
    """Return sums of four ranks' values of every size, with a few raw lanes, infinities and NaNs."""
    source = np.random.default_rng(seed)
    shape = (4, count)
    sizes = np.repeat(source.integers(-12, 0, count // 8 + 1), 8)[:count]
    sizes[source.random(count) < 0.02] = 10
    x = (source.standard_normal(shape) * 2.0**sizes).astype(np.float32)
    x.view(np.uint32)[source.random(shape) < 0.002] = 0x7F812345
    x[source.random(shape) < 0.002] = np.inf
    return lattice.total(list(x))


@pytest.mark.parametrize("codec", ["planes"], indirect=True, scope="session")
def test_sums_pass_unchanged(nic: VerilatedNic, codec: str) -> None:
    """Compressed and restored, every frame is as it was; values off the lattice are not."""
    payloads = [sums(count, count).astype("<f4").tobytes() for count in (8, 9, 100, 362, 362, 2304)]
    off = np.full(362, 0.003, "<f4").tobytes()
    frames = [
        packets.tcp(payload, tos=0x28, source_port=40000, destination_port=5001, sequence=4 * number)
        for number, payload in enumerate([*payloads, off])
    ]
    nic.transmit([packets.tcp(b"", sequence=-1, destination_port=5001, flags=packets.SYN)])
    wired = nic.transmit([(frame, False) for frame in frames])
    assert len(wired[3].data) < len(frames[3])
    came = nic.receive([(frame.data, frame.bad) for frame in wired])
    assert [frame.data == sent for frame, sent in zip(came, frames, strict=True)] == [True] * 6 + [False]


@pytest.mark.filterwarnings("ignore:.* at the error bound:RuntimeWarning")
@pytest.mark.filterwarnings("ignore:invalid value encountered in add:RuntimeWarning")  # infinities
@pytest.mark.parametrize("codec", ["planes"], indirect=True, scope="session")
def test_sums_of_random_cases_through_the_nic(nic: VerilatedNic, codec: str) -> None:
    """Rings and groups of ranks whose floats pass the Verilog."""
    link, sums = NicLink(nic), 0
    for number in range(6):
        others, carried = compare(np.random.default_rng((5, number)), 2, link)
        assert not others, number
        sums += carried
    assert sums >= 6
    assert 0 < link.compressed < link.frames

# SPDX-License-Identifier: BSD-2-Clause
"""A reset of one cycle suffices: nothing of the frames it cuts comes out, and no frame after it is lost."""

import random
from contextlib import suppress

import pytest

from inceptionn.sim.golden import FlowTable, receive, transmit
from inceptionn.sim.replay.registers import read_counter
from inceptionn.sim.traffic import host_frames, wire_frames
from inceptionn.sim.verilated import HangError, Pause, VerilatedNic


def check(nic: VerilatedNic, resets: int = 24) -> None:
    """Reset for 1 to 16 cycles in traffic of both directions; the frames after it are offered at once.

    No input is ready and no output valid from the reset's first cycle on (``strict``).
    """
    source, config = random.Random(1), nic.codec.config()
    for number in range(resets):
        for _ in range(source.choice((1, 1, 1, 2))):
            cut = host_frames(source, 40), wire_frames(source, 40, config.parameters)
            pause = source.choice((Pause(), Pause(0.2, 5)))
            with suppress(HangError):
                nic.exchange(*cut, back_pressure=pause, cycle_limit=source.randrange(1, 1600))
            nic.reset(source.randint(1, 16) if number % 2 else 1, strict=True)
        sent, came = host_frames(source, 8), wire_frames(source, 8, config.parameters)
        flows = FlowTable()
        expected = (
            [transmit(frame, config, flows, bad) for frame, bad in sent],
            [receive(frame, config, bad) for frame, bad in came],
        )
        for outputs, results in zip(nic.exchange(sent, came), expected, strict=True):
            for output, result in zip(outputs, results, strict=True):
                sure = result.unspecified_from
                assert output.data[:sure] == result.frame[:sure], f"reset {number}, {result.verdict.name}"
                assert (len(output.data), output.bad) == (len(result.frame), result.bad)
        for name in ("TX_FRAMES_IN", "TX_FRAMES_OUT", "RX_FRAMES_IN", "RX_FRAMES_OUT"):
            assert read_counter(nic, name) == 8, f"reset {number}, {name}"


def test_short_resets(nic: VerilatedNic) -> None:
    check(nic)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("engines", "lanes", "codec"),
    [(2, 8, "planes"), (1, 1, "planes"), pytest.param(1, 1, "paper", marks=pytest.mark.exhaustive)],
    indirect=True, scope="session",
)  # fmt: skip
def test_short_resets_of_other_sizes(nic: VerilatedNic) -> None:
    check(nic)


@pytest.mark.slow
@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("engines", "lanes", "codec"),
    [(e, lanes, codec) for e in (1, 4) for lanes in (8, 16) for codec in ("paper", "planes")],
    indirect=True, scope="session",
)  # fmt: skip
def test_short_resets_of_every_size(nic: VerilatedNic) -> None:
    check(nic)

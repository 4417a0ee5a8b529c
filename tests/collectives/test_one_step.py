# SPDX-License-Identifier: BSD-2-Clause
"""Small sums, which every rank sends to all others: the bits of a ring, in one step."""

import sys
from contextlib import ExitStack
from subprocess import PIPE
from typing import Any

import numpy as np
import pytest
from outcomes import Group, returned

from inceptionn import Codec
from inceptionn.codec import converted
from inceptionn.collectives import IN_PLACE, MEAN, SUM, Deflated, ErrorFeedback, allreduce_comp, statistics
from inceptionn.collectives.algorithms import one_step as module
from inceptionn.netns import Network
from inceptionn.transport import LoopbackTransport, Transport

PLANES = Codec(2**-8, "planes")


def values(ranks: int, count: int, *, huge: bool = False) -> np.ndarray:
    """Values of many magnitudes and zeros; with ``huge`` NaNs, infinities, and the largest ones of fp32."""
    random = np.random.default_rng(count)
    x = (random.normal(size=(ranks, count)) * 2.0 ** random.integers(-30, 6, count)).astype(np.float32)
    x[:, ::7] = 0
    if huge and count > 900:
        x[0, 100], x[-1, 200], x[0, 300], x[-1, 300] = np.nan, np.inf, np.inf, -np.inf
        x[:, 400] = np.finfo(np.float32).max / ranks
        x[:, 500] = 1e30
    return x


def results(group: Group, x: np.ndarray, **settings: Any) -> tuple[list[bytes], set[int]]:
    """Return all ranks' sums and residuals, and the numbers of messages that they sent."""

    def run(t: Transport) -> tuple[bytes, int]:
        feedback, own = ErrorFeedback(settings["codec"]), x[t.rank].copy()
        for step in range(2):
            y = own.copy() if step else np.full_like(own, np.nan)
            allreduce_comp(t, IN_PLACE if step else own, y, feedback=(feedback, "w"), **settings)
        return y.tobytes(), statistics(t).messages

    found = returned(group(len(x), run))
    return [y for y, _ in found], {messages for _, messages in found}


@pytest.mark.filterwarnings("ignore:.* at the error bound:RuntimeWarning")
@pytest.mark.parametrize("count", [0, 1, 100, 5000])
@pytest.mark.parametrize("scale", ["auto", None, 5])
@pytest.mark.parametrize("ranks", [2, 3, 5])
def test_bits_are_a_rings(
    threads: Group, monkeypatch: pytest.MonkeyPatch, ranks: int, scale: Any, count: int
) -> None:
    x = values(ranks, count, huge=scale != 5)  # with which they would overflow
    for op in (SUM, MEAN):
        for codec in (PLANES, Deflated(PLANES)):
            with np.errstate(all="ignore"):
                one_step, messages = results(threads, x, op=op, codec=codec, scale=scale)
                with monkeypatch.context() as patch:
                    patch.setattr(module, "MOST_SENT", -1)
                    ring, others = results(threads, x, op=op, codec=codec, scale=scale)
            assert len(set(one_step)) == 1
            assert one_step == ring
            assert messages == {2 * (ranks - 1)}
            assert others == {4 * (ranks - 1)}


def test_sums_that_are_not_exact_have_the_same_bits_at_all_ranks(threads: Group) -> None:
    """Absolute steps of 2^-7 and magnitudes beyond 2^24 of them: fp32 rounds, in each order otherwise."""
    x = np.random.default_rng(1).normal(scale=2.0**20, size=(5, 3000)).astype(np.float32)
    found, _ = results(threads, x, codec=PLANES, scale=None)
    assert len(set(found)) == 1


@pytest.mark.parametrize(
    ("settings", "count"),
    [
        ({"codec": Codec(2**-8, "paper")}, 1000),
        ({"codec": PLANES, "path": "off"}, 1000),
        ({"codec": PLANES}, (1 << 14) + 1),
    ],
)
def test_others_take_the_ring(tcp: Group, settings: dict[str, Any], count: int) -> None:
    """Sums whose bits depend on the order, raw ones, and what costs more bytes than time."""
    _, messages = results(tcp, values(3, count), **settings)
    assert min(messages) >= 8


@pytest.mark.filterwarnings("ignore:.* at the error bound:RuntimeWarning")
@pytest.mark.parametrize(("count", "messages"), [(30_000, 8), (1 << 20, None)])
def test_far_away_more_lanes_take_one_step(
    threads: Group, monkeypatch: pytest.MonkeyPatch, count: int, messages: int | None
) -> None:
    """In messages of about a sub-block, with the bits of a ring."""
    x = values(3, count, huge=True)
    with np.errstate(all="ignore"):
        ring, _ = results(threads, x, codec=PLANES, sub_block=20_000)
        monkeypatch.setattr(LoopbackTransport, "latency", 0.005)
        found, sent = results(threads, x, codec=PLANES, sub_block=20_000)
    assert found == ring
    assert sent == {messages} if messages else min(sent) > 100


@pytest.mark.parametrize(
    ("count", "ranks", "latency", "bound", "faster"),
    [
        (1 << 15, 2, 0.0, None, True),
        ((1 << 15) + 1, 2, 0.0, 2**-10, False),
        (40_000, 2, 1e-3, 2**-10, False),  # 25 kB, of 12.5 in a millisecond
        (40_000, 2, 2e-3, 2**-10, True),
        (40_000, 2, 0.9e-3, 2**-2, False),  # not far
        (40_000, 2, 1.0, None, False),
        (1 << 21, 2, 10.0, 2**-10, True),
        ((1 << 21) + 1, 2, 10.0, 2**-10, False),
        (200_000, 2, 1e-3, 4.0, True),
        (400_000, 2, 1e-3, 4.0, False),
    ],
)
def test_what_is_faster(count: int, ranks: int, latency: float, bound: float | None, faster: bool) -> None:
    assert module.one_step_is_faster(count, ranks, latency, bound) is faster


RANK = """
import sys
import numpy as np
from inceptionn.collectives import allreduce_comp, statistics
from inceptionn.transport import connect
with connect(int(sys.argv[1]), 2, sys.argv[2], nic=False) as transport:
    x = np.ones(60_000, np.float32)
    allreduce_comp(transport, x, x)
    assert (x == 2).all()
    print(transport.latency, statistics(transport).messages)
"""


def test_latency_of_a_delayed_link() -> None:
    """A message passes two links."""
    with Network(2, delay="5ms") as network, ExitStack() as ranks:
        where = f"{network.hosts[0].address}:29520"
        argv = [sys.executable, "-c", RANK]
        running = [
            host.popen([*argv, str(host.index), where], stdout=PIPE, text=True) for host in network.hosts
        ]
        for rank in running:
            ranks.callback(rank.kill)
        for rank in running:
            latency, messages = rank.communicate(timeout=60)[0].split()
            assert float(latency) >= 0.01
            assert messages == "1"


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float64"])
@pytest.mark.parametrize("odd", ["sendbuf", "recvbuf"])
def test_ranks_agree_on_the_way_whatever_their_arrays_layout(group: Group, dtype: str, odd: str) -> None:
    """16-bit lanes of an array with gaps are converted to float32."""
    settings: dict[str, Any] = {"dtype": "bfloat16"} if dtype == "bfloat16" else {}
    x = converted(values(3, 600), "float32") if dtype == "float64" else converted(values(3, 600), dtype)
    x = x.astype(dtype) if dtype == "float64" else x

    def run(t: Transport) -> bytes:
        arrays = {"sendbuf": x[t.rank].copy(), "recvbuf": np.zeros_like(x[0])}
        if t.rank == 1:
            gaps = np.zeros(2 * x[0].size, x.dtype)[::2]
            gaps[:] = arrays[odd]
            arrays[odd] = gaps
        allreduce_comp(t, **arrays, codec=PLANES, timeout=10, **settings)
        return arrays["recvbuf"].tobytes()

    assert len(set(returned(group(3, run)))) == 1

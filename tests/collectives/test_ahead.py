# SPDX-License-Identifier: BSD-2-Clause
"""How much of its first block a rank sends before it receives, over real sockets."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from all_reduce import sums
from outcomes import Group

from inceptionn import Codec
from inceptionn.collectives import MEAN, allreduce_comp
from inceptionn.collectives.algorithms import ring as module
from inceptionn.collectives.algorithms.parts import Parts
from inceptionn.collectives.algorithms.ring import all_reduce_steps, ring
from inceptionn.collectives.values.wire_form import Compressed, Incoming, _spare
from inceptionn.transport import Transport

SUB = 2048
CODECS = [Codec(2**-10, "planes", threads=1), Codec(2**-10, threads=1)]


def unlike(ranks: int, count: int) -> np.ndarray:
    """Values whose streams differ much in size between the ranks: from raw ones to nothing but zeros."""
    random = np.random.default_rng(ranks)
    spread = [1e6, 0.0, 1e-3, 1e-1][:ranks]
    return np.stack([random.normal(size=count) * each for each in spread]).astype(np.float32)


def results(tcp: Group, x: np.ndarray, **settings: Any) -> list[bytes]:
    found = sums(tcp, x, MEAN, scale=None, sub_block=SUB, timeout=20, **settings)
    return [y.tobytes() for y in found]


@pytest.mark.filterwarnings("ignore:.* at the error bound:RuntimeWarning")  # zeros are meant
@pytest.mark.parametrize("codec", CODECS, ids=["planes", "bounded"])
@pytest.mark.parametrize("algorithm", ["ring", "hierarchical"])
@pytest.mark.parametrize("ranks", [2, 3, 4])
def test_any_limit_gives_the_same_bits(
    tcp: Group, monkeypatch: pytest.MonkeyPatch, ranks: int, algorithm: str, codec: Codec
) -> None:
    x = unlike(ranks, 60_001)
    found = set()
    for limit in (0, 1, 10_000, 1 << 40):  # 0: always no more than one message ahead
        monkeypatch.setattr(module, "AHEAD", limit)
        for path in ("software", "off"):
            own = results(tcp, x, path=path, algorithm=algorithm, codec=codec)
            assert len(set(own)) == 1
            found.add((path, own[0]))
    assert len(found) == 2


@pytest.mark.parametrize("limit", [0, 6000, 1 << 40])
def test_the_limit_holds(tcp: Group, monkeypatch: pytest.MonkeyPatch, limit: int) -> None:
    """Until the first block is sent, no more bytes are ahead than the limit and a message."""
    monkeypatch.setattr(module, "AHEAD", limit)
    x = np.random.default_rng(5).normal(scale=0.01, size=(4, 40 * SUB)).astype(np.float32)
    parts = Parts(x.shape[1], 4, SUB)

    class Counting(Compressed):
        """Notes after each send how many bytes are ahead."""

        ahead = 0

        def __init__(self, transport: Transport) -> None:
            super().__init__(transport, CODECS[0])
            self.noted: list[int] = []
            self.largest = 0

        def send(self, peers: Any, lanes: Any, *, settle: bool = False) -> int:
            size = super().send(peers, lanes, settle=settle)
            self.ahead += size
            self.largest = max(self.largest, size)
            self.noted.append(self.ahead)
            return size

        def receive(self, *arguments: Any) -> Incoming:
            incoming, form = super().receive(*arguments), self

            def finish(wait: Callable[[], int] = incoming.finish) -> int:
                size = wait()
                form.ahead -= size
                return size

            incoming.finish = finish  # type: ignore[method-assign]
            return incoming

    def run(t: Transport) -> tuple[list[int], int]:
        form, y = Counting(t), np.empty_like(x[0])
        ring(form, range(4), x[t.rank], y, parts, all_reduce_steps(4))
        return form.noted[: parts.subs], form.largest

    assert parts.subs == 10
    for noted, largest in tcp(4, run):
        if limit == 1 << 40:
            assert noted == sorted(noted)  # nothing is received before all is sent
            assert noted[-1] > 12_000  # so the other limits matter
        else:
            assert max(noted) <= limit + largest


def test_buffers_are_used_again(tcp: Group) -> None:
    """Streams of the next collective lie in the memory of those before; larger ones get new memory."""
    x = np.random.default_rng(6).normal(scale=0.01, size=(3, 50_000)).astype(np.float32)

    def run(t: Transport) -> list[set[int]]:
        found = []
        for sub in (SUB, SUB, 4 * SUB, SUB):
            y = np.empty_like(x[0])
            allreduce_comp(t, x[t.rank], y, codec=CODECS[0], sub_block=sub)
            assert np.abs(y - x.sum(axis=0)).max() < 0.01
            spare = _spare[t]
            assert len(spare) <= 16
            found.append({buffer.ctypes.data for buffer in spare})
        return found

    for first, second, larger, last in tcp(3, run):
        assert first & second
        assert larger & last

# SPDX-License-Identifier: BSD-2-Clause
"""One rank of ``inceptionn bench calls``."""

import time
from collections.abc import Callable
from dataclasses import asdict
from functools import partial
from statistics import median_low
from typing import Any

import numpy as np

from .... import Codec
from ....collectives import MEAN, ErrorFeedback, allreduce_comp, statistics
from ....transport import Transport
from ..common.rank import Plan, tell

PARTS = ("agreeing", "codec", "waiting", "sending")
CODED, FED, AGREED, GLOO = "compressed", "with feedback", "exchange", "gloo"
_VALUES, _FEWEST, _MOST = 4_000_000, 2, 200
"""Values of the calls of a turn, and the numbers of calls."""
_CALLS_BY_RANKS = 800
"""The most calls of a turn, times the ranks: 64 hosts on two processors take seconds for a few calls."""


def main(transport: Transport, plan: Plan) -> None:
    """Time calls of each size in turns, and tell each way's seconds of a call, and the parts of ours."""
    gloo = _Gloo(transport, plan) if plan["gloo"] else None
    codec = Codec(plan["bound"], "planes", threads=1)
    feedback = ErrorFeedback(codec)
    for count in plan["values"]:
        given = np.random.default_rng([plan["seed"], transport.rank]).normal(size=count).astype(np.float32)
        total = np.empty_like(given)

        ours = partial(allreduce_comp, transport, given, total, MEAN, codec=codec)
        ways: dict[str, Callable[[], Any]] = {
            CODED: ours,
            FED: partial(ours, feedback=(feedback, count)),
            AGREED: partial(transport.exchange, transport.rank % 2),
        }
        if gloo is not None:
            ways[GLOO] = partial(gloo, given)
        calls = max(_FEWEST, min(_MOST, _CALLS_BY_RANKS // transport.size, _VALUES // count))
        times: dict[str, list[float]] = {name: [] for name in ways}
        parts: list[dict[str, float]] = []
        for turn in range(plan["repeats"] + 1):  # the first is not counted: it opens and loads what it needs
            for name, call in ways.items():
                before = statistics(transport)
                transport.barrier()
                start = time.perf_counter()
                for _ in range(calls):
                    call()
                seconds = max(transport.exchange(time.perf_counter() - start)) / calls
                if turn:
                    times[name].append(seconds)
                    if name == CODED:
                        spent = asdict(statistics(transport).since(before))
                        parts.append({part: spent[part] / calls for part in PARTS})
        line = {name: median_low(found) for name, found in times.items()}
        whole = parts[times[CODED].index(line[CODED])]
        tell(transport, {"values": count, "calls": calls, "seconds": line, "parts": whole})
    if gloo is not None:
        transport.barrier()
        gloo.close()  # at exit, it would end the process by a signal if another rank has gone


class _Gloo:
    """The all-reduce of torch's gloo, in a group of the same ranks."""

    def __init__(self, transport: Transport, plan: Plan) -> None:
        import torch
        import torch.distributed as dist

        torch.set_num_threads(1)
        where = f"tcp://{plan['addresses'][0]}:{plan['port'] + 1}"
        dist.init_process_group("gloo", init_method=where, rank=transport.rank, world_size=transport.size)
        self._of_numpy, self._dist, self._ranks = torch.from_numpy, dist, transport.size

    def __call__(self, given: Any) -> None:
        total = self._of_numpy(given.copy())
        self._dist.all_reduce(total)
        total /= self._ranks

    def close(self) -> None:
        """Free the connections, at all ranks."""
        self._dist.destroy_process_group()

# SPDX-License-Identifier: BSD-2-Clause
"""``inceptionn bench a2dtwp``: packing weights against memcpy, and copies to a GPU where there is one."""

from functools import partial
from typing import Annotated, Any

import numpy as np

from ....commands import report
from ....commands.speed import MEMCPY, Calls, best_seconds, copying
from ....commands.study import Columns, Figure, Study, measurement
from ....layers.a2dtwp import adt, host_to_device
from ..common.memory import cache_text

TARGET = 0.5
"""Share of memcpy's rate, with one thread."""
SLOW_SECONDS = 3.0
KEPT = (1, 2, 3, 4)


@measurement("a2dtwp")
def a2dtwp(
    study: Study,
    size: Annotated[int, report.whole(1, 4096, "MB of fp32 weights.")] = 64,
    repeats: Annotated[int, report.whole(1, 1000, "Rounds; the best one counts.")] = 30,
    seed: report.Seed = 1,
    quick: Annotated[bool, report.quick(size=8, repeats=3)] = False,
) -> None:
    """Measure bitpack and bitunpack on every path, one thread, against memcpy of the same weights.

    Half a minute.

    With torch and a GPU, also copies from pinned memory to the device: raw, and packed here and unpacked
    there. Rates in GB/s of fp32.
    """
    count = size * 1_000_000 // 4
    found = {}
    for path in adt.available_paths():
        with adt.using_path(path):
            found[path] = rates_of(count, repeats, seed)
    study.conditions.append(f"fp32 weights, {cache_text(4 * count)}, one thread")
    ways = [(path, way, rates) for path, rates in found.items() for way in ("pack", "unpack")]
    study.table("", RATES, ways)
    device: dict[str, Any] | None = None
    if (missing := host_to_device.missing()) is None:
        device = host_to_device.speed(count, repeats)
        raw = device["ways"]["raw"]["all"]
        rows = [(name, raw, row) for name, row in device["ways"].items()]
        study.table(f"To {device['device']}, pinned memory", TO_DEVICE, rows)
    else:
        study.show(f"no copies to a GPU were measured: {missing}")
    study.figures += figures_of(found)
    study.facts |= {"bytes": 4 * count, "paths": found, "device": device}
    study.rows = [{"path": path, **rates} for path, rates in found.items()]


def rates_of(count: int, repeats: int, seed: int = 1) -> dict[str, float]:
    """Measure GB/s of fp32 in one run: the active path's by operation and bytes kept, and ``memcpy``'s."""
    x = np.random.default_rng(seed).standard_normal(count, np.float32)
    y = np.empty_like(x)
    packed = {keep: adt.bitpack(x, keep) for keep in KEPT}
    calls: Calls = copying(x)
    for keep, data in packed.items():
        calls[f"pack{keep}"] = partial(adt.bitpack, x, keep, data)
        calls[f"unpack{keep}"] = partial(adt.bitunpack, data, keep, y)
    seconds = best_seconds(calls, repeats, SLOW_SECONDS)
    return {name: x.nbytes / took / 1e9 for name, took in seconds.items()}


def figures_of(found: dict[str, dict[str, float]]) -> list[Figure]:
    """Return the target: the slowest format of the best path, in both directions."""
    best, rates = next(iter(found.items()))
    least = {way: min(rates[f"{way}{keep}"] for keep in KEPT) for way in ("pack", "unpack")}
    name = f"{best}, slowest format, of memcpy"
    return [Figure(f"bit{way}, {name}", rate / rates[MEMCPY], TARGET) for way, rate in least.items()]


def _rate(keep: int, row: tuple[str, str, dict[str, float]]) -> str:
    rate = row[2][f"{row[1]}{keep}"]
    return f"{rate:.2f} ({rate / row[2][MEMCPY]:.2f})"


RATES: Columns[tuple[str, str, dict[str, float]]] = {
    "": lambda row: f"{row[0]}, bit{row[1]}",
    **{f"{keep} byte{'s' * (keep > 1)}\nGB/s (of memcpy)": partial(_rate, keep) for keep in KEPT},
}
"""Of a path, a direction and the path's rates."""


def _milliseconds(part: str, row: tuple[str, float, dict[str, float]]) -> str:
    return f"{1e3 * row[2][part]:.2f}"


TO_DEVICE: Columns[tuple[str, float, dict[str, float]]] = {
    "": lambda row: row[0],
    **{f"{part}, ms": partial(_milliseconds, part) for part in ("pack", "copy", "unpack", "all")},
    "raw / all": lambda row: f"{row[1] / row[2]['all']:.2f}x",
}
"""Of a way to the GPU, with the seconds of the raw one."""

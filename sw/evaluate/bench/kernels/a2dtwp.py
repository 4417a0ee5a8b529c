# SPDX-License-Identifier: BSD-2-Clause
"""``inceptionn bench a2dtwp``: packing weights against memcpy, and copies to a GPU where there is one."""

import time
from collections.abc import Callable
from typing import Annotated, Any

import numpy as np
import typer

from ....commands import report
from ....commands.console import CsvFile, JsonFile, Table
from ....commands.speed import MEMCPY, Calls, best_seconds, copying
from ....layers.a2dtwp import adt, host_to_device
from ..common.cache import cache_text

TARGET = 0.5
"""Share of memcpy's rate, with one thread."""
SLOW_SECONDS = 3.0
KEPT = (1, 2, 3, 4)


def a2dtwp(
    size: Annotated[int, report.whole(1, 4096, "MB of fp32 weights.")] = 64,
    repeats: Annotated[int, report.whole(1, 1000, "Rounds; the best one counts.")] = 30,
    processor_time: Annotated[
        bool, typer.Option("--processor-time", help="Count processor time, for machines with other work.")
    ] = False,
    seed: report.Seed = 1,
    quick: Annotated[bool, report.quick(size=8, repeats=3)] = False,
    json_file: JsonFile = None,
    csv_file: CsvFile = None,
) -> None:
    """Measure bitpack and bitunpack on every path, one thread, against memcpy of the same weights.

    Half a minute.

    With torch and a GPU, also copies from pinned memory to the device: raw, and packed here and unpacked
    there (always in wall-clock time). Rates in GB/s of fp32.
    """
    out = report.Report(seed, json_file, csv_file)
    count = size * 1_000_000 // 4
    clock = time.thread_time if processor_time else time.perf_counter
    found = {}
    for path in adt.available_paths():
        with adt.using_path(path):
            found[path] = rates_of(count, repeats, clock, seed)
    kind = "processor time" if processor_time else "wall-clock time"
    size_text = cache_text(4 * count)
    out.show_conditions(f"fp32 weights, {size_text}, one thread, {kind}")
    out.console.print(table_of(found))
    device: dict[str, Any] | None = None
    missing = host_to_device.missing()
    if missing is None:
        device = host_to_device.speed(count, repeats)
        out.console.print(device_table(device))
    else:
        out.console.print(f"no copies to a GPU were measured: {missing}", markup=False, soft_wrap=True)
    out.show_figures(figures_of(found))
    out.write(
        {"bench": "a2dtwp", "bytes": 4 * count, "clock": kind, "paths": found, "device": device},
        [{"path": path, **rates} for path, rates in found.items()],
    )


def rates_of(count: int, repeats: int, clock: Callable[[], float], seed: int = 1) -> dict[str, float]:
    """Measure GB/s of fp32 on the active path, by operation and bytes kept, and of ``memcpy``.

    All are measured in the same run.
    """
    x = np.random.default_rng(seed).standard_normal(count, np.float32)
    y = np.empty_like(x)
    packed = {keep: adt.bitpack(x, keep) for keep in KEPT}
    calls: Calls = copying(x)
    for keep, data in packed.items():
        calls[f"pack{keep}"] = lambda keep=keep, data=data: adt.bitpack(x, keep, data)  # type: ignore[misc]
        calls[f"unpack{keep}"] = lambda keep=keep, data=data: adt.bitunpack(data, keep, y)  # type: ignore[misc]
    seconds = best_seconds(calls, repeats, SLOW_SECONDS, clock)
    return {name: x.nbytes / took / 1e9 for name, took in seconds.items()}


def table_of(found: dict[str, dict[str, float]]) -> Table:
    """Tabulate rates and shares of memcpy, one row per path and direction."""
    table = Table("", "", *(f"{keep} byte{'s' * (keep > 1)}\nGB/s (of memcpy)" for keep in KEPT))
    for path, rates in found.items():
        for way in ("pack", "unpack"):
            cells = [f"{rates[f'{way}{k}']:.2f} ({rates[f'{way}{k}'] / rates[MEMCPY]:.2f})" for k in KEPT]
            table.add_row(f"{path}, bit{way}", *cells)
    return table


def figures_of(found: dict[str, dict[str, float]]) -> list[report.Figure]:
    """Return the target: the slowest format of the best path, in both directions."""
    best, rates = next(iter(found.items()))
    return [
        report.Figure(
            f"bit{way}, {best}, slowest format, of memcpy",
            min(rates[f"{way}{keep}"] for keep in KEPT) / rates[MEMCPY],
            TARGET,
        )
        for way in ("pack", "unpack")
    ]


def device_table(device: dict[str, Any]) -> Table:
    """Tabulate milliseconds of each way to the GPU."""
    table = Table(
        f"To {device['device']}, pinned memory",
        "",
        "pack, ms",
        "copy, ms",
        "unpack, ms",
        "all, ms",
        "raw / all",
    )
    for name, row in device["ways"].items():
        cells = [f"{1e3 * row[part]:.2f}" for part in ("pack", "copy", "unpack", "all")]
        table.add_row(name, *cells, f"{device['ways']['raw']['all'] / row['all']:.2f}x")
    return table

# SPDX-License-Identifier: BSD-2-Clause
"""The tables, figures and picture of ``inceptionn bench allreduce``."""

import math
from collections.abc import Iterator
from functools import partial
from itertools import product
from statistics import median
from typing import Any, NamedTuple

from ....commands.console import Table
from ....commands.study import Draw, Figure, Panel, panels
from ....netns import rate_text
from ..common.data import REAL, SYNTHETIC
from ..common.rows import groups, where
from .variants import ALL_GATHER, ALL_REDUCES, MPI, RING_BF16, RING_BOUNDED, RING_PLANES, RING_RAW, VARIANTS

TARGETS = {(SYNTHETIC, 1e9): 3.8, (REAL, 1e9): 5.0, **{(kind, 1e10): 2.0 for kind in (SYNTHETIC, REAL)},
         **{(kind, 1e8): 4.0 for kind in (SYNTHETIC, REAL)}}  # fmt: skip
"""Ring raw over ring bounded, by data and bits per second."""
PLANES_TARGETS = {(SYNTHETIC, 1e8): 6.0, (SYNTHETIC, 1e9): 6.0, (REAL, 1e8): 11.0, (REAL, 1e9): 11.0}
"""Ring raw over ring planes."""
HALF_TARGETS = {2.0**-10: 5.0, 2.0**-12: 3.0}
"""Ring bf16 over ring planes, scaled, of real gradients of bfloat16 at 100 Mbit/s and 1 Gbit/s, by bound."""
_ROUNDING = 1.01
"""The sums themselves are rounded to fp32."""


class Key(NamedTuple):
    """The measurements; the rate is None where links are not shaped."""

    rate: float | None
    data: str
    op: str
    variant: str


UNKNOWN: dict[str, Any] = {"same_bits": True, "largest_error": 0.0, "bytes_sent": None, "scale": 0}
"""What the first round tells, until then: bytes are the busiest host's, not known of MPI; ``scale``: the
exponent by which the bound is divided."""


class Results:
    """All measurements of a run among ``hosts`` hosts, at one error bound, beside the variant ``raw``.

    ``rows``: as the JSON file has them, by `Key`: it, ``seconds`` of each round at the slowest rank, their
    median, and `UNKNOWN`.
    """

    def __init__(self, bound: float, hosts: int, raw: str = RING_RAW) -> None:
        self.bound, self.hosts, self.raw = bound, hosts, raw
        self.rows: dict[Key, dict[str, Any]] = {}

    def add(self, rate: float | None, line: dict[str, Any]) -> None:
        """Add one line of rank 0."""
        key = Key(rate, line["data"], line["op"], line["variant"])
        new = {**key._asdict(), "median_seconds": 0.0, "seconds": [], **UNKNOWN}
        row = self.rows.setdefault(key, new)
        row["seconds"].append(line["seconds"])
        row["median_seconds"] = median(row["seconds"])
        row.update({name: line[name] for name in UNKNOWN if name in line})

    def seconds(self, rate: float | None, data: str, op: str, variant: str) -> float | None:
        """Return the median, or None if it was not measured."""
        row = self.rows.get(Key(rate, data, op, variant))
        return None if row is None else float(row["median_seconds"])

    def ratio(self, rate: float | None, data: str, op: str, slow: str, fast: str) -> float | None:
        """Return how many times as fast one variant is as another."""
        first, second = (self.seconds(rate, data, op, variant) for variant in (slow, fast))
        return None if first is None or second is None else first / second

    def each(self, name: str) -> list[Any]:
        """Return all values of a field of the keys, in the order in which they were added."""
        return list(dict.fromkeys(row[name] for row in self.rows.values()))

    def verify(self) -> None:
        """Raise ``RuntimeError`` if ranks ended with different bits, or an error is above its limit.

        A sum of *n* ranks passes *n* compressions, gathered values one; a mean is the sum divided by *n*.
        """
        for key, row in self.rows.items():
            what = f"{key.variant}, {key.op} of {key.data} data at {rate_text(key.rate)}"
            if not row["same_bits"] and key.variant != MPI:
                raise RuntimeError(f"{what}: the ranks ended with different bits")
            compressions = {"mean": 1, ALL_GATHER: 1}.get(key.op, self.hosts)
            limit = math.ldexp(self.bound * compressions * _ROUNDING, -row["scale"])
            if VARIANTS[key.variant].within_bound and (error := row["largest_error"]) > limit:
                raise RuntimeError(f"{what}: an error of {error:.3g} is above {limit:.3g}")


def tables_of(results: Results) -> Iterator[Table]:
    """Yield a table for each kind of data and operation: ms by rate, and the ratio to the raw ring."""
    rates = results.each("rate")
    for data, op in product(results.each("data"), results.each("op")):
        title = f"{data}, {op}: median ms (times as fast as {results.raw})"
        ends = ("MB sent by\nbusiest host", "largest error\nin bounds")
        table = Table(title, "", *map(rate_text, rates), *ends)
        for (name,), rows in groups(where(results.rows.values(), data=data, op=op), "variant").items():
            times = [_time(results, rate, data, op, name) for rate in rates]
            sent = rows[0]["bytes_sent"]
            error = max(math.ldexp(row["largest_error"], row["scale"]) for row in rows) / results.bound
            table.add_row(name, *times, "-" if sent is None else f"{sent / 1e6:.1f}", f"{error:.2f}")
        yield table


def _time(results: Results, rate: float | None, data: str, op: str, variant: str) -> str:
    seconds = results.seconds(rate, data, op, variant)
    ratio = results.ratio(rate, data, op, results.raw, variant)
    return "-" if seconds is None or ratio is None else f"{seconds * 1e3:.1f} ({ratio:.2f})"


def figures_of(results: Results) -> Iterator[Figure]:
    """Yield the targets of the all-reduce."""
    for rate, data, op in product(*map(results.each, ("rate", "data", "op"))):
        ratio = partial(results.ratio, rate, data, op)
        where, key = f"{rate_text(rate)}, {data}, {op}", (data, rate or 0.0)
        if results.raw == RING_BF16:  # real gradients of bfloat16
            target = HALF_TARGETS.get(results.bound)
            if target is not None and data == REAL and rate in (1e8, 1e9):
                yield Figure(f"{where}: planes against ring bf16", ratio(RING_BF16, RING_PLANES), target)
            continue
        if key in TARGETS and op in ALL_REDUCES:
            yield Figure(f"{where}: codec against ring raw", ratio(RING_RAW, RING_BOUNDED), TARGETS[key])
        planes = ratio(RING_RAW, RING_PLANES)
        if key in PLANES_TARGETS and planes is not None and op in ALL_REDUCES:
            yield Figure(f"{where}: planes against ring raw", planes, PLANES_TARGETS[key])
        yield Figure(f"{where}: codec against ring bf16", ratio(RING_BF16, RING_BOUNDED), 1)
        if rate == 1e9:
            yield Figure(f"{where}: ring raw against Open MPI", ratio(MPI, RING_RAW), 1)


def chart_of(results: Results) -> tuple[Draw, float, float]:
    """Return what plots milliseconds of each variant by rate, a panel for each data and operation."""
    kinds, ops = results.each("data"), results.each("op")
    grid = [[_panel(results, kind, op) for kind in kinds] for op in ops]
    return panels(*grid, columns=3, sharey=True), 8 * len(kinds), 4.2 * len(ops)


def _panel(results: Results, kind: str, op: str) -> Panel:
    bars: dict[str, dict[str, float | None]] = {}
    for rate, variant in product(results.each("rate"), results.each("variant")):
        seconds = results.seconds(rate, kind, op, variant)
        bars.setdefault(rate_text(rate), {})[variant] = seconds and seconds * 1e3
    axes = {"title": f"{kind}, {op}", "yscale": "log", "ylabel": "ms, median"}
    return Panel(bars, axes=axes, text=lambda ms: f"{ms:,.0f}" if ms >= 100 else f"{ms:.1f}")

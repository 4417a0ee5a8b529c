# SPDX-License-Identifier: BSD-2-Clause
"""Draws a report as bars."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from inceptionn.commands.console import write_plot

from .history import Entry


def draw(path: Path, capacity: Mapping[str, Any], entry: Entry) -> None:
    """Plot the share of the part's look-up tables, flip-flops and block RAMs, and the clocks.

    Clocks are those of the components with a route.
    """
    import matplotlib
    from matplotlib.figure import Figure

    names = list(entry.components)
    routed = {name: found.mhz for name, found in entry.components.items() if found.mhz}
    with matplotlib.rc_context({"svg.fonttype": "none", "font.size": 8}):
        figure = Figure(figsize=(9, 0.34 * len(names) + 1.6), layout="constrained")
        halves: Any = figure.subfigures(1, 2, width_ratios=(3, 2))
        left, right = halves
        shares = left.subplots()
        for number, (key, label) in enumerate((("lut", "LUT"), ("ff", "FF"), ("bram", "RAMB36"))):
            values = [100 * getattr(entry.components[name], key) / capacity[key] for name in names]
            at = [place + 0.27 * (number - 1) for place in range(len(names))]
            bars = shares.barh(at, values, height=0.25, label=label)
            shares.bar_label(bars, [f"{value:.2f}" for value in values], padding=2, fontsize=5)
        shares.set_yticks(range(len(names)), names)
        shares.invert_yaxis()
        shares.set(xlabel=f"% of an {capacity['part']}")
        shares.margins(x=0.1, y=0.01)
        shares.legend(loc="lower right")
        clocks = right.subplots()
        bars = clocks.barh(list(routed), list(routed.values()), height=0.6, color="tab:gray")
        clocks.bar_label(bars, fmt="{:.0f}", padding=2)
        clocks.invert_yaxis()
        others = len(names) - len(routed)
        reason = f"\n{others} others: no route of their own\n(inceptionn report --route)" if others else ""
        clocks.set(xlabel=f"MHz, routed for an ECP5 as a proxy{reason}")
        clocks.set_ylim(max(5.5, len(routed)) - 0.5, -0.5)
        clocks.margins(x=0.18)
        figure.suptitle(f"{entry.board}, {entry.commit}, {entry.date}")
        write_plot(path, figure)

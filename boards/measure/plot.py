# SPDX-License-Identifier: BSD-2-Clause
"""Draws a report as bars."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from inceptionn.commands.console import new_figure, write_plot
from inceptionn.commands.study import Panel, panels

from .history import Entry


def draw(path: Path, capacity: Mapping[str, Any], entry: Entry) -> None:
    """Plot the share of the part's look-up tables, flip-flops and block RAMs, and the clocks.

    Clocks are those of the components with a route.
    """
    import matplotlib

    parts, found = {"lut": "LUT", "ff": "FF", "bram": "RAMB36"}, entry.components
    shares: dict[str, dict[str, float | None]] = {
        name: {label: 100 * getattr(each, key) / capacity[key] for key, label in parts.items()}
        for name, each in found.items()
    }
    clocks: dict[str, dict[str, float | None]] = {
        name: {"_": each.mhz}  # a label that no legend shows
        for name, each in found.items()
        if each.mhz
    }
    others = len(shares) - len(clocks)
    reason = f"\n{others} others: no route of their own\n(inceptionn report --route)" if others else ""
    left, right = f"% of an {capacity['part']}", f"MHz, routed for an ECP5 as a proxy{reason}"
    figure = new_figure(9, 0.34 * len(shares) + 1.6)
    with matplotlib.rc_context({"svg.fonttype": "none", "font.size": 8}):
        panels(
            [Panel(shares, axes={"xlabel": left}, text="{:.2f}".format, flat=True),
             Panel(clocks, axes={"xlabel": right}, text="{:.0f}".format, flat=True)], width_ratios=(3, 2),
        )(figure)  # fmt: skip
        figure.suptitle(f"{entry.board}, {entry.commit}, {entry.date}")
        write_plot(path, figure)

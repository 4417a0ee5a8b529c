# SPDX-License-Identifier: BSD-2-Clause
"""Draws a report as bars."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from inceptionn.system.extras import pip_install

from .history import Entry
from .place_and_route import ToolError

SUFFIXES = (".svg", ".png", ".pdf")


def check(path: Path) -> None:
    """Before the work: ``ValueError`` for a file of another kind, ``ToolError`` without matplotlib."""
    if find_spec("matplotlib") is None:
        raise ToolError(f"matplotlib is not installed: {pip_install('plot')}")
    if path.suffix not in SUFFIXES:
        raise ValueError(f"file must end with one of {', '.join(SUFFIXES)}, not {str(path)!r}")


def draw(path: Path, capacity: Mapping[str, Any], entry: Entry) -> None:
    """Two panels: share of the part's look-up tables, flip-flops and block RAMs; routed clock.

    The same report gives the same bytes of SVG.
    """
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    names = list(entry.components)
    places = range(len(names))
    style: Any = {"svg.hashsalt": "inceptionn", "svg.fonttype": "none", "font.size": 8}
    with matplotlib.rc_context(style):
        figure, (shares, clocks) = pyplot.subplots(
            1, 2, sharey=True, figsize=(9, 0.32 * len(names) + 1.2), width_ratios=(3, 2), layout="constrained"
        )
        for number, (key, label) in enumerate((("lut", "LUT"), ("ff", "FF"), ("bram", "RAMB36"))):
            values = [100 * getattr(entry.components[name], key) / capacity[key] for name in names]
            at = [place + 0.27 * (number - 1) for place in places]
            bars = shares.barh(at, values, height=0.25, label=label)
            labels = [f"{value:.2f}" if value else "" for value in values]
            shares.bar_label(bars, labels, padding=2, fontsize=5)
        shares.set_yticks(list(places), names)
        shares.invert_yaxis()
        shares.set_xlabel(f"% of an {capacity['part']}")
        shares.margins(x=0.1)
        shares.legend()
        rates = [entry.components[name].mhz or 0 for name in names]
        bars = clocks.barh(list(places), rates, height=0.6, color="tab:gray")
        clocks.bar_label(bars, [f"{rate:.0f}" if rate else "not routed" for rate in rates], padding=2)
        clocks.set_xlabel("MHz, routed for an ECP5 as a proxy")
        clocks.margins(x=0.18)
        figure.suptitle(f"{entry.board}, {entry.commit}")
        path.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(path, metadata={"Date": None} if path.suffix == ".svg" else None)
        pyplot.close(figure)

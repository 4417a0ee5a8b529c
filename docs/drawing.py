# SPDX-License-Identifier: BSD-2-Clause
"""SVG pictures of boxes, text and arrows, whose text fits its place, in the viewer's light or dark colours.

A text that is wider than its place, or overlaps another one, is a ``ValueError``. Widths are those of DejaVu
Sans, the widest of the usual fonts.
"""

from collections.abc import Sequence
from itertools import combinations
from typing import NamedTuple
from xml.sax.saxutils import escape

WIDTH = 800
"""Of every picture, in pixels."""
MARGIN = 16
SMALLEST = 12
"""Size of the smallest text, in pixels."""
LINE = 1.35
"""Distance of two lines of text, in sizes."""

PAINTS = {
    "paper": ("#ffffff", "#0d1117"),
    "ink": ("#1f2328", "#e6edf3"),
    "quiet": ("#59636e", "#9198a1"),
    "place": ("#f0f3f6", "#1c2128"),
    "head": ("#d1d9e0", "#3d444d"),
    "value": ("#b6dcff", "#1b4b82"),
    "shim": ("#e0ceff", "#553098"),
    "table": ("#ffd9a0", "#744708"),
    "data": ("#aee9ba", "#196130"),
    "changed": ("#c2410c", "#ff9e6e"),
}
"""Light and dark colour by what is painted. The last five mean the same in every picture."""

WIDTHS = {
    0.30: "'IJijl", 0.35: " ,./:;\\|·", 0.40: "()-[]ft", 0.45: "!r", 0.50: '"*_`', 0.55: "?csz",
    0.60: "FLkvxy", 0.65: "$0123456789EPSTYabdeghnopqu{}µ", 0.70: "ABCKRVXZ", 0.75: "NU", 0.80: "&DGHOQ",
    0.85: "#+<=>^w~→←−≥≤×", 0.90: "M", 1.00: "%@Wm…",
}  # fmt: skip
"""Characters by their width, in sizes."""
WIDTH_OF = {character: width for width, characters in WIDTHS.items() for character in characters}
MONO, BOLD = 0.605, 1.14
"""Width of a character of the fixed font, in sizes, and of bold text relative to the other."""


class Area(NamedTuple):
    """The place of a text."""

    left: float
    top: float
    right: float
    bottom: float
    words: str

    def meets(self, other: "Area") -> bool:
        """Return whether both cover a point."""
        return (
            self.left < other.right
            and other.left < self.right
            and self.top < other.bottom
            and other.top < self.bottom
        )


def width_of(words: str, size: float, *, mono: bool = False, bold: bool = False) -> float:
    """Return the width of a text in pixels, which no usual font exceeds."""
    units = MONO * len(words) if mono else sum(WIDTH_OF[character] for character in words)
    return size * units * (BOLD if bold and not mono else 1)


class Picture:
    """A picture of ``height`` pixels; title and description are for readers who do not see it."""

    def __init__(self, title: str, description: str, height: int) -> None:
        self.title, self.description, self.height = title, description, height
        self._shapes: list[str] = []
        self._texts: list[Area] = []

    def text(
        self,
        x: float,
        y: float,
        words: str,
        *,
        paint: str = "ink",
        size: float = 13,
        anchor: str = "start",
        room: float = WIDTH,
        mono: bool = False,
        bold: bool = False,
    ) -> None:
        """Write words with their baseline at y, in at most ``room`` pixels."""
        width = width_of(words, size, mono=mono, bold=bold)
        left = x - width * {"start": 0, "middle": 0.5, "end": 1}[anchor]
        if width > room or left < 4 or left + width > WIDTH - 4 or size < SMALLEST:
            raise ValueError(f"{self.title}: {words!r} has {width:.0f} of {room:.0f} pixels at {left:.0f}")
        self._texts.append(Area(left, y - 0.75 * size, left + width, y + 0.2 * size, words))
        names = " ".join([paint, *["mono"] * mono, *["bold"] * bold])
        place = f'x="{x:g}" y="{y:g}" font-size="{size:g}" text-anchor="{anchor}"'
        self._shapes.append(f'<text class="{names}" {place}>{escape(words)}</text>')

    def heading(self, y: float, words: str) -> None:
        """Write a heading at the left margin."""
        self.text(MARGIN, y, words, bold=True)

    def note(self, x: float, y: float, words: str, *, anchor: str = "start") -> None:
        """Write small words in a quiet colour."""
        self.text(x, y, words, anchor=anchor, size=SMALLEST, paint="quiet")

    def box(
        self,
        x: float,
        y: float,
        width: float,
        height: float,
        paint: str,
        lines: Sequence[str] = (),
        *,
        size: float = 13,
        round_: float = 3,
        mono: bool = False,
        title: bool = False,
        outline: str = "edge",
    ) -> None:
        """Draw a box with lines of text in its middle; with ``title`` the first line is bold."""
        place = f'x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" rx="{round_:g}"'
        self._shapes.append(f'<rect class="{paint} {outline}" {place}/>')
        first = y + height / 2 - (len(lines) - 1) * size * LINE / 2 + 0.36 * size
        for number, words in enumerate(lines):
            self.text(
                x + width / 2, first + number * size * LINE, words,
                size=size, anchor="middle", room=width - 2, mono=mono, bold=title and number == 0,
            )  # fmt: skip

    def arrow(self, *points: tuple[float, float], head: bool = True, dashed: bool = False) -> None:
        """Draw a line through points, with an arrow's head at the last one."""
        path = "M" + " L".join(f"{x:g} {y:g}" for x, y in points)
        names = "line dashed" if dashed else "line"
        end = ' marker-end="url(#head)"' if head else ""
        self._shapes.append(f'<path class="{names}" d="{path}"{end}/>')

    def badge(self, x: float, y: float, number: int) -> None:
        """Draw a number in a circle around a point."""
        self._shapes.append(f'<circle class="ink" cx="{x:g}" cy="{y:g}" r="11"/>')
        self.text(x, y + 4.5, str(number), paint="paper", anchor="middle", bold=True)

    def legend(self, y: float, entries: Sequence[tuple[str, str]], x: float = MARGIN) -> None:
        """Draw a square of each paint with its meaning, from left to right; ``none`` is the alert outline."""
        for paint, words in entries:
            self.box(x, y - 11, 14, 14, paint, outline="alert" if paint == "none" else "edge")
            self.note(x + 20, y, words)
            x += 20 + width_of(words, SMALLEST) + 16

    def svg(self) -> str:
        """Return the picture as SVG. Raise ``ValueError`` if two of its texts overlap."""
        for one, other in combinations(self._texts, 2):
            if one.meets(other):
                raise ValueError(f"{self.title}: {one.words!r} overlaps {other.words!r}")
        if lowest := [area.words for area in self._texts if area.bottom > self.height - 4]:
            raise ValueError(f"{self.title}: no room for {lowest!r} above {self.height}")
        size = f'width="{WIDTH}" height="{self.height}" viewBox="0 0 {WIDTH} {self.height}"'
        return "\n".join([
            f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img" aria-labelledby="title desc">',
            f'<title id="title">{escape(self.title)}</title>',
            f'<desc id="desc">{escape(self.description)}</desc>',
            f"<style>{STYLE}</style>",
            '<defs><marker id="head" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" markerHeight="8" '
            'orient="auto"><path class="ink" d="M0 0 L8 4 L0 8 z"/></marker></defs>',
            f'<rect class="paper" width="{WIDTH}" height="{self.height}" rx="6"/>',
            *self._shapes,
            "</svg>\n",
        ])  # fmt: skip


def _colours(number: int) -> str:
    """Return the rules of the light (0) or dark (1) colours."""
    fills = [f".{name}{{fill:{colours[number]}}}" for name, colours in PAINTS.items()]
    line, edge, changed = (PAINTS[name][number] for name in ("ink", "quiet", "changed"))
    strokes = f".line{{stroke:{line}}}.edge,.dashed{{stroke:{edge}}}.alert{{stroke:{changed}}}"
    return "".join(fills) + strokes


STYLE = (
    "text{font-family:-apple-system,'Segoe UI','Noto Sans',Helvetica,Arial,'DejaVu Sans',sans-serif}"
    ".mono{font-family:ui-monospace,Menlo,Consolas,'Liberation Mono','DejaVu Sans Mono',monospace}"
    ".bold{font-weight:bold}.line{fill:none;stroke-width:1.5}.dashed{stroke-dasharray:2 4}"
    ".edge{stroke-width:.6}.alert{stroke-width:2}.none{fill:none}"
    f"{_colours(0)}@media (prefers-color-scheme: dark){{{_colours(1)}}}"
)

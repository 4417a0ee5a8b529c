# SPDX-License-Identifier: BSD-2-Clause
"""The bytes of the frame of example_frame.py in pages: a text block after a comment ``<!-- bytes: NAME -->``.

``<!-- bytes: NAME -->381<!-- end -->`` inside a line is one number.
"""

import re
from collections.abc import Callable, Iterator
from pathlib import Path

from example_frame import HEADERS, Journey, recorded

from inceptionn.sim.golden import compress_lane

DOCS = Path(__file__).parent
BLOCK = re.compile(r"(<!-- bytes: ([\w-]+) -->\n```text\n).*?(?=^```$)", re.MULTILINE | re.DOTALL)
VALUE = re.compile(r"(<!-- bytes: ([\w-]+) -->)[^<\n]*(?=<!-- end -->)")
PAGES = [path for path in sorted(DOCS.glob("*.md")) if "<!-- bytes: " in path.read_text(encoding="utf-8")]
SHOWN = 8
"""Values of the frame that the blocks show, its first ones."""


def parts(way: Journey, frame: bytes) -> Iterator[tuple[str, bytes]]:
    """Yield names and bytes of a frame's parts."""
    ends = []
    for name, fields in HEADERS.items():
        ends.append((name, (ends[-1][1] if ends else 0) + sum(size for _, size in fields)))
    if frame is way.wire:
        ends += [("shim", way.table), (f"{way.codec.entry}s", way.data), ("data", len(frame))]
    else:
        ends.append(("values", len(frame)))
    start = 0
    for name, end in ends:
        yield name, frame[start:end]
        start = end


def dump(way: Journey, frame: bytes) -> str:
    """Return a line for each part of a frame; of long parts the first bytes."""
    lines = []
    for name, content in parts(way, frame):
        words = content.hex(" ") if len(content) <= 20 else f"{content[:16].hex(' ')}  …"
        lines.append(f"{name:9} {words:60} {len(content):5,}")
    return "\n".join([*lines, f"{'':70} {len(frame):5,} bytes"]) + "\n"


def gradient() -> str:
    """Return values of the gradient and their bytes in the host's memory."""
    way = recorded("paper")
    content = [f"{value:+.7f}   {value.tobytes().hex(' ')}" for value in way.values[:SHOWN]]
    return "\n".join(["value        bytes", *content]) + "\n"


def vectors() -> str:
    """Return what the paper's codec makes of the values."""
    way = recorded("paper")
    lines = ["value        exponent  tag  vector  restored     error"]
    sizes = [entry.size for entry in way.codec.classes]
    for value, back in zip(way.values[:SHOWN], way.restored_values[:SHOWN], strict=True):
        bits = int(value.view("<u4"))
        tag, vector = compress_lane(bits, way.config.parameters)
        kept = vector.to_bytes(sizes[tag], "little").hex(" ") or "-"
        error = abs(value - back)
        lines.append(f"{value:+.7f}   {bits >> 23 & 255:8}   {tag:02b}  {kept:>6}  {back:+.7f}   {error:.7f}")
    return "\n".join(lines) + "\n"


def fields() -> str:
    """Return the header fields that differ on the wire, at the three stations."""
    way = recorded("paper")
    lines, at = [f"{'field':18} {'before':>8} {'on the wire':>12} {'after':>8}"], 0
    for header, members in HEADERS.items():
        for name, size in members:
            three = [frame[at : at + size] for frame in (way.host, way.wire, way.restored)]
            if len(set(three)) > 1:
                before, wired, after = (content.hex() for content in three)
                lines.append(f"{header + ' ' + name:18} {before:>8} {wired:>12} {after:>8}")
            at += size
    return "\n".join(lines) + "\n"


def sizes() -> dict[str, int]:
    """Return the numbers in lines of prose."""
    way, other = recorded("paper"), recorded("planes")
    return {
        "host": len(way.host),
        "wire": len(way.wire),
        "wire-planes": len(other.wire),
        "values": len(way.values),
        "payload": len(way.host) - way.headers.payload,
    }


BLOCKS: dict[str, Callable[[], str]] = {
    "gradient": gradient,
    "host-frame": lambda: dump(recorded("paper"), recorded("paper").host),
    "vectors": vectors,
    "wire-frame": lambda: dump(recorded("paper"), recorded("paper").wire),
    "wire-frame-planes": lambda: dump(recorded("planes"), recorded("planes").wire),
    "fields": fields,
    "restored-frame": lambda: dump(recorded("paper"), recorded("paper").restored),
}


def page(text: str) -> str:
    """Return the text of a page with the bytes that the golden model gives now."""
    text = BLOCK.sub(lambda match: match[1] + BLOCKS[match[2]](), text)
    return VALUE.sub(lambda match: f"{match[1]}{sizes()[match[2]]:,}", text)

# SPDX-License-Identifier: BSD-2-Clause
"""Draw the pictures of the pages into images/: `python docs/pictures.py`; with `--check` only compare.

Bytes and values are those of example_frame.py, cycles those of figures.jsonl. The script also writes the
bytes that pages show (example_bytes.py).
"""

import argparse
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from drawing import MARGIN, WIDTH, Picture
from example_bytes import PAGES, page
from example_frame import HEADERS, Journey, recorded, short
from figures import Figures

from inceptionn import wire
from inceptionn.sim.golden import compress_lane, planes

IMAGES = Path(__file__).parent / "images"
BOUND = f"2^-{wire.DEFAULT_K}"
NANOSECONDS = 4
"""Of a cycle at 250 MHz."""


def signed(value: float) -> str:
    """Return a value with five decimals and a minus sign of a digit's width."""
    return f"{value:.5f}".replace("-", "−") if value else "0"


# Two hosts


def two_hosts() -> Picture:
    """Draw two hosts and NICs, and a packet before, on and after the wire."""
    way = recorded("paper")
    before, wired, count = len(way.host), len(way.wire), len(way.values)
    picture = Picture(
        "A packet of gradients before, on and after the wire",
        f"Host A writes {count} values to a socket with ToS 0x28. The transmit engine of its NIC turns the "
        f"packet's {before} bytes into {wired}. The receive engine of host B's NIC restores {before} bytes.",
        362,
    )
    picture.box(
        16, 16, 160, 92, "place", ["Host A", "writes fp32 values to", "a socket, ToS 0x28"], title=True
    )
    picture.box(216, 16, 134, 92, "data", ["NIC A", "transmit engine", "compresses"], title=True)
    picture.box(450, 16, 134, 92, "data", ["NIC B", "receive engine", "restores"], title=True)
    picture.box(624, 16, 160, 92, "place", ["Host B", "reads fp32 values", "from its socket"], title=True)
    for number, (start, end) in enumerate(((176, 216), (350, 450), (584, 624)), 1):
        picture.arrow((start, 62), (end, 62))
        picture.badge((start + end) / 2 - 2, 62, number)
    picture.note(400, 40, "wire", anchor="middle")

    captions = (
        f"Before the wire: {before:,} bytes. The payload holds {count} gradient values of 32 bits.",
        f"On the wire: {wired} bytes. A valid IP packet of the same TCP connection.",
        f"After the wire: {before:,} bytes. Every value is within {BOUND}, and the TCP checksum is right.",
    )
    for number, (caption, frame) in enumerate(zip(captions, (way.host, way.wire, way.restored), strict=True)):
        y = 142 + 64 * number
        picture.badge(27, y, number + 1)
        picture.text(46, y + 4.5, caption)
        end = frame_bar(picture, y + 16, way, frame)
        if frame is way.wire:
            at, table, data = way.headers.payload, way.data - way.table, wired - way.data
            words = (
                f"shim {wire.SHIM_BYTES}, tags {table}, data {data} bytes: the payload has {wired - at} bytes"
            )
            picture.text(end + 12, y + 35.5, f"{words}, not {before - at:,}", size=12)
        else:
            shown = frame[way.headers.payload :][:16]
            values = ", ".join(map(signed, np.frombuffer(shown, "<f4")))
            picture.text(54, y + 35.5, f"{shown.hex(' ')} …", size=12, mono=True)
            picture.text(468, y + 35.5, f"{values} …", size=12)
    names = {"head": "headers", "value": "values, fp32", "shim": "shim", "table": "tags", "data": "data"}
    picture.legend(346, list(names.items()))
    return picture


def frame_bar(picture: Picture, y: float, way: Journey, frame: bytes) -> float:
    """Draw a frame's parts, as wide as they are long, and return where they end."""
    ends = {"head": way.headers.payload, "value": len(frame)}
    if frame is way.wire:
        ends = {"head": way.headers.payload, "shim": way.table, "table": way.data, "data": len(frame)}
    scale = (WIDTH - 2 * MARGIN) / len(way.host)
    start = 0
    for paint, end in ends.items():
        picture.box(MARGIN + start * scale, y, (end - start) * scale, 30, paint, round_=1)
        start = end
    return MARGIN + start * scale


# The NIC


def engine_in_a_nic() -> Picture:
    """Draw the engines between DMA, offloads and MAC."""
    picture = Picture(
        "The engines inside a NIC",
        "Transmit: host, DMA, segmentation and checksum insertion, transmit engine, MAC, wire. Receive: "
        "wire, MAC, receive engine, checksum test and joining, DMA, host. AXI4-Lite leads to the registers.",
        330,
    )
    picture.box(16, 48, 104, 236, "place", ["Host", "TCP/IP stack", "driver"], title=True)
    picture.box(144, 16, 574, 268, "none", round_=6)
    picture.text(156, 36, "NIC", bold=True)
    picture.box(160, 48, 58, 164, "place", ["DMA"], title=True)
    picture.box(644, 48, 60, 164, "place", ["MAC", "FCS,", "padding"], title=True, size=12)
    picture.box(426, 28, 196, 244, "none", round_=6, outline="alert")
    picture.text(524, 43, "inceptionn_nic", anchor="middle", mono=True, size=12, paint="changed")
    rows = (
        (
            56,
            ["transmit engine", "compresses tagged", "frames"],
            ["segmentation (TSO),", "checksum inserted"],
        ),
        (140, ["receive engine", "restores frames", "with a shim"], ["checksum tested,", "joining (LRO)"]),
    )
    for row, (y, engine, offloads) in enumerate(rows):
        picture.box(242, y, 162, 64, "place", ["Offloads", *offloads], title=True)
        picture.box(438, y, 172, 64, "data", engine, title=True)
        for left, right in ((120, 160), (218, 242), (404, 438), (610, 644), (704, 780)):
            picture.arrow(*[(left, y + 32), (right, y + 32)][:: -1 if row else 1])
    picture.box(438, 222, 172, 40, "place", ["registers, counters"])
    picture.arrow((120, 242), (438, 242))
    picture.note(280, 236, "AXI4-Lite", anchor="middle")
    picture.note(746, 42, "wire", anchor="middle")
    sent, received = "TSO and checksum insertion", "the checksum test and LRO"
    words = f"{sent} come before the transmit engine, {received} after the receive engine."
    picture.text(MARGIN, 312, words, size=12)
    return picture


# A frame, byte by byte


class Field(NamedTuple):
    """Consecutive bytes of a frame; ``|`` in a name is the end of a row."""

    name: str
    paint: str
    size: int


HEADER_FIELDS = [Field(name, "head", size) for header in HEADERS.values() for name, size in header]
ROW, CELL = 16, 45
"""Bytes of a row, and the width of one."""


def shim_fields(base: str) -> list[Field]:
    """Return the fields of a shim."""
    names = (("magic", 2), ("ver.", 1), (base, 1), ("length", 2), ("zero", 2))
    return [Field(name, "shim", size) for name, size in names]


def frame_bytes() -> Picture:
    """Draw every byte of a compressed frame of 16 values, for both codecs."""
    paper, other = short("paper"), short("planes")
    picture = Picture(
        "Every byte of a compressed frame",
        f"A frame with {len(paper.values)} values has {len(paper.host)} bytes at the host and "
        f"{len(paper.wire)} on the wire: Ethernet, IPv4, TCP, shim, tag table, data. With the planes codec "
        f"it has {len(other.wire)}.",
        474,
    )
    picture.heading(
        26, f"The paper's codec: {len(paper.wire)} bytes on the wire, {len(paper.host)} at the host"
    )
    tags = [Field("tags 0-7", "table", 2), Field("tags 8-15", "table", 2)]
    vectors = [Field(f"x{lane}", "data", size) for lane, size in enumerate(vector_sizes(paper)) if size]
    byte_map(picture, 40, paper, [*HEADER_FIELDS, *shim_fields("B"), *tags, *vectors])

    first = 3
    picture.heading(326, f"Planes: {len(other.wire)} bytes on the wire; here from byte {first * ROW} on")
    lanes = planes.compress_lanes(other.values.view("<u4"), other.config.parameters.e0)
    codes = planes.group_codes(lanes).tolist()
    bits = [Field(f"bit {bit}", "data", 1) for code in codes for bit in range(code)]
    fields = [*HEADER_FIELDS, *shim_fields("E0"), Field("codes", "table", 2), *bits]
    byte_map(picture, 340, other, fields, first)
    for group, code in enumerate(codes):
        lanes = f"x{8 * group} to x{8 * group + 7}"
        picture.text(392, 409 + 18 * group, f"code {code}: bits 0 to {code - 1} of {lanes}", size=12)
    names = {
        "head": "headers", "shim": "shim", "table": "tags or codes", "data": "data; x0 is the first value",
        "none": "differs from the host's frame",
    }  # fmt: skip
    picture.legend(460, list(names.items()))
    return picture


def vector_sizes(way: Journey) -> list[int]:
    """Return the bytes that each value keeps with the paper's codec."""
    tags = [compress_lane(int(bits), way.config.parameters)[0] for bits in way.values.view("<u4")]
    return [way.codec.classes[tag].size for tag in tags]


def byte_map(picture: Picture, y: float, way: Journey, fields: Sequence[Field], first_row: int = 0) -> None:
    """Draw the bytes of a wire frame in rows with the names of their fields."""
    at = 0
    for name, paint, size in fields:
        names, end = name.split("|"), at + size
        while at < end:
            row, column = divmod(at, ROW)
            here = min(end, (row + 1) * ROW)
            content = way.wire[at:here]
            if row >= first_row:
                x, top, width = 58 + CELL * column, y + 50 * (row - first_row), CELL * (here - at) - 2
                changed = paint == "head" and content != way.host[at:here]
                picture.box(x, top, width, 46, paint, outline="alert" if changed else "edge")
                middle = x + width / 2
                picture.text(middle, top + 19, content.hex(" "), anchor="middle", mono=True, room=width)
                picture.text(middle, top + 37, names.pop(0), anchor="middle", size=12, room=width)
                if column == 0:
                    picture.note(MARGIN, top + 28, str(at))
            at = here
    assert at == len(way.wire)


# Both codecs


def float_to_vector() -> Picture:
    """Draw a value with the paper's codec: bits, class, vector, and the value that comes back."""
    way = recorded("paper")
    numbers = way.config.parameters
    value, back = float(way.values[0]), float(way.restored_values[0])
    bits = int(way.values.view("<u4")[0])
    tag, vector = compress_lane(bits, numbers)
    assert tag == wire.Tag.BITS8
    exponent, magnitude, step = bits >> 23 & 0xFF, vector & 0x7F, f"2^-{134 - numbers.b}"
    kept = magnitude.bit_length() - 1
    picture = Picture(
        "One value to tag and vector: the paper's codec",
        f"{value:.7f} has the exponent {exponent}, and so the tag 01. It keeps its sign and 7 bits: "
        f"{magnitude} steps of {step}. {back:.7f} comes back.",
        368,
    )
    picture.heading(28, f"1. The value {value:.7f} as fp32: 0x{bits:08x}")
    paints = ["data", *["table"] * 8, *["data"] * kept, *["value"] * (23 - kept)]
    bit_cells(picture, 40, f"{bits:032b}", paints)
    picture.note(MARGIN, 86, "sign")
    picture.note(MARGIN + 24 * 5, 86, f"exponent {exponent}: decides", anchor="middle")
    picture.note(MARGIN + 24 * 9 + 12, 86, f"mantissa: {kept} bits and the hidden 1 are kept")

    picture.heading(122, f"2. Its class, at the error bound {BOUND}")
    low, high = f"2^-{127 - numbers.e0}", f"2^-{127 - numbers.t}"
    ranges = (f"|x| < {low}", f"{low} ≤ |x| < {high}", f"{high} ≤ |x| < 1", "1 ≤ |x|")
    kinds = ("nothing", "8 bits", "16 bits", "all 32 bits")
    for number, (range_, kind) in enumerate(zip(ranges, kinds, strict=True)):
        paint, outline = ("table", "alert") if number == tag else ("place", "edge")
        words = [range_, f"tag {number:02b}: {kind}"]
        picture.box(MARGIN + 194 * number, 134, 186, 46, paint, words, outline=outline)

    picture.heading(216, "3. Its vector: the sign, then 7 bits")
    bit_cells(picture, 228, f"{vector:08b}", ["data"] * 8)
    picture.text(224, 247, f"= 0x{vector:02x}: |x| in steps of {step}, rounded toward zero: {magnitude}")

    picture.heading(292, "4. The value that comes back")
    error, bound = f"{value - back:.7f}", f"{2.0**-wire.DEFAULT_K:.7f}"
    words = f"{magnitude} × {step} = {back:.7f}. The error is {error}, and the bound {bound}."
    picture.text(MARGIN, 314, words)
    picture.legend(350, [("table", "tag"), ("data", "data"), ("value", "bits that are dropped")])
    return picture


def bit_cells(picture: Picture, y: float, bits: str, paints: Sequence[str]) -> None:
    """Draw a cell for each bit."""
    for number, (bit, paint) in enumerate(zip(bits, paints, strict=True)):
        picture.box(MARGIN + 24 * number, y, 22, 28, paint, [bit], mono=True)


def floats_to_planes() -> Picture:
    """Draw eight values with the planes codec: integers, bit planes, and the bytes of their group."""
    way = recorded("planes")
    e0 = way.config.parameters.e0
    values, back = way.values[:8], way.restored_values[:8]
    lanes = planes.compress_lanes(values.view("<u4"), e0)
    (code,) = planes.group_codes(lanes).tolist()
    data = way.wire[way.data :][:code]
    step = f"2^-{126 - e0}"
    picture = Picture(
        "Eight values to bit planes: the planes codec",
        f"Each value is rounded to a multiple of {step}. Each of the group's {code} bit planes is a byte: "
        f"{data.hex(' ')}.",
        34 * code + 252,
    )
    z = lanes.z.tolist()
    steps = [f"{round(float(value) * 2 ** (126 - e0))}".replace("-", "−") for value in back]
    rows = [
        (64, "value", map(signed, values), "32 bytes"),
        (98, f"in steps of {step}: q", steps, ""),
        (132, "z = 2 × |q| − sign", map(str, z), ""),
        (34 * code + 182, f"restored: q × {step}", map(signed, back), "32 bytes"),
    ]
    for bit in range(code):
        name = f"plane {bit}: {f'bit {bit} of each z' if bit else 'signs'}"
        rows.append((174 + 34 * bit, name, [str(each >> bit & 1) for each in z], f"= 0x{data[bit]:02x}"))
    left, cell = 172, 68
    picture.heading(28, f"Eight neighbours, at the error bound {BOUND}")
    for lane in range(8):
        picture.note(left + cell * (lane + 0.5), 54, f"x{lane}", anchor="middle")
    for y, name, words, note in rows:
        is_plane = name.startswith("plane")
        picture.text(MARGIN, y + 19, name, size=12, room=left - MARGIN)
        for lane, word in enumerate(words):
            place = left + cell * lane, y, cell - 3, 28
            picture.box(*place, "data" if is_plane else "value", [word], size=12, mono=is_plane)
        picture.text(left + cell * 8 + 8, y + 19, note, size=12, mono=is_plane)
    group = f"The group is the code {code}, 4 bits in the code table, and the {code} bytes {data.hex(' ')}."
    picture.text(MARGIN, 34 * code + 238, f"{group} Bit i of a byte is lane i.", size=12)
    return picture


# Latency


def latency() -> Picture:
    """Draw when the beats of the frame enter and leave both engines."""
    way, figures = recorded("paper"), Figures()
    row = "latency, transmit, beyond the frame's length, paper"
    after_end = int(figures.value(f"cycles > {row} > measured"))
    after_table = int(figures.value("cycles > latency, receive, restored > measured"))
    beat = wire.BURST_BYTES
    host, wired, table = (-(-size // beat) for size in (len(way.host), len(way.wire), way.data - way.table))
    leaves = host + after_end
    restored = leaves + table + after_table
    picture = Picture(
        "Cycles of a frame in both engines",
        f"{host} beats enter the transmit engine. {after_end} cycles after the last one, the first of "
        f"{wired} beats leaves. {table + after_table} cycles later, the receive engine sends its first beat.",
        330,
    )
    left = 150
    scale = (WIDTH - left - 24) / (restored + host)
    picture.heading(28, f"A frame of {len(way.host):,} bytes, beats of {beat} bytes, one per cycle")
    rows = (
        ("host to NIC", 0, host, "value", f"{host} beats"),
        ("NIC to wire", leaves, wired, "data", str(wired)),
        ("wire to NIC", leaves, wired, "data", str(wired)),
        ("NIC to host", restored, host, "value", f"{host} beats"),
    )
    for number, (name, start, beats, paint, words) in enumerate(rows):
        y = 52 + 50 * number
        picture.text(MARGIN, y + 19, name)
        picture.arrow((left, y + 14), (WIDTH - 24, y + 14), head=False, dashed=True)
        picture.box(left + start * scale, y, beats * scale, 28, paint, [words], size=12)
    waits = (
        (110, host, leaves, f"transmit engine: {after_end} cycles"),
        (210, leaves, restored, f"receive engine: tag table {table}, then {after_table} cycles"),
    )
    for y, start, end, words in waits:
        picture.box(left + start * scale, y, (end - start) * scale, 12, "quiet", round_=1)
        picture.text(left + end * scale - 8, y - 10, words, size=12, anchor="end")
    picture.arrow((left, 262), (WIDTH - 16, 262))
    for cycle in range(0, restored + host + 1, 24):
        x = left + cycle * scale
        picture.arrow((x, 262), (x, 267), head=False)
        picture.note(x, 282, str(cycle), anchor="middle")
    picture.note(MARGIN, 282, "cycle")
    sum_ = f"{restored} cycles, {restored * NANOSECONDS} ns at 250 MHz"
    words = f"From the first beat in to the first beat out: {sum_}. MACs and wire are not counted."
    picture.text(MARGIN, 314, words, size=12)
    return picture


PICTURES: dict[str, Callable[[], Picture]] = {
    "two-hosts": two_hosts,
    "engine-in-a-nic": engine_in_a_nic,
    "frame-bytes": frame_bytes,
    "float-to-vector": float_to_vector,
    "floats-to-planes": floats_to_planes,
    "latency": latency,
}


def texts() -> dict[Path, str]:
    """Return every picture, and every page that shows bytes, by its path."""
    pictures = {IMAGES / f"{name}.svg": draw().svg() for name, draw in PICTURES.items()}
    return pictures | {path: page(path.read_text(encoding="utf-8")) for path in PAGES}


def main() -> int:
    parser = argparse.ArgumentParser(description="Draw the pictures, and write the bytes that pages show.")
    parser.add_argument("--check", action="store_true", help="write nothing; fail if a file differs")
    check = parser.parse_args().check
    status = 0
    for path, text in texts().items():
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            print(path)
            status |= check
            if not check:
                path.write_text(text, encoding="utf-8")
    return status


if __name__ == "__main__":
    sys.exit(main())

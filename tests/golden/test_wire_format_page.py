# SPDX-License-Identifier: BSD-2-Clause
"""The page ``docs/wire-format.md`` says what ``inceptionn.wire`` and the golden model do."""

import re
from itertools import product
from pathlib import Path

import numpy as np

from inceptionn import wire
from inceptionn.sim import golden

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "wire-format.md").read_text(encoding="utf-8")


def test_parameters() -> None:
    rows = re.findall(r"^\| (\d+) \| (\d+) \| (\d+) \| (\d+) \| (\d+) \|$", PAGE, re.MULTILINE)
    table = {k: (e0, t, literal, bounded) for k, e0, t, literal, bounded in (map(int, row) for row in rows)}
    expected = {}
    for k in range(wire.MIN_K, wire.MAX_K + 1):
        literal, bounded = wire.parameters(k, "literal"), wire.parameters(k, "bounded")
        assert (literal.e0, literal.t) == (bounded.e0, bounded.t)
        expected[k] = (literal.e0, literal.t, literal.b, bounded.b)
    assert table == expected


def test_every_verdict_is_in_the_order() -> None:
    order = PAGE.split("## 5.")[1].split("## 6.")[0]
    named = set(re.findall(r"`([A-Z0-9_]+)` \|$", order, re.MULTILINE))
    assert named == {verdict.name for verdict in wire.Verdict}


def test_example() -> None:
    x = np.array([1.0, 0.5, -(2.0**-7), 2.0**-11, 0, 0, 0, -2.0, 0.5], np.float32)
    block = golden.compress_block(x, wire.parameters(10, "bounded"))
    (line,) = (line for line in PAGE.splitlines() if line.startswith(" 1b c0"))
    assert bytes.fromhex(line.replace("|", " ")) == block


def test_constants() -> None:
    for constant in (
        f"`0x{wire.SHIM_MAGIC:04X}`",
        f"`0x{wire.CODECS['paper'].version:02X}`",
        f"1 to {wire.MAX_LANES} ({wire.DEFAULT_MAX_PAYLOAD} bytes",
        f"runs of {wire.STREAM_LANES} lanes",
        f"longer than {wire.MAX_TRANSMIT_FRAME} bytes",
        f"has {wire.FLOW_TABLE_SIZE} entries, {wire.FLOW_TABLE_SIZE // wire.FLOW_TABLE_WAYS} sets of "
        f"{wire.FLOW_TABLE_WAYS} ways",
        f"`0x{wire.DEFAULT_TOS:02X}`, `0x{wire.DEFAULT_TOS_MASK:02X}`",
        f"`min_payload` | {wire.DEFAULT_MIN_PAYLOAD} |",
        f"`max_payload` | {wire.DEFAULT_MAX_PAYLOAD} |",
    ):
        assert constant in PAGE, constant


def test_bf16() -> None:
    """The examples of section 10, in the order of the page."""
    rows = [
        line.split("  ")[0] for line in PAGE.split("## 10.")[1].splitlines() if re.match(r" 0[4e] 00", line)
    ]
    small = "003b00bb453ba1bb803a80ba003a6f3c"
    wide = "803f003f00bc003a00000000000000c0003f7f41"
    for row, lanes in zip(rows, (small, wide), strict=True):
        x = np.frombuffer(bytes.fromhex(lanes), np.uint16)
        block = golden.planes.compress_block(x, 117, wire.BF16_LANES)
        assert bytes.fromhex(row.replace("|", " ")) == block
    assert f"`0x{wire.DEFAULT_BF16_TOS:02X}`" in PAGE
    numbers = [e0 + wire.BF16_LANES.shim_offset for e0 in wire.CODECS["planes"].accepted]
    assert f"`E0 + {wire.BF16_LANES.shim_offset}`, {numbers[0]} to {numbers[-1]}, for bf16" in PAGE
    assert f"1 to {wire.BF16_LANES.max_lanes} and even in frames" in PAGE
    for number in numbers:
        shim = wire.SHIM_MAGIC.to_bytes(2, "big") + bytes([wire.CODECS["planes"].version, number])
        assert np.frombuffer(shim, "<f4")[0] < -6e29
        assert (np.frombuffer(shim, "<u2").astype(np.uint32) << 16).view(np.float32)[1] < -6e29


def test_planes() -> None:
    rows = [line for line in PAGE.split("## 10.")[0].splitlines() if re.match(r" (04|ab) 00 \|", line)]
    blocks = [bytes.fromhex(re.match(r"[ 0-9a-f|]+?(?=  )", row)[0].replace("|", " ")) for row in rows]
    first = [2**-9, -(2**-9), 0.003, -0.0049, 2**-10, -(2**-10), 2**-11, 0.0146]
    second = [1.0, 0.5, -(2.0**-7), 2.0**-11, 0, 0, 0, -2.0, 0.5]
    assert blocks == [golden.planes.compress_block(np.array(x, np.float32), 117) for x in (first, second)]
    longest = golden.planes.compress_block(np.full(wire.MAX_LANES, np.inf, np.float32), 117)
    assert f"has {len(longest)} bytes at most" in PAGE
    assert f"Version `0x{wire.CODECS['planes'].version:02X}`" in PAGE
    for d in range(14):
        for m, s in product((0, 1, 0x3FFFFF, 0x400000, 0x7FFFFF), (0, 1)):
            f = s << 31 | 0x3A800000 + (d << 23) + m
            lossy = int(golden.planes.lossy(np.array([f], np.uint32).view(np.float32)).view(np.uint32)[0])
            low = f & (1 << 24 - d) - 1  # of d > 0
            difference = low - (low >> 23 - d << 24 - d) if d else m - (1 << 23)
            assert f - lossy == difference

# SPDX-License-Identifier: BSD-2-Clause
"""Every way in which a block or a stream is malformed, in each codec and type of lanes."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from refusals import refused

from inceptionn.sim import golden
from inceptionn.sim.golden import codec, planes, values
from inceptionn.sim.golden.codec import MalformedError
from inceptionn.wire import BF16_LANES, FP32_LANES, LaneType, parameters


@dataclass(frozen=True)
class Blocks:
    """The blocks of a codec; ``lanes`` are those of the planes codec, None is the paper's."""

    setting: int
    """Base exponent, or E0."""
    lanes: LaneType | None = None

    def examine(self, data: bytes, count: int, size: int | None = None) -> Any:
        if self.lanes is None:
            return codec.examine_block(data, count, self.setting, size)
        return planes.examine_block(data, count, self.setting, size, self.lanes)

    def decompress(self, data: bytes, count: int) -> np.ndarray:
        if self.lanes is None:
            return golden.decompress_block(data, count, self.setting)
        return planes.decompress_block(data, count, self.setting, self.lanes)


KINDS = {
    "paper": Blocks(122), "paper, B = 2": Blocks(2), "paper, B = 0": Blocks(0),
    "planes": Blocks(117, FP32_LANES), "bf16": Blocks(117, BF16_LANES),
}  # fmt: skip


@pytest.mark.parametrize(
    ("kind", "block", "count", "offset", "group"),
    [
        ("paper", "", 1, 0, 0),  # no tag table
        ("paper", "00", 1, 1, 0),
        ("paper", "000000", 9, 3, 0),
        ("paper", "0000", 8, None, None),
        ("paper", "0100", 8, 2, 0),  # no data
        ("paper", "0300000000", 8, 5, 0),  # 3 of 4 bytes
        ("paper", "01000300200000", 16, 7, 1),  # the first group is whole
        ("paper", "000000", 8, 2, 1),  # left over
        ("paper", "01002020", 8, 3, 1),
        ("paper", "080020", 1, 0, 0),  # a tag for an absent lane
        ("paper", "0000040020", 9, 2, 1),
        ("paper, B = 2", "010001000140", 16, 4, 0),  # impossible: 1 * 2**-132
        ("paper, B = 2", "010001004001", 16, 5, 1),
        ("paper, B = 2", "010001004040", 16, None, None),
        ("paper, B = 0", "010080", 8, None, None),  # a zero magnitude is possible at any base
        ("paper, B = 0", "010081", 8, 2, 0),
        ("planes", "", 1, 0, 0),
        ("planes", "00", 1, 1, 0),
        ("planes", "000000", 40, 3, 0),  # the second word of the code table is cut
        ("planes", "0000", 1, None, None),
        ("planes", "010001", 1, None, None),
        ("planes", "0100", 1, 2, 0),
        ("planes", "110001", 16, 3, 1),  # the first group is whole
        ("planes", "000000", 8, 2, 1),  # left over
        ("planes", "01000100", 8, 3, 1),
        ("planes", "1000", 8, 0, 0),  # a code past the last group
        ("planes", "0001", 8, 1, 0),
        ("planes", "00000100" + "00", 40, None, None),  # the fifth group has one plane
        ("planes", "00000000", 40, None, None),
        ("planes", "00001000", 40, 2, 4),
        ("planes", "11010101", 16, 1, 0),
        ("planes", "010002", 1, 2, 0),  # lane 1 is absent
        ("planes", "0200" + "0180", 7, 3, 0),
        ("planes", "0200" + "0181", 8, None, None),
        ("planes", "0f00" + "00" * 4 + "00" * 3 + "80" + "00" * 24, 1, 9, 0),
        ("planes", "0f00" + "ff" * 4 + "00" * 28, 1, None, None),
        ("planes", "0f00" + "ff" * 31, 8, 33, 0),
        ("planes", "0e00" + "ff" * 15, 8, None, None),
        ("planes", "0e00" + "ff" * 14, 8, 16, 0),
        ("planes", "0200" + "02", 1, 3, 0),  # cut counts before an absent lane
        ("bf16", "", 1, 0, 0),
        ("bf16", "00", 1, 1, 0),
        ("bf16", "000000", 80, 3, 0),  # the second word of the code table is cut
        ("bf16", "0000", 1, None, None),
        ("bf16", "01000100", 1, None, None),
        ("bf16", "0100", 1, 2, 0),
        ("bf16", "010001", 1, 3, 0),  # half a plane
        ("bf16", "11000100", 32, 4, 1),  # the first group is whole
        ("bf16", "000000", 16, 2, 1),  # left over
        ("bf16", "0100010000", 16, 4, 1),
        ("bf16", "1000", 16, 0, 0),  # a code past the last group
        ("bf16", "0001", 16, 1, 0),
        ("bf16", "00000000", 80, None, None),
        ("bf16", "00001000", 80, 2, 4),
        ("bf16", "01000200", 1, 2, 0),  # lane 1 is absent
        ("bf16", "01000080", 15, 3, 0),
        ("bf16", "01000080", 16, None, None),
        ("bf16", "020000010002", 9, 5, 0),
        ("bf16", "0f00ffff" + "00" * 30, 1, None, None),
        ("bf16", "0f00ffff0080" + "00" * 28, 1, 5, 0),
        ("bf16", "0f00" + "ff" * 31, 16, 33, 0),
        ("bf16", "0e00" + "ff" * 28, 16, None, None),
        ("bf16", "0e00" + "ff" * 27, 16, 29, 0),
    ],
)
def test_block(kind: str, block: str, count: int, offset: int | None, group: int | None) -> None:
    data, blocks = bytes.fromhex(block), KINDS[kind]
    _, _, fault = blocks.examine(data, count)
    if offset is None:
        assert fault is None
        assert len(blocks.decompress(data, count)) == count
        return
    assert fault is not None
    assert (fault.offset, fault.group) == (offset, group)
    with pytest.raises(MalformedError, match=rf"^malformed block at byte {offset}: ") as caught:
        blocks.decompress(data, count)
    assert isinstance(caught.value, ValueError)
    assert caught.value.offset == offset


@pytest.mark.parametrize("kind", ["paper", "planes", "bf16"])
def test_any_cut_and_any_excess(kind: str) -> None:
    blocks, lanes = KINDS[kind], 16 if kind == "bf16" else 8
    x: np.ndarray
    if kind == "bf16":
        x = np.frombuffer(values.bf16_payload("edges", 93), np.uint16)
    else:
        x = np.frombuffer(values.payload("edges", 61), np.float32)
    if blocks.lanes is None:
        block, seen = golden.compress_block(x, parameters(10, "bounded")), golden.lossy(x)
    else:
        block = planes.compress_block(x, 117, blocks.lanes)
        seen = planes.lossy(x, 2.0**-10, blocks.lanes)
    for size in range(len(block)):
        bits, _, fault = blocks.examine(block[:size], x.size, len(block))
        assert fault is not None
        whole = fault.group * lanes
        assert bits[:whole].tobytes() == seen[:whole].tobytes()
        assert not bits[whole:].any()
    for excess in (1, 2, 32):
        text = rf"at byte {len(block)}: bytes are left over"
        refused(ValueError, text, blocks.decompress, block + bytes(excess), x.size)


@pytest.mark.parametrize(
    ("made", "absent"), [(golden, b"\0\x40"), (planes, b"\x40")], ids=["paper", "planes"]
)
def test_stream(made: Any, absent: bytes) -> None:
    """``absent``: bits of the last block's first tags or codes that are for absent lanes or groups."""
    x = np.frombuffer(values.payload("edges", 4100), np.float32)
    stream = made.compress(x)
    first, last = (len(made.compress(x[:count])) for count in (2048, 4096))
    spoilt = bytes(a | b for a, b in zip(stream[last:], absent, strict=False))
    for bad, count, offset in (
        (stream + b"\0", 4100, len(stream)),
        (stream[:-1], 4100, len(stream) - 1),
        (stream[: first + 100], 4100, first + 100),  # inside the second table
        (stream[:first], 4100, first),
        (stream[:last], 4100, last),
        (stream, 4096, last),
        (stream, 0, 0),
        (stream[:last] + spoilt + stream[last + len(spoilt) :], 4100, last),
    ):
        refused(MalformedError, rf"^malformed stream at byte {offset}: ", made.decompress, bad, count)

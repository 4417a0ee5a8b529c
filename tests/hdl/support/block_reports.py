# SPDX-License-Identifier: BSD-2-Clause
"""The expected statistics of a block."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import numpy as np
from compressor_blocks import CODEC, WIDTH, Group, table_of

from inceptionn.hdl.codec.codecs import codec_of


def little_endian_sum(data: bytes) -> int:
    """Sum of 16-bit words, an odd last byte being the low half of one."""
    return int(np.frombuffer(data + bytes(len(data) % 2), "<u2").sum(dtype=np.int64))


@dataclass(frozen=True)
class Report:
    """A block in numbers; sums are compared modulo 65535."""

    block_bytes: int
    block_sum: int
    cleared_sum: int
    counts: tuple[int, ...]
    """Lanes by tag, or groups by code."""

    @classmethod
    def of(cls, groups: list[Group]) -> Report:
        block = table_of(groups) + b"".join(group.data for group in groups)
        cleared = b"".join(group.cleared.astype("<u4").tobytes() for group in groups)
        if CODEC == "planes":
            classes = Counter(code for group in groups for code in group.codes)
        else:
            classes = Counter(
                group.tags >> 2 * lane & 3
                for group in groups
                for lane in range(WIDTH)
                if group.present >> lane & 1
            )
        counts = tuple(classes[number] for number in range(len(codec_of(CODEC).spec.classes)))
        return cls(len(block), little_endian_sum(block), little_endian_sum(cleared), counts)

    def check(self, bits: int) -> None:
        """``AssertionError`` unless the hardware's report says the same."""
        found = codec_of(CODEC).statistics.as_shape().from_bits(bits)
        assert found.block_bytes == self.block_bytes, f"{found.block_bytes} bytes, not {self.block_bytes}"
        counts = tuple(found.counts)
        assert counts == self.counts, f"counts {counts}, not {self.counts}"
        for name in ("block_sum", "cleared_sum"):
            one, other = found[name], getattr(self, name)
            assert (one - other) % 0xFFFF == 0, f"{name} is {one}, not {other % 0xFFFF}"

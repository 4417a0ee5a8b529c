# SPDX-License-Identifier: BSD-2-Clause
"""The reading side of BlockStore and Compressor: blocks read or dropped at random."""

import random
from collections import deque
from typing import Any

from chosen_width import WIDTH
from compressor_blocks import Shape, beats_of
from lockstep import Lockstep

from inceptionn.hdl.codec.block_store import BlockStore, block_shape
from inceptionn.wire import TAG_WORD_BYTES

LATENCY = BlockStore.latency_of(WIDTH)


class BlockReader(Lockstep):
    """A :class:`Lockstep` that knows which blocks must come to ``blocks``, and reads them at random."""

    def __init__(self, dut, pulses: tuple[str, ...], layouts: dict[str, Any]):
        layouts = {"blocks_shape": block_shape(WIDTH), **layouts}
        super().__init__(dut, pulses=(*pulses, "blocks_step", "blocks_drop"), layouts=layouts)
        self.blocks: deque[tuple[dict[str, int], list[int]]] = deque()
        """Shape and beats of every block not yet read."""
        self.at = 0
        """Beats read of the block at hand."""
        self.dropped = 0
        self.read_whole = 0

    def expect_block(self, table: bytes, data: bytes, place: int) -> Shape:
        """Expect a block that begins ``place`` words into a beat; return its shape."""
        shape = Shape(place + len(table) // TAG_WORD_BYTES, len(data))
        self.blocks.append((shape.fields(), beats_of(table + data, place * TAG_WORD_BYTES)))
        return shape

    def reading(self, step: float, drop: float = 0.0) -> dict[str, int]:
        """Return the cycle's inputs: a step with this probability, or a drop of a block not yet begun."""
        if not self.read("blocks_valid"):
            return {}
        assert self.blocks, f"cycle {self.now}: a block is at hand, but none was written"
        fields, beats = self.blocks[0]
        found = self.fields("blocks_shape")
        for name, value in fields.items():
            assert found[name] == value, f"cycle {self.now}: {name} is {found[name]}, not {value}"
        assert self.read("blocks_last") == (self.at == len(beats) - 1), f"cycle {self.now}: beat {self.at}"
        if self.at == 0 and random.random() < drop:
            self.blocks.popleft()
            self.dropped += 1
            return {"blocks_drop": 1}
        if random.random() >= step:
            return {}
        self.due(LATENCY, blocks_beat=beats[self.at])
        self.at += 1
        if self.at == len(beats):
            self.blocks.popleft()
            self.at = 0
            self.read_whole += 1
        return {"blocks_step": 1}

# SPDX-License-Identifier: BSD-2-Clause
"""The compression engine's memory of unchanged frames."""

from typing import Any

from amaranth.hdl import Module, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from inceptionn.wire import MAX_TRANSMIT_FRAME

from ..parts.memory import BlockRam
from ..parts.width import BURST, Width


def raw_ring_depth(width: Width = BURST) -> int:
    """Count the beats in the raw ring of an engine: two of the longest frames that it holds whole."""
    return 2 * MAX_TRANSMIT_FRAME // width.bytes


class RawRing(wiring.Component):
    """Keeps the beats of frames until their reader has passed them.

    One beat per cycle in and out. A beat can be read from the cycle after it came.

    Parameters
    ----------
    depth : :class:`int`
        Beats, a power of two of at least 32. Default: :func:`raw_ring_depth`.
    width : :class:`Width`
    """

    SLACK = 13

    def __init__(self, width: Width = BURST, *, depth: int | None = None):
        self.width = width
        self.depth = raw_ring_depth(width) if depth is None else depth
        if self.depth < 32 or self.depth & (self.depth - 1):
            raise ValueError(f"raw ring depth must be a power of two of at least 32, not {self.depth!r}")
        super().__init__(
            {
                "beats": In(stream.Signature(self.width.bits, always_ready=True)),  #: Beats to keep.
                #: Beats may come. A register; at most :attr:`SLACK` more may follow after it has fallen.
                "room": Out(1),
                #: Next beat that is read, in order, from 0 on; what lies before it may be overwritten.
                "address": In(range(self.depth)),
                #: The beat at ``address`` of :attr:`BlockRam.LATENCY` cycles before.
                "beat": Out(self.width.bits),
            }
        )

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        m.submodules.ram = ram = BlockRam(self.width.bits, self.depth)
        level = Signal(range(self.depth))
        m.d.comb += [
            ram.write.eq(self.beats.valid),
            ram.write_data.eq(self.beats.payload),
            ram.read_address.eq(self.address),
            self.beat.eq(ram.read_data),
        ]
        # `room` follows the addresses two cycles late, and a full ring would look like an empty one.
        m.d.sync += [
            ram.write_address.eq(ram.write_address + self.beats.valid),
            level.eq(ram.write_address - self.address),
            self.room.eq(level < self.depth - (self.SLACK + 2 + 1)),
        ]
        return m

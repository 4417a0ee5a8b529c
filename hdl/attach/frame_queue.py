# SPDX-License-Identifier: BSD-2-Clause
"""A store-and-forward queue of whole frames, for targets that need a frame's length before it starts."""

from functools import reduce
from operator import or_
from typing import Any

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import exact_log2

from inceptionn.wire import BURST_BYTES

from ..parts.axi import AXIStream, keep_of
from ..parts.memory import BlockRam
from ..parts.queue import PushQueue


class FrameQueue(wiring.Component):
    """Holds each frame until it is complete; it then leaves without a gap, and its length is known.

    For a MAC that aborts when ``tvalid`` falls inside a frame, and for a target whose metadata hold the
    length. Frames must be packed (full beats up to ``tlast``). A frame of more than ``depth - 1`` beats is
    dropped. Throughput: one beat per cycle, in and out. Latency of an empty queue: the frame and 6 cycles.

    Parameters
    ----------
    data_bytes : :class:`int`
        Width of ``tdata``; a power of two.
    depth : :class:`int`
        Beats; a power of two of at least 8.
    drop_bad : :class:`bool`
        Drop frames with ``tuser`` at ``tlast``, for a target that cannot mark them.
    lossy : :class:`bool`
        ``s_axis.tready`` is always high and a frame without room is dropped, whole: for a source that cannot
        wait. Otherwise the source waits.
    word_width : :class:`int`
        Bits of a word that goes with each frame, 0 for none.
    frames : :class:`int`
        A power of two; it holds at least three whole frames less at a time. While a long frame leaves, as
        many short ones may arrive as it has beats, divided by the beats of a short one.
    """

    def __init__(
        self,
        data_bytes: int = BURST_BYTES,
        *,
        depth: int = 512,
        drop_bad: bool = False,
        lossy: bool = False,
        word_width: int = 0,
        frames: int = 64,
    ):
        if depth < 8 or depth & (depth - 1):
            raise ValueError(f"queue depth must be a power of two of at least 8, not {depth!r}")
        self.data_bytes = data_bytes
        self.depth = depth
        self.drop_bad = drop_bad
        self.lossy = lossy
        self.word_width = word_width
        self.frames = frames
        stream = AXIStream(data_bytes)
        members = {
            "s_axis": In(stream),  #: Frames in.
            "m_axis": Out(stream),  #: Frames out.
            "length": Out(17),  #: Bytes of the frame that ``m_axis`` shows; valid with each of its beats.
            "dropped": Out(1),  #: For one cycle: a frame that came whole was dropped.
        }
        if word_width:
            members |= {
                "s_word": In(word_width),  #: The frame's word, sampled with ``tlast``.
                "word": Out(word_width),  #: Its word, likewise.
            }
        super().__init__(members)

    def elaborate(self, platform: Any) -> Module:
        # `write` runs ahead of `whole`, which moves when a frame is complete; `read` follows `whole`.
        m = Module()
        bits, ending_bits = exact_log2(self.depth), exact_log2(self.data_bytes)
        shape = data.StructLayout(
            {"tdata": 8 * self.data_bytes, "ending": ending_bits, "tlast": 1, "tuser": 1}
        )
        m.submodules.ram = ram = BlockRam(shape.size, self.depth)
        m.submodules.beats = beats = PushQueue(shape, 16, BlockRam.LATENCY + 2)
        m.submodules.lengths = lengths = PushQueue(17 + self.word_width, self.frames, 4)
        source = self.s_axis
        write, whole, read = (Signal(bits, name=name) for name in ("write", "whole", "read"))
        refuse = Signal()  # the rest of this frame is dropped

        # What the current beat means. One place stays empty, so that full and empty differ.
        accept = Signal()
        full = Signal()
        length = Signal(17)
        ending = Signal(ending_bits)
        # The last byte is the one whose right neighbour is missing; a full beat has none: 0.
        keep = source.tkeep
        ends = [Mux(keep[i - 1] & ~keep[i], i, 0) for i in range(1, self.data_bytes)]
        m.d.comb += [
            full.eq((write + 1)[:bits] == read),
            ending.eq(reduce(or_, ends)),
            accept.eq(source.tvalid & source.tready),
        ]
        stuck = full & (whole == read)  # a frame longer than the queue
        if self.lossy:
            m.d.comb += source.tready.eq(1)
            no_room = full | ~lengths.room
        else:
            m.d.comb += source.tready.eq(refuse | stuck | (~full & lengths.room))
            no_room = stuck
        skip = Signal()
        m.d.comb += skip.eq(refuse | no_room)
        bad = source.tuser if self.drop_bad else 0
        drop = Signal()
        m.d.comb += drop.eq(accept & source.tlast & (skip | bad))
        total = Signal(17)
        m.d.comb += total.eq(length + Mux(ending == 0, self.data_bytes, ending))
        note = Cat(total, self.s_word) if self.word_width else total
        beat = Signal(shape)
        m.d.comb += [
            beat.tdata.eq(source.tdata),
            beat.ending.eq(ending),
            beat.tlast.eq(source.tlast),
            beat.tuser.eq(source.tuser & source.tlast),
            ram.write.eq(accept & ~skip),
            ram.write_address.eq(write),
            ram.write_data.eq(beat),
        ]
        m.d.sync += [self.dropped.eq(drop), lengths.i.valid.eq(0), lengths.i.payload.eq(note)]
        with m.If(accept):
            m.d.sync += [
                length.eq(Mux(source.tlast, 0, length + self.data_bytes)),
                refuse.eq(skip & ~source.tlast),
            ]
            with m.If(skip | drop):
                m.d.sync += write.eq(whole)
            with m.Else():
                m.d.sync += write.eq(write + 1)
                with m.If(source.tlast):
                    m.d.sync += [whole.eq(write + 1), lengths.i.valid.eq(1)]

        self._read(m, ram, beats, lengths, read, whole)
        self.probes |= {
            "ram": ram, "beats": beats, "lengths": lengths, "write": write, "whole": whole, "read": read,
            "refuse": refuse, "drop": drop, "length_so_far": length,
        }  # fmt: skip
        return m

    def _read(
        self, m: Module, ram: BlockRam, beats: PushQueue, lengths: PushQueue, read: Signal, whole: Signal
    ) -> None:
        """Read whole frames while there is room after the RAM's two cycles, and offer them."""
        sink = self.m_axis
        issue = Signal()
        arriving = Signal(BlockRam.LATENCY)
        self.probes: dict[str, Any] = {"arriving": arriving}
        m.d.comb += [
            issue.eq((read != whole) & beats.room),
            ram.read_address.eq(read),
            beats.i.valid.eq(arriving[-1]),
            beats.i.payload.eq(ram.read_data),
        ]
        m.d.sync += [read.eq(read + issue), arriving.eq((arriving << 1) | issue)]

        head = beats.o.payload
        m.d.comb += [
            sink.tvalid.eq(beats.o.valid & lengths.o.valid),
            sink.tdata.eq(head.tdata),
            sink.tlast.eq(head.tlast),
            sink.tuser.eq(head.tuser),
            sink.tkeep.eq(keep_of(head.tlast, head.ending)),
            beats.o.ready.eq(sink.tready & lengths.o.valid),
            lengths.o.ready.eq(sink.tready & beats.o.valid & head.tlast),
            self.length.eq(lengths.o.payload[:17]),
        ]
        if self.word_width:
            m.d.comb += self.word.eq(lengths.o.payload[17:])

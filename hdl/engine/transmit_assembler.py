# SPDX-License-Identifier: BSD-2-Clause
"""Puts frames together for the wire: raw from the ring, or patched header, shim and block."""

from typing import Any

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from inceptionn.wire import SHIM_BYTES, SHIM_MAGIC

from ..codec.block_store import BlockReader, BlockStore
from ..codec.shape import USUAL, EngineShape
from ..frame.header_fields import IPV4
from ..frame.header_walk import HeaderWalk, patched_word
from ..parts.axi import AXIStream
from ..parts.checksum import swap16
from ..parts.memory import BlockRam
from ..parts.output_queue import OutputQueue
from ..parts.pipeline import Pipeline
from .raw_ring import raw_ring_depth
from .transmit_resolving import frame_order


class _Next(data.Struct):
    """The work of the next command. Each decision of the control is a bit."""

    active: 1  # there is a frame
    drops: 1  # drops its block, with the frame's first beat
    in_block: 1  # reads it
    raw_last: 1  # the last beat of a frame that is copied
    after_shim: 1  # the beat after the one in which the shim begins


class TransmitAssembler(wiring.Component):
    """Carries out one order after the other, one output beat per cycle, without a gap between frames.

    Each cycle with room issues the command for one beat: read the raw ring, step the block, or both, where
    header and block share a beat. Both memories answer after a fixed time, so patch, raw beat and block beat
    meet in one OR. The Compressor has placed the block where it belongs in its first beat.

    Parameters
    ----------
    ring_depth : :class:`int`
        Beats in the raw ring. Default: :func:`raw_ring_depth`.
    shape : :class:`EngineShape`
    """

    def __init__(self, shape: EngineShape = USUAL, *, ring_depth: int | None = None):
        self.shape = shape
        self.ring_depth = raw_ring_depth(shape) if ring_depth is None else ring_depth
        super().__init__(
            {
                "orders": In(stream.Signature(frame_order(shape))),  #: From the decision.
                #: Next beat of the raw ring that is read; what lies before it may be overwritten.
                "raw_address": Out(range(self.ring_depth)),
                #: The ring's answer, :attr:`BlockRam.LATENCY` cycles after ``raw_address``
                #: (:class:`RawRing`).
                "raw_beat": In(shape.bits),
                #: From the Compressor. A block can be read before its report is given, and so some cycles
                #: before its order: it is there for its first command, and none is waited for.
                "blocks": In(BlockReader(shape)),
                "m_axis": Out(AXIStream(shape.bytes)),  #: The frames.
            }
        )

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        # When the queue's `room` falls, each stage holds a beat, and one more may enter: `room` of the
        # commands is a cycle old.
        block_latency = BlockStore.latency_of(self.shape)
        m.submodules.output = output = OutputQueue(block_latency + 2, self.shape)
        wiring.connect(m, output.m_axis, wiring.flipped(self.m_axis))
        p = self._command(m, output)

        # The raw ring's address and the whole order follow a cycle after the command, by plain registers:
        # loaded at once, many flip-flops would depend on everything that a frame's last command depends on.
        following_base = Signal(range(self.ring_depth))
        with m.If(p.load):
            m.d.sync += self.raw_address.eq(following_base)
        with m.Elif(p.reads_raw):
            m.d.sync += self.raw_address.eq(self.raw_address + 1)
        with m.If(p.takes):
            m.d.sync += following_base.eq(following_base + p.following.beats)
        order = Signal(frame_order(self.shape))
        udp_length = Signal(16, reset_less=True)
        with m.If(p.load):
            m.d.sync += [order.eq(p.following), udp_length.eq(p.following.total_length - IPV4.size)]
        ends = p.last & order.end
        p.let(
            ends=ends,
            bad=order.bad & ends,
            ending=Mux(ends, Mux(order.compressed, p.block_ending, order.ending), 0),
        )

        # Two cycles after the command: the patch. A cycle later: the raw beat. Later: the block's.
        fields = {
            "total_length": order.total_length,
            "ip_checksum": order.ip_checksum,
            "udp_length": udp_length,
            "udp_checksum": order.checksum,
            "tcp_checksum": order.checksum,
        }
        words = range(self.shape.words)
        patches = [patched_word(p.marks, i, fields, self.shape) for i in words]
        p.stage(
            patch=Cat(
                Mux(hit, value, 0) | self._shim_word(order, p.in_shim, p.after_shim, i)
                for i, (hit, value) in enumerate(patches)
            ),
            keep=Cat(p.keep[i] & ~hit for i, (hit, _) in enumerate(patches)),
        )
        p.until(1 + BlockRam.LATENCY)
        p.stage(
            header=Cat(
                Mux(p.keep[i], self.raw_beat.word_select(i, 16), 0) | p.patch.word_select(i, 16)
                for i in words
            )
        )
        p.until(block_latency)
        m.d.sync += output.i.payload.tdata.eq(p.header | self.blocks.beat)
        p.stage()
        m.d.comb += [
            output.i.valid.eq(p.go),
            output.i.payload.tlast.eq(p.ends),
            output.i.payload.tuser.eq(p.bad),
            output.i.payload.ending.eq(p.ending),
        ]
        return m

    def _command(self, m: Module, output: OutputQueue) -> Pipeline:
        """Issue a command in every cycle with room; give it and its beat's marks one cycle later.

        The next order is taken with the last command of this one.
        """
        orders, following, blocks = self.orders, self.orders.payload, self.blocks
        walk = self._walk(m, following)
        now = Signal(_Next)
        idle = Signal(init=1)
        compressed = Signal()
        spills = Signal()  # the shim ends in the beat after the one in which it begins
        left = Signal(10)  # raw beats
        room = Signal()
        go = Signal()
        advance = Signal()
        over = Signal()
        load = Signal()
        in_shim = Signal()
        m.d.sync += room.eq(output.room)
        m.d.comb += [
            go.eq(room & now.active),
            blocks.drop.eq(room & now.drops),
            blocks.step.eq(room & now.in_block),
            advance.eq(idle | go),
            over.eq(idle | now.raw_last | (now.in_block & blocks.last)),
            load.eq(advance & over),
            orders.ready.eq(load),
            walk.step.eq(advance),
            walk.load.eq(over),
            in_shim.eq(walk.in_header & walk.in_payload),
        ]

        # Worked out one beat ahead: the frame's next command, and the next frame's first.
        goes_on = Signal(_Next)
        in_block = Mux(spills, walk.in_payload, walk.payload_follows)
        following_spills = following.payload_at[: self.shape.place_bits] >= self.shape.bytes - SHIM_BYTES
        m.d.comb += [
            goes_on.active.eq(1),
            goes_on.in_block.eq(in_block),
            goes_on.raw_last.eq(~compressed & (left == 2)),
            goes_on.after_shim.eq(in_shim),
        ]
        begins = self._first_command(m, following, orders.valid, following_spills)
        with m.If(advance):
            with m.If(over):
                m.d.sync += [
                    idle.eq(~orders.valid),
                    compressed.eq(following.compressed),
                    spills.eq(following_spills),
                    left.eq(following.beats),
                    now.eq(begins),
                ]
            with m.Else():
                m.d.sync += [left.eq(left - 1), now.eq(goes_on)]

        p = Pipeline(m, control={"go", "load", "reads_raw", "takes"})
        p.stage(
            go=go,
            load=load,
            reads_raw=go & walk.in_header,
            takes=load & orders.valid,
            following=following,
            last=over,
            block_ending=blocks.shape.ending,
            marks=walk.marks,
            keep=walk.keep,
            in_shim=in_shim,
            after_shim=now.after_shim,
        )
        return p

    def _walk(self, m: Module, order: Any) -> HeaderWalk:
        """Return the walk through the headers, which begins with ``order``."""
        m.submodules.walk = walk = HeaderWalk(self.shape)
        m.d.comb += [
            walk.patch.eq(order.compressed),
            walk.vlan.eq(order.vlan),
            walk.tcp.eq(order.tcp),
            walk.payload_at.eq(order.payload_at),
        ]
        return walk

    def _first_command(self, m: Module, order: Any, takes: Value, spills: Value) -> Signal:
        """Return an order's first command."""
        begins = Signal(_Next)
        # With 16 lanes, a block may begin in its frame's first beat.
        early = Const(0)
        if self.shape.payload_overlaps:
            early = order.compressed & (order.payload_at[self.shape.place_bits :] == 0)
        m.d.comb += [
            begins.active.eq(takes),
            begins.drops.eq(takes & order.block & ~order.compressed),
            begins.in_block.eq(takes & early & ~spills),
            begins.raw_last.eq(takes & ~order.compressed & (order.beats == 1)),
        ]
        return begins

    def _shim_word(self, order: Any, in_shim: Value, after_shim: Value, word: int) -> Value:
        """Return the shim's bits in ``word`` of the beat in which it begins, or of the next beat."""
        # First word of the shim: the header's length is 2 modulo 4, so this is an odd number.
        words = self.shape.words
        place = order.payload_at[1 : self.shape.place_bits]
        shim = [
            swap16(Const(SHIM_MAGIC, 16)),
            Cat(Const(self.shape.codec.spec.version, 8), order.base),
            swap16(order.original_length),
            Const(0, 16),
        ]
        result: Any = Const(0, 16)
        for number, value in enumerate(shim):
            begins = (word - number) % words
            if begins % 2:
                here = (in_shim if word >= number else after_shim) & (place == begins)
                result = result | Mux(here, value, 0)
        return result[:16]

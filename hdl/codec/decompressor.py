# SPDX-License-Identifier: BSD-2-Clause
"""Blocks in, bursts of fp32 out: what the decompressors of both codecs share."""

from typing import Any

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import exact_log2

from inceptionn.wire import GROUP_LANES, MAX_LANES

from ..parts.axi import AXIStream
from ..parts.beat import Beat
from ..parts.delay import delayed
from ..parts.queue import PushQueue
from .plane_decoder import BEAT_BITS, PlaneDecoder, position_bits
from .ring_window import RingWindow


def _end_layout(lanes: int) -> data.StructLayout:
    return data.StructLayout(
        {
            # Position of the block's last byte, as long as all its beats were kept.
            "position": position_bits(lanes),
            # The block ended inside its plane, or beats of it were dropped.
            "fault": 1,
        }
    )


def _burst_layout(lanes: int) -> data.StructLayout:
    return data.StructLayout({"lanes": 32 * lanes, "present": lanes, "last": 1, "fault": 1})


def _top_byte(keep: Value) -> Value:
    """Index of the highest set bit of a ``tkeep`` whose low bits are set."""
    bits = []
    for bit in range(exact_log2(len(keep))):
        step = 1 << bit
        edges = range(step, len(keep), 2 * step)
        # Bit `bit` of the index is set from edge to edge + step - 1.
        bits.append(Cat(keep[i] & ~(keep[i + step] if i + step < len(keep) else 0) for i in edges).any())
    return Cat(*bits)


class Decompressor(wiring.Component):
    """Restores blocks to fp32 bursts.

    The base of :class:`.paper.decompressor.Decompressor` and :class:`.planes.decompressor.Decompressor`,
    which name their decoder, buffer and unit.

    One block (plane, then data) per packet on ``s_axis``; one packet of exactly ``ceil(n / lanes)``
    bursts on ``m_axis``, where *n* is the lane count announced in ``s_axis.tuser`` on the packet's
    first beat. ``tkeep`` of the last burst has four bits per present lane.

    A block is *malformed* if it ends inside its plane, has too few or too many data bytes, or breaks a rule
    of its codec. It still yields its announced number of bursts. Their contents are arbitrary from the first
    fault on, and ``tuser = 1`` at ``tlast``. The next block is not affected. A block with an *n* of 0 or
    above 2304 is malformed and yields one full burst.

    Throughput: one burst per cycle while input is there, also from one block to the next, whose plane is
    taken in while this block's data are decoded. A block of one burst takes two cycles.
    Latency to the first burst: at best :attr:`latency` cycles from the block's first beat, and 8 fewer from
    the beat with its first group's last data byte. Decoding starts before the block's end has arrived; only
    the last burst waits for it.

    Parameters
    ----------
    lanes : :class:`int`
        Lanes of a beat: 8 or 16.
    pushed : :class:`bool`
        Every beat with ``tvalid`` is taken, whatever ``tready`` is. After ``tready`` has fallen, at most one
        may follow.

    Members
    -------
    s_axis : :py:`In(AXIStream(4 * lanes, 16))`
        Blocks. ``tready`` does not depend on ``tvalid`` and is low only when a buffer fills up.
    m_axis : :py:`Out(AXIStream(4 * lanes, 1))`
        Bursts; ``tuser = 1`` at ``tlast``: malformed block.
    cfg_b : :py:`In(8)`
        Byte 3 of the shim: B or E0; read with every block's first beat.
    """

    DECODER: type[PlaneDecoder]
    BUFFER: Any
    """A :class:`RingWindow`."""
    UNIT: Any
    """Turns what the buffer cuts out into a burst, ``LATENCY`` cycles later."""
    WORD_LANES: int
    """Lanes of a 16-bit word of the plane."""

    def __init__(self, *, pushed: bool = False, lanes: int = GROUP_LANES):
        self.pushed = pushed
        self.lanes = lanes
        self.width = Beat.of_groups(lanes)
        self.latency = self.latency_of(self.width)
        super().__init__(
            {
                "s_axis": In(AXIStream(self.width.bytes, 16)),
                "m_axis": Out(AXIStream(self.width.bytes, 1)),
                "cfg_b": In(8),
            }
        )

    @classmethod
    def latency_of(cls, width: Beat) -> int:
        """Cycles from a block's first beat to its first burst, at best."""
        return int(cls.DECODER.latency_of(width) + cls.BUFFER.latency_of(width) + cls.UNIT.LATENCY + 5)

    def elaborate(self, platform: Any) -> Module:
        # Push flow from end to end. Input goes into two buffers, planes and data; the decoder turns marks
        # (tags or codes) into groups with places; a group is issued once its bytes are in the buffer and the
        # output queue has room. Past that point nothing stalls.
        m = Module()
        m.submodules.decoder = decoder = self.DECODER(lanes=self.lanes)
        m.submodules.buffer = buffer = self.BUFFER(lanes=self.lanes)
        m.submodules.unit = unit = self.UNIT(lanes=self.lanes)
        m.submodules.ends = ends = PushQueue(_end_layout(self.lanes), 32, slack=13)
        slack = buffer.latency + unit.LATENCY + 4
        m.submodules.output = output = PushQueue(_burst_layout(self.lanes), 32, slack)

        # Set while beats after a block's expected end come in: they are dropped (see `_issue`).
        surplus = Signal()
        self._receive(m, decoder, buffer, ends, surplus)
        issued = self._issue(m, decoder, buffer, ends, output, surplus)
        self._finish(m, issued, buffer, unit, output)
        return m

    def _receive(
        self,
        m: Module,
        decoder: PlaneDecoder,
        buffer: RingWindow,
        ends: PushQueue,
        surplus: Signal,
    ) -> None:
        """Sorts input beats into plane and data; the beat that holds the first data byte may go to both."""
        sync = m.d.sync
        valid = Signal()
        beat = Signal(self.width.bits, reset_less=True)
        top_byte = Signal(self.width.place_bits, reset_less=True)
        more = Signal(12, reset_less=True)
        unusable = Signal(reset_less=True)
        base = Signal(8, reset_less=True)
        ends_here = Signal(reset_less=True)
        count = self.s_axis.tuser
        bad_count = (count == 0) | (count > MAX_LANES)
        sync += [
            valid.eq(self.s_axis.tvalid & (self.s_axis.tready | self.pushed)),
            beat.eq(self.s_axis.tdata),
            top_byte.eq(_top_byte(self.s_axis.tkeep)),
            # Lanes less one: a block with an unusable count is read as one of a full burst.
            more.eq(Mux(bad_count, self.lanes - 1, count - 1)),
            unusable.eq(bad_count),
            base.eq(self.cfg_b),
            ends_here.eq(self.s_axis.tlast),
        ]

        # Lanes per word of the plane, words per beat and beats per plane are powers of two, so the fields of
        # the lane count less one are: lanes of the last word, words of the last beat, beats.
        at_burst, at_word = exact_log2(self.lanes), exact_log2(self.WORD_LANES)
        at_beat = at_word + exact_log2(self.width.words)
        more_words, more_beats = more[at_word:at_beat], more[at_beat:]
        full = more_words.all()
        first = Signal(init=1)
        in_plane = Signal()
        plane_ends = Signal()
        plane_shares = Signal()
        beats_left = Signal(5)
        has_plane = Signal()
        has_data = Signal()
        plane_cut = Signal()
        m.d.comb += [
            has_plane.eq(first | in_plane),
            has_data.eq(Mux(first, (more_beats == 0) & ~full, ~in_plane | (plane_ends & plane_shares))),
            plane_cut.eq(Mux(first, more_beats != 0, in_plane & ~plane_ends)),
        ]
        with m.If(valid):
            sync += first.eq(ends_here)
            with m.If(first):
                sync += [
                    beats_left.eq(more_beats),
                    in_plane.eq((more_beats != 0) & ~ends_here),
                    plane_ends.eq(more_beats == 1),
                    plane_shares.eq(~full),
                ]
            with m.Elif(in_plane):
                sync += [
                    beats_left.eq(beats_left - 1),
                    in_plane.eq(~plane_ends & ~ends_here),
                    plane_ends.eq(beats_left == 2),
                ]

        # If a block has ended within the last four cycles, `surplus` may still be about that one.
        recent = Signal(4)
        sync += recent.eq(Cat(valid & ends_here, recent))
        drop = surplus & ~recent.any()
        dropped = Signal()
        was_dropped = dropped | (has_data & drop)
        with m.If(valid):
            sync += dropped.eq(was_dropped & ~ends_here)

        # A register between the choice and the buffers, which lie apart.
        def sorted_1(value: Any, name: str, *, reset: bool = False) -> Any:
            return delayed(m, value, 1, name=f"sorted_{name}", reset=reset)

        full_1, more_1, beat_1 = sorted_1(full, "full"), sorted_1(more, "more"), sorted_1(beat, "beat")
        newest = buffer.newest
        following = buffer.following
        block = decoder.beats.payload.block
        m.d.comb += [
            decoder.beats.payload.data.eq(beat_1),
            decoder.beats.valid.eq(sorted_1(valid & has_plane, "plane", reset=True)),
            decoder.beats.payload.ends.eq(sorted_1(ends_here, "ends")),
            block.more_groups.eq(more_1[at_burst:]),
            block.more_lanes.eq(more_1[:at_burst]),
            block.base.eq(sorted_1(base, "base")),
            block.unusable.eq(sorted_1(unusable, "unusable")),
            # Data start after the plane's words; the byte before is an odd one.
            block.origin.eq(Cat(Const(1, 1), more_1[at_word:at_beat], Mux(full_1, newest, following))),
            buffer.beats.payload.eq(beat_1),
            buffer.beats.valid.eq(sorted_1(valid & has_data & ~drop, "data", reset=True)),
        ]

        # A cycle later, when `newest` counts the block's last beat.
        m.d.comb += [
            ends.i.valid.eq(recent[1]),
            ends.i.payload.position.eq(Cat(delayed(m, top_byte, 2, name="last_byte"), newest)),
            ends.i.payload.fault.eq(delayed(m, plane_cut | was_dropped, 2, name="end_fault")),
        ]

    def _issue(
        self,
        m: Module,
        decoder: PlaneDecoder,
        buffer: RingWindow,
        ends: PushQueue,
        output: PushQueue,
        surplus: Signal,
    ) -> dict[str, Signal]:
        """Sends groups to the data path in order, as soon as their bytes and room for the burst are there.

        The last group of a block waits for the block's end: only then is its length known to fit. Any
        group goes when the block has ended, with or without its bytes. While a last group has its bytes
        and the block does not end, everything that comes in is surplus.
        """
        sync = m.d.sync
        at_beat = self.width.place_bits
        following = decoder.groups.payload
        head = Signal(following.shape(), reset_less=True)
        head_valid = Signal()
        arrived = Signal()
        may_go = Signal()
        # Registered once more, since the queue lies at the far end of the pipeline.
        room = delayed(m, output.room, 1, name="room", reset=True)
        go = Signal()
        load = Signal()
        ended = ends.o.valid

        def has_arrived(end: Value) -> Value:
            # Beats around the head are less than 128 apart.
            return ~(buffer.newest - end[at_beat:])[7]

        m.d.comb += [
            go.eq(may_go & room),
            load.eq(~head_valid | go),
            decoder.groups.ready.eq(load),
            buffer.requests.valid.eq(load),
            buffer.requests.payload.position.eq(following.start),
            buffer.requests.payload[decoder.MARKS].eq(following[decoder.MARKS]),
            ends.o.ready.eq(go & head.last),
        ]
        with m.If(load):
            sync += [
                head.eq(following),
                head_valid.eq(decoder.groups.valid),
            ]
        # `may_go` is about the head and implies one. The end known is that of the head's block, so after a
        # block's last group it has to be looked at again: a cycle is lost there by blocks of one group.
        following_arrived = has_arrived(following.end)
        head_arrived = has_arrived(head.end)
        following_may_go = (following_arrived & ~following.last) | (ended & ~(go & head.last))
        head_may_go = (head_arrived & ~head.last) | ended
        sync += [
            arrived.eq(Mux(load, following_arrived, head_arrived)),
            may_go.eq(Mux(load, decoder.groups.valid & following_may_go, head_may_go)),
            surplus.eq(head_valid & head.last & arrived & ~ended),
        ]

        # Free are the beats before that of `head.start`, and after a block's last group all beats of the
        # block. A block cut short announces data beyond its end: its groups free nothing there.
        oldest = Signal(BEAT_BITS, init=2**BEAT_BITS - 1)
        held = Signal(BEAT_BITS)
        went = delayed(m, go, 1, name="went", reset=True)
        went_last = delayed(m, head.last, 1, name="went_last")
        went_ended = delayed(m, ended, 1, name="went_ended")
        start_beat = delayed(m, head.start[at_beat:], 1, name="start_beat")
        end_beat = delayed(m, ends.o.payload.position[at_beat:], 1, name="end_beat")
        beyond = (end_beat - start_beat)[BEAT_BITS - 1]
        with m.If(went & went_last):
            sync += oldest.eq(end_beat)
        with m.Elif(went & ~(went_ended & beyond)):
            sync += oldest.eq(start_beat)
        sync += held.eq(buffer.newest - oldest)

        # Up to seven beats are in flight when `tready` falls, up to seven more after a surplus, and
        # the buffers overwrite their next two free slots.
        sync += self.s_axis.tready.eq(
            surplus
            | ((held < RingWindow.DEPTH - 18) & (decoder.stored < PlaneDecoder.DEPTH - 10) & ends.room)
        )

        wrong_end = (head.end != ends.o.payload.position) | ends.o.payload.fault
        return {
            "valid": went,
            "last": went_last,
            "fault": delayed(m, head.fault | (head.last & wrong_end), 1, name="issued_fault"),
            "more_lanes": delayed(m, head.more_lanes, 1, name="issued_more_lanes"),
            "base": delayed(m, head.base, 1, name="issued_base"),
        }

    def _finish(
        self,
        m: Module,
        issued: dict[str, Signal],
        buffer: RingWindow,
        unit: Any,
        output: PushQueue,
    ) -> None:
        """Decompresses what the buffer cuts out, and gathers a block's faults for its last burst."""
        # `issued` is already one cycle after the request.
        cut = buffer.latency - 1
        done = cut + unit.LATENCY
        base = delayed(m, issued["base"], cut, name="base")
        self._decode(m, buffer, unit, base, cut, issued)
        valid = delayed(m, issued["valid"], done, name="valid", reset=True)
        last = delayed(m, issued["last"], done, name="last")
        more_lanes = delayed(m, issued["more_lanes"], done - 1, name="more_lanes")
        fault = Signal()
        earlier_fault = Signal()
        m.d.comb += fault.eq(
            delayed(m, issued["fault"], done, name="fault") | earlier_fault | unit.impossible.any()
        )
        with m.If(valid):
            m.d.sync += earlier_fault.eq(fault & ~last)
        last_before = delayed(m, issued["last"], done - 1, name="last_before")
        present = Cat(~last_before | (more_lanes >= lane) for lane in range(self.lanes))
        m.d.comb += [
            output.i.valid.eq(valid),
            output.i.payload.lanes.eq(unit.burst),
            output.i.payload.present.eq(delayed(m, present, 1, name="present")),
            output.i.payload.last.eq(last),
            output.i.payload.fault.eq(last & fault),
            self.m_axis.tdata.eq(output.o.payload.lanes),
            self.m_axis.tkeep.eq(Cat(lane.replicate(4) for lane in output.o.payload.present)),
            self.m_axis.tlast.eq(output.o.payload.last),
            self.m_axis.tuser.eq(output.o.payload.fault),
            self.m_axis.tvalid.eq(output.o.valid),
            output.o.ready.eq(self.m_axis.tready),
        ]

    def _decode(
        self, m: Module, buffer: Any, unit: Any, base: Signal, cut: int, issued: dict[str, Signal]
    ) -> None:
        """Joins buffer and unit. What was ``issued`` comes out of the buffer ``cut`` cycles later."""
        raise NotImplementedError

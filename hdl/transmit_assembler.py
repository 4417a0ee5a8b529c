# SPDX-License-Identifier: BSD-2-Clause
"""Puts frames together for the wire: raw from the ring, or patched header, shim and block."""

from typing import Any

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from inceptionn.hdl.axi import AXIStream
from inceptionn.hdl.block_store import BlockStore
from inceptionn.hdl.checksum import swap16
from inceptionn.hdl.delay import delayed
from inceptionn.hdl.memory import BlockRam
from inceptionn.hdl.output_queue import OutputQueue
from inceptionn.hdl.transmit_decision import FrameOrder
from inceptionn.wire import BURST_BYTES, SHIM_BYTES, SHIM_MAGIC, SHIM_VERSION

_WORDS = BURST_BYTES // 2


class TransmitAssembler(wiring.Component):
    """Carries out one order after the other, one output beat per cycle, without a gap between frames.

    Each cycle with room issues the command for one beat: read the raw ring, step the block, or both, where
    header and block share a beat. Both memories answer after a fixed time, so patch, raw beat and block beat
    meet in one OR. The Compressor has placed the block where it belongs in its first beat.

    Members
    -------
    order, order_valid, order_pop
        From the decision.
    raw_address : :py:`Out`
        Next beat of the raw ring that is read; what lies before it may be overwritten.
    raw_beat : :py:`In(256)`
        The ring's answer, :attr:`BlockRam.LATENCY` cycles later.
    block_ready, block_step, block_last, block_ending, block_drop, block_beat
        The reading side of the Compressor.
    m_axis : :py:`Out(AXIStream())`
    """

    def __init__(self, ring_depth: int):
        self.ring_depth = ring_depth
        super().__init__(
            {
                "order": In(FrameOrder),
                "order_valid": In(1),
                "order_pop": Out(1),
                "raw_address": Out(range(ring_depth)),
                "raw_beat": In(8 * BURST_BYTES),
                "block_ready": In(1),
                "block_step": Out(1),
                "block_last": In(1),
                "block_ending": In(5),
                "block_drop": Out(1),
                "block_beat": In(8 * BURST_BYTES),
                "m_axis": Out(AXIStream()),
            }
        )

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        m.submodules.output = output = OutputQueue(slack=BlockStore.LATENCY + 6)
        wiring.connect(m, output.m_axis, wiring.flipped(self.m_axis))

        # The order at hand; the next one is taken with the last command of this one.
        order = Signal(FrameOrder)
        busy, room = Signal(), Signal()
        index = Signal(3)  # of the beat in the frame; saturates
        left = Signal(10)  # raw beats
        following_base = Signal(range(self.ring_depth))
        header_beats, block_at = Signal(3), Signal(2)
        go, last, load = Signal(), Signal(), Signal()
        needs_block = order.compressed | (order.drop & (index == 0))
        m.d.comb += [
            go.eq(busy & room & (self.block_ready | ~needs_block)),
            self.block_drop.eq(go & order.drop & (index == 0)),
            self.block_step.eq(go & order.compressed & (index >= block_at)),
            last.eq(Mux(order.compressed, (index >= block_at) & self.block_last, left == 1)),
            load.eq(~busy | (go & last)),
            self.order_pop.eq(load),
        ]
        m.d.sync += room.eq(output.room)
        with m.If(go):
            m.d.sync += [left.eq(left - 1), index.eq(index + (index < 7))]
        with m.If(go & (~order.compressed | (index < header_beats))):
            m.d.sync += self.raw_address.eq(self.raw_address + 1)
        with m.If(load):
            m.d.sync += [
                busy.eq(self.order_valid),
                order.eq(self.order),
                index.eq(0),
                left.eq(self.order.beats),
                header_beats.eq((self.order.payload_at + (BURST_BYTES - 1))[5:]),
                block_at.eq((self.order.payload_at + SHIM_BYTES)[5:]),
                self.raw_address.eq(following_base),
            ]
            with m.If(self.order_valid):
                m.d.sync += following_base.eq(following_base + self.order.beats)

        # One cycle after the command: the patch. Two: the raw beat. LATENCY of the store: the block's.
        patch1, keep1 = Signal(8 * BURST_BYTES, reset_less=True), Signal(_WORDS, reset_less=True)
        patch, keep = self._patch(order, index)
        m.d.sync += [patch1.eq(patch), keep1.eq(keep)]
        patch2 = delayed(m, patch1, BlockRam.LATENCY - 1, name="patch")
        keep2 = delayed(m, keep1, BlockRam.LATENCY - 1, name="keep")
        header3 = Signal(8 * BURST_BYTES, reset_less=True)
        for i in range(_WORDS):
            word = Mux(keep2[i], self.raw_beat.word_select(i, 16), 0)
            m.d.sync += header3.word_select(i, 16).eq(word | patch2.word_select(i, 16))
        header = delayed(m, header3, BlockStore.LATENCY - BlockRam.LATENCY - 1, name="header")
        m.d.sync += output.push_data.tdata.eq(header | self.block_beat)

        ending = Mux(order.compressed, self.block_ending, order.ending)
        marks = Cat(go & last & order.end, order.bad & last & order.end, Mux(last & order.end, ending, 0))
        late = delayed(m, marks, BlockStore.LATENCY + 1, name="marks")
        m.d.comb += [
            output.push.eq(delayed(m, go, BlockStore.LATENCY + 1, name="push", reset=True)),
            output.push_data.tlast.eq(late[0]),
            output.push_data.tuser.eq(late[1]),
            output.push_data.ending.eq(late[2:]),
        ]
        return m

    @staticmethod
    def _patch(order: Any, index: Value) -> tuple[Value, Value]:
        """Words to put in, and which words of the raw beat stay, for beat ``index`` of the frame."""
        # First word of the shim: the header's length is 2 modulo 4, so this is an odd number.
        shim_beat, shim_word = order.payload_at[5:], order.payload_at[1:5]
        shim = [
            swap16(Const(SHIM_MAGIC, 16)),
            Cat(Const(SHIM_VERSION, 8), order.b),
            swap16(order.original_length),
            Const(0, 16),
        ]
        udp_length = order.total_length - 20
        # (beat, word without VLAN tag, only with, value); a VLAN tag moves everything by two words.
        fields = [
            (0, 8, Const(1), order.total_length),
            (0, 12, Const(1), order.ip_checksum),
            (1, 9, order.tcp, order.checksum),
            (1, 3, ~order.tcp, udp_length[:16]),
            (1, 4, ~order.tcp, order.checksum),
        ]
        words, stay = [], []
        for i in range(_WORDS):
            word: Any = Const(0, 16)
            patched: Any = Const(0, 1)
            for q, value in enumerate(shim):
                here = ((index == shim_beat) & (shim_word == i - q)) if i >= q else Const(0, 1)
                over = ((index == shim_beat + 1) & (shim_word == 16 + i - q)) if i < q else Const(0, 1)
                word = word | Mux(here | over, value, 0)
            for beat, place, condition, value in fields:
                for vlan, at in ((0, place), (1, place + 2)):
                    if at == i:
                        hit = (index == beat) & condition & (order.vlan == vlan)
                        word = word | Mux(hit, swap16(value), 0)
                        patched = patched | hit
            header = (index < shim_beat) | ((index == shim_beat) & (shim_word > i))
            words.append(Mux(order.compressed, word, 0)[:16])
            stay.append(~order.compressed | (header & ~patched))
        return Cat(words), Cat(word[0] for word in stay)

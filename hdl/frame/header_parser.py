# SPDX-License-Identifier: BSD-2-Clause
"""Ethernet, IPv4, TCP and UDP headers of a frame, and the verdict from them."""

from typing import Any

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value
from amaranth.lib import data, stream
from amaranth.lib.wiring import In, Out

from inceptionn.wire import PROTOCOL_TCP, SHIM_BYTES

from ..control.config import EngineConfig
from ..parts.pipeline import Pipeline
from ..parts.width import BURST, Width
from .frame_input import frame_beat
from .header_checks import Headers
from .header_fields import ETHERNET, IPV4, L3, L4, TCP, VLAN
from .header_judge import ETHERTYPES, HeaderJudge, ParsedHeader, kinds
from .payload_realigner import payload_run


def parsed_frame(width: Width = BURST) -> data.StructLayout:
    """Return the layout of the parser's result for a frame."""
    return data.StructLayout(
        {
            "header": ParsedHeader,
            # Without an objection: where the payload lies; on receive the bytes after the shim, or one byte
            # if there are none.
            "run": payload_run(width),
            "clear": 1,  # no objection: the verdict is 0. Low while there is no result
        }
    )


class HeaderParser(HeaderJudge):
    """Reads the headers from a frame's first two beats and reports the first check that fails.

    All fields lie in the first 58 bytes, with or without VLAN tag and options, so two beats of 32 bytes
    suffice. With 16 lanes it is one beat and one more stage, since the fields' positions are known only after
    that beat. One beat per cycle; frames may follow each other without a gap.

    Parameters
    ----------
    transmit : :class:`bool`
        Adds the transmit side's checks: valid codec parameters; payload too short, too long, not a
        multiple of 4. The receive side checks that the payload has room for a shim (``NO_SHIM``).
    width : :class:`Width`
    """

    def __init__(self, width: Width = BURST, *, transmit: bool):
        self.width = width
        self.latency = self.latency_of(self.width)
        self.transmit = transmit
        super().__init__(
            {
                "config": In(EngineConfig),  #: Sampled with a frame's first beat.
                #: With ``width.bf16``, likewise: the ToS byte of frames with bf16 lanes. No frame has them if
                #: it equals ``config.tos`` in the bits of the mask.
                **({"bf16_tos": In(8)} if width.bf16 else {}),
                #: The frames' beats.
                "beats": In(stream.Signature(frame_beat(self.width.bytes), always_ready=True)),
                #: One per frame, :attr:`latency` cycles after its second beat or its only one; with 16 lanes
                #: after its first.
                "headers": Out(stream.Signature(parsed_frame(width), always_ready=True)),
            }
        )

    @staticmethod
    def latency_of(width: Width) -> int:
        """Count the cycles from the beat that completes the header fields, or from the only beat."""
        return 4 - width.parsed_beat

    def _capture(self, m: Module) -> tuple[Value, Headers]:
        beat = self.beats.payload
        first, second = beat.first, beat.second
        outer = ETHERNET.read(beat.data, "ethertype")
        inner = VLAN.read(beat.data, "ethertype", at=ETHERNET.size)
        head = Signal(self.width.bits, reset_less=True)
        config = Signal(EngineConfig, reset_less=True)
        bf16_tos: Any = Const(0, 8)
        if self.width.bf16:
            bf16_tos = Signal(8, name="bf16_tos", reset_less=True)
        outer_is, inner_is = (
            {ethertype: Signal(name=f"{place}_is_{ethertype:04x}") for ethertype in ETHERTYPES}
            for place in ("outer", "inner")
        )
        self.probes = {
            "head": head, "held_config": config, "held_bf16_tos": bf16_tos,
            "outer_is": outer_is, "inner_is": inner_is,
        }  # fmt: skip
        with m.If(first):
            m.d.sync += [head.eq(beat.data), config.eq(self.config)]
            for ethertype in ETHERTYPES:
                m.d.sync += [
                    outer_is[ethertype].eq(outer == ethertype),
                    inner_is[ethertype].eq(inner == ethertype),
                ]
            if self.width.bf16:
                m.d.sync += bf16_tos.eq(self.bf16_tos)

        # Each comparison with an EtherType, 16 bits wide, is registered. Their results are combined here.
        vlan, stacked, ipv6, ipv4 = kinds(outer_is, inner_is)

        # With the second beat, the rest. If the first beat holds all fields, this happens one cycle after it,
        # and what was taken with it follows.
        one_beat = self.width.headers_in_one_beat
        window = head if one_beat else Cat(head, beat.data)

        def cut(begin: int, end: int) -> Value:
            """Return bytes ``begin`` to ``end`` of the frame without its VLAN tag, first byte lowest."""
            tag = VLAN.size
            return Mux(vlan, window[8 * (tag + begin) : 8 * (tag + end)], window[8 * begin : 8 * end])

        ip = Signal(8 * IPV4.size, reset_less=True)
        l4 = Signal(8 * TCP.size, reset_less=True)
        tcp = Signal(reset_less=True)
        seen = Signal(7, reset_less=True)
        captured = Signal()
        protocol = IPV4["protocol"]
        fields = [
            ip.eq(cut(L3, L4)),
            l4.eq(cut(L4, L4 + TCP.size)),
            tcp.eq(cut(L3 + protocol.byte, L3 + protocol.end) == PROTOCOL_TCP),
        ]
        if one_beat:
            p = Pipeline(m, "first_", control={"valid"})
            p.let(bf16_tos=bf16_tos)
            p.stage(valid=first, count=beat.count, config=config, kinds=Cat(vlan, stacked, ipv6, ipv4))
            m.d.sync += captured.eq(p.valid)
            with m.If(p.valid):
                m.d.sync += [*fields, seen.eq(p.count)]
            vlan, stacked, ipv6, ipv4 = p.kinds
            config = p.config
            if self.width.bf16:
                bf16_tos = p.bf16_tos
        else:
            m.d.sync += captured.eq(second | (first & beat.last))
            with m.If(second):
                m.d.sync += [*fields, seen.eq(self.width.bytes + beat.count)]
            with m.Elif(first):
                m.d.sync += seen.eq(beat.count)
        return captured, Headers.of(config, bf16_tos, seen, vlan, stacked, ipv6, ipv4, tcp, ip=ip, l4=l4)

    def _describe_run(self, m: Module, header: Any) -> None:
        # The realigner's numbers, so that it needs no adder. One adder rounds up and skips the shim.
        run, length = self.headers.payload.run, header.payload_length
        in_front = 0 if self.transmit else SHIM_BYTES
        place_bits = self.width.place_bits
        run_at = Signal(7)
        run_length = Signal(place_bits)
        m.d.comb += [
            run_at.eq(header.payload_at + in_front),
            run_length.eq(length[:place_bits] - in_front),
        ]
        empty = Const(0) if self.transmit else length == SHIM_BYTES
        m.d.sync += [
            run.skip.eq(run_at[place_bits:] - self.width.parsed_beat),
            run.lane.eq(run_at[2:place_bits]),
            run.bursts.eq(Mux(empty, 1, (length + (self.width.bytes - 1 - in_front))[place_bits:])),
            run.ending.eq(Mux(empty, 1, run_length)),
        ]

# SPDX-License-Identifier: BSD-2-Clause
"""Ethernet, IPv4, TCP and UDP headers of a frame, and the verdict from them."""

from typing import Any

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from inceptionn.wire import (
    ETHERTYPE_IPV4,
    ETHERTYPE_IPV6,
    ETHERTYPE_SERVICE_VLAN,
    ETHERTYPE_VLAN,
    PROTOCOL_TCP,
    SHIM_BYTES,
)

from ..control.config import EngineConfig
from ..parts.pipeline import Pipeline
from ..parts.width import BURST, Width
from .frame_input import frame_beat
from .header_checks import (
    Headers,
    failed,
    field_checks,
    first_failed,
    flow_changes,
    length_checks,
    recalled,
)
from .header_fields import ETHERNET, IPV4, L3, L4, TCP, UDP, VLAN
from .payload_realigner import payload_run
from .tos_matcher import TosMatcher

_ETHERTYPES = ETHERTYPE_VLAN, ETHERTYPE_SERVICE_VLAN, ETHERTYPE_IPV4, ETHERTYPE_IPV6


class ParsedHeader(data.Struct):
    """The header fields that an engine uses. Numbers are in host order, lengths in bytes."""

    verdict: 5  # of the first header check that fails, or 0
    tcp: 1  # else UDP
    vlan: 1  # one 802.1Q tag
    payload_at: 7  # H: offset of the payload in the frame, 42..98
    frame_length: 17  # length of Ethernet header, VLAN tag and IP packet
    total_length: 16
    payload_length: 16
    ip_checksum: 16
    checksum: 16  # of TCP or UDP
    source: 32
    destination: 32
    source_port: 16
    destination_port: 16
    phase: 2  # low bits of the TCP sequence number
    opens: 1  # stores its TCP flow in the flow-phase table, whatever the verdict
    closes: 1  # frees its TCP flow's entry, likewise
    bf16: 1  # transmit: the lanes are bf16; receive: a block's may be
    config: EngineConfig  # sampled with the frame's first beat


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


def _kinds(outer: dict[int, Signal], inner: dict[int, Signal]) -> tuple[Value, Value, Value, Value]:
    """Return whether a frame has a VLAN tag, has two, is IPv6, is IPv4; by comparisons of its EtherTypes."""
    vlan = outer[ETHERTYPE_VLAN]
    stacked = outer[ETHERTYPE_SERVICE_VLAN] | (vlan & (inner[ETHERTYPE_SERVICE_VLAN] | inner[ETHERTYPE_VLAN]))
    ipv6 = Mux(vlan, inner[ETHERTYPE_IPV6], outer[ETHERTYPE_IPV6])
    ipv4 = Mux(vlan, inner[ETHERTYPE_IPV4], outer[ETHERTYPE_IPV4])
    return vlan, stacked, ipv6, ipv4


class HeaderParser(wiring.Component):
    """Reads the headers from a frame's first two beats and reports the first check that fails.

    All fields lie in the first 58 bytes, with or without VLAN tag and options, so two beats of 32 bytes
    suffice. With 16 lanes it is one beat and one more stage, since the fields' positions are known only after
    that beat. One beat per cycle; frames may follow each other without a gap.

    The engine itself makes the checks that need more of the frame: ``BAD``, a frame shorter than its IP total
    length, and (receive) the shim. The checks have the order of docs/wire-format.md.

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

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        captured, headers = self._capture(m)
        m.submodules.matcher = matcher = TosMatcher()
        m.d.comb += [
            matcher.tos.eq(headers.ip["tos"]),
            matcher.config_tos.eq(headers.config.tos),
            matcher.config_mask.eq(headers.config.tos_mask),
        ]

        # The checks of fields, and the payload's length.
        p = Pipeline(m, control={"captured", "clear"})
        header = Signal(ParsedHeader)
        negative = self._fill(m, header, headers)
        early = field_checks(headers, self._tagged(m, header, headers, matcher.match), transmit=self.transmit)
        p.let(captured=captured, header=header)
        segment = headers.segment
        p.stage(
            early=failed(early),
            negative=negative,
            syn=headers.tcp & segment["syn"],
            ends=headers.tcp & (segment["fin"] | segment["rst"]),
            unsummed=~headers.tcp & (headers.datagram["checksum"] == 0),
        )

        # The first check that fails, of those known and of those that need the payload's length.
        header = p.header
        late = length_checks(
            header.config,
            header.payload_length,
            negative=p.negative,
            syn=p.syn,
            unsummed=p.unsummed,
            transmit=self.transmit,
        )
        self._describe_run(m, header)
        fields = recalled(early, p.early)
        opens, closes = flow_changes(fields, negative=p.negative, syn=p.syn, ends=p.ends)
        p.stage(
            any_early=p.early.any(),
            first_early=first_failed(fields),
            opens=opens,
            closes=closes,
            late=failed(late),
            clear=p.captured & ~(p.early.any() | failed(late).any()),
        )
        out = self.headers.payload
        m.d.comb += [
            self.headers.valid.eq(p.captured),
            out.clear.eq(p.clear),
            out.header.eq(p.header),
            out.header.opens.eq(p.opens),
            out.header.closes.eq(p.closes),
            out.header.verdict.eq(Mux(p.any_early, p.first_early, first_failed(recalled(late, p.late)))),
        ]
        return m

    def _tagged(self, m: Module, header: Any, headers: Headers, match: Value) -> Value:
        """Return whether the frame has a tag, that of either type of lanes; fill ``header.bf16``."""
        if not self.width.bf16:
            return match
        config = headers.config
        m.submodules.bf16_matcher = matcher = TosMatcher()
        m.d.comb += [
            matcher.tos.eq(headers.ip["tos"]),
            matcher.config_tos.eq(headers.bf16_tos),
            matcher.config_mask.eq(config.tos_mask),
        ]
        differ = ((config.tos ^ headers.bf16_tos) & config.tos_mask).any()
        m.d.comb += header.bf16.eq(matcher.match & ~match if self.transmit else differ)
        return match | matcher.match

    def _capture(self, m: Module) -> tuple[Value, Headers]:
        """Register the headers as they lie without a VLAN tag, and whether they are a frame's."""
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
            {ethertype: Signal(name=f"{place}_is_{ethertype:04x}") for ethertype in _ETHERTYPES}
            for place in ("outer", "inner")
        )
        self.probes = {
            "head": head, "held_config": config, "held_bf16_tos": bf16_tos,
            "outer_is": outer_is, "inner_is": inner_is,
        }  # fmt: skip
        with m.If(first):
            m.d.sync += [head.eq(beat.data), config.eq(self.config)]
            for ethertype in _ETHERTYPES:
                m.d.sync += [
                    outer_is[ethertype].eq(outer == ethertype),
                    inner_is[ethertype].eq(inner == ethertype),
                ]
            if self.width.bf16:
                m.d.sync += bf16_tos.eq(self.bf16_tos)

        # Each comparison with an EtherType, 16 bits wide, is registered. Their results are combined here.
        vlan, stacked, ipv6, ipv4 = _kinds(outer_is, inner_is)

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
        return captured, Headers(
            config, bf16_tos, seen, vlan, stacked, ipv6, ipv4, tcp,
            ip={name: IPV4.read(ip, name) for name in IPV4},
            segment={name: TCP.read(l4, name) for name in TCP},
            datagram={name: UDP.read(l4, name) for name in UDP},
        )  # fmt: skip

    def _fill(self, m: Module, header: Any, headers: Headers) -> Value:
        """Fill ``header``, all but the verdict. Return whether the payload's length is negative."""
        ip, segment, datagram, tcp = headers.ip, headers.segment, headers.datagram, headers.tcp
        total_length, offset = ip["total_length"], segment["data_offset"]
        l3_at = Signal(5)
        l4_at = Signal(6)
        l4_bytes = Signal(6)
        payload_length = Signal(17)
        # 4-byte words of IP and TCP header, from a table: one adder fewer before the subtraction.
        header_words = Signal(5)
        with m.Switch(offset):
            for words in range(16):
                with m.Case(words):
                    m.d.comb += header_words.eq(words + IPV4.size // 4)
        m.d.comb += [
            l3_at.eq(headers.at(L3)),
            l4_at.eq(headers.at(L4)),
            l4_bytes.eq(Mux(tcp, offset << 2, UDP.size)),
            payload_length.eq(total_length - Mux(tcp, header_words << 2, IPV4.size + UDP.size)),
            header.tcp.eq(tcp),
            header.vlan.eq(headers.vlan),
            header.payload_at.eq(l4_at + l4_bytes),
            header.frame_length.eq(l3_at + total_length),
            header.total_length.eq(total_length),
            header.payload_length.eq(payload_length),
            header.ip_checksum.eq(ip["checksum"]),
            header.checksum.eq(Mux(tcp, segment["checksum"], datagram["checksum"])),
            header.source.eq(ip["source"]),
            header.destination.eq(ip["destination"]),
            header.source_port.eq(segment["source_port"]),
            header.destination_port.eq(segment["destination_port"]),
            header.phase.eq(segment["sequence"][:2]),
            header.config.eq(headers.config),
        ]
        return payload_length[-1]

    def _describe_run(self, m: Module, header: Any) -> None:
        """Give the realigner its numbers, a cycle later, so that it needs no adder.

        One adder rounds up and skips the shim.
        """
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

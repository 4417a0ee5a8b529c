# SPDX-License-Identifier: BSD-2-Clause
"""Ethernet, IPv4, TCP and UDP headers of a frame, and the verdict from them."""

from collections.abc import Sequence
from typing import Any

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from inceptionn.wire import (
    ETHERTYPE_IPV4,
    ETHERTYPE_IPV6,
    ETHERTYPE_SERVICE_VLAN,
    ETHERTYPE_VLAN,
    GROUP_LANES,
    PROTOCOL_TCP,
    PROTOCOL_UDP,
    SHIM_BYTES,
    Verdict,
)

from ..control.config import EngineConfig
from ..parts.beat import Beat
from ..parts.delay import delayed
from .frame_input import frame_beat
from .header_fields import ETHERNET, IPV4, L3, L4, TCP, UDP, VLAN
from .payload_realigner import payload_run
from .tos_matcher import TosMatcher


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
    config: EngineConfig  # sampled with the frame's first beat


def parsed_frame(lanes: int = GROUP_LANES) -> data.StructLayout:
    """What the parser says of a frame."""
    return data.StructLayout(
        {
            "header": ParsedHeader,
            # Without an objection: where the payload lies; on receive the bytes after the shim, or one byte
            # if there are none.
            "run": payload_run(lanes),
            "clear": 1,  # no objection: the verdict is 0
        }
    )


def sums_to(a: Value, b: int, c: Value) -> Value:
    """Whether ``a + b == c`` modulo ``2**len(a)``, without a carry chain: bit by bit, with the next lower."""
    wrong = []
    carry: Any = Const(0, 1)
    for i in range(len(a)):
        wrong.append(a[i] ^ c[i] ^ carry if not b >> i & 1 else ~(a[i] ^ c[i] ^ carry))
        # If the sum is right, the carry out of a bit follows from that bit alone.
        carry = a[i] | ~c[i] if b >> i & 1 else a[i] & ~c[i]
    return ~Cat(wrong).any()


def _first(checks: Sequence[tuple[Verdict, Any]]) -> Value:
    """The verdict of the first check that fails, or 0."""
    choice: Any = Const(0, 5)
    for verdict, failed in reversed(checks):
        choice = Mux(failed, verdict, choice)
    return choice


class HeaderParser(wiring.Component):
    """Reads the headers from a frame's first two beats and reports the first check that fails.

    All fields lie in the first 58 bytes, with or without VLAN tag and options, so two beats of 32 bytes
    suffice. With 16 lanes it is one beat and one more stage, since the fields' positions are known only after
    that beat. Frames may follow each other without a gap.

    The engine itself makes the checks that need more of the frame: ``BAD``, a frame shorter than its IP total
    length, and (receive) the shim. The checks have the order of docs/wire-format.md.

    Parameters
    ----------
    transmit : :class:`bool`
        Adds the transmit side's checks: valid codec parameters; payload too short, too long, not a
        multiple of 4. The receive side checks that the payload has room for a shim (``NO_SHIM``).
    lanes : :class:`int`
        fp32 lanes of a beat, 8 or 16.

    Members
    -------
    config : :py:`In(EngineConfig)`
        Sampled with a frame's first beat.
    beats : :py:`In(stream.Signature(frame_beat(4 * lanes), always_ready=True))`
    headers : :py:`Out(stream.Signature(parsed_frame(lanes), always_ready=True))`
        One per frame, :attr:`latency` cycles after its second beat or its only one; with 16 lanes after its
        first.
    """

    def __init__(self, *, transmit: bool, lanes: int = GROUP_LANES):
        self.width = Beat.of_groups(lanes)
        self.latency = self.latency_of(self.width)
        self.transmit = transmit
        self.lanes = lanes
        super().__init__(
            {
                "config": In(EngineConfig),
                "beats": In(stream.Signature(frame_beat(self.width.bytes), always_ready=True)),
                "headers": Out(stream.Signature(parsed_frame(lanes), always_ready=True)),
            }
        )

    @staticmethod
    def latency_of(width: Beat) -> int:
        """Cycles from the beat that completes the header fields, or the only beat, to ``header``."""
        return 4 - width.parsed_beat

    def elaborate(self, platform: Any) -> Module:
        m = Module()

        # First beat: types, and the beat itself.
        beat, headers = self.beats.payload, self.headers.payload
        outer = ETHERNET.read(beat.data, "ethertype")
        inner = VLAN.read(beat.data, "ethertype", at=ETHERNET.size)
        first, second = beat.first, beat.second
        head = Signal(self.width.bits, reset_less=True)
        config = Signal(EngineConfig, reset_less=True)
        vlan, stacked, ipv6, ipv4 = (Signal(name=name) for name in ("vlan", "stacked", "ipv6", "ipv4"))
        tagged = outer == ETHERTYPE_VLAN
        with m.If(first):
            m.d.sync += [
                head.eq(beat.data),
                config.eq(self.config),
                vlan.eq(tagged),
                stacked.eq(
                    (outer == ETHERTYPE_SERVICE_VLAN)
                    | (tagged & ((inner == ETHERTYPE_SERVICE_VLAN) | (inner == ETHERTYPE_VLAN)))
                ),
                ipv6.eq(Mux(tagged, inner, outer) == ETHERTYPE_IPV6),
                ipv4.eq(Mux(tagged, inner, outer) == ETHERTYPE_IPV4),
            ]

        # Second beat (visible one cycle later, "stage 1"): the headers as they lie without a VLAN tag. If the
        # first beat holds all fields, this happens one cycle after it, and the values taken with it follow.
        one_beat = self.width.headers_in_one_beat
        window = head if one_beat else Cat(head, beat.data)

        def cut(begin: int, end: int) -> Value:
            """Bytes ``begin`` to ``end`` of the frame without its VLAN tag, first byte lowest."""
            tag = VLAN.size
            return Mux(vlan, window[8 * (tag + begin) : 8 * (tag + end)], window[8 * begin : 8 * end])

        ip1 = Signal(8 * IPV4.size, reset_less=True)
        l4_1 = Signal(8 * TCP.size, reset_less=True)
        seen1 = Signal(7, reset_less=True)  # bytes of the frame in the first two beats
        tcp = Signal(reset_less=True)
        captured1 = Signal()
        protocol = IPV4["protocol"]
        fields = [
            ip1.eq(cut(L3, L4)),
            l4_1.eq(cut(L4, L4 + TCP.size)),
            tcp.eq(cut(L3 + protocol.byte, L3 + protocol.end) == PROTOCOL_TCP),
        ]
        if one_beat:
            capture = delayed(m, first, 1, name="capture", reset=True)
            seen = delayed(m, beat.count, 1, name="seen")
            m.d.sync += captured1.eq(capture)
            with m.If(capture):
                m.d.sync += [*fields, seen1.eq(seen)]
            vlan, stacked, ipv6, ipv4 = delayed(m, Cat(vlan, stacked, ipv6, ipv4), 1, name="kinds")
            config = EngineConfig(delayed(m, config.as_value(), 1, name="config"))
        else:
            m.d.sync += captured1.eq(second | (first & beat.last))
            with m.If(second):
                m.d.sync += [*fields, seen1.eq(self.width.bytes + beat.count)]
            with m.Elif(first):
                m.d.sync += seen1.eq(beat.count)

        # Stage 2: the checks that need no result of an adder.
        ip = {name: IPV4.read(ip1, name) for name in IPV4}
        segment = {name: TCP.read(l4_1, name) for name in TCP}
        datagram = {name: UDP.read(l4_1, name) for name in UDP}
        total_length, offset = ip["total_length"], segment["data_offset"]
        m.submodules.matcher = matcher = TosMatcher()
        m.d.comb += [
            matcher.tos.eq(ip["tos"]),
            matcher.config_tos.eq(config.tos),
            matcher.config_mask.eq(config.tos_mask),
        ]

        def at(untagged: int) -> Value:
            """The byte of the frame that is byte ``untagged`` of the same frame without VLAN tag."""
            return Mux(vlan, VLAN.size + untagged, untagged)

        l3_at = Signal(5)
        l4_at = Signal(6)
        m.d.comb += [l3_at.eq(at(L3)), l4_at.eq(at(L4))]
        enabled = config.enable & config.parameters_valid if self.transmit else config.enable
        checks = [
            (Verdict.DISABLED, ~enabled),
            (Verdict.TRUNCATED, seen1 < at(L3)),
            (Verdict.VLAN_STACK, stacked),
            (Verdict.IPV6, ipv6),
            (Verdict.NOT_IPV4, ~ipv4),
            (Verdict.TRUNCATED, seen1 < at(L4)),
            (Verdict.NOT_IPV4, ip["version"] != 4),
            (Verdict.UNTAGGED, ~matcher.match),
            (Verdict.IP_OPTIONS, ip["ihl"] != 5),
            (Verdict.FRAGMENT, (ip["fragment"] & 0x3FFF) != 0),
            (Verdict.PROTOCOL, ~tcp & (ip["protocol"] != PROTOCOL_UDP)),
            (Verdict.TRUNCATED, seen1 < Mux(tcp, at(L4 + TCP.size), at(L4 + UDP.size))),
            (Verdict.LENGTHS, Mux(tcp, offset < 5, ~sums_to(datagram["length"], IPV4.size, total_length))),
        ]
        flags2 = Signal(len(checks), reset_less=True)
        syn2 = Signal(reset_less=True)
        unsummed2 = Signal(reset_less=True)
        l4_bytes = Signal(6)
        payload_length = Signal(17)  # bit 16: negative
        # 4-byte words of IP and TCP header, from a table: one adder fewer before the subtraction.
        header_words = Signal(5)
        with m.Switch(offset):
            for words in range(16):
                with m.Case(words):
                    m.d.comb += header_words.eq(words + IPV4.size // 4)
        header_bytes = Mux(tcp, header_words << 2, IPV4.size + UDP.size)
        m.d.comb += [
            l4_bytes.eq(Mux(tcp, offset << 2, UDP.size)),
            payload_length.eq(total_length - header_bytes),
        ]
        negative2 = Signal(reset_less=True)
        parsed2 = Signal(ParsedHeader, reset_less=True)
        captured2 = Signal()
        m.d.sync += [
            captured2.eq(captured1),
            flags2.eq(Cat(failed for _, failed in checks)),
            syn2.eq(tcp & segment["syn"]),
            unsummed2.eq(~tcp & (datagram["checksum"] == 0)),
            negative2.eq(payload_length[16]),
            parsed2.tcp.eq(tcp),
            parsed2.vlan.eq(vlan),
            parsed2.payload_at.eq(l4_at + l4_bytes),
            parsed2.frame_length.eq(l3_at + total_length),
            parsed2.total_length.eq(total_length),
            parsed2.payload_length.eq(payload_length),
            parsed2.ip_checksum.eq(ip["checksum"]),
            parsed2.checksum.eq(Mux(tcp, segment["checksum"], datagram["checksum"])),
            parsed2.source.eq(ip["source"]),
            parsed2.destination.eq(ip["destination"]),
            parsed2.source_port.eq(segment["source_port"]),
            parsed2.destination_port.eq(segment["destination_port"]),
            parsed2.phase.eq(segment["sequence"][:2]),
            parsed2.config.eq(config),
        ]

        # Stage 3: the first failing check, of those known and of those that need the payload's length.
        early = [(verdict, flags2[i]) for i, (verdict, _) in enumerate(checks)]
        length = parsed2.payload_length
        late = [
            (Verdict.LENGTHS, negative2),
            (Verdict.SYN, syn2),
            (Verdict.NO_CHECKSUM, unsummed2),
        ]
        if self.transmit:
            late += [
                (Verdict.SHORT, (length < parsed2.config.min_payload) | (length == 0)),
                (Verdict.LONG, length > parsed2.config.max_payload),
                (Verdict.ALIGNMENT, length[:2].any()),
            ]
        else:
            late.append((Verdict.NO_SHIM, length < SHIM_BYTES))
        parsed3 = Signal(ParsedHeader, reset_less=True)
        early3 = Signal(5, reset_less=True)
        early_any3 = Signal(reset_less=True)
        late3 = Signal(5, reset_less=True)
        m.d.sync += [
            parsed3.eq(parsed2),
            early3.eq(_first(early)),
            early_any3.eq(flags2.any()),
            late3.eq(_first(late)),
            headers.clear.eq(~(flags2.any() | Cat(failed for _, failed in late).any())),
            self.headers.valid.eq(captured2),
        ]
        m.d.comb += [headers.header.eq(parsed3), headers.header.verdict.eq(Mux(early_any3, early3, late3))]

        # The realigner's numbers, so that it needs no adder. One adder rounds up and skips the shim.
        in_front = 0 if self.transmit else SHIM_BYTES
        place_bits = self.width.place_bits
        run_at = Signal(7)
        run_length = Signal(place_bits)
        m.d.comb += [
            run_at.eq(parsed2.payload_at + in_front),
            run_length.eq(length[:place_bits] - in_front),
        ]
        empty = Const(0) if self.transmit else length == SHIM_BYTES
        m.d.sync += [
            headers.run.skip.eq(run_at[place_bits:] - self.width.parsed_beat),
            headers.run.lane.eq(run_at[2:place_bits]),
            headers.run.bursts.eq(Mux(empty, 1, (length + (self.width.bytes - 1 - in_front))[place_bits:])),
            headers.run.ending.eq(Mux(empty, 1, run_length)),
        ]
        return m

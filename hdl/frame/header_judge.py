# SPDX-License-Identifier: BSD-2-Clause
"""What an engine knows of a frame from its headers: the fields that it uses, and the verdict."""

from typing import Any

from amaranth.hdl import Module, Mux, Signal, Value
from amaranth.lib import data, wiring

from inceptionn.wire import ETHERTYPE_IPV4, ETHERTYPE_IPV6, ETHERTYPE_SERVICE_VLAN, ETHERTYPE_VLAN

from ..control.config import EngineConfig
from ..parts.pipeline import Pipeline
from ..parts.width import Width
from .header_checks import (
    Headers,
    failed,
    field_checks,
    first_failed,
    flow_changes,
    length_checks,
    recalled,
)
from .header_fields import IPV4, L3, L4, UDP
from .tos_matcher import TosMatcher

ETHERTYPES = ETHERTYPE_VLAN, ETHERTYPE_SERVICE_VLAN, ETHERTYPE_IPV4, ETHERTYPE_IPV6


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


def kinds(outer: dict[int, Signal], inner: dict[int, Signal]) -> tuple[Value, Value, Value, Value]:
    """Return whether a frame has a VLAN tag, has two, is IPv6, is IPv4; by comparisons of its EtherTypes."""
    vlan = outer[ETHERTYPE_VLAN]
    stacked = outer[ETHERTYPE_SERVICE_VLAN] | (vlan & (inner[ETHERTYPE_SERVICE_VLAN] | inner[ETHERTYPE_VLAN]))
    ipv6 = Mux(vlan, inner[ETHERTYPE_IPV6], outer[ETHERTYPE_IPV6])
    ipv4 = Mux(vlan, inner[ETHERTYPE_IPV4], outer[ETHERTYPE_IPV4])
    return vlan, stacked, ipv6, ipv4


class HeaderJudge(wiring.Component):
    """Reports the first check that a frame's captured headers fail, and what an engine needs of them.

    The engine itself makes the checks that need more of the frame: ``BAD``, a frame shorter than its IP total
    length, and (receive) the shim. The checks have the order of docs/wire-format.md. Base of
    :class:`.HeaderParser` and :class:`.WordParser`, which capture the headers; both have a port ``headers``,
    three cycles later.
    """

    width: Width
    transmit: bool

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

    def _capture(self, m: Module) -> tuple[Value, Headers]:
        """Register the headers as they lie without a VLAN tag, and whether they are a frame's."""
        raise NotImplementedError

    def _describe_run(self, m: Module, header: Any) -> None:
        """Say where the payload lies, in the stage after the one of ``header``."""

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

# SPDX-License-Identifier: BSD-2-Clause
"""The header parser against the table of docs/wire-format.md, section 5, written here line by line."""

from functools import partial

from amaranth.hdl import C, Cat, Mux, Signal, Value
from harness import Fault, Harness, Proof

from inceptionn.hdl.control.config import EngineConfig
from inceptionn.hdl.frame.header_parser import HeaderParser
from inceptionn.hdl.parts.beat import Beat
from inceptionn.wire import Verdict

FIELDS = 58
"""Bytes of a frame that the table of section 5 reads before the payload."""


def bytes_at(frame: Value, at: int, count: int) -> Value:
    """Return a number of ``count`` bytes, most significant first."""
    return Cat(frame[8 * i : 8 * i + 8] for i in reversed(range(at, at + count)))


def verdict_of(
    frame: Value, size: Value, config: EngineConfig, *, transmit: bool
) -> tuple[Value, dict[str, Value]]:
    """Return the first line of the table that holds, or 0, and the fields of the frame that it read.

    ``size`` is the frame's number of bytes, or any larger than the headers for a longer one.
    """
    outer, inner = bytes_at(frame, 12, 2), bytes_at(frame, 16, 2)
    tagged = outer == 0x8100
    kind = Mux(tagged, inner, outer)
    l2 = Mux(tagged, 18, 14)
    ip = Mux(tagged, frame[8 * 18 :], frame[8 * 14 : 8 * 54])[: 8 * 40]
    l4 = ip[8 * 20 :]
    tcp = bytes_at(ip, 9, 1) == 6
    udp = bytes_at(ip, 9, 1) == 17
    total = bytes_at(ip, 2, 2)
    offset = l4[100:104]
    headers = Mux(tcp, 20 + (offset << 2), 28)
    payload = total - headers
    fields = {
        "tcp": tcp, "vlan": tagged, "total_length": total, "payload_length": payload[:16],
        "payload_at": l2 + headers, "source_port": bytes_at(l4, 0, 2), "destination_port": bytes_at(l4, 2, 2),
        "source": bytes_at(ip, 12, 4), "destination": bytes_at(ip, 16, 4), "ip_checksum": bytes_at(ip, 10, 2),
        "checksum": Mux(tcp, bytes_at(l4, 16, 2), bytes_at(l4, 6, 2)),
        "phase": bytes_at(l4, 4, 4)[:2], "frame_length": l2 + total,
    }  # fmt: skip
    off = ~(config.enable & config.parameters_valid) if transmit else ~config.enable
    table = [
        (off, Verdict.DISABLED),
        (size < 14, Verdict.TRUNCATED),
        (tagged & (size < 18), Verdict.TRUNCATED),
        (tagged & ((inner == 0x8100) | (inner == 0x88A8)), Verdict.VLAN_STACK),
        (outer == 0x88A8, Verdict.VLAN_STACK),
        (kind == 0x86DD, Verdict.IPV6),
        (kind != 0x0800, Verdict.NOT_IPV4),
        (size < l2 + 20, Verdict.TRUNCATED),
        (ip[4:8] != 4, Verdict.NOT_IPV4),
        ((ip[8:16] & config.tos_mask) != (config.tos & config.tos_mask), Verdict.UNTAGGED),
        (ip[:4] != 5, Verdict.IP_OPTIONS),
        (bytes_at(ip, 6, 2)[:14] != 0, Verdict.FRAGMENT),
        (~tcp & ~udp, Verdict.PROTOCOL),
        (size < l2 + Mux(tcp, 40, 28), Verdict.TRUNCATED),
        (tcp & ((offset < 5) | (total < headers)), Verdict.LENGTHS),
        (udp & ((total < 28) | (bytes_at(l4, 4, 2) != total - 20)), Verdict.LENGTHS),
        (tcp & l4[8 * 13 + 1], Verdict.SYN),
        (udp & (bytes_at(l4, 6, 2) == 0), Verdict.NO_CHECKSUM),
    ]
    if transmit:
        table += [
            ((payload < config.min_payload) | (payload == 0), Verdict.SHORT),
            (payload > config.max_payload, Verdict.LONG),
            (payload[:2] != 0, Verdict.ALIGNMENT),
        ]
    else:
        table += [(payload < 8, Verdict.NO_SHIM)]
    verdict: Value = C(0, 5)
    for condition, one in reversed(table):
        verdict = Mux(condition, C(one, 5), verdict)
    return verdict, fields


def header_parser(transmit: bool, lanes: int, h: Harness) -> None:
    """Any frame of any length, one after the other; the first one or two beats hold the headers."""
    dut = HeaderParser(Beat(lanes), transmit=transmit)
    inside = h.add(dut)
    m, width = h.m, Beat(lanes).bytes
    data, valid, last = h.anything(8 * width, "data"), h.anything(1, "valid"), h.anything(1, "last")
    count = h.anything(range(1, width + 1), "count")
    settings = h.anything(EngineConfig.as_shape().size, "settings")
    h.assume(
        "a beat has at least one byte, and all of them unless it is the last",
        (count != 0) & (last | (count == width)),
    )
    place = Signal(2)
    with m.If(valid):
        m.d.sync += place.eq(Mux(last, 0, place + (place != 2)))
    first, second = valid & (place == 0), valid & (place == 1)
    beat = dut.beats.payload
    m.d.comb += [
        dut.beats.valid.eq(valid), beat.data.eq(data), beat.count.eq(count), beat.last.eq(last),
        beat.first.eq(first), beat.second.eq(second), Value.cast(dut.config).eq(settings),
    ]  # fmt: skip
    # The frame's first bytes, its size so far, and the settings at its first beat.
    head, head_count, kept = Signal(8 * width), Signal.like(count), Signal.like(settings)
    with m.If(first):
        m.d.sync += [head.eq(data), head_count.eq(count), kept.eq(settings)]
    one_beat = lanes > 8
    whole = first if one_beat else second | (first & last)
    frame = data if one_beat else Mux(first, data, Cat(head, data))
    size = count if one_beat else Mux(first, count, width + count)
    config = Signal(EngineConfig)
    m.d.comb += Value.cast(config).eq(Mux(first, settings, kept))
    late_frame, late_size = h.past(frame, dut.latency), h.past(size, dut.latency)
    late_config = Signal(EngineConfig, name="late_config")
    m.d.comb += Value.cast(late_config).eq(h.past(config, dut.latency))
    if not one_beat:
        outer = bytes_at(head, 12, 2)
        inner = bytes_at(head, 16, 2)
        types_held = [
            inside[f"{which}_is_{ethertype:04x}"] == (value == ethertype)
            for ethertype in (0x8100, 0x88A8, 0x0800, 0x86DD)
            for which, value in (("outer", outer), ("inner", inner))
        ]
        h.invariant(
            "the first beat is kept, and what it says of the headers",
            (place != 1) | Cat(inside["head"] == head, inside["config"] == kept, *types_held).all(),
        )
    came = h.past(whole, dut.latency)
    verdict, fields = verdict_of(late_frame, late_size, late_config, transmit=transmit)
    settled = h.running(dut.latency + (not one_beat))
    out = dut.headers
    h.claim("one result for each frame, after its headers", ~settled | (out.valid == came))
    found = settled & came
    h.claim(
        "the verdict is the first line of the table that holds",
        ~found | (out.payload.header.verdict == verdict),
    )
    h.claim("clear says that no line holds", ~found | (out.payload.clear == (verdict == 0)))
    for name, value in fields.items():
        h.claim(
            "without an objection, the fields are those of the frame",
            ~found | (verdict != 0) | (out.payload.header[name] == value),
        )
    h.claim(
        "the settings are those of the frame's first beat",
        ~found | (Value.cast(out.payload.header.config) == Value.cast(late_config)),
    )
    h.cover(
        "a frame without an objection, with a tag", found & (verdict == 0) & fields["vlan"] & fields["tcp"]
    )
    for one in (Verdict.TRUNCATED, Verdict.VLAN_STACK, Verdict.LENGTHS, Verdict.NO_CHECKSUM):
        h.cover(f"a frame with {one.name}", found & (verdict == one))


_CHECKS = "frame.header_checks"
_MORE = (Fault("frame.header_parser", "header_words << 2", "header_words[:4] << 2"),)
PROOFS = tuple(
    Proof(f"header_parser, {'transmit' if transmit else 'receive'}, {lanes} lanes",
          partial(header_parser, transmit, lanes), HeaderParser.latency_of(Beat(lanes)) + 2, (
        Fault(_CHECKS, "& 0x3FFF", "& 0x1FFF"),
        *(_MORE if transmit and lanes == 8 else ()),
    ))
    for transmit in (True, False) for lanes in (8, 16)
)  # fmt: skip

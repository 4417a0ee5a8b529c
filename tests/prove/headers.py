# SPDX-License-Identifier: BSD-2-Clause
"""The header parser against the table of docs/wire-format.md, section 5, written here line by line."""

from functools import partial
from typing import Any

from amaranth.hdl import C, Cat, Mux, Signal, Value
from harness import Fault, Harness, Proof

from inceptionn.hdl.control.config import EngineConfig
from inceptionn.hdl.frame.header_judge import ParsedHeader
from inceptionn.hdl.frame.header_parser import HeaderParser
from inceptionn.hdl.parts.width import Width
from inceptionn.wire import Verdict

FIELDS = 58
"""Bytes of a frame that the table of section 5 reads before the payload."""


def bytes_at(frame: Value, at: int, count: int) -> Value:
    """Return a number of ``count`` bytes, most significant first."""
    return Cat(frame[8 * i : 8 * i + 8] for i in reversed(range(at, at + count)))


def named(h: Harness, name: str, value: Value) -> Signal:
    """Return ``value`` as a signal: each slice of an expression would be the whole expression again."""
    signal = Signal(len(value), name=name)
    h.m.d.comb += signal.eq(value)
    return signal


def verdict_of(
    h: Harness, frame: Value, size: Value, config: EngineConfig, bf16_tos: Value, *, transmit: bool
) -> tuple[Value, dict[str, Value]]:
    """Return the first line of the table that holds, or 0, and the fields of the frame that it read.

    ``size`` is the frame's number of bytes, or any larger than the headers for a longer one. ``bf16_tos`` is
    the ToS byte of bf16 lanes (section 10), that of fp32 lanes in a parser without them.
    """
    outer, inner = bytes_at(frame, 12, 2), bytes_at(frame, 16, 2)
    tagged = outer == 0x8100
    kind = Mux(tagged, inner, outer)
    l2 = Mux(tagged, 18, 14)
    ip = named(h, "ip", Mux(tagged, frame[8 * 18 : 8 * 58], frame[8 * 14 : 8 * 54]))
    l4 = ip[8 * 20 :]
    tcp = bytes_at(ip, 9, 1) == 6
    udp = bytes_at(ip, 9, 1) == 17
    total = bytes_at(ip, 2, 2)
    offset = l4[100:104]
    headers = Mux(tcp, 20 + (offset << 2), 28)
    payload = total - headers
    tos, mask = ip[8:16], config.tos_mask
    is_fp32, is_bf16 = ((tos & mask) == (one & mask) for one in (config.tos, bf16_tos))
    has_bf16 = (config.tos & mask) != (bf16_tos & mask)
    fields = {
        "bf16": is_bf16 & ~is_fp32 if transmit else has_bf16,
        "tcp": tcp, "vlan": tagged, "total_length": total, "payload_length": payload[:16],
        "payload_at": l2 + headers, "source_port": bytes_at(l4, 0, 2), "destination_port": bytes_at(l4, 2, 2),
        "source": bytes_at(ip, 12, 4), "destination": bytes_at(ip, 16, 4), "ip_checksum": bytes_at(ip, 10, 2),
        "checksum": Mux(tcp, bytes_at(l4, 16, 2), bytes_at(l4, 6, 2)),
        "phase": bytes_at(l4, 4, 4)[:2], "frame_length": l2 + total,
    }  # fmt: skip
    fin, syn, rst = (l4[8 * 13 + bit] for bit in range(3))
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
        (~is_fp32 & ~is_bf16, Verdict.UNTAGGED),
        (ip[:4] != 5, Verdict.IP_OPTIONS),
        (bytes_at(ip, 6, 2)[:14] != 0, Verdict.FRAGMENT),
        (~tcp & ~udp, Verdict.PROTOCOL),
        (size < l2 + Mux(tcp, 40, 28), Verdict.TRUNCATED),
        (tcp & ((offset < 5) | (total < headers)), Verdict.LENGTHS),
        (udp & ((total < 28) | (bytes_at(l4, 4, 2) != total - 20)), Verdict.LENGTHS),
        (tcp & l4[8 * 13 + 1], Verdict.SYN),
        (udp & (bytes_at(l4, 6, 2) == 0), Verdict.NO_CHECKSUM),
    ]
    # Section 7: steps 4 to 14 without step 9.
    sound = (
        tcp & ~Cat(one for one, name in table[:-2] if name not in (Verdict.DISABLED, Verdict.UNTAGGED)).any()
    )
    marked = is_fp32 | is_bf16
    fields |= {
        "opens": sound & syn & marked & ~fin & ~rst,
        "closes": sound & (fin | rst | (syn & ~marked)),
    }
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


def run_claims(h: Harness, result: Any, clear: Value, width: Width, *, transmit: bool) -> None:
    """Claim that the run is the payload, on receive what follows the shim of 8 bytes.

    The fields of the header that say where it lies have claims of their own.
    """
    run, shim = result.run, 0 if transmit else 8
    begin = result.header.payload_at + shim
    # `skip` counts from the beat that completes the header's fields, the second of 32 bytes.
    beat_at = (run.skip + (width.bytes == 32)) * width.bytes
    h.claim(
        "skip and lane say where the payload (receive: what follows the shim) begins",
        ~clear | (beat_at + 4 * run.lane + 2 == begin),
    )
    length = result.header.payload_length - shim
    full = run.bursts - (run.ending != 0)
    h.claim(
        "bursts and ending say how long that is, or one byte if there is none",
        ~clear | (full * width.bytes + run.ending == Mux(length == 0, 1, length)),
    )
    h.cover("a run that ends in the middle of a burst", clear & (run.bursts == 3) & (run.ending == 8))


def header_parser(transmit: bool, lanes: int, bf16: bool, h: Harness) -> None:
    """Any frame of any length, one after the other; the first one or two beats hold the headers."""
    dut = HeaderParser(Width(lanes, bf16=bf16), transmit=transmit)
    inside = h.add(dut)
    m, beat_bytes = h.m, Width(lanes).bytes
    data, valid, last = h.anything(8 * beat_bytes, "data"), h.anything(1, "valid"), h.anything(1, "last")
    count = h.anything(range(1, beat_bytes + 1), "count")
    config_bits = EngineConfig.as_shape().size
    # With bf16 lanes, their ToS byte follows.
    settings = h.anything(config_bits + 8 * bf16, "settings")
    h.assume(
        "a beat has at least one byte, and all of them unless it is the last",
        (count != 0) & (last | (count == beat_bytes)),
    )
    place = Signal(2)
    with m.If(valid):
        m.d.sync += place.eq(Mux(last, 0, place + (place != 2)))
    first, second = valid & (place == 0), valid & (place == 1)
    beat = dut.beats.payload
    m.d.comb += [
        dut.beats.valid.eq(valid), beat.data.eq(data), beat.count.eq(count), beat.last.eq(last),
        beat.first.eq(first), beat.second.eq(second), Value.cast(dut.config).eq(settings[:config_bits]),
        *([dut.bf16_tos.eq(settings[config_bits:])] if bf16 else []),
    ]  # fmt: skip
    # The frame's first bytes, its size so far, and the settings at its first beat.
    head, head_count, kept = Signal(8 * beat_bytes), Signal.like(count), Signal.like(settings)
    with m.If(first):
        m.d.sync += [head.eq(data), head_count.eq(count), kept.eq(settings)]
    one_beat = lanes > 8
    whole = first if one_beat else second | (first & last)
    frame = named(h, "frame", data if one_beat else Mux(first, data, Cat(head, data)))
    size = count if one_beat else Mux(first, count, beat_bytes + count)
    if not one_beat:
        outer = bytes_at(head, 12, 2)
        inner = bytes_at(head, 16, 2)
        types_held = [
            inside[f"{which}_is.{ethertype}"] == (value == ethertype)
            for ethertype in (0x8100, 0x88A8, 0x0800, 0x86DD)
            for which, value in (("outer", outer), ("inner", inner))
        ]
        held = Cat(inside["held_config"], *([inside["held_bf16_tos"]] if bf16 else []))
        h.invariant(
            "the first beat is kept, and what it says of the headers",
            (place != 1) | Cat(inside["head"] == head, held == kept, *types_held).all(),
        )
    used = Mux(first, settings, kept)
    came, late_frame, late_size, late_settings = (
        h.past(value, dut.latency) for value in (whole, frame, size, used)
    )
    config = EngineConfig(late_settings[:config_bits])
    bf16_tos = late_settings[config_bits:] if bf16 else config.tos
    verdict, fields = verdict_of(h, late_frame, late_size, config, bf16_tos, transmit=transmit)
    running = h.running(dut.latency + (not one_beat))
    h.claim("one result for each frame, after its headers", ~running | (dut.headers.valid == came))
    result, found = dut.headers.payload, running & came
    h.claim(
        "clear says that there is a result and no line holds",
        ~running | (result.clear == (came & (verdict == 0))),
    )
    result_claims(h, result, found, (verdict, fields, config))
    run_claims(h, result, found & (verdict == 0), Width(lanes), transmit=transmit)
    if bf16:
        h.cover("bf16 lanes", found & (verdict == 0) & fields["bf16"])


def result_claims(
    h: Harness, result: Any, found: Value, wanted: tuple[Value, dict[str, Value], EngineConfig]
) -> None:
    """Claim the fields of the header, all but the run."""
    verdict, fields, config = wanted
    h.claim(
        "the verdict is the first line of the table that holds",
        ~found | (result.header.verdict == verdict),
    )
    assert {*fields, "verdict", "config"} == set(ParsedHeader.as_shape().members)
    for name, value in fields.items():
        if name in ("opens", "closes"):
            h.claim(
                f"{name} says what the page says of the flow-phase table, whatever the verdict",
                ~found | (result.header[name] == value),
            )
            h.cover(
                f"a frame that {name} a flow without the mark or engine",
                found
                & result.header[name]
                & ((verdict == Verdict.DISABLED) if name == "opens" else (verdict == Verdict.UNTAGGED)),
            )
        h.claim(
            "without an objection, the fields are those of the frame",
            ~found | (verdict != 0) | (result.header[name] == value),
        )
    h.claim(
        "the settings are those of the frame's first beat",
        ~found | (Value.cast(result.header.config) == Value.cast(config)),
    )
    h.cover(
        "a frame without an objection, with a tag", found & (verdict == 0) & fields["vlan"] & fields["tcp"]
    )
    for one in (Verdict.TRUNCATED, Verdict.VLAN_STACK, Verdict.LENGTHS, Verdict.NO_CHECKSUM):
        h.cover(f"a frame with {one.name}", found & (verdict == one))


_PARSER, _JUDGE = "frame.header_parser", "frame.header_judge"
_CHECK = Fault("frame.header_checks", "& 0x3FFF", "& 0x1FFF")
PROOFS = tuple(
    Proof(
        f"header_parser, {'transmit' if transmit else 'receive'}, {lanes} lanes{', bf16' if bf16 else ''}",
        partial(header_parser, transmit, lanes, bf16),
        # The least that induction needs; covers and faults show a cycle later.
        HeaderParser.latency_of(Width(lanes)) + 1,
        faults,
        cover_depth=HeaderParser.latency_of(Width(lanes)) + 2,
        refute_depth=HeaderParser.latency_of(Width(lanes)) + 2,
    )
    for transmit, lanes, bf16, faults in (
        (True, 8, False, (
            _CHECK,
            Fault("frame.header_checks", "apart = (Verdict.DISABLED, Verdict.UNTAGGED)", "apart = ()"),
            Fault("frame.header_checks", "ends | (syn & untagged)", "ends"),
            Fault(_JUDGE, "header_words << 2", "header_words[:4] << 2"),
            Fault(_PARSER, "run.skip.eq(run_at[place_bits:] - self.width.parsed_beat)", "run.skip.eq(0)"),
        )),
        (True, 16, False, (_CHECK,)),
        (False, 8, False, (_CHECK, Fault(_PARSER, "run_at[2:place_bits]", "0"))),
        (False, 16, False, (_CHECK, Fault(_PARSER, "(empty, 1, run_length)", "(empty, 0, run_length)"))),
        (True, 8, True, (Fault(_JUDGE, "matcher.match & ~match if", "matcher.match if"),)),
        (True, 16, True, (Fault(_PARSER, "bf16_tos = p.bf16_tos", "bf16_tos = self.bf16_tos"),)),
        (False, 8, True, (Fault(_JUDGE, "else differ)", "else 1)"),)),
        (False, 16, True, (Fault(_JUDGE, "match | matcher.match", "match"),)),
    )
)  # fmt: skip

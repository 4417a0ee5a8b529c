# SPDX-License-Identifier: BSD-2-Clause
"""The NIC's registers, as one table.

The AXI4-Lite decoder (:class:`~inceptionn.hdl.control.axi_lite.RegisterBank`), the counters' addresses, the
JSON and Markdown maps and the test benches all use :data:`REGISTERS`. Nothing here needs Amaranth.
``python -m inceptionn.hdl.control.registers FILE.md|FILE.json ...`` writes the maps.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

from inceptionn.wire import (
    DEFAULT_K,
    DEFAULT_MAX_PAYLOAD,
    DEFAULT_MIN_PAYLOAD,
    DEFAULT_MODE,
    DEFAULT_TOS,
    DEFAULT_TOS_MASK,
    SHIM_VERSION,
    Tag,
    Verdict,
    parameters,
)

from .register_map import DATA_WIDTH, Field, Register, RegisterMap

ADDRESS_WIDTH = 12
"""Address bits: a 4 KiB aperture."""
IDENTITY = int.from_bytes(b"INCP", "big")
"""Value of the register ``ID``."""
MAP_VERSION = (1, 0)
"""Major and minor version of this map: minor grows with additions, major with any other change."""

Direction = Literal["tx", "rx"]
DIRECTIONS: tuple[Direction, ...] = ("tx", "rx")
ACCESS_TEXT = {"ro": "read only", "rw": "read/write", "wo": "write only"}


# The counters: 32 slots of 8 bytes per direction, the slot of a verdict is its value.
COUNTER_BASE: dict[Direction, int] = {"tx": 0x100, "rx": 0x200}
"""Offset of a direction's slot 0."""
COUNTER_SLOTS = 32
COUNTER_BYTES = 8
SLOT_FRAMES_IN, SLOT_FRAMES_OUT, SLOT_BYTES_IN, SLOT_BYTES_OUT = range(24, 28)
SLOT_LANES = 28
"""Slot of the tag class ``Tag.ZERO``; the other three follow in the order of their values."""

_TX_ONLY = {Verdict.COMPRESSED, Verdict.SHORT, Verdict.LONG, Verdict.ALIGNMENT, Verdict.PHASE}
_TX_ONLY |= {Verdict.EXPANDED, Verdict.AMBIGUOUS}
_RX_ONLY = {Verdict.RESTORED, Verdict.NO_SHIM, Verdict.BAD_SHIM, Verdict.MALFORMED}
VERDICTS: dict[Direction, tuple[Verdict, ...]] = {
    "tx": tuple(verdict for verdict in Verdict if verdict not in _RX_ONLY),
    "rx": tuple(verdict for verdict in Verdict if verdict not in _TX_ONLY),
}
"""The verdicts that the transmit and the receive engine can reach."""

_VERDICT_TEXT = {
    Verdict.COMPRESSED: "Compressed: left as shim and block.",
    Verdict.RESTORED: "Restored: shim and block became the payload again.",
    Verdict.BAD: "Arrived marked bad, and left marked bad.",
    Verdict.DISABLED: "Passed: engine off{parameters}.",
    Verdict.TRUNCATED: "Passed: ends inside a header.",
    Verdict.VLAN_STACK: "Passed: more than one VLAN tag, or an 802.1ad service tag.",
    Verdict.IPV6: "Passed: IPv6.",
    Verdict.NOT_IPV4: "Passed: another EtherType, or an IP version other than 4.",
    Verdict.UNTAGGED: "Passed: ToS byte does not match.",
    Verdict.IP_OPTIONS: "Passed: IHL is not 5.",
    Verdict.FRAGMENT: "Passed: IP fragment.",
    Verdict.PROTOCOL: "Passed: neither TCP nor UDP.",
    Verdict.LENGTHS: "Passed: frame, IP, TCP or UDP lengths contradict each other.",
    Verdict.SYN: "Passed: TCP segment with SYN.",
    Verdict.NO_CHECKSUM: "Passed: UDP without a checksum.",
    Verdict.SHORT: "Passed: payload shorter than PAYLOAD.MIN, or empty.",
    Verdict.LONG: "Passed: payload longer than PAYLOAD.MAX, or frame longer than the engine holds.",
    Verdict.ALIGNMENT: "Passed: payload length is not a multiple of 4.",
    Verdict.PHASE: "Passed: TCP segment starts off its flow's 4-byte grid.",
    Verdict.EXPANDED: "Passed: shim and block would not be shorter than the payload.",
    Verdict.AMBIGUOUS: "Passed: the compressed frame itself would pass the end host's checksum test.",
    Verdict.NO_SHIM: "Passed: no shim after the headers.",
    Verdict.BAD_SHIM: "Passed: magic found, but another field of the shim is not valid.",
    Verdict.MALFORMED: "Marked bad: valid shim, but the block is cut short, too long or impossible.",
}
_LANE_TEXT = {
    Tag.ZERO: "dropped, 0 bits kept",
    Tag.BITS8: "8 bits kept",
    Tag.BITS16: "16 bits kept",
    Tag.RAW: "32 bits kept",
}


def _control() -> Iterator[Register]:
    """Identity, switches and settings."""
    defaults = parameters(DEFAULT_K, DEFAULT_MODE)
    yield Register("ID", 0x000, "ro", 'The letters "INCP".', (Field("ID", 0, 32, IDENTITY, "Identity."),))
    yield Register(
        "VERSION", 0x004, "ro", "Versions.",
        (
            Field("WIRE", 0, 8, SHIM_VERSION, "Version of the wire format."),
            Field("MAP_MINOR", 16, 8, MAP_VERSION[1], "Minor version of this map; grows with additions."),
            Field("MAP_MAJOR", 24, 8, MAP_VERSION[0], "Major version of this map; grows with other changes."),
        ),
    )  # fmt: skip
    yield Register(
        "CONTROL", 0x008, "rw", "Switches; an engine that is off passes every frame unchanged.",
        (
            Field("TX_ENABLE", 0, 1, 1, "Compress on the transmit side."),
            Field("RX_ENABLE", 1, 1, 1, "Restore on the receive side."),
        ),
    )  # fmt: skip
    yield Register(
        "COMMAND", 0x00C, "wo", "Commands: write 1 to run one; 0 has no effect.",
        (
            Field("CLEAR_COUNTERS", 0, 1, 0, "Set all counters of both directions to zero. A counter that is "
                  "read after the write's response counts from zero."),
        ),
    )  # fmt: skip
    yield Register(
        "STATUS", 0x010, "ro", "State.",
        (
            Field("PARAMETERS_VALID", 0, 1, 1, "E0, T and B of PARAMETERS are usable: 1 <= E0 <= T <= 127 "
                  "and T <= B. While 0, the transmit engine passes every frame with verdict DISABLED."),
        ),
    )  # fmt: skip
    yield Register(
        "TOS", 0x014, "rw", "Which frames are tagged: those with (ToS & MASK) == (VALUE & MASK).",
        (
            Field("VALUE", 0, 8, DEFAULT_TOS, "IPv4 ToS byte (DSCP and ECN)."),
            Field("MASK", 8, 8, DEFAULT_TOS_MASK, "Its bits that are compared."),
        ),
    )  # fmt: skip
    yield Register(
        "PARAMETERS", 0x018, "rw",
        "Parameters of the lane codec, as biased exponents of IEEE 754 binary32; one write changes all three "
        "between two frames. For an error bound of 2^-k: E0 = 127 - k and T = E0 + ceil(k / 2). B implies "
        f"the mode: B = 127 is literal, B = T is bounded. Reset: {DEFAULT_MODE}, 2^-{DEFAULT_K}.",
        (
            Field("E0", 0, 8, defaults.e0, "Lanes below this exponent are dropped."),
            Field("T", 8, 8, defaults.t, "Lanes from this exponent on keep 16 bits."),
            Field("B", 16, 8, defaults.b, "Exponent that the 8-bit class is normalised to."),
        ),
    )  # fmt: skip
    yield Register(
        "PAYLOAD", 0x01C, "rw", "Payload bytes that are compressed (both limits) or restored (MAX).",
        (
            Field("MIN", 0, 16, DEFAULT_MIN_PAYLOAD, "Shortest payload that is compressed."),
            Field("MAX", 16, 16, DEFAULT_MAX_PAYLOAD, "Longest payload that is compressed or restored. "
                  f"A larger number than {DEFAULT_MAX_PAYLOAD} becomes {DEFAULT_MAX_PAYLOAD}."),
        ),
    )  # fmt: skip


def _counters(direction: Direction) -> Iterator[Register]:
    """One direction's 64-bit counters, in the order of their slots."""

    def counter(slot: int, name: str, description: str) -> Register:
        offset = COUNTER_BASE[direction] + COUNTER_BYTES * slot
        return Register(f"{direction.upper()}_{name}", offset, "ro", description, width=64)

    for verdict in VERDICTS[direction]:
        also = ", or PARAMETERS not valid" if direction == "tx" else ""
        yield counter(verdict, verdict.name, _VERDICT_TEXT[verdict].format(parameters=also))
    yield counter(SLOT_FRAMES_IN, "FRAMES_IN", "Frames in, counted at the engine's input with tlast.")
    yield counter(SLOT_FRAMES_OUT, "FRAMES_OUT", "Frames out, counted at the engine's output with tlast.")
    yield counter(SLOT_BYTES_IN, "BYTES_IN", "Bytes of the frames at the input, counted with the verdict.")
    yield counter(SLOT_BYTES_OUT, "BYTES_OUT", "Bytes of the frames at the output, counted with the verdict.")
    if direction == "tx":
        for tag in Tag:
            text = f"Lanes with tag {tag:02b} ({_LANE_TEXT[tag]}) in compressed frames."
            yield counter(SLOT_LANES + tag, f"LANES_{tag.name}", text)


REGISTERS = RegisterMap((*_control(), *_counters("tx"), *_counters("rx")), ADDRESS_WIDTH)
"""All registers of ``inceptionn_nic``."""


def counters(direction: Direction) -> dict[int, Register]:
    """Slot number to counter, for one direction."""
    base = COUNTER_BASE[direction]
    slots = range(base, base + COUNTER_BYTES * COUNTER_SLOTS, COUNTER_BYTES)
    return {slots.index(register.offset): register for register in REGISTERS if register.offset in slots}


def map_json() -> str:
    """The register map as JSON text."""
    registers: list[dict[str, Any]] = []
    for register in REGISTERS:
        fields = [
            {"name": part.name, "lsb": part.lsb, "width": part.width, "reset": part.reset,
             "description": part.description}
            for part in register.fields
        ]  # fmt: skip
        registers.append({
            "name": register.name, "offset": register.offset, "width": register.width,
            "access": register.access, "reset": register.reset, "description": register.description,
            "fields": fields,
        })  # fmt: skip
    head = {"name": "inceptionn_nic", "version": ".".join(map(str, MAP_VERSION)), "bus": "AXI4-Lite"}
    widths = {"address_width": ADDRESS_WIDTH, "data_width": DATA_WIDTH}
    return json.dumps({**head, **widths, "registers": registers}, indent=1) + "\n"


_MARKDOWN_HEAD = f"""# Registers of `inceptionn_nic`

<!-- Written by `python -m inceptionn.hdl.control.registers docs/registers.md`; do not edit. -->

AXI4-Lite, {DATA_WIDTH}-bit data, {1 << ADDRESS_WIDTH} bytes; map version {".".join(map(str, MAP_VERSION))}.

- The two lowest address bits are ignored: every access is to a whole word, and `wstrb` selects the bytes
  that a write changes. `awprot` and `arprot` are ignored.
- A read of an address without a register returns zero and `SLVERR`. A write to one, or to a read-only
  register, has no effect and returns `SLVERR`. A write-only register reads as zero.
- Counters have 64 bits: low word at the offset, high word at the offset + 4. **Read the low word first**:
  that read stores the high word of the same moment, and the next read of any counter's high word returns it.
- A frame is in the counters at most 64 cycles after its verdict. Reset and `CLEAR_COUNTERS` set them to zero;
  a counter that is read meanwhile responds when that is done.
- When an engine is empty, `FRAMES_IN`, `FRAMES_OUT` and the sum of its verdict counters agree (unless frames
  were inside it when the counters were cleared).
"""


def map_markdown() -> str:
    """The register map as Markdown text."""
    lines = [
        _MARKDOWN_HEAD,
        "## Control",
        "",
        "| offset | register | access | reset | |",
        "|---|---|---|---|---|",
    ]
    control = [register for register in REGISTERS if register.fields]
    for register in control:
        access = ACCESS_TEXT[register.access]
        row = (f"`{register.offset:#05x}`", f"`{register.name}`", access, f"`{register.reset:#010x}`")
        lines.append(f"| {' | '.join(row)} | {register.description} |")
    lines += ["", "| field | bits | reset | |", "|---|---|---|---|"]
    for register in control:
        for part in register.fields:
            name = f"`{register.name}.{part.name}`"
            lines.append(f"| {name} | {part.bits} | `{part.reset:#x}` | {part.description} |")
    for direction in DIRECTIONS:
        title = {"tx": "Transmit (host to wire)", "rx": "Receive (wire to host)"}[direction]
        lines += ["", f"## {title}: counters", "", "| offset | counter | |", "|---|---|---|"]
        for register in counters(direction).values():
            lines.append(f"| `{register.offset:#05x}` | `{register.name}` | {register.description} |")
    return "\n".join(lines) + "\n"


def write_map_json(path: Path | str) -> None:
    """Write the register map as JSON to ``path``."""
    Path(path).write_text(map_json(), encoding="utf-8")


def write_map_markdown(path: Path | str) -> None:
    """Write the register map as Markdown to ``path``."""
    Path(path).write_text(map_markdown(), encoding="utf-8")


if __name__ == "__main__":
    for name in sys.argv[1:]:
        (write_map_json if name.endswith(".json") else write_map_markdown)(name)

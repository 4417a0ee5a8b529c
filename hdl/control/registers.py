# SPDX-License-Identifier: BSD-2-Clause
"""The NIC's registers, as one table.

The register bank (:class:`~inceptionn.hdl.control.register_bank.RegisterBank`), the counters' addresses, the
map's files and the test benches all use the :class:`NicRegisters` of :func:`registers_of`. Nothing here needs
Amaranth.
"""

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from functools import cache
from typing import Literal

from inceptionn.wire import (
    BF16_LANES,
    DEFAULT_BF16_TOS,
    DEFAULT_K,
    DEFAULT_MAX_PAYLOAD,
    DEFAULT_MIN_PAYLOAD,
    DEFAULT_MODE,
    DEFAULT_TOS,
    DEFAULT_TOS_MASK,
    GROUP_LANES,
    CodecParameters,
    Verdict,
    codec_spec,
)

from ..codec.codecs import PAPER
from .register_map import Field, Register, RegisterMap

ADDRESS_WIDTH = 12
"""Address bits: a 4 KiB aperture."""
IDENTITY = int.from_bytes(b"INCP", "big")
"""Value of the register ``ID``."""
MAP_VERSION: tuple[int, int] = (2, 0)
"""Major and minor version of this map: minor grows with additions, major with any other change."""

Direction = Literal["tx", "rx"]
DIRECTIONS: tuple[Direction, ...] = ("tx", "rx")


# The counters: 64 slots of 8 bytes per direction. The slot of a verdict is its value.
COUNTER_SLOTS = 64
COUNTER_BYTES = 8
VERDICT_SLOTS = 32
"""Slots of verdicts; the others follow."""
COUNTER_BASE: dict[Direction, int] = {"tx": 0x100, "rx": 0x200}
"""Offset of a direction's slot 0."""
OTHERS_BASE: dict[Direction, int] = {"tx": 0x300, "rx": 0x340}
"""Offset of a direction's slot 32. The receive engine's few lie between those of the transmit engine, so that
the map has 1 KiB: some boards give each port no more."""
SLOT_FRAMES_IN, SLOT_FRAMES_OUT, SLOT_BYTES_IN, SLOT_BYTES_OUT = range(32, 36)
SLOT_LANES = 36
"""Paper: slot of the tag class ``Tag.ZERO``; the other three follow in the order of their values.
Planes: slot of the number of lanes."""
SLOT_BF16 = SLOT_LANES + 1
"""With bf16 lanes: slot of the number of frames that have them; the next one is of their lanes (transmit)."""
SLOT_CODES = 48
"""Planes: slot of code 0; the others follow."""

_TX_ONLY = {Verdict.COMPRESSED, Verdict.SHORT, Verdict.LONG, Verdict.ALIGNMENT, Verdict.PHASE}
_TX_ONLY |= {Verdict.EXPANDED, Verdict.AMBIGUOUS, Verdict.UNKNOWN_FLOW}
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
    Verdict.UNKNOWN_FLOW: "Passed: TCP segment of a flow that no tagged SYN began, or that is forgotten.",
    Verdict.EXPANDED: "Passed: shim and block would not be shorter than the payload.",
    Verdict.AMBIGUOUS: "Passed: the compressed frame itself would pass the end host's checksum test.",
    Verdict.NO_SHIM: "Passed: no shim after the headers.",
    Verdict.BAD_SHIM: "Passed: magic found, but another field of the shim is not valid.",
    Verdict.MALFORMED: "Marked bad: valid shim, but the block is cut short, too long or impossible.",
}
_BF16_TOS = Field(
    "BF16", 16, 8, DEFAULT_BF16_TOS,
    "As VALUE, for frames with bf16 lanes. None have them if it is 0 or VALUE in the bits of MASK.",
)  # fmt: skip
_HAS_BF16 = Field("BF16", 8, 1, 1, "There are bf16 lanes, TOS.BF16 and counters of them; else 0.")
_LEARN_TEXT = (
    "Take a segment of an unknown flow to start on its 4-byte grid. Values of a sender whose segments do not "
    "always start there become wrong. Several engines then carry tagged TCP segments at the rate of one."
)
_VERSION_TEXT = "Version of the wire format: 1 is the paper's codec, 2 is planes."


def _parameters(codec: str) -> Iterator[Register]:
    """Yield the transmit codec's parameters, and whether the engine can use them."""
    spec = codec_spec(codec)
    defaults = asdict(spec.parameters(DEFAULT_K))
    what, mode = ("Bound and mode", f", {DEFAULT_MODE}") if spec.modes else ("Bound", "")
    text = f"{what} (reset: 2^-{DEFAULT_K}{mode}), set between two frames."
    fields = tuple(
        Field(name.upper(), 8 * number, 8, value, meaning)
        for number, ((name, value), meaning) in enumerate(
            zip(defaults.items(), spec.parameter_texts, strict=True)
        )
    )
    yield Register(
        "STATUS", 0x010, "ro", "State.",
        (
            Field("PARAMETERS_VALID", 0, 1, 1, f"{spec.rule} in PARAMETERS; else sent frames are DISABLED."),
        ),
    )  # fmt: skip
    yield Register("PARAMETERS", 0x018, "rw", text, fields)


def _control(codec: str, bf16: bool) -> Iterator[Register]:
    """Yield identity, switches and settings."""
    yield Register("ID", 0x000, "ro", 'The letters "INCP".', (Field("ID", 0, 32, IDENTITY, "Identity."),))
    yield Register(
        "VERSION", 0x004, "ro", "Versions.",
        (
            Field("WIRE", 0, 8, codec_spec(codec).version, _VERSION_TEXT),
            *([_HAS_BF16] if bf16 else []),
            Field("MAP_MINOR", 16, 8, MAP_VERSION[1], "Minor version of this map; grows with additions."),
            Field("MAP_MAJOR", 24, 8, MAP_VERSION[0], "Major version of this map; grows with other changes."),
        ),
    )  # fmt: skip
    yield Register(
        "CONTROL", 0x008, "rw", "Switches; an engine that is off passes every frame unchanged.",
        (
            Field("TX_ENABLE", 0, 1, 1, "Compress on the transmit side."),
            Field("RX_ENABLE", 1, 1, 1, "Restore on the receive side."),
            Field("LEARN_PHASES", 2, 1, 0, _LEARN_TEXT),
        ),
    )  # fmt: skip
    yield Register(
        "COMMAND", 0x00C, "wo", "Commands: write 1 to run one; 0 has no effect.",
        (
            Field("CLEAR_COUNTERS", 0, 1, 0, "Set all counters to zero. A read after the "
                  "response counts from zero."),
        ),
    )  # fmt: skip
    status, numbers = _parameters(codec)
    yield status
    yield Register(
        "TOS", 0x014, "rw", "Which frames are tagged: those with (ToS & MASK) == (VALUE & MASK).",
        (
            Field("VALUE", 0, 8, DEFAULT_TOS, "IPv4 ToS byte (DSCP and ECN)."),
            Field("MASK", 8, 8, DEFAULT_TOS_MASK, "Its bits that are compared."),
            *([_BF16_TOS] if bf16 else []),
        ),
    )  # fmt: skip
    yield numbers
    yield Register(
        "PAYLOAD", 0x01C, "rw", "Payload bytes that are compressed (both limits) or restored (MAX).",
        (
            Field("MIN", 0, 16, DEFAULT_MIN_PAYLOAD, "Shortest payload that is compressed."),
            Field("MAX", 16, 16, DEFAULT_MAX_PAYLOAD, "Longest payload that is compressed or restored; "
                  f"above {DEFAULT_MAX_PAYLOAD} it becomes {DEFAULT_MAX_PAYLOAD}."),
        ),
    )  # fmt: skip


def _counter_offset(direction: Direction, slot: int) -> int:
    if slot < VERDICT_SLOTS:
        return COUNTER_BASE[direction] + COUNTER_BYTES * slot
    return OTHERS_BASE[direction] + COUNTER_BYTES * (slot - VERDICT_SLOTS)


def _counter(direction: Direction, slot: int, name: str, description: str) -> Register:
    offset = _counter_offset(direction, slot)
    return Register(f"{direction.upper()}_{name}", offset, "ro", description, width=64)


def _counters(direction: Direction, codec: str, bf16: bool) -> Iterator[Register]:
    """Yield one direction's 64-bit counters, in the order of their offsets."""

    def counter(slot: int, name: str, description: str) -> Register:
        return _counter(direction, slot, name, description)

    for verdict in VERDICTS[direction]:
        also = ", or PARAMETERS not valid" if direction == "tx" else ""
        yield counter(verdict, verdict.name, _VERDICT_TEXT[verdict].format(parameters=also))
    yield counter(SLOT_FRAMES_IN, "FRAMES_IN", "Frames in, counted at the engine's input with tlast.")
    yield counter(SLOT_FRAMES_OUT, "FRAMES_OUT", "Frames out, counted at the engine's output with tlast.")
    yield counter(SLOT_BYTES_IN, "BYTES_IN", "Bytes of the frames at the input, counted with the verdict.")
    yield counter(SLOT_BYTES_OUT, "BYTES_OUT", "Bytes of the frames at the output, counted with the verdict.")
    if direction == "rx":
        if bf16:
            yield counter(SLOT_BF16, "RESTORED_BF16", "Of the frames of RESTORED, those with bf16 lanes.")
        return
    if not codec_spec(codec).counts_lanes:
        text = ", of frames with fp32 lanes" if bf16 else ""
        yield counter(SLOT_LANES, "LANES", f"Lanes in compressed frames: their payloads' bytes / 4{text}.")
    if bf16:
        yield counter(SLOT_BF16, "COMPRESSED_BF16", "Of the frames of COMPRESSED, those with bf16 lanes.")
        yield counter(SLOT_BF16 + 1, "LANES_BF16", "bf16 lanes in compressed frames.")
    yield from _class_counters(codec, bf16)


def _class_counters(codec: str, bf16: bool) -> tuple[Register, ...]:
    spec = codec_spec(codec)
    first = SLOT_LANES if spec.counts_lanes else SLOT_CODES
    fp32 = f"{GROUP_LANES} lanes"
    lanes = f"{GROUP_LANES} fp32 or {BF16_LANES.group_lanes} bf16 lanes" if bf16 else fp32
    return tuple(
        _counter("tx", first + number, each.counter, each.text.replace(fp32, lanes))
        for number, each in enumerate(spec.classes)
    )


@dataclass(frozen=True, repr=False)
class NicRegisters(RegisterMap):
    """All registers of an ``inceptionn_nic`` with this codec, with bf16 lanes if ``bf16``."""

    codec: str = PAPER
    bf16: bool = False

    def __repr__(self) -> str:
        return f"registers_of({self.codec!r}, {self.bf16})"

    @property
    def class_counters(self) -> tuple[Register, ...]:
        """The transmit counters of the codec's classes: lanes by tag (paper), groups by code (planes)."""
        return _class_counters(self.codec, self.bf16)

    def counters(self, direction: Direction) -> dict[int, Register]:
        """Return a direction's counters by slot number."""
        slots = {_counter_offset(direction, slot): slot for slot in range(COUNTER_SLOTS)}
        mine = (register for register in self if register.name.startswith(f"{direction.upper()}_"))
        return {slots[register.offset]: register for register in mine if register.width == 64}

    def class_slot(self, number: int) -> int:
        """Return the slot of one of the codec's classes."""
        return (SLOT_LANES if codec_spec(self.codec).counts_lanes else SLOT_CODES) + number


@cache
def registers_of(codec: str = PAPER, bf16: bool = False) -> NicRegisters:
    """Return all registers of an ``inceptionn_nic`` with this codec; ``ValueError`` for an unknown name.

    ``bf16``: with bf16 lanes, which have a ToS byte of their own.
    """
    tx, rx = (_counters(direction, codec, bf16) for direction in DIRECTIONS)
    by_offset = sorted((*tx, *rx), key=lambda register: register.offset)
    return NicRegisters((*_control(codec, bf16), *by_offset), ADDRESS_WIDTH, codec, bf16)


REGISTERS = registers_of()
"""All registers of ``inceptionn_nic`` with the paper's codec."""


def has_bf16(version: int) -> bool:
    """Tell from the value of the register ``VERSION`` whether a NIC has bf16 lanes."""
    return bool(_HAS_BF16.get(version))


def check_map(version: int) -> None:
    """Raise ``ValueError`` if a NIC with this value of ``VERSION`` has another major version of the map."""
    part = REGISTERS["VERSION"]["MAP_MAJOR"]
    if part.get(version) != part.reset:
        raise ValueError(
            f"register map {part.get(version)}.x of the NIC is unknown here, which has {part.reset}.x: use "
            "the version of inceptionn that wrote its Verilog"
        )


def parameters_word(settings: CodecParameters) -> int:
    """Return the value of the register ``PARAMETERS`` for these numbers; their type tells the codec."""
    register = registers_of(settings.codec)["PARAMETERS"]
    return sum(register[name.upper()].put(value) for name, value in asdict(settings).items())

# SPDX-License-Identifier: BSD-2-Clause
"""Constants of both codecs and of the wire format, versions 1 (the paper's codec) and 2 (planes).

This module is the single source of every number that the wire format fixes. The RTL, the golden
model, the native codec and the documentation read it; it imports nothing but the standard library.
Section numbers refer to ``docs/wire-format.md``; "the paper" is Li et al., *A Network-Centric
Hardware/Algorithm Co-Design to Accelerate Distributed Training of Deep Neural Networks*, MICRO 2018.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import astuple, dataclass
from difflib import get_close_matches
from enum import IntEnum
from typing import ClassVar, Literal, NamedTuple

# Lanes, bursts, blocks (section 2).
GROUP_LANES = 8
"""Lanes (fp32 values) of a group: those whose tags make one tag word."""
LANE_BYTES = 4
BURST_BYTES = GROUP_LANES * LANE_BYTES
WORD_BYTES = 2
"""Bytes of a word of tags or codes."""
TAG_WORD_BYTES = WORD_BYTES
MAX_LANES = 2304
"""Most lanes in a block: 9216 bytes of fp32."""
STREAM_LANES = 2048
"""Lanes of every block of a stream but the last."""

# fp32 (IEEE 754 binary32).
EXPONENT_BIAS = 127
MANTISSA_BITS = 23


class Tag(IntEnum):
    """A lane's 2-bit class, named after the paper's Algorithm 2."""

    ZERO = 0b00
    BITS8 = 0b01
    BITS16 = 0b10
    RAW = 0b11


TAG_BYTES = (0, 1, 2, 4)
"""Bytes of a lane's vector, indexed by its tag."""

# Codes of the planes codec (section 9).
CODES = 16
CODE_BYTES = (*range(14), 15, BURST_BYTES)
"""Bytes of a group's data, indexed by its code."""
RAW_CODE = 15
"""The group has a raw lane, and its data are fp32 words."""
CODE_WORD_BYTES = WORD_BYTES
CODE_WORD_GROUPS = 4
"""Groups whose codes share a word of the code plane."""
RAW_EXPONENT = 14
"""A lane is raw from a biased exponent of E0 + 14 on, that is from a magnitude of ``2**(14 - k)``."""

# Error bounds: 2**-k (section 1).
MIN_K = 1
MAX_K = 14
DEFAULT_K = 10
Mode = Literal["literal", "bounded"]
MODES: tuple[Mode, ...] = ("literal", "bounded")
"""Modes of the paper's codec; no other codec has modes."""
DEFAULT_MODE: Mode = "bounded"
CodecName = Literal["paper", "planes"]
DEFAULT_CODEC: CodecName = "paper"


@dataclass(frozen=True)
class Parameters:
    """The three numbers of the paper's lane codec, in units of the biased exponent (section 1).

    Lanes below ``e0`` are dropped, lanes from ``t`` on keep 16 bits; ``b`` is the exponent that the 8-bit
    class is normalised to.
    """

    codec: ClassVar[CodecName] = "paper"
    e0: int
    t: int
    b: int

    @property
    def valid(self) -> bool:
        """Whether hardware compresses with these numbers: ``1 <= e0 <= t <= 127``, ``t <= b <= 255``."""
        return 1 <= self.e0 <= self.t <= EXPONENT_BIAS and self.t <= self.b <= 255

    @property
    def exact_exponent(self) -> int:
        """The biased exponent from which on every value comes back bit for bit."""
        return EXPONENT_BIAS

    @property
    def bounded(self) -> bool:
        """Whether every value comes back within the bound: not in ``literal``, nor with odd numbers."""
        return self.b == self.t


@dataclass(frozen=True)
class PlanesParameters:
    """The planes codec's one number (section 9): ``e0 = 127 - k`` for an error bound of ``2**-k``."""

    codec: ClassVar[CodecName] = "planes"
    bounded: ClassVar[bool] = True
    """Whether every value comes back within the bound."""
    e0: int

    @property
    def valid(self) -> bool:
        """Whether an encoder and a decoder take this number: ``113 <= e0 <= 126``."""
        return MIN_K <= EXPONENT_BIAS - self.e0 <= MAX_K

    @property
    def exact_exponent(self) -> int:
        """The biased exponent from which on every value comes back bit for bit."""
        return self.e0 + RAW_EXPONENT


CodecParameters = Parameters | PlanesParameters
"""The numbers of one codec or the other; ``codec`` tells which."""


def three_numbers(parameters: CodecParameters) -> tuple[int, int, int]:
    """E0, T and B; zero in place of those that the codec does not have."""
    e0, t, b = (*astuple(parameters), 0, 0)[:3]
    return e0, t, b


def parameters(k: int, mode: str = DEFAULT_MODE) -> Parameters:
    """E0, T and B of the paper's codec for an error bound of ``2**-k``.

    Raises ``ValueError`` for a ``k`` outside 1..14 or a mode that is not of the paper's codec.
    """
    if mode not in MODES:
        raise ValueError(f"mode must be one of {', '.join(MODES)}, not {mode!r}")
    e0 = planes_parameters(k).e0
    t = e0 + (k + 1) // 2
    return Parameters(e0=e0, t=t, b=EXPONENT_BIAS if mode == "literal" else t)


def planes_parameters(k: int) -> PlanesParameters:
    """E0 of the planes codec for an error bound of ``2**-k``.

    Raises ``ValueError`` for a ``k`` outside 1..14.
    """
    if not MIN_K <= k <= MAX_K:
        raise ValueError(f"error bound must be 2**-k with k in {MIN_K}..{MAX_K}, not k = {k!r}")
    return PlanesParameters(EXPONENT_BIAS - k)


def error_bound_exponent(error_bound: float) -> int:
    """The k of an error bound of ``2**-k``.

    Raises ``TypeError`` for what is not a number and ``ValueError`` for one that is not 2**-k with
    k = 1..14; both messages end with the offending value.
    """
    rule = f"error bound must be 2**-k with k in {MIN_K}..{MAX_K}"
    if isinstance(error_bound, bool | str | bytes) or not hasattr(error_bound, "__float__"):
        raise TypeError(f"{rule}, not {error_bound!r}")
    try:
        fraction, exponent = math.frexp(error_bound)
    except OverflowError:  # an integer beyond the range of floats
        fraction, exponent = 1.0, 0
    if fraction != 0.5 or not MIN_K <= 1 - exponent <= MAX_K:
        hint = f" (2**-{error_bound:g}?)" if error_bound in range(2, MAX_K + 1) else ""
        raise ValueError(f"{rule}{hint}, not {error_bound!r}")
    return 1 - exponent


# The shim (section 3).
SHIM_MAGIC = 0x494E
SHIM_BYTES = 8


# The codecs.
class CodecClass(NamedTuple):
    """A class of what a codec counts in a block: a lane's tag, or a group's code."""

    size: int
    """Bytes of data of one lane or group of this class."""
    counter: str
    """Name of the NIC's counter, without its direction."""
    text: str
    """What that register counts."""
    label: str
    short_label: str
    """For histograms."""


@dataclass(frozen=True, kw_only=True)
class CodecSpec:
    """What hardware, golden model, native code and commands must agree on about one codec.

    Each of them registers its own part, such as a component or a function, under ``name``.
    """

    name: CodecName
    version: int
    """Byte 2 of the shim, and the version of the wire format."""
    number: str
    """The parameter in byte 3 of the shim."""
    accepted: range
    """Values of byte 3 that a receiver accepts."""
    type: type[CodecParameters]
    parameter_texts: tuple[str, ...]
    """What the parameters are, in the order of ``type``'s fields."""
    rule: str
    """Which parameters are valid, as text."""
    modes: tuple[Mode, ...] = ()
    plane: str
    """What a block's first plane holds: tags or codes."""
    word_groups: int
    """Groups whose tags or codes share a word of two bytes."""
    unit: str
    """What the classes count."""
    unit_lanes: int
    """Lanes of a unit."""
    classes: tuple[CodecClass, ...]
    shares: tuple[tuple[str, range], ...]
    """Named sums of classes for a short table."""
    rounds: bool
    """Whether values are rounded to nearest; else they are cut towards zero."""

    @property
    def counts_lanes(self) -> bool:
        """Whether the classes count lanes, so that their sum is the length of a block."""
        return self.unit_lanes == 1

    @property
    def most(self) -> int:
        """Highest count of a class in a block."""
        return MAX_LANES // self.unit_lanes

    @property
    def class_bits(self) -> int:
        """Bits of a tag or code in the plane."""
        return (len(self.classes) - 1).bit_length()

    @property
    def lanes_of_plane_byte(self) -> int:
        """Lanes whose tags or codes share a byte."""
        return GROUP_LANES * self.word_groups // WORD_BYTES

    def units(self, lanes: int) -> int:
        """Units, full or not, of this many lanes."""
        return -(-lanes // self.unit_lanes)

    def plane_bytes(self, lanes: int) -> int:
        """Bytes of the tags or codes of this many lanes."""
        groups = -(-lanes // GROUP_LANES)
        return WORD_BYTES * -(-groups // self.word_groups)

    def stream_bytes(self, counts: Iterable[int]) -> int:
        """Bytes of a stream whose classes have these counts."""
        sizes = [(count, each.size * count) for count, each in zip(counts, self.classes, strict=True)]
        return self.plane_bytes(self.unit_lanes * sum(n for n, _ in sizes)) + sum(size for _, size in sizes)

    def mode_of(self, mode: str | None) -> Mode | None:
        """The mode meant, None being the default; ``ValueError`` if the codec does not have it."""
        if mode is None:
            return DEFAULT_MODE if self.modes else None
        if not self.modes:
            raise ValueError(f"the codec {self.name} has no modes, so not {mode!r}")
        for known in self.modes:
            if mode == known:
                return known
        raise ValueError(f"mode must be one of {', '.join(self.modes)}, not {mode!r}")

    def parameters(self, k: int, mode: str | None = None) -> CodecParameters:
        """The numbers for an error bound of ``2**-k``, in the default mode unless another is given.

        Raises ``ValueError`` for a ``k`` outside 1..14 or a mode that the codec does not have.
        """
        chosen = self.mode_of(mode)
        return planes_parameters(k) if chosen is None else parameters(k, chosen)

    def from_numbers(self, numbers: Sequence[int]) -> CodecParameters:
        """The parameters from E0, T and B, without those that the codec does not have."""
        return self.type(*numbers[: len(self.parameter_texts)])


_KEPT = (("zero", "dropped, 0 bits kept"), ("8 bits", "8 bits kept"),
         ("16 bits", "16 bits kept"), ("raw", "32 bits kept"))  # fmt: skip
_PLANE_LABELS = ("zero", *("planes",) * 13, "or 15 planes", "")
CODECS: dict[str, CodecSpec] = {
    spec.name: spec
    for spec in (
        CodecSpec(
            name="paper",
            version=0x01,
            number="b",
            accepted=range(256),
            type=Parameters,
            parameter_texts=(
                "Biased exponent 127 - k for 2^-k; lanes below it are dropped.",
                "E0 + ceil(k / 2): lanes from this exponent on keep 16 bits.",
                "Exponent of the 8-bit class: 127 in mode literal, T in bounded.",
            ),
            rule="1 <= E0 <= T <= 127 and T <= B",
            modes=MODES,
            plane="tag",
            word_groups=1,
            unit="lanes",
            unit_lanes=1,
            classes=tuple(
                CodecClass(
                    size,
                    f"LANES_{tag.name}",
                    f"Lanes with tag {tag:02b} ({text}) in compressed frames.",
                    f"tag {tag:02b} ({8 * size} bits)",
                    f"{tag:02b} {short}",
                )
                for tag, size, (short, text) in zip(Tag, TAG_BYTES, _KEPT, strict=True)
            ),
            shares=tuple((f"{tag:02b}", range(tag, tag + 1)) for tag in Tag),
            rounds=False,
        ),
        CodecSpec(
            name="planes",
            version=0x02,
            number="e0",
            accepted=range(EXPONENT_BIAS - MAX_K, EXPONENT_BIAS - MIN_K + 1),
            type=PlanesParameters,
            parameter_texts=("Biased exponent 127 - k for the error bound 2^-k.",),
            rule="113 <= E0 <= 126",
            plane="code",
            word_groups=CODE_WORD_GROUPS,
            unit="groups",
            unit_lanes=GROUP_LANES,
            classes=tuple(
                CodecClass(
                    size,
                    f"GROUPS_CODE_{code}",
                    f"Groups of 8 lanes with code {code} in compressed frames.",
                    f"code {code} ({size} bytes)",
                    "raw" if code == RAW_CODE else f"{code} {_PLANE_LABELS[code]}",
                )
                for code, size in enumerate(CODE_BYTES)
            ),
            shares=(
                ("0", range(1)), ("1-4", range(1, 5)), ("5-8", range(5, 9)),
                ("9-14", range(9, 15)), ("15", range(15, 16)),
            ),
            rounds=True,
        ),
    )
}  # fmt: skip
"""By name, in the order of their versions."""


def codec_spec(name: str) -> CodecSpec:
    """The codec of this name; ``ValueError`` for any other."""
    for spec in CODECS.values():
        if spec.name == name:
            return spec
    near = get_close_matches(str(name), CODECS, 1)
    hint = f" (did you mean {near[0]!r}?)" if near else ""
    raise ValueError(f"codec must be one of {', '.join(CODECS)}, not {name!r}{hint}")


class Variant(NamedTuple):
    """A codec and, where it has modes, one of them."""

    codec: CodecName
    mode: Mode | None

    @property
    def name(self) -> str:
        """One word for both, as the names of codecs and tables use it."""
        return self.mode or self.codec


VARIANTS = tuple(Variant(spec.name, mode) for spec in CODECS.values() for mode in spec.modes or (None,))
"""All codecs in all their modes: literal, bounded, planes."""
BOUNDED, PLANES = (Variant("paper", DEFAULT_MODE), Variant("planes", None))


def variant(name: str) -> Variant:
    """The variant of this name; ``ValueError`` for any other."""
    for each in VARIANTS:
        if each.name == name:
            return each
    raise ValueError(f"a codec's variant is one of {', '.join(v.name for v in VARIANTS)}, not {name!r}")


# Eligibility (section 3).
DEFAULT_TOS = 0x28
DEFAULT_TOS_MASK = 0xFC
"""All but the two ECN bits, which belong to the network (RFC 3168)."""
DEFAULT_MIN_PAYLOAD = 64
DEFAULT_MAX_PAYLOAD = MAX_LANES * LANE_BYTES
MAX_TRANSMIT_FRAME = 16384
"""Longest frame, in bytes, that the compression engine holds whole; a longer one passes."""

ETHERTYPE_IPV4 = 0x0800
ETHERTYPE_IPV6 = 0x86DD
ETHERTYPE_VLAN = 0x8100
ETHERTYPE_SERVICE_VLAN = 0x88A8
PROTOCOL_TCP = 6
PROTOCOL_UDP = 17

FLOW_TABLE_SIZE = 1024
"""Entries of the transmit engine's direct-mapped flow-phase table."""


def flow_index(source: int, destination: int, source_port: int, destination_port: int) -> int:
    """Slot of a TCP flow in the flow-phase table, 0..1023.

    ``source`` and ``destination`` are IPv4 addresses as 32-bit integers. The 96-bit key is folded by
    exclusive or into 16 bits, then into 10. Parts are rotated first, so that a flow and its mirror image, or
    neighbours in a subnet, do not cancel.
    """

    def rotate(word: int, n: int) -> int:
        return ((word << n) | (word >> (16 - n))) & 0xFFFF

    fold = (
        (source & 0xFFFF)
        ^ rotate(source >> 16, 3)
        ^ rotate(destination & 0xFFFF, 5)
        ^ rotate(destination >> 16, 7)
        ^ source_port
        ^ rotate(destination_port, 9)
    )
    return (fold ^ (fold >> 10)) & (FLOW_TABLE_SIZE - 1)


class Verdict(IntEnum):
    """What an engine decided about a frame; each has its own counter.

    The first check that holds is the verdict. The common header checks come first, in the order of the values
    from ``BAD`` to ``NO_CHECKSUM``. The exception is ``LONG`` (transmit only), which is also checked directly
    after ``DISABLED`` for frames of more than ``MAX_TRANSMIT_FRAME`` bytes.
    """

    COMPRESSED = 0
    """Transmit: the payload left as shim and block."""
    RESTORED = 1
    """Receive: shim and block became the payload again."""
    BAD = 2
    """The frame arrived marked bad (``tuser`` at ``tlast``) and leaves marked bad."""
    DISABLED = 3
    """The engine is switched off, or (transmit) E0, T, B are not valid."""
    TRUNCATED = 4
    """The frame ends inside a header it needs."""
    VLAN_STACK = 5
    """More than one VLAN tag, or an 802.1ad service tag."""
    IPV6 = 6
    NOT_IPV4 = 7
    """Any other EtherType (ARP, 802.3 length, ...) or an IP version that is not 4."""
    UNTAGGED = 8
    """``(ToS & mask) != tos``."""
    IP_OPTIONS = 9
    """IHL is not 5."""
    FRAGMENT = 10
    PROTOCOL = 11
    """Neither TCP nor UDP."""
    LENGTHS = 12
    """Frame, IP, TCP data offset or UDP length contradict each other."""
    SYN = 13
    """A TCP segment with SYN."""
    NO_CHECKSUM = 14
    """UDP with a zero checksum."""
    SHORT = 15
    """Transmit: payload shorter than the configured minimum (a pure ACK, say)."""
    LONG = 16
    """Transmit: payload longer than the configured maximum, or the frame longer than the engine holds."""
    ALIGNMENT = 17
    """Transmit: payload length is not a multiple of 4."""
    PHASE = 18
    """Transmit: the segment starts off its flow's 4-byte grid."""
    EXPANDED = 19
    """Transmit: shim and block would not be shorter than the payload."""
    AMBIGUOUS = 20
    """Transmit: the wire form would pass the end host's checksum test as it is."""
    NO_SHIM = 21
    """Receive: no magic after the headers; an ordinary packet with the same ToS."""
    BAD_SHIM = 22
    """Receive: the magic is there but another field of the shim is not valid."""
    MALFORMED = 23
    """Receive: valid shim, but the block is cut short, too long, or holds an impossible vector."""

# SPDX-License-Identifier: BSD-2-Clause
"""The planes codec (wire format version 2, sections 9, 10): a code of four bits for each group of lanes."""

from dataclasses import dataclass
from typing import ClassVar

from .codec import CodecClass, CodecName, CodecParameters, CodecSpec
from .lanes import (
    BURST_BYTES,
    EXPONENT_BIAS,
    GROUP_LANES,
    LANE_BYTES,
    MANTISSA_BITS,
    MAX_K,
    MAX_LANES,
    MIN_K,
    WORD_BYTES,
    bound_exponent,
)

CODES = 16
CODE_BYTES = (*range(14), 15, BURST_BYTES)
"""Bytes of a group's data, indexed by its code."""
RAW_CODE = 15
"""The group has a raw lane, and its data are its lanes' words, fp32 or bf16."""
CODE_WORD_BYTES = WORD_BYTES
CODE_WORD_GROUPS = 4
"""Groups whose codes share a word of the code table."""
RAW_EXPONENT = 14
"""A lane is raw from a biased exponent of E0 + 14 on, that is from a magnitude of ``2**(14 - k)``."""


@dataclass(frozen=True)
class LaneType:
    """The type of a block's lanes: fp32 (section 9) or bf16 (section 10)."""

    name: str
    bytes: int
    """Bytes of a lane; a group fills a burst."""
    mantissa_bits: int
    planes: int
    """Most bit planes of a group without a raw lane."""
    code_bytes: tuple[int, ...]
    """Bytes of a group's data, indexed by its code."""
    shim_offset: int
    """The offset of E0 in byte 3 of the shim."""

    @property
    def group_lanes(self) -> int:
        """Lanes of a group; a plane has one bit for each."""
        return BURST_BYTES // self.bytes

    @property
    def max_lanes(self) -> int:
        """Most lanes in a block."""
        return MAX_LANES * LANE_BYTES // self.bytes


FP32_LANES = LaneType("fp32", LANE_BYTES, MANTISSA_BITS, 15, CODE_BYTES, 0)
BF16_LANES = LaneType("bf16", 2, 7, 14, (*range(0, 30, 2), BURST_BYTES), 128)


@dataclass(frozen=True)
class PlanesParameters(CodecParameters):
    """The planes codec's one number (section 9): ``e0 = 127 - k`` for an error bound of ``2**-k``."""

    codec: ClassVar[CodecName] = "planes"

    @property
    def valid(self) -> bool:
        """True if an encoder and a decoder take this number: ``113 <= e0 <= 126``."""
        return MIN_K <= EXPONENT_BIAS - self.e0 <= MAX_K

    @property
    def exact_exponent(self) -> int:
        """The biased exponent at and above which every value is restored bit for bit."""
        return self.e0 + RAW_EXPONENT

    @property
    def bounded(self) -> bool:
        """True: every value is restored within the bound."""
        return True


def planes_parameters(k: int) -> PlanesParameters:
    """Return E0 of the planes codec for an error bound of ``2**-k``.

    Raises ``ValueError`` for a ``k`` outside 1..14.
    """
    return PlanesParameters(bound_exponent(k))


_LABELS = ("zero", *("planes",) * 13, "or 15 planes", "")
SPEC = CodecSpec(
    name="planes",
    version=0x02,
    base="e0",
    accepted=range(EXPONENT_BIAS - MAX_K, EXPONENT_BIAS - MIN_K + 1),
    type=PlanesParameters,
    of_bound=planes_parameters,
    parameter_texts=("Biased exponent 127 - k for the error bound 2^-k.",),
    rule="113 <= E0 <= 126",
    bf16_lanes=True,
    entry="code",
    word_groups=CODE_WORD_GROUPS,
    unit="groups",
    unit_lanes=GROUP_LANES,
    classes=tuple(
        CodecClass(
            size,
            f"GROUPS_CODE_{code}",
            f"Groups of 8 lanes with code {code} in compressed frames.",
            f"code {code} ({size} bytes)",
            "raw" if code == RAW_CODE else f"{code} {_LABELS[code]}",
        )
        for code, size in enumerate(CODE_BYTES)
    ),
    shares=(
        ("0", range(1)),
        ("1-4", range(1, 5)),
        ("5-8", range(5, 9)),
        ("9-14", range(9, 15)),
        ("15", range(15, 16)),
    ),
    rounds=True,
)
"""The record of the planes codec."""

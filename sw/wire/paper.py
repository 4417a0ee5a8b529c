# SPDX-License-Identifier: BSD-2-Clause
"""The paper's codec (wire format version 1, sections 1 and 2): a tag of two bits for each lane."""

from dataclasses import dataclass
from enum import IntEnum
from typing import ClassVar

from .codec import DEFAULT_MODE, MODES, CodecClass, CodecName, CodecParameters, CodecSpec
from .lanes import EXPONENT_BIAS, WORD_BYTES, bound_exponent

TAG_WORD_BYTES = WORD_BYTES


class Tag(IntEnum):
    """A lane's 2-bit class, named after the paper's Algorithm 2."""

    ZERO = 0b00
    BITS8 = 0b01
    BITS16 = 0b10
    RAW = 0b11


TAG_BYTES = (0, 1, 2, 4)
"""Bytes of a lane's vector, indexed by its tag."""


@dataclass(frozen=True)
class Parameters(CodecParameters):
    """The three numbers of the paper's lane codec, in units of the biased exponent (section 1).

    Lanes below ``e0`` are dropped, lanes from ``t`` on keep 16 bits; ``b`` is the exponent that the 8-bit
    class is normalised to.
    """

    codec: ClassVar[CodecName] = "paper"
    t: int
    b: int

    @property
    def valid(self) -> bool:
        """True if hardware compresses with these numbers: ``1 <= e0 <= t <= 127``, ``t <= b <= 255``."""
        return 1 <= self.e0 <= self.t <= EXPONENT_BIAS and self.t <= self.b <= 255

    @property
    def exact_exponent(self) -> int:
        """The biased exponent at and above which every value is restored bit for bit."""
        return EXPONENT_BIAS

    @property
    def bounded(self) -> bool:
        """True if every value is restored within the bound: not in ``literal``, nor with unusual numbers."""
        return self.b == self.t


def parameters(k: int, mode: str = DEFAULT_MODE) -> Parameters:
    """Return E0, T and B of the paper's codec for an error bound of ``2**-k``.

    Raises ``ValueError`` for a ``k`` outside 1..14 or a mode that is not of the paper's codec.
    """
    if mode not in MODES:
        raise ValueError(f"mode must be one of {', '.join(MODES)}, not {mode!r}")
    e0 = bound_exponent(k)
    t = e0 + (k + 1) // 2
    return Parameters(e0=e0, t=t, b=EXPONENT_BIAS if mode == "literal" else t)


_KEPT = (("zero", "dropped, 0 bits kept"), ("8 bits", "8 bits kept"),
         ("16 bits", "16 bits kept"), ("raw", "32 bits kept"))  # fmt: skip
SPEC = CodecSpec(
    name="paper",
    version=0x01,
    base="b",
    accepted=range(256),
    type=Parameters,
    of_bound=parameters,
    parameter_texts=(
        "Biased exponent 127 - k for 2^-k; lanes below it are dropped.",
        "E0 + ceil(k / 2): lanes from this exponent on keep 16 bits.",
        "Exponent of the 8-bit class: 127 in mode literal, T in bounded.",
    ),
    rule="1 <= E0 <= T <= 127 and T <= B",
    modes=MODES,
    entry="tag",
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
)
"""The record of the paper's codec."""

# SPDX-License-Identifier: BSD-2-Clause
"""The record of a codec: its parameters, its classes, its name and its version.

One module for each codec makes one record: :mod:`.paper` and :mod:`.planes`.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import astuple, dataclass
from typing import ClassVar, Literal, NamedTuple, get_args

from .lanes import GROUP_LANES, MAX_LANES, WORD_BYTES

Mode = Literal["literal", "bounded"]
MODES: tuple[Mode, ...] = get_args(Mode)
"""Modes of the paper's codec; no other codec has modes."""
DEFAULT_MODE: Mode = "bounded"
CodecName = Literal["paper", "planes"]


@dataclass(frozen=True)
class CodecParameters(ABC):
    """The numbers of a codec that hardware and kernels compress with; ``codec`` tells which codec's.

    Every codec has E0, the biased exponent of its error bound.
    """

    codec: ClassVar[CodecName]
    e0: int

    @property
    @abstractmethod
    def valid(self) -> bool:
        """True if hardware compresses with these numbers."""

    @property
    @abstractmethod
    def exact_exponent(self) -> int:
        """The biased exponent at and above which every value is restored bit for bit."""

    @property
    @abstractmethod
    def bounded(self) -> bool:
        """True if every value is restored within the bound."""


def three_numbers(parameters: CodecParameters) -> tuple[int, int, int]:
    """Return E0, T and B; zero in place of those that the codec does not have."""
    e0, t, b = (*astuple(parameters), 0, 0)[:3]
    return e0, t, b


class CodecClass(NamedTuple):
    """A class of what a codec counts in a block: a lane's tag, or a group's code."""

    size: int
    """Bytes of data of one lane or group of this class."""
    counter: str
    """Name of the NIC's counter, without its direction."""
    text: str
    """The meaning of that counter."""
    label: str
    short_label: str
    """For histograms."""


@dataclass(frozen=True, kw_only=True)
class CodecSpec:
    """The facts about one codec on which hardware, golden model, native code and commands must agree.

    Each of them registers its own part, such as a component or a function, under ``name``.
    """

    name: CodecName
    version: int
    """Byte 2 of the shim, and the version of the wire format."""
    base: str
    """The parameter in byte 3 of the shim."""
    accepted: range
    """Values of byte 3 that a receiver accepts."""
    type: type[CodecParameters]
    of_bound: Callable[..., CodecParameters]
    """The parameters for the k of a bound and, if the codec has modes, one of them."""
    parameter_texts: tuple[str, ...]
    """The meaning of the parameters, in the order of ``type``'s fields."""
    rule: str
    """The rule for valid parameters, as text."""
    modes: tuple[Mode, ...] = ()
    bf16_lanes: bool = False
    """True if frames can have bf16 lanes, too (section 10)."""
    entry: str
    """What the table at a block's head has entries of: tags or codes."""
    word_groups: int
    """Groups whose tags or codes share a word of two bytes."""
    unit: str
    """The things that the classes count."""
    unit_lanes: int
    """Lanes of a unit."""
    classes: tuple[CodecClass, ...]
    shares: tuple[tuple[str, range], ...]
    """Named sums of classes for a short table."""
    rounds: bool
    """True if values are rounded to nearest; else they are cut towards zero."""

    @property
    def counts_lanes(self) -> bool:
        """True if the classes count lanes, so that their sum is the length of a block."""
        return self.unit_lanes == 1

    @property
    def most(self) -> int:
        """Highest count of a class in a block."""
        return MAX_LANES // self.unit_lanes

    @property
    def class_bits(self) -> int:
        """Bits of a tag or code in the table."""
        return (len(self.classes) - 1).bit_length()

    @property
    def lanes_of_table_byte(self) -> int:
        """Lanes whose tags or codes share a byte."""
        return GROUP_LANES * self.word_groups // WORD_BYTES

    def units(self, lanes: int) -> int:
        """Count the units, full or not, of this many lanes."""
        return -(-lanes // self.unit_lanes)

    def table_bytes(self, lanes: int) -> int:
        """Return the bytes of the tags or codes of this many lanes."""
        groups = -(-lanes // GROUP_LANES)
        return WORD_BYTES * -(-groups // self.word_groups)

    def stream_bytes(self, counts: Iterable[int]) -> int:
        """Return the bytes of a stream whose classes have these counts."""
        sizes = [(count, each.size * count) for count, each in zip(counts, self.classes, strict=True)]
        return self.table_bytes(self.unit_lanes * sum(n for n, _ in sizes)) + sum(size for _, size in sizes)

    def mode_of(self, mode: str | None) -> Mode | None:
        """Return the named mode, or the default for None. ``ValueError`` if the codec does not have it."""
        if mode is None:
            return DEFAULT_MODE if self.modes else None
        if not self.modes:
            raise ValueError(f"the codec {self.name} has no modes, so not {mode!r}")
        for known in self.modes:
            if mode == known:
                return known
        raise ValueError(f"mode must be one of {', '.join(self.modes)}, not {mode!r}")

    def parameters(self, k: int, mode: str | None = None) -> CodecParameters:
        """Return the numbers for an error bound of ``2**-k``, in the default mode unless another is given.

        Raises ``ValueError`` for a ``k`` outside 1..14 or a mode that the codec does not have.
        """
        chosen = self.mode_of(mode)
        return self.of_bound(k) if chosen is None else self.of_bound(k, chosen)

    def from_numbers(self, numbers: Sequence[int]) -> CodecParameters:
        """Return the parameters from E0, T and B, without those that the codec does not have."""
        return self.type(*numbers[: len(self.parameter_texts)])

# SPDX-License-Identifier: BSD-2-Clause
"""The bring-up design's test patterns: which values and which packet lengths."""

from dataclasses import dataclass

from amaranth.lib import data

from inceptionn.wire import DEFAULT_MODE, EXPONENT_BIAS, MAX_LANES, Tag, parameters

PALETTE_SLOTS = 16
"""A random 4-bit number picks a lane's class from this many slots."""
SHIFT_SLOTS = 8
"""A random 3-bit number picks a lane's shift, so its exponent, from this many slots."""
RAW_TOP = EXPONENT_BIAS + SHIFT_SLOTS - 2
"""Biased exponent of raw lanes at shift 0; at the last but one slot it is 127, the least that is raw."""


@dataclass(frozen=True)
class Pattern:
    """The data that one pattern sends.

    ``palette`` are the classes of the 16 slots; a packet has ``least`` to ``least + spread`` lanes, where
    ``spread`` is one less than a power of two.
    """

    name: str
    palette: tuple[Tag, ...]
    least: int
    spread: int


def _palette(zero: int, bits8: int, bits16: int, raw: int) -> tuple[Tag, ...]:
    """Return the slots of a pattern: this number of each class."""
    slots = [Tag.ZERO] * zero + [Tag.BITS8] * bits8 + [Tag.BITS16] * bits16 + [Tag.RAW] * raw
    if len(slots) != PALETTE_SLOTS:
        raise ValueError(f"palette must have {PALETTE_SLOTS} slots, not {len(slots)!r}")
    return tuple(slots)


PATTERNS = (
    # Every class alike, every length: the one to leave running.
    Pattern("mixed", _palette(4, 4, 4, 4), 1, 2047),
    # About the classes of real gradients at 2^-10 (docs/getting-started.md), 1460-byte packets.
    Pattern("gradient", _palette(7, 8, 1, 0), 365, 0),
    # Largest packets of one class: ratio 15.75, 3.2, 1.78 and, longer than its packet, 0.94.
    Pattern("zero", _palette(16, 0, 0, 0), MAX_LANES, 0),
    Pattern("bits8", _palette(0, 16, 0, 0), MAX_LANES, 0),
    Pattern("bits16", _palette(0, 0, 16, 0), MAX_LANES, 0),
    Pattern("raw", _palette(0, 0, 0, 16), MAX_LANES, 0),
    # Packets of 1 to 32 lanes: borders in nearly every beat.
    Pattern("short", _palette(4, 6, 3, 3), 1, 31),
)
"""By the number that the command ``pattern`` takes."""


class SourceConfig(data.Struct):
    """A pattern and an error bound, as the sources take them; constant while they run."""

    palette: 2 * PALETTE_SLOTS  #: Class of each slot, a :class:`~inceptionn.wire.paper.Tag`.
    #: Shift of each slot of the 8-bit class, 1 to 7, within those that the class has at this bound.
    shifts8: 3 * SHIFT_SLOTS
    shifts16: 3 * SHIFT_SLOTS  #: Likewise of the 16-bit class.
    e0: 8  #: :class:`inceptionn.wire.paper.Parameters`.
    b: 8  #: :class:`inceptionn.wire.paper.Parameters`.
    least: 12  #: Of :class:`Pattern`.
    spread: 12  #: Of :class:`Pattern`.


def _packed(slots: list[int], width: int) -> int:
    return sum(slot << (width * i) for i, slot in enumerate(slots))


def _shifts(most: int) -> int:
    """Count the slots that go through the shifts 1 to ``most`` (0: there are none, slots unused)."""
    return _packed([1 + i % most if most else 0 for i in range(SHIFT_SLOTS)], 3)


def bound_config(k: int) -> dict[str, int]:
    """Return the fields of :class:`SourceConfig` that the bound ``2**-k`` fixes; mode ``bounded``.

    An 8-bit lane is ``b - shift`` with ``e0 <= b - shift < t = b``, a 16-bit lane ``127 - shift`` with
    ``t <= 127 - shift < 127``; both shifts are at most 7 for every k of 1..14.
    """
    found = parameters(k, DEFAULT_MODE)
    return {
        "e0": found.e0,
        "b": found.b,
        "shifts8": _shifts(found.b - found.e0),
        "shifts16": _shifts(EXPONENT_BIAS - found.t),
    }


def pattern_config(pattern: Pattern, k: int) -> dict[str, int]:
    """Return the other fields.

    A bound without a 16-bit class (k = 1) has raw lanes in its place.
    """
    without = parameters(k, DEFAULT_MODE).t == EXPONENT_BIAS
    slots = [Tag.RAW if without and tag == Tag.BITS16 else tag for tag in pattern.palette]
    return {
        "palette": _packed([int(tag) for tag in slots], 2),
        "least": pattern.least,
        "spread": pattern.spread,
    }

# SPDX-License-Identifier: BSD-2-Clause
"""The binary shifter tree that closes the gaps between a burst's vectors (paper, Fig. 9)."""

from typing import Any

from amaranth.hdl import Cat, Module, Mux, Signal, Value
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from inceptionn.wire import LANE_BYTES, LANES, TAG_BYTES

from ...parts.axi import beat_bytes
from ...parts.delay import delayed


def bytes_of_tag(tag: Value) -> Value:
    """Bytes of a vector, 0, 1, 2 or 4, from its tag (3 bits): ``2**tag >> 1``."""
    return Cat(tag == TAG_BYTES.index(1), tag == TAG_BYTES.index(2), tag == TAG_BYTES.index(4))


def shift_left_bytes(value: Value, digit: Value, step: int, width: int) -> Value:
    """``value`` moved up by ``digit * step`` bytes, cut to ``width`` bits: a 2**len(digit):1 mux."""
    result = value
    for position in range(len(digit)):
        result = Mux(digit[position], result << (8 * step << position), result)
    return result[:width] if len(result) > width else result


def _join_stages(level: int) -> int:
    """Stages of a join at this level: base-4 digits of its lower half's size, 0..``4 << level``.

    A single vector's size has one bit set at most, which selects like one digit.
    """
    return (level + 4) // 2 if level else 1


class ShifterTree(wiring.Component):
    """Packs 8 or 16 vectors of 0, 1, 2 or 4 bytes into one aligned vector of 0 to 32 or 64 bytes.

    Each level joins neighbours: the upper one moves down onto the end of the lower one. It shifts one base-4
    digit of the lower half's size per stage (1, 2, 3 and 3 stages), so no stage is deeper than a 4:1
    multiplexer and an OR. A plain pipeline of :meth:`latency` cycles: 6 for 8 vectors, 9 for 16.

    Parameters
    ----------
    lanes : :class:`int`
        Vectors: 8 or 16.

    Members
    -------
    tags : :py:`In(data.ArrayLayout(2, lanes))`
    vectors : :py:`In(data.ArrayLayout(32, lanes))`
        Right-aligned, zero above their size.
    size : :py:`Out(range(4 * lanes + 1))`
        Bytes of ``aligned``.
    aligned : :py:`Out(32 * lanes)`
        The vectors in lane order, back to back from byte 0, zero above.
    """

    def __init__(self, *, lanes: int = LANES):
        self.lanes = lanes
        super().__init__(
            {
                "tags": In(data.ArrayLayout(2, lanes)),
                "vectors": In(data.ArrayLayout(8 * LANE_BYTES, lanes)),
                "size": Out(range(beat_bytes(lanes) + 1)),
                "aligned": Out(8 * beat_bytes(lanes)),
            }
        )

    @staticmethod
    def latency(lanes: int = LANES) -> int:
        """Cycles from input to output."""
        return sum(_join_stages(level) for level in range((lanes - 1).bit_length()))

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        parts = [self.vectors[i] for i in range(self.lanes)]
        sizes = [bytes_of_tag(self.tags[i]) for i in range(self.lanes)]
        half = LANE_BYTES  # most bytes of one part at this level
        level = 0
        while len(parts) > 1:
            digits = _join_stages(level)
            joined, joined_sizes = [], []
            for pair in range(len(parts) // 2):
                low, high = parts[2 * pair], parts[2 * pair + 1]
                low_size = sizes[2 * pair]
                name = f"level{level}_{pair}"
                total = Signal(len(low_size) + 1, name=f"{name}_total", reset_less=True)
                m.d.sync += total.eq(low_size + sizes[2 * pair + 1])
                joined_sizes.append(delayed(m, total, digits - 1, name=f"{name}_size"))
                joined.append(self._join(m, low, high, low_size, half, digits, name))
            parts, sizes = joined, joined_sizes
            half *= 2
            level += 1
        m.d.comb += [self.aligned.eq(parts[0]), self.size.eq(sizes[0])]
        return m

    @staticmethod
    def _join(m: Module, low: Value, high: Value, size: Value, half: int, digits: int, name: str) -> Signal:
        """``low | high << 8 * size`` in ``digits`` stages; ``size`` is 0..``half`` bytes."""
        shifted, rest, step = high, size, 1
        for stage in range(digits - 1):
            following = Signal(
                min(8 * 2 * half, len(shifted) + 8 * 3 * step), name=f"{name}_high{stage}", reset_less=True
            )
            remaining = Signal(len(rest) - 2, name=f"{name}_rest{stage}", reset_less=True)
            m.d.sync += [
                following.eq(shift_left_bytes(shifted, rest[:2], step, len(following))),
                remaining.eq(rest[2:]),
            ]
            shifted, rest, step = following, remaining, step * 4
        base = delayed(m, low, digits - 1, name=f"{name}_low")
        result = Signal(8 * 2 * half, name=name, reset_less=True)
        m.d.sync += result.eq(base | shift_left_bytes(shifted, rest, step, len(result)))
        return result

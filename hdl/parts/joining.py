# SPDX-License-Identifier: BSD-2-Clause
"""Two vectors of a variable number of bytes as one, without a gap."""

from collections.abc import Sequence

from amaranth.hdl import Module, Mux, Value

from .pipeline import Pipeline


def shift_left_bytes(value: Value, digit: Value, step: int, width: int) -> Value:
    """Move ``value`` up by ``digit * step`` bytes, cut to ``width`` bits: a 2**len(digit):1 mux."""
    result = value
    for position in range(len(digit)):
        result = Mux(digit[position], result << (8 * step << position), result)
    return result[:width] if len(result) > width else result


def join_parts(
    m: Module, prefix: str, parts: Sequence[Value], sizes: Sequence[Value], stages: int
) -> tuple[Value, Value, Pipeline]:
    """Join two parts, the upper moved down onto the end of the lower.

    Return them, their total size, and the pipeline that both come from.

    Each part is zero above its size, in bytes. The result follows ``stages`` cycles later: all but the last
    shift by one base-4 digit of the lower part's size, the last by the rest, a digit or a one-hot number.
    """
    p = Pipeline(m, prefix)
    width, step = 2 * len(parts[0]), 1
    p.let(low=parts[0], high=parts[1], rest=sizes[0], total=sizes[0] + sizes[1])
    for _ in range(stages - 1):
        reach = min(width, len(p.high) + 8 * 3 * step)
        p.stage(high=shift_left_bytes(p.high, p.rest[:2], step, reach), rest=p.rest[2:])
        step *= 4
    p.stage(joined=p.low | shift_left_bytes(p.high, p.rest, step, width))
    return p.joined, p.total, p

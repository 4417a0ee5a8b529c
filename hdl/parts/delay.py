# SPDX-License-Identifier: BSD-2-Clause
"""Delay by a fixed number of cycles, to keep side information in step with a pipeline."""

from amaranth.hdl import Module, Signal, Value


def delayed(m: Module, value: Value, cycles: int, *, name: str, reset: bool = False) -> Signal:
    """``value`` as it was ``cycles`` cycles ago (0: as it is now), as a new signal.

    ``reset=True`` clears the registers on reset, as valid bits and other control need; data
    registers go without, which leaves them free to become shift-register primitives.
    """
    current = Signal.like(value, name=f"{name}_0")
    m.d.comb += current.eq(value)
    for i in range(1, cycles + 1):
        following = Signal.like(value, name=f"{name}_{i}", reset_less=not reset)
        m.d.sync += following.eq(current)
        current = following
    return current

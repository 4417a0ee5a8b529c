# SPDX-License-Identifier: BSD-2-Clause
"""Delay by a fixed number of cycles, to keep side information in step with a pipeline."""

from typing import Any

from amaranth.hdl import Module, Signal, Value
from amaranth.lib import stream


def delayed(m: Module, value: Value, cycles: int, *, name: str, reset: bool = False) -> Signal:
    """Return ``value`` as it was ``cycles`` cycles ago (0: as it is now), as a new signal.

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


def copies(m: Module, value: Value, count: int, *, name: str) -> list[Value]:
    """Register ``value`` ``count`` times: each copy serves a part of a wide word.

    Registers without reset. Synthesis would merge equal ones, so they begin with different values; every
    third and fourth holds the inverse. Raises ``ValueError`` for more than four copies.
    """
    if not 1 <= count <= 4:
        raise ValueError(f"a register can have 1 to 4 copies, not {count!r}")
    result = []
    for number in range(count):
        held = Signal(len(value), init=-(number % 2), name=f"{name}_{number}", reset_less=True)
        flip = -(number // 2)
        m.d.sync += held.eq(value ^ flip)
        result.append((held ^ flip)[: len(value)])
    return result


def delayed_stream(m: Module, source: Any, cycles: int, *, name: str) -> stream.Interface:
    """Return the push stream ``source`` of structures as it was ``cycles`` cycles ago.

    Reset clears ``valid``. Each field has registers of its own, ``name_field_1`` and so on.
    """
    shape = source.payload.shape()
    late = stream.Signature(shape, always_ready=True).create(path=(name,))
    m.d.comb += late.valid.eq(delayed(m, source.valid, cycles, name=f"{name}_valid", reset=True))
    for field, _ in shape:
        m.d.comb += late.payload[field].eq(delayed(m, source.payload[field], cycles, name=f"{name}_{field}"))
    return late

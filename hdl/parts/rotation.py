# SPDX-License-Identifier: BSD-2-Clause
"""Rotation of a beat by a number of bytes that changes from cycle to cycle."""

from typing import Any

from amaranth.hdl import Cat, Mux

from .pipeline import Pipeline


def rotate_left_bytes(value: Any, digit: Any, step: int) -> Any:
    """Rotate ``value`` up by ``digit * step`` bytes: one multiplexer of 2**len(digit) inputs."""
    result = value
    for position in range(len(digit)):
        result = Mux(digit[position], result.rotate_left(8 * step << position), result)
    return result


def rotate_in_stages(p: Pipeline, unit: int, stages: int) -> None:
    """Rotate the value ``rotated`` of a pipeline up by ``rotation * unit`` bytes, a base-4 digit per stage.

    The pipeline moves on by ``stages``, at least 1. Two more values are there then: ``current``, a bit per
    unit, tells which units lie at or above ``rotation``, and ``rest`` are the bits of ``rotation`` above
    those digits, by which the caller rotates.
    """
    for stage in range(stages):
        if stage == stages - 1:
            units = len(p.rotated) // (8 * unit)
            p.let(current=Cat(p.rotation <= i for i in range(units)), rest=p.rotation[2 * stages :])
        digit = p.rotation[2 * stage : 2 * stage + 2]
        p.stage(rotated=rotate_left_bytes(p.rotated, digit, unit << 2 * stage))

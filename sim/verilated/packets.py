# SPDX-License-Identifier: BSD-2-Clause
"""Input and output of a verilated module: packets, pauses, times, errors."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple, TypedDict

Packet = bytes | tuple[bytes, int]
"""A frame, alone or with its ``tuser``: the bad flag (0/1), or a decompressor's number of lanes."""
Progress = Callable[[int], None]
"""Called from time to time with the number of frames emitted since the last call."""


class ModelError(RuntimeError):
    """A model failed; `VerilatedModule.reset` makes it usable again."""


class ProtocolError(ModelError):
    """A rule of AXI4-Stream or AXI4-Lite was broken on an output; the text names port and cycle."""


class HangError(ModelError):
    """No beat moved for too long, or the cycle limit came first; the text says what was outstanding."""


class BusError(ModelError):
    """An AXI4-Lite transfer was answered with something other than OKAY."""


class Timing(NamedTuple):
    """Cycles, since the model began, in which a frame's first and last beat moved, in and out."""

    first_in: int
    last_in: int
    first_out: int
    last_out: int


class Output(NamedTuple):
    """An output frame: its bytes, ``tuser`` at ``tlast`` (bad or malformed), and when."""

    data: bytes
    bad: bool
    timing: Timing


@dataclass(frozen=True)
class Pause:
    """Random pauses of one end of a stream.

    Before each beat (source) or in each cycle (sink) a pause begins with ``probability``, at most 0.99,
    and lasts 1 to ``longest`` cycles, all equally likely.
    """

    probability: float = 0.0
    longest: int = 1

    def __post_init__(self) -> None:
        if not 0 <= self.probability <= 0.99:
            raise ValueError(f"probability of a pause must be 0..0.99, not {self.probability!r}")
        if not 1 <= self.longest <= 1_000_000:
            raise ValueError(f"longest pause must be 1..1000000 cycles, not {self.longest!r}")

    @property
    def cost(self) -> float:
        """Expected cycles per beat."""
        return 1 + self.probability / (1 - self.probability) * (1 + self.longest) / 2


NO_PAUSE = Pause()


class RunOptions(TypedDict, total=False):
    """``idle`` pauses the inputs, ``back_pressure`` the outputs; the cycle limit is ample by default.

    ``quiet``: cycles without a beat after the last frame, in which a stray one would show; 64 by default.
    """

    idle: Pause
    back_pressure: Pause
    cycle_limit: int
    progress: Progress
    quiet: int

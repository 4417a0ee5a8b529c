# SPDX-License-Identifier: BSD-2-Clause
"""Feed-forward pipelines: names, sizes and clocks the values of each stage."""

from collections.abc import Collection
from typing import Any

from amaranth.hdl import Module, Signal, Value, ValueCastable


class Pipeline:
    """The values of a feed-forward pipeline, one stage after the other.

    Stage 0 is the cycle of the inputs. :meth:`stage` registers values and moves on by one stage. An attribute
    reads a value in step with the present stage: a value of an earlier stage is carried there by registers,
    which exist only if it is read. Value ``sum`` of stage 2 is the signal ``sum_2``::

        p = Pipeline(m, control={"valid"})
        p.let(valid=self.valid, scale=self.scale)
        p.stage(sum=self.a + self.b)            # sum_1
        p.stage(sum=p.sum + self.late)          # sum_2
        m.d.comb += [
            self.result.eq(p.sum * p.scale),    # scale_2: `scale` of two cycles before
            self.result_valid.eq(p.valid),
        ]

    :meth:`until` moves on by several stages, to where a memory or another component answers.

    Registers have the shape of the value they hold. Those of control values are cleared on reset; the others
    have no reset, which leaves them free to become shift-register primitives. Nothing stalls.

    ``probes`` has every value of every stage, such as ``sum_1``, for proofs.

    Parameters
    ----------
    m : :class:`Module`
        Where the registers go, in the domain ``sync``.
    prefix : :class:`str`
        Put before each signal's name.
    control : collection of :class:`str`
        Names of the values that reset clears.

    Raises
    ------
    ValueError
        From :meth:`let` and :meth:`stage`: the name is a method's, or the stage has a value of that name.
        From :meth:`until`: the stage has passed.
    AttributeError
        No value of that name was given.
    RuntimeError
        A value was carried inside ``m.If``, ``m.Switch`` or ``m.FSM``: read it before.
    """

    def __init__(self, m: Module, prefix: str = "", *, control: Collection[str] = ()):
        if not isinstance(m, Module):
            raise TypeError(f"a pipeline's registers go to a Module, not {m!r}")
        if isinstance(control, str):
            raise TypeError(f"control must be a collection of names, not {control!r}")
        self._m = m
        self._prefix = prefix
        self._control = frozenset(control)
        self._number = 0
        self._values: dict[str, tuple[int, Any]] = {}  # newest stage of each value, and its signal there
        self.probes: dict[str, Any] = {}

    def let(self, **values: Any) -> None:
        """Name combinational values of the present stage."""
        for name, value in values.items():
            self._define(name, self._number, value, "comb")

    def stage(self, **values: Any) -> None:
        """Register values for the next stage, which becomes the current one."""
        self._number += 1
        for name, value in values.items():
            self._define(name, self._number, value, "sync")

    def until(self, number: int) -> None:
        """Move on to stage ``number``, or stay if it is the present one."""
        if number < self._number:
            raise ValueError(f"a pipeline in stage {self._number} cannot go back to stage {number!r}")
        self._number = number

    def __getattr__(self, name: str) -> Any:
        if name not in self._values:
            raise AttributeError(f"stage {self._number} has no value {name!r}")
        number, signal = self._values[name]
        for later in range(number + 1, self._number + 1):
            signal = self._define(name, later, signal, "sync")
        return signal

    def _define(self, name: str, number: int, value: Any, domain: str) -> Any:
        if name in dir(self):
            raise ValueError(f"a value cannot have the name of a member, {name!r}")
        if number == self._values.get(name, (-1,))[0]:
            raise ValueError(f"stage {number} has a value {name!r} already")
        if self._m.d._depth:
            raise RuntimeError(f"value {name!r} of stage {number} would depend on the condition around it")
        full_name, is_data = f"{self._prefix}{name}_{number}", name not in self._control
        shape = value.shape() if isinstance(value, ValueCastable) else Value.cast(value).shape()
        signal: Any = Signal(shape, name=full_name, reset_less=is_data)
        if len(Value.cast(signal)) == 0:
            signal = value  # Verilog has no signal of no bits
        else:
            self._m.d[domain] += signal.eq(value)
        self._values[name] = number, signal
        self.probes[f"{name}_{number}"] = signal
        return signal

# SPDX-License-Identifier: BSD-2-Clause
"""Two places between a queue and its consumer that cut the combinational path between their controls."""

from collections.abc import Collection
from typing import Any

from amaranth.hdl import Cat, Module, Mux, Signal, Value
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from .lut_ring import LutRing


class ElasticRegister(wiring.Component):
    """Passes one item per cycle with one cycle of latency; every control output is a flip-flop.

    Parameters
    ----------
    shape : shape-like
        Of an item.
    in_ram : collection of :class:`str`
        Fields of an item that lie in LUT RAM instead of in two registers: wide ones that decide nothing.
        ``o.ready`` then reaches two address bits per 80 bits of them, and no clock enable.
    """

    def __init__(self, shape: Any, *, in_ram: Collection[str] = ()):
        self.shape = shape
        self.in_ram = frozenset(in_ram)
        unknown = self.in_ram - {name for name, _ in data.Layout.cast(shape)} if in_ram else None
        if unknown:
            raise ValueError(f"in_ram names fields that an item lacks: {', '.join(sorted(unknown))}")
        super().__init__(
            {
                "i": In(stream.Signature(shape)),  #: ``i.ready`` is a register.
                #: ``o.valid`` and ``o.payload`` are registers, except the fields in RAM.
                "o": Out(stream.Signature(shape)),
            }
        )

    def elaborate(self, platform: Any) -> Module:
        # The second place holds the item that was taken while the consumer was not ready; then the source
        # waits. `o.ready` is timing-critical: it reaches `full` through a single gate. `full` and `i.ready`
        # are opposite: source and register may lie far apart, and share no gate that one of them needs early.
        m = Module()
        ready = Signal(init=1)
        full = Signal()
        full_next = Signal()
        m.d.comb += [
            self.i.ready.eq(ready),
            full_next.eq(self.o.valid & ~self.o.ready & (full | self.i.valid)),
        ]
        self.probes: dict[str, Any] = {"ready": ready, "full": full}
        m.d.sync += [ready.eq(~full_next), full.eq(full_next)]
        with m.If(~self.o.valid | self.o.ready):
            m.d.sync += self.o.valid.eq(self.i.valid | full)

        given, output = self._fields(self.i.payload, False), self._fields(self.o.payload, False)
        if len(given):
            held = Signal(len(given), name="output", reset_less=True)
            spare = Signal(len(given), reset_less=True)
            self.probes |= {"output": held, "spare": spare}
            m.d.comb += output.eq(held)
            with m.If(~full):
                m.d.sync += spare.eq(given)
            with m.If(~self.o.valid | self.o.ready):
                m.d.sync += held.eq(Mux(full, spare, given))

        if self.in_ram:
            words = self._fields(self.i.payload, True)
            m.submodules.ring = ring = LutRing(len(words), 4, spare=True)
            self.probes["ring"] = ring
            m.d.comb += [
                ring.write.eq(self.i.valid & ~full),
                ring.write_data.eq(words),
                ring.step.eq(self.o.valid & self.o.ready),
                self._fields(self.o.payload, True).eq(ring.read_data),
            ]
        return m

    def _fields(self, payload: Any, in_ram: bool) -> Value:
        """Return the fields of an item that lie in RAM, or the others, as one value."""
        if not self.in_ram:
            return Cat() if in_ram else Value.cast(payload)
        names = (name for name, _ in data.Layout.cast(self.shape) if (name in self.in_ram) == in_ram)
        return Cat(Value.cast(payload[name]) for name in names)

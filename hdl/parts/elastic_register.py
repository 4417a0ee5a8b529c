# SPDX-License-Identifier: BSD-2-Clause
"""Two registers between a queue and its consumer that cut the combinational path between their controls."""

from typing import Any

from amaranth.hdl import Module, Mux, Shape, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out


class ElasticRegister(wiring.Component):
    """Passes one item per cycle with one cycle of latency; every control output is a flip-flop.

    Parameters
    ----------
    shape : shape-like
        Of an item.

    Members
    -------
    i : :py:`In(stream.Signature(shape))`
        ``i.ready`` is a register.
    o : :py:`Out(stream.Signature(shape))`
        ``o.valid`` and ``o.payload`` are registers.
    """

    def __init__(self, shape: Any):
        self.shape = shape
        super().__init__({"i": In(stream.Signature(shape)), "o": Out(stream.Signature(shape))})

    def elaborate(self, platform: Any) -> Module:
        # `spare` holds the item that was taken while the consumer was not ready; then the source waits.
        # `o.ready` is timing-critical: it reaches `ready` through a single gate.
        m = Module()
        width = Shape.cast(self.shape).width
        output = Signal(width, reset_less=True)
        spare = Signal(width, reset_less=True)
        ready = Signal(init=1)
        m.d.comb += [self.o.payload.eq(output), self.i.ready.eq(ready)]
        with m.If(ready):
            m.d.sync += spare.eq(self.i.payload)
        with m.If(~self.o.valid | self.o.ready):
            m.d.sync += [
                output.eq(Mux(ready, self.i.payload, spare)),
                self.o.valid.eq(self.i.valid | ~ready),
            ]
        m.d.sync += ready.eq(~self.o.valid | self.o.ready | (ready & ~self.i.valid))
        return m

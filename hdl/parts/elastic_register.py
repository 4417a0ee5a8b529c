# SPDX-License-Identifier: BSD-2-Clause
"""Two places between a queue and its consumer, which cut the combinational path between their controls."""

from typing import Any

from amaranth.hdl import Module, Mux, Shape, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out


class ElasticRegister(wiring.Component):
    """Passes items on with one cycle of latency, one per cycle, every control output from a flip-flop.

    Parameters
    ----------
    shape : shape-like
        Of an item.

    Members
    -------
    source_valid, source_data : :py:`In`
        An item is offered.
    source_ready : :py:`Out(1)`
        It is taken; a register.
    valid, data : :py:`Out`
        The oldest item; holds until popped.
    pop : :py:`In(1)`
        Takes the item; ignored without ``valid``.
    """

    def __init__(self, shape: Any):
        self.shape = shape
        super().__init__(
            {
                "source_valid": In(1),
                "source_data": In(shape),
                "source_ready": Out(1, init=1),
                "valid": Out(1),
                "data": Out(shape),
                "pop": In(1),
            }
        )

    def elaborate(self, platform: Any) -> Module:
        # `spare` holds the item that was taken while the consumer did not pop; the source then waits.
        # `pop` is timing-critical: it reaches `source_ready` through a single gate.
        m = Module()
        width = Shape.cast(self.shape).width
        output = Signal(width, reset_less=True)
        spare = Signal(width, reset_less=True)
        m.d.comb += self.data.eq(output)
        with m.If(self.source_ready):
            m.d.sync += spare.eq(self.source_data)
        with m.If(~self.valid | self.pop):
            m.d.sync += [
                output.eq(Mux(self.source_ready, self.source_data, spare)),
                self.valid.eq(self.source_valid | ~self.source_ready),
            ]
        m.d.sync += self.source_ready.eq(~self.valid | self.pop | (self.source_ready & ~self.source_valid))
        return m

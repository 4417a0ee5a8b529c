# SPDX-License-Identifier: BSD-2-Clause
"""Queue between a pipeline that cannot stall and a consumer that can."""

from typing import Any

from amaranth.hdl import Module, Mux, Shape, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from inceptionn.hdl.elastic_register import ElasticRegister
from inceptionn.hdl.memory import LutRam


class PushQueue(wiring.Component):
    """First-in first-out queue with a pushing input: no ready, but ``room`` ahead of time.

    A pipeline's entrance looks at ``room``, its exit pushes unconditionally; ``slack`` places are kept for
    what is under way. This is what keeps a long combinational ready chain out of the pipeline.
    An item can be popped two cycles after its push.

    Parameters
    ----------
    shape : shape-like
        What is stored; ``push_data`` and ``data`` have this shape.
    depth : :class:`int`
        Places, a power of two (the output register is one more).
    slack : :class:`int`
        Most pushes that can follow after ``room`` has fallen.
    elastic : :class:`bool`
        The output register is an :class:`ElasticRegister`, one place more: for a ``pop`` that comes late in
        the cycle, which then reaches no counter and no address. Same latency, twice the registers.

    Members
    -------
    push : :py:`In(1)`
    push_data : :py:`In(shape)`
    room : :py:`Out(1)`
        Registered: at least ``slack`` places are free.
    valid : :py:`Out(1)`
    data : :py:`Out(shape)`
        The oldest item; holds until popped.
    pop : :py:`In(1)`
        Takes the item; ignored without ``valid``.
    """

    def __init__(self, shape: Any, depth: int, slack: int, *, elastic: bool = False):
        if depth < 4 or depth & (depth - 1):
            raise ValueError(f"queue depth must be a power of two of at least 4, not {depth!r}")
        if not 0 <= slack < depth - 2:
            raise ValueError(f"queue slack must leave room in its depth, not {(depth, slack)!r}")
        self.shape = shape
        self.depth = depth
        self.slack = slack
        self.elastic = elastic
        super().__init__(
            {
                "push": In(1),
                "push_data": In(shape),
                "room": Out(1),
                "valid": Out(1),
                "data": Out(shape),
                "pop": In(1),
            }
        )

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        width = Shape.cast(self.shape).width
        m.submodules.ram = ram = LutRam(width, self.depth)
        write = Signal(range(self.depth))
        read = Signal(range(self.depth))
        level = Signal(range(self.depth + 1))  # in the RAM, without the output register
        stored = Signal()  # level != 0

        # The output register is loaded when it is empty or popped. What is written this cycle is
        # counted from the next one on, when the RAM shows it.
        load, wanted = Signal(), Signal()
        m.d.comb += [
            load.eq(stored & wanted),
            ram.write.eq(self.push),
            ram.write_address.eq(write),
            ram.write_data.eq(self.push_data),
            ram.read_address.eq(read),
        ]
        if self.elastic:
            m.submodules.register = register = ElasticRegister(width)
            m.d.comb += [
                wanted.eq(register.source_ready),
                register.source_valid.eq(stored),
                register.source_data.eq(ram.read_data),
                self.valid.eq(register.valid),
                self.data.eq(register.data),
                register.pop.eq(self.pop),
            ]
        else:
            output = Signal(width, reset_less=True)
            m.d.comb += [wanted.eq(~self.valid | self.pop), self.data.eq(output)]
            with m.If(wanted):
                m.d.sync += [output.eq(ram.read_data), self.valid.eq(stored)]
        with m.If(load):
            m.d.sync += read.eq(read + 1)
        # `push` and `load` come late in the cycle: every outcome is ready before they choose.
        m.d.sync += [
            write.eq(write + self.push),
            level.eq(Mux(self.push == load, level, Mux(load, level - 1, level + 1))),
            stored.eq(Mux(load, self.push | (level != 1), self.push | (level != 0))),
            self.room.eq(level < self.depth - self.slack - 1),
        ]
        return m

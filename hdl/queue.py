# SPDX-License-Identifier: BSD-2-Clause
"""Queue between a pipeline that cannot stall and a consumer that can."""

from typing import Any

from amaranth.hdl import Module, Mux, Shape, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from inceptionn.hdl.delay import delayed
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
    staged : :class:`bool`
        A register in front of the RAM and one behind it, for a queue so wide and deep that the way to its
        words takes a cycle: an item can be popped four cycles after its push.

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

    def __init__(self, shape: Any, depth: int, slack: int, *, elastic: bool = False, staged: bool = False):
        if depth < 4 or depth & (depth - 1):
            raise ValueError(f"queue depth must be a power of two of at least 4, not {depth!r}")
        if not 0 <= slack < depth - 2 - staged:
            raise ValueError(f"queue slack must leave room in its depth, not {(depth, slack)!r}")
        self.shape = shape
        self.depth = depth
        self.slack = slack
        self.elastic = elastic
        self.staged = staged
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
        push, push_data = self.push, self.push_data
        offered, offer = stored, ram.read_data
        take = Signal()  # the output register takes what is offered
        if self.staged:
            push = delayed(m, self.push, 1, name="push", reset=True)
            push_data = delayed(m, Value.cast(self.push_data), 1, name="push_data")
            offered, offer = Signal(), Signal(width, reset_less=True)
            m.d.comb += wanted.eq(~offered | take)
            with m.If(wanted):
                m.d.sync += [offer.eq(ram.read_data), offered.eq(stored)]
        else:
            m.d.comb += wanted.eq(take)
        m.d.comb += [
            load.eq(stored & wanted),
            ram.write.eq(push),
            ram.write_address.eq(write),
            ram.write_data.eq(push_data),
            ram.read_address.eq(read),
        ]
        if self.elastic:
            m.submodules.register = register = ElasticRegister(width)
            m.d.comb += [
                take.eq(register.source_ready),
                register.source_valid.eq(offered),
                register.source_data.eq(offer),
                self.valid.eq(register.valid),
                self.data.eq(register.data),
                register.pop.eq(self.pop),
            ]
        else:
            output = Signal(width, reset_less=True)
            m.d.comb += [take.eq(~self.valid | self.pop), self.data.eq(output)]
            with m.If(take):
                m.d.sync += [output.eq(offer), self.valid.eq(offered)]
        with m.If(load):
            m.d.sync += read.eq(read + 1)
        # `push` and `load` come late in the cycle: every outcome is ready before they choose.
        m.d.sync += [
            write.eq(write + push),
            level.eq(Mux(push == load, level, Mux(load, level - 1, level + 1))),
            stored.eq(Mux(load, push | (level != 1), push | (level != 0))),
            self.room.eq(level < self.depth - self.slack - 1 - self.staged),
        ]
        return m

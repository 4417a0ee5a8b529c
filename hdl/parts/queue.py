# SPDX-License-Identifier: BSD-2-Clause
"""Queues between a pipeline that cannot stall and a consumer that can: one level, five kinds of output."""

from abc import abstractmethod
from collections.abc import Collection
from typing import Any

from amaranth.hdl import Cat, Module, Mux, Shape, Signal, Value
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from .elastic_register import ElasticRegister
from .lut_ring import LutRing


class LevelQueue(wiring.Component):
    """What all queues of this module share: memory, level and ``room``. The kinds differ in their output."""

    def __init__(self, shape: Any, depth: int, slack: int, outputs: dict[str, Any]):
        if depth < 4 or depth & (depth - 1):
            raise ValueError(f"queue depth must be a power of two of at least 4, not {depth!r}")
        if not 0 <= slack < depth - 2:
            raise ValueError(f"queue slack must leave room in its depth, not {(depth, slack)!r}")
        self.shape = shape
        self.depth = depth
        self.slack = slack
        super().__init__(
            {
                #: Payloads in; only while ``room`` or within ``slack``.
                "i": In(stream.Signature(shape, always_ready=True)),
                "room": Out(1),  #: Registered: at least ``slack`` places are free.
                **outputs,
            }
        )

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        width = Shape.cast(self.shape).width
        level = Signal(range(self.depth + 1))  # in the RAM, without the output register
        stored = Signal()  # level != 0
        before = Signal.like(level)  # level, one cycle ago
        pushed = Signal()
        loaded = Signal()

        # The output register is loaded when it is empty or taken. What is written this cycle is
        # counted from the next one on, when the RAM shows it.
        load = Signal()
        wanted = Signal()
        m.submodules.ring = ring = LutRing(width, self.depth)
        self.probes: dict[str, Any] = {
            "level": level, "stored": stored, "before": before, "pushed": pushed, "loaded": loaded,
            "load": load, "ring": ring,
        }  # fmt: skip
        m.d.comb += [
            ring.write.eq(self.i.valid),
            ring.write_data.eq(self.i.payload),
            ring.step.eq(load),
            load.eq(stored & wanted),
            wanted.eq(self._output(m, ring.read_data, stored, load)),
        ]
        # `load` is timing-critical: it reaches no counter of the level. The level follows a cycle later, from
        # what was pushed and loaded, and is compared as it was before that.
        push = self.i.valid
        more = pushed & ~loaded
        less = loaded & ~pushed
        one = Mux(more, before == 0, Mux(less, before == 2, before == 1))
        limit = self.depth - self.slack - 1
        frees = less & (before == limit)
        m.d.comb += level.eq(before + Cat(pushed ^ loaded, less).as_signed())
        m.d.sync += [
            pushed.eq(push),
            loaded.eq(load),
            before.eq(level),
            stored.eq(push | (stored & ~(wanted & one))),
            self.room.eq(((before < limit) & ~(more & (before == limit - 1))) | frees),  # level < limit
        ]
        return m

    @abstractmethod
    def _output(self, m: Module, item: Value, stored: Value, load: Value) -> Value:
        """Add the output; return whether it takes ``item``, the RAM's oldest, which is there if ``stored``.

        ``load``: it does so now.
        """


class PushQueue(LevelQueue):
    """First-in first-out queue from a push stream to a pull stream (docs/streams.md).

    A pipeline accepts input only while ``room``, a register, is high; its last stage pushes unconditionally.
    ``slack`` places are kept for the items in flight. So the pipeline needs no combinational ready chain.
    Latency: an item can be taken two cycles after its push. Throughput: one item per cycle.

    Other kinds have the same level and another output: :class:`ElasticQueue`, :class:`StagedQueue`,
    :class:`DirectQueue` and :class:`ForwardQueue`.

    Parameters
    ----------
    shape : shape-like
        Of an item.
    depth : :class:`int`
        Places, a power of two (the output register is one more).
    slack : :class:`int`
        Most pushes that can follow after ``room`` has fallen.
    """

    LATENCY = 2
    """Cycles from an item's push until it can be taken, or leaves."""

    def __init__(self, shape: Any, depth: int, slack: int):
        super().__init__(shape, depth, slack, {"o": Out(stream.Signature(shape))})  #: Payloads out, in order.

    def _output(self, m: Module, item: Value, stored: Value, load: Value) -> Value:
        output = Signal.like(item, reset_less=True)
        self.probes["output"] = output
        take = Signal()
        m.d.comb += [take.eq(~self.o.valid | self.o.ready), self.o.payload.eq(output)]
        with m.If(take):
            m.d.sync += [output.eq(item), self.o.valid.eq(stored)]
        return take


class ElasticQueue(PushQueue):
    """With an :class:`ElasticRegister` at the output, for a timing-critical ``o.ready``.

    That reaches no counter and no address then. One place more, the same latency, twice the registers.

    Parameters
    ----------
    in_ram : collection of :class:`str`
        Fields that the register keeps in LUT RAM.
    shape, depth, slack
        As of :class:`PushQueue`.
    """

    def __init__(self, shape: Any, depth: int, slack: int, *, in_ram: Collection[str] = ()):
        self.in_ram = in_ram
        super().__init__(shape, depth, slack)

    def _output(self, m: Module, item: Value, stored: Value, load: Value) -> Value:
        m.submodules.register = register = ElasticRegister(self.shape, in_ram=self.in_ram)
        self.probes["register"] = register
        m.d.comb += [
            register.i.valid.eq(stored),
            register.i.payload.eq(item),
            self.o.valid.eq(register.o.valid),
            self.o.payload.eq(register.o.payload),
            register.o.ready.eq(self.o.ready),
        ]
        return register.i.ready


class StagedQueue(ElasticQueue):
    """An :class:`ElasticQueue` so wide and deep that reading its RAM takes a whole cycle.

    A register after the RAM: one place more, and an item can be taken three cycles after its push.
    """

    LATENCY = 3

    def _output(self, m: Module, item: Value, stored: Value, load: Value) -> Value:
        offered = Signal()
        offer = Signal.like(item, reset_less=True)
        # `vacant`, the opposite, serves the control: the wide register's enable lies far from it.
        vacant = Signal(init=1)
        self.probes |= {"offered": offered, "offer": offer, "vacant": vacant}
        take = Signal()
        m.d.comb += take.eq(super()._output(m, offer, offered, load))
        with m.If(vacant | take):
            m.d.sync += [offered.eq(stored), vacant.eq(~stored)]
        with m.If(~offered | take):
            m.d.sync += offer.eq(item)
        return vacant | take


class DirectQueue(PushQueue):
    """Without an output register, for a consumer that begins with one: ``o.payload`` is read from the RAM.

    An item can be taken in the cycle after its push. ``o.ready`` reaches few registers: the addresses.
    """

    LATENCY = 1

    def _output(self, m: Module, item: Value, stored: Value, load: Value) -> Value:
        m.d.comb += [self.o.valid.eq(stored), self.o.payload.eq(item)]
        return self.o.ready


class ForwardQueue(LevelQueue):
    """From push stream to push stream: ``o.valid`` is high for a cycle per item, after one with ``o_room``.

    Nothing holds an item, so no wide register has an enable.
    """

    LATENCY = 2

    def __init__(self, shape: Any, depth: int, slack: int):
        outputs = {
            "o": Out(stream.Signature(shape, always_ready=True)),  #: Payloads out, in order.
            "o_room": In(1),  #: Room downstream.
        }
        super().__init__(shape, depth, slack, outputs)

    def _output(self, m: Module, item: Value, stored: Value, load: Value) -> Value:
        output = Signal.like(item, reset_less=True)
        self.probes["output"] = output
        m.d.comb += self.o.payload.eq(output)
        m.d.sync += [output.eq(item), self.o.valid.eq(load)]
        return self.o_room

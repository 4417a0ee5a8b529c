# SPDX-License-Identifier: BSD-2-Clause
"""Queue between a pipeline that cannot stall and a consumer that can."""

from collections.abc import Collection
from typing import Any

from amaranth.hdl import Cat, Module, Mux, Shape, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from .elastic_register import ElasticRegister
from .lut_ring import LutRing


class PushQueue(wiring.Component):
    """First-in first-out queue from a push stream to a pull stream (docs/streams.md).

    A pipeline accepts input only while ``room``, a register, is high; its last stage pushes unconditionally.
    ``slack`` places are kept for the items in flight. So the pipeline needs no combinational ready chain.
    Latency: an item can be taken two cycles after its push. Throughput: one item per cycle.

    Parameters
    ----------
    shape : shape-like
        Of an item.
    depth : :class:`int`
        Places, a power of two (the output register is one more).
    slack : :class:`int`
        Most pushes that can follow after ``room`` has fallen.
    elastic : :class:`bool`
        The output register is an :class:`ElasticRegister`, one place more, for a timing-critical
        ``o.ready``, which then reaches no counter and no address. Same latency, twice the registers.
    in_ram : collection of :class:`str`
        With ``elastic``: fields that it keeps in LUT RAM.
    staged : :class:`bool`
        One more register after the RAM, for a queue so wide and deep that reading it takes a whole cycle:
        one place more, and an item can be taken three cycles after its push.
    forward : :class:`bool`
        The output is a push stream, too: ``o.valid`` is high for one cycle per item, in the cycle after one
        with ``o_room``. Nothing holds an item, so no wide register has an enable.
    direct : :class:`bool`
        No output register, for a consumer that begins with one: ``o.payload`` is read from the LUT RAM. An
        item can be taken in the cycle after its push. ``o.ready`` reaches few registers: the addresses.

    At most one of ``elastic``, ``forward`` and ``direct``; ``staged`` goes with ``elastic`` or alone.
    """

    def __init__(
        self,
        shape: Any,
        depth: int,
        slack: int,
        *,
        elastic: bool = False,
        in_ram: Collection[str] = (),
        staged: bool = False,
        forward: bool = False,
        direct: bool = False,
    ):
        if depth < 4 or depth & (depth - 1):
            raise ValueError(f"queue depth must be a power of two of at least 4, not {depth!r}")
        if not 0 <= slack < depth - 2:
            raise ValueError(f"queue slack must leave room in its depth, not {(depth, slack)!r}")
        if in_ram and not elastic:
            raise ValueError(f"a queue that is not elastic keeps no fields apart: {sorted(in_ram)}")
        if elastic + forward + direct > 1 or (staged and (forward or direct)):
            raise ValueError("a queue is one of elastic, forward and direct; the last two are not staged")
        self.shape = shape
        self.depth = depth
        self.slack = slack
        self.elastic = elastic
        self.in_ram = in_ram
        self.staged = staged
        self.forward = forward
        self.direct = direct
        members = {
            #: Payloads in; only while ``room`` or within ``slack``.
            "i": In(stream.Signature(shape, always_ready=True)),
            "room": Out(1),  #: Registered: at least ``slack`` places are free.
            "o": Out(stream.Signature(shape, always_ready=forward)),  #: Payloads out, in order.
        }
        if forward:
            members["o_room"] = In(1)  #: With ``forward``: room downstream.
        super().__init__(members)

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        width = Shape.cast(self.shape).width
        level = Signal(range(self.depth + 1))  # in the RAM, without the output register
        stored = Signal()  # level != 0
        settled = Signal.like(level)  # level, one cycle ago
        pushed = Signal()
        loaded = Signal()

        # The output register is loaded when it is empty or taken. What is written this cycle is
        # counted from the next one on, when the RAM shows it.
        load = Signal()
        wanted = Signal()
        m.submodules.ring = ring = LutRing(width, self.depth)
        self.probes = {
            "level": level, "stored": stored, "settled": settled, "pushed": pushed, "loaded": loaded,
            "load": load, "ring": ring,
        }  # fmt: skip
        m.d.comb += [
            ring.write.eq(self.i.valid),
            ring.write_data.eq(self.i.payload),
            ring.step.eq(load),
        ]
        offered, offer = stored, ring.read_data
        take = Signal()  # the output register takes what is offered
        if self.staged:
            offered = Signal()
            offer = Signal(width, reset_less=True)
            # `vacant`, the opposite, serves the control: the wide register's enable lies far from it.
            vacant = Signal(init=1)
            self.probes |= {"offered": offered, "offer": offer, "vacant": vacant}
            m.d.comb += wanted.eq(vacant | take)
            with m.If(wanted):
                m.d.sync += [offered.eq(stored), vacant.eq(~stored)]
            with m.If(~offered | take):
                m.d.sync += offer.eq(ring.read_data)
        else:
            m.d.comb += wanted.eq(take)
        m.d.comb += load.eq(stored & wanted)
        if self.forward:
            output = Signal(width, reset_less=True)
            self.probes["output"] = output
            m.d.comb += [take.eq(self.o_room), self.o.payload.eq(output)]
            m.d.sync += [output.eq(offer), self.o.valid.eq(load)]
        elif self.direct:
            m.d.comb += [take.eq(self.o.ready), self.o.valid.eq(stored), self.o.payload.eq(offer)]
        elif self.elastic:
            m.submodules.register = register = ElasticRegister(self.shape, in_ram=self.in_ram)
            self.probes["register"] = register
            m.d.comb += [
                take.eq(register.i.ready),
                register.i.valid.eq(offered),
                register.i.payload.eq(offer),
                self.o.valid.eq(register.o.valid),
                self.o.payload.eq(register.o.payload),
                register.o.ready.eq(self.o.ready),
            ]
        else:
            output = Signal(width, reset_less=True)
            self.probes["output"] = output
            m.d.comb += [take.eq(~self.o.valid | self.o.ready), self.o.payload.eq(output)]
            with m.If(take):
                m.d.sync += [output.eq(offer), self.o.valid.eq(offered)]
        # `load` is timing-critical: it reaches no counter of the level. The level follows a cycle later, from
        # what was pushed and loaded, and is compared as it was before that.
        push = self.i.valid
        more = pushed & ~loaded
        less = loaded & ~pushed
        one = Mux(more, settled == 0, Mux(less, settled == 2, settled == 1))
        limit = self.depth - self.slack - 1
        frees = less & (settled == limit)
        m.d.comb += level.eq(settled + Cat(pushed ^ loaded, less).as_signed())
        m.d.sync += [
            pushed.eq(push),
            loaded.eq(load),
            settled.eq(level),
            stored.eq(push | (stored & ~(wanted & one))),
            self.room.eq(((settled < limit) & ~(more & (settled == limit - 1))) | frees),  # level < limit
        ]
        return m

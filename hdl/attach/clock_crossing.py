# SPDX-License-Identifier: BSD-2-Clause
"""AXI4-Stream and AXI4-Lite from one clock to another."""

from typing import Any

from amaranth.hdl import Module, ResetSignal, Signal
from amaranth.lib import data, wiring
from amaranth.lib.cdc import AsyncFFSynchronizer, FFSynchronizer
from amaranth.lib.wiring import In, Out

from inceptionn.wire import BURST_BYTES

from ..control.axi_lite import AXI4Lite
from ..parts.axi import AXIStream
from .async_queue import AsyncQueue


def reset_caught(m: Module, name: str, reset: Any, domain: str) -> Signal:
    """Catch a reset in its own clock: high at once, and for the two edges after it at least."""
    caught = Signal(name=f"{name}_caught")
    m.submodules[f"{name}_caught"] = AsyncFFSynchronizer(reset, caught, o_domain=domain)
    return caught


def reset_seen(m: Module, name: str, reset: Any, domain: str, source: str | None = None) -> Signal:
    """Bring the level of ``reset``, which belongs to another clock or to none, into ``domain``.

    A pulse of any length gives at least one cycle. It rises and falls with the clock, 2 to 4 cycles late, so
    that all registers after it see the same edge. A synchroniser that is set at once would not ensure that.
    After power-up it is high for the first cycles.

    ``source``: the reset's own clock. The level then lasts for two edges of it, too, and so until an
    :class:`AsyncQueue` written or read by that clock holds its side in ``domain``.
    """
    if source is not None:
        reset = reset_caught(m, f"{name}_own", reset, source)
    level = Signal(name=name, init=1)
    caught = reset_caught(m, name, reset, domain)
    m.submodules[name] = FFSynchronizer(caught, level, o_domain=domain, init=1)
    return level


def pulse_seen(m: Module, name: str, pulse: Any, source: str, domain: str) -> Signal:
    """Give a cycle in ``domain`` for each cycle of ``pulse`` in the domain ``source``, 2 to 3 cycles later.

    Pulses must be 2 cycles of ``domain`` apart. A level crosses that changes with each pulse and that no
    reset touches, so a reset of either domain makes no pulse.
    """
    level = Signal(name=f"{name}_level", reset_less=True)
    level_seen = Signal(name=f"{name}_level_seen")
    before = Signal(name=f"{name}_before", reset_less=True)
    seen = Signal(name=f"{name}_seen")
    m.submodules[f"{name}_level"] = FFSynchronizer(level, level_seen, o_domain=domain)
    m.d[source] += level.eq(level ^ pulse)
    m.d[domain] += before.eq(level_seen)
    m.d.comb += seen.eq(level_seen ^ before)
    return seen


class StreamCrossing(wiring.Component):
    """A stream from one clock to another, beat by beat, through an :class:`AsyncQueue`.

    One beat per cycle of the slower clock; latency 2 to 3 cycles of the reading clock. If that is the writing
    clock, frames have gaps at the output. A MAC that accepts none needs a
    :class:`~inceptionn.hdl.attach.frame_queue.FrameQueue` after it.

    Parameters
    ----------
    write_domain, read_domain : :class:`str`
        Clock domains of ``s_axis`` and ``m_axis``.
    data_bytes, user_width : :class:`int`
        As of :class:`AXIStream`.
    depth : :class:`int`
        Beats; a power of two.
    """

    def __init__(
        self,
        *,
        write_domain: str,
        read_domain: str,
        data_bytes: int = BURST_BYTES,
        user_width: int = 1,
        depth: int = 32,
    ):
        self.write_domain = write_domain
        self.read_domain = read_domain
        self.depth = depth
        stream = AXIStream(data_bytes, user_width)
        self.shape = data.StructLayout(
            {"tdata": 8 * data_bytes, "tkeep": data_bytes, "tuser": user_width, "tlast": 1}
        )
        super().__init__(
            {
                "s_axis": In(stream),  #: In the writing clock.
                "m_axis": Out(stream),  #: In the reading clock.
            }
        )

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        m.submodules.queue = queue = AsyncQueue(
            self.shape, self.depth, write_domain=self.write_domain, read_domain=self.read_domain
        )
        m.d.comb += [
            queue.i.valid.eq(self.s_axis.tvalid),
            self.s_axis.tready.eq(queue.i.ready),
            self.m_axis.tvalid.eq(queue.o.valid),
            queue.o.ready.eq(self.m_axis.tready),
        ]
        for name in self.shape.members:
            m.d.comb += [
                queue.i.payload[name].eq(getattr(self.s_axis, name)),
                getattr(self.m_axis, name).eq(queue.o.payload[name]),
            ]
        return m


CHANNELS = {
    "aw": ("awaddr", "awprot"),
    "w": ("wdata", "wstrb"),
    "ar": ("araddr", "arprot"),
    "b": ("bresp",),
    "r": ("rdata", "rresp"),
}
"""AXI4-Lite's channels: prefix of valid and ready to what they carry (Arm IHI 0022, A2)."""


class AXI4LiteCrossing(wiring.Component):
    """AXI4-Lite from the master's clock to the slave's; requests and answers through an :class:`AsyncQueue`.

    At most one read and one write are in flight at the slave. Address and data of a write cross together.
    Either side may be reset alone, at any moment. After a reset of the master's side, an access that the
    slave has begun is finished there and its answer dropped; any other is forgotten. After a reset of the
    slave's side, nothing that was in flight is answered. Whoever drives ``s_axil`` sees ``alive`` fall and
    must answer itself.

    Parameters
    ----------
    master_domain, slave_domain : :class:`str`
        Clock domains of the side that asks and of the side that answers.
    addr_width : :class:`int`
    """

    DEPTH = 8

    def __init__(self, *, master_domain: str, slave_domain: str, addr_width: int):
        self.master_domain = master_domain
        self.slave_domain = slave_domain
        self.addr_width = addr_width
        bus = AXI4Lite(addr_width)
        super().__init__(
            {
                "s_axil": In(bus),  #: To the master.
                "m_axil": Out(bus),  #: To the slave.
                #: In the master's clock: the slave is not in reset. Low for at least one cycle for each of
                #: its resets; no request is taken then.
                "alive": Out(1),
            }
        )

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        master, slave = self.master_domain, self.slave_domain
        slave_reset = reset_caught(m, "slave_reset", ResetSignal(slave, allow_reset_less=True), slave)
        stopped = reset_seen(m, "stopped", slave_reset, master)
        master_reset = reset_seen(
            m, "master_reset", ResetSignal(master, allow_reset_less=True), slave, master
        )
        # A reset between two edges of the slave's clock touches no register; its access is dropped, too.
        orphaned = Signal()
        m.d.comb += [self.alive.eq(~stopped), orphaned.eq(master_reset | slave_reset)]
        self._access(m, "write", ("aw", "w"), "b", orphaned)
        self._access(m, "read", ("ar",), "r", orphaned)
        return m

    def _access(
        self, m: Module, kind: str, request: tuple[str, ...], response: str, orphaned: Signal
    ) -> None:
        """Cross one kind of access. The slave's side keeps a request until its answer, through any reset."""
        master, slave = self.s_axil, self.m_axil
        names = [name for prefix in request for name in CHANNELS[prefix]]
        there, back = (
            data.StructLayout({name: getattr(master, name).shape() for name in part})
            for part in (names, CHANNELS[response])
        )
        asked = AsyncQueue(there, self.DEPTH, write_domain=self.master_domain, read_domain=self.slave_domain)
        answered = AsyncQueue(
            back, self.DEPTH, write_domain=self.slave_domain, read_domain=self.master_domain
        )
        m.submodules[f"{kind}_asked"], m.submodules[f"{kind}_answered"] = asked, answered

        taken = Signal(name=f"{kind}_taken")
        m.d.comb += [
            taken.eq(asked.i.valid & asked.i.ready),
            getattr(master, f"{response}valid").eq(answered.o.valid),
            answered.o.ready.eq(getattr(master, f"{response}ready")),
        ]
        m.d.comb += [asked.i.payload[name].eq(getattr(master, name)) for name in names]
        m.d.comb += [getattr(master, name).eq(answered.o.payload[name]) for name in back.members]
        offered: Any = self.alive
        for prefix in request:
            offered = offered & getattr(master, f"{prefix}valid")
            m.d.comb += getattr(master, f"{prefix}ready").eq(taken)
        m.d.comb += asked.i.valid.eq(offered)

        # `busy`: the slave has a request. `orphan`: its master has been reset since.
        sync = m.d[self.slave_domain]
        busy = Signal(name=f"{kind}_busy")
        orphan = Signal(name=f"{kind}_orphan")
        drop = Signal(name=f"{kind}_drop")
        free = Signal(name=f"{kind}_free")
        valid, ready = getattr(slave, f"{response}valid"), getattr(slave, f"{response}ready")
        m.d.comb += [
            drop.eq(orphan | orphaned),
            free.eq(~busy & ~orphaned),
            asked.o.ready.eq(free),
            ready.eq(busy & (drop | answered.i.ready)),
            answered.i.valid.eq(busy & valid & ~drop),
        ]
        m.d.comb += [answered.i.payload[name].eq(getattr(slave, name)) for name in back.members]
        with m.If(free):
            sync += [busy.eq(asked.o.valid), orphan.eq(0)]
            sync += [getattr(slave, name).eq(asked.o.payload[name]) for name in names]
            sync += [getattr(slave, f"{prefix}valid").eq(asked.o.valid) for prefix in request]
        with m.Else():
            sync += [busy.eq(busy & ~(valid & ready)), orphan.eq(drop)]
            for prefix in request:
                with m.If(getattr(slave, f"{prefix}ready")):
                    sync += getattr(slave, f"{prefix}valid").eq(0)

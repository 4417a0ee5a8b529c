# SPDX-License-Identifier: BSD-2-Clause
"""One AXI4-Lite port for several register banks."""

from typing import Any

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import ceil_log2

from ..control.axi_lite import AXI4Lite, Response
from .clock_crossing import CHANNELS


class AXI4LiteDecoder(wiring.Component):
    """Forwards each access to the slave that its address selects, one write and one read at a time.

    Slave n answers from ``n * 2**page_width`` on. An access to a page without a slave gets ``SLVERR``; a read
    also gets zero. So does an access to a slave that is in reset or enters reset meanwhile. So every access
    ends. All outputs are flip-flops. A round trip takes 5 cycles.

    Parameters
    ----------
    slaves : :class:`int`
        1 or more.
    page_width : :class:`int`
        Address bits of a slave's page.
    addr_width : :class:`int`
        Address bits of the master.
    """

    def __init__(self, slaves: int, *, page_width: int, addr_width: int):
        if slaves < 1 or (slaves - 1) >> (addr_width - page_width):
            raise ValueError(
                "slaves must be 1 or more and fit in the address space, not "
                f"{(slaves, page_width, addr_width)!r}"
            )
        self.slaves = slaves
        self.page_width = page_width
        self.addr_width = addr_width
        super().__init__(
            {
                "s_axil": In(AXI4Lite(addr_width)),  #: To the master.
                "m_axil": Out(AXI4Lite(page_width)).array(slaves),  #: To the slaves, by number.
                #: Of each slave: it is not in reset. A slave takes no request while it is low.
                "alive": In(slaves),
            }
        )

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        self.probes: dict[str, Any] = {}
        self._access(m, "write", request=("aw", "w"), response="b")
        self._access(m, "read", request=("ar",), response="r")
        return m

    def _access(self, m: Module, kind: str, *, request: tuple[str, ...], response: str) -> None:
        """Make one state machine: take the request, forward it, wait for the answer, return it."""
        bus = self.s_axil
        names = [name for prefix in request for name in CHANNELS[prefix]]
        kept = {name: Signal.like(getattr(bus, name), name=f"{name}_kept") for name in names}
        page = kept[f"{request[0]}addr"][self.page_width :]
        chosen = Signal(range(max(2, 1 << ceil_log2(self.slaves))), name=f"{kind}_chosen")
        m.d.comb += chosen.eq(page)
        held = {prefix: Signal(name=f"{prefix}_held") for prefix in request}
        ready = {prefix: getattr(bus, f"{prefix}ready") for prefix in request}
        busy = Signal(name=f"{kind}_busy")
        valid = getattr(bus, f"{response}valid")
        self.probes[kind] = {"busy": busy, "held": held, "kept": kept}
        for prefix in request:
            accept = getattr(bus, f"{prefix}valid") & ready[prefix]
            m.d.sync += ready[prefix].eq(~held[prefix] & ~accept & ~valid)
            with m.If(accept):
                m.d.sync += held[prefix].eq(1)
                m.d.sync += [kept[name].eq(getattr(bus, name)) for name in kept if name.startswith(prefix)]
        for slave in self.m_axil:
            for name, value in kept.items():
                m.d.comb += getattr(slave, name).eq(value[: getattr(slave, name).shape().width])

        there, alive, came = (Signal(name=f"{kind}_{name}") for name in ("there", "alive", "came"))
        pending = [Signal(name=f"{kind}_pending{n}") for n in range(self.slaves)]
        mine = [busy & (chosen == n) for n in range(self.slaves)]
        outcome = {
            name: Signal.like(getattr(bus, name), name=f"{kind}_{name}") for name in CHANNELS[response]
        }
        m.d.comb += there.eq(page < self.slaves)
        complete = ~busy & ~valid
        for prefix in request:
            complete &= held[prefix]
        for n, slave in enumerate(self.m_axil):
            # A request stays until it is accepted, separately on each channel, or refused. `alive` counts
            # from the cycle in which it is offered, for the request and for its answer.
            for prefix in request:
                slave_valid = getattr(slave, f"{prefix}valid")
                with m.If(complete & there & (chosen == n)):
                    m.d.sync += slave_valid.eq(1)
                with m.Elif(getattr(slave, f"{prefix}ready") | ~self.alive[n]):
                    m.d.sync += slave_valid.eq(0)
            m.d.comb += pending[n].eq(getattr(slave, f"{response}valid"))
            m.d.comb += getattr(slave, f"{response}ready").eq(mine[n])
            with m.If(mine[n]):
                m.d.comb += [alive.eq(self.alive[n]), came.eq(pending[n])]
                m.d.comb += [outcome[name].eq(getattr(slave, name)) for name in CHANNELS[response]]

        with m.If(complete):
            m.d.sync += busy.eq(1)
        with m.If(busy & (came | ~alive | ~there)):
            answered = came & alive & there
            m.d.sync += [busy.eq(0), valid.eq(1)]
            m.d.sync += [held[prefix].eq(0) for prefix in request]
            for name in CHANNELS[response]:
                refusal = Response.SLVERR.value if name.endswith("resp") else 0
                m.d.sync += getattr(bus, name).eq(Mux(answered, outcome[name], refusal))
        with m.Elif(getattr(bus, f"{response}ready")):
            m.d.sync += valid.eq(0)

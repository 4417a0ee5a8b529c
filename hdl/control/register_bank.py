# SPDX-License-Identifier: BSD-2-Clause
"""The NIC's register bank: settings and counters on AXI4-Lite."""

from functools import reduce
from operator import or_
from typing import Any

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import exact_log2

from inceptionn.wire import DEFAULT_BF16_TOS, DEFAULT_MAX_PAYLOAD

from ..codec.shape import USUAL, EngineShape
from .axi_lite import AXI4Lite, Response
from .config import DEFAULT_CONFIG, EngineConfig
from .counters import CounterRead, counter_read_latency
from .register_map import DATA_WIDTH
from .registers import (
    ADDRESS_WIDTH,
    COUNTER_BASE,
    COUNTER_BYTES,
    COUNTER_SLOTS,
    DIRECTIONS,
    OTHERS_BASE,
    VERDICT_SLOTS,
    Direction,
    registers_of,
)


class RegisterBank(wiring.Component):
    """AXI4-Lite slave of :data:`inceptionn.hdl.control.registers.REGISTERS`: settings and counters.

    At most one write and one read are in flight, independent of each other. Address and data of a write may
    come in either order. All outputs are flip-flops. With a master that never waits, a write takes 4 cycles
    from the later of its two handshakes to ``bvalid``. A read takes 4 cycles to ``rvalid``. A read of a
    counter's low word takes 5 + :func:`counter_read_latency`, and more only while the counters are being
    cleared.

    A ``PAYLOAD.MAX`` above 9216 is clamped. Settings reach both engines in the same cycle, together with
    their ``parameters_valid``, no later than the write's ``bvalid``. A ``TOS.BF16`` that is 0 in the bits of
    the mask reaches them as ``TOS.VALUE``, which means that there are no bf16 lanes.
    """

    def __init__(self, shape: EngineShape = USUAL):
        self.shape = shape
        self.registers = registers_of(shape.codec.name, shape.bf16)
        super().__init__(
            {
                "s_axil": In(AXI4Lite()),  #: To the master.
                "tx_config": Out(EngineConfig),  #: Settings of the transmit engine.
                "rx_config": Out(EngineConfig),  #: Settings of the receive engine.
                **({"bf16_tos": Out(8)} if shape.bf16 else {}),  #: With bf16 lanes: setting of both engines.
                "clear": Out(1),  #: High for one cycle for each ``COMMAND.CLEAR_COUNTERS``.
                "tx_counters": Out(CounterRead()),  #: The transmit engine's counters.
                "rx_counters": Out(CounterRead()),  #: The receive engine's counters.
            }
        )

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        values = {
            register.name: Signal(DATA_WIDTH, name=register.name.lower(), init=register.reset)
            for register in self.registers
            if register.fields
        }
        self.probes: dict[str, Any] = {"values": values}
        self._write(m, values)
        self._settings(m, values)
        self._read(m, values)
        return m

    def _write(self, m: Module, values: dict[str, Signal]) -> None:
        """Hold address and data until both have arrived; then decode, apply, respond: one cycle each."""
        bus = self.s_axil
        aw_held = Signal()
        w_held = Signal()
        address = Signal(ADDRESS_WIDTH - 2)
        data = Signal.like(bus.wdata)
        strobe = Signal.like(bus.wstrb)
        decode = Signal()
        apply = Signal()
        respond = Signal()
        self.probes["write"] = {
            "aw_held": aw_held, "w_held": w_held, "address": address, "data": data, "strobe": strobe,
            "apply": apply, "respond": respond,
        }  # fmt: skip

        # Ready is low in reset and while a value is held. It never depends on valid.
        for valid, ready, held in ((bus.awvalid, bus.awready, aw_held), (bus.wvalid, bus.wready, w_held)):
            with m.If(ready & valid):
                m.d.sync += [ready.eq(0), held.eq(1)]
            with m.Elif(~held):
                m.d.sync += ready.eq(1)
        with m.If(bus.awready):
            m.d.sync += address.eq(bus.awaddr[2:])
        with m.If(bus.wready):
            m.d.sync += [data.eq(bus.wdata), strobe.eq(bus.wstrb)]

        # decode -> apply -> respond -> bvalid: one token for each write.
        m.d.comb += decode.eq(aw_held & w_held & ~apply & ~respond & ~bus.bvalid)
        m.d.sync += [apply.eq(decode), respond.eq(apply)]
        hit = Signal()
        m.d.sync += [self.clear.eq(0), hit.eq(0)]
        for register in self.registers:
            if register.access == "ro":
                continue
            selected = Signal(name=f"write_{register.name.lower()}")
            m.d.sync += selected.eq(decode & (address == register.offset >> 2))
            with m.If(selected):
                m.d.sync += hit.eq(1)
            if register.access == "rw":
                for lane in range(DATA_WIDTH // 8):
                    part = slice(8 * lane, 8 * lane + 8)
                    existing = (register.mask >> 8 * lane) & 0xFF
                    with m.If(selected & strobe[lane]):
                        m.d.sync += values[register.name][part].eq(data[part] & existing)
            else:
                command = register["CLEAR_COUNTERS"]
                m.d.sync += self.clear.eq(selected & strobe[command.lsb // 8] & data[command.lsb])
        with m.If(respond):
            m.d.sync += [
                bus.bvalid.eq(1),
                bus.bresp.eq(Mux(hit, Response.OKAY.value, Response.SLVERR.value)),
                aw_held.eq(0),
                w_held.eq(0),
            ]
        with m.Elif(bus.bready):
            m.d.sync += bus.bvalid.eq(0)

    def _settings(self, m: Module, values: dict[str, Signal]) -> None:
        """Register the engines' settings, clamped and checked, in a second row, one cycle later."""

        def field(register: str, name: str) -> Any:
            part = self.registers[register][name]
            return values[register][part.lsb : part.lsb + part.width]

        parameters = {
            part.name.lower(): field("PARAMETERS", part.name) for part in self.registers["PARAMETERS"].fields
        }
        valid = field("STATUS", "PARAMETERS_VALID")
        max_payload = field("PAYLOAD", "MAX")
        beyond = max_payload > DEFAULT_MAX_PAYLOAD
        m.d.sync += valid.eq(self.shape.codec.usable(**parameters))
        with m.If(beyond):
            m.d.sync += max_payload.eq(DEFAULT_MAX_PAYLOAD)

        settings = {
            "tos": field("TOS", "VALUE"),
            "tos_mask": field("TOS", "MASK"),
            **parameters,
            "min_payload": field("PAYLOAD", "MIN"),
            "max_payload": Mux(beyond, DEFAULT_MAX_PAYLOAD, max_payload),
            "learn_phases": field("CONTROL", "LEARN_PHASES"),
        }
        for name, value in settings.items():
            setting = Signal(EngineConfig.as_shape()[name].shape, name=name, init=DEFAULT_CONFIG[name])
            m.d.sync += setting.eq(value)
            m.d.comb += [self.tx_config[name].eq(setting), self.rx_config[name].eq(setting)]
        if self.shape.bf16:
            bf16_tos = Signal(8, init=DEFAULT_BF16_TOS)
            value, mask, bf16 = (field("TOS", name) for name in ("VALUE", "MASK", "BF16"))
            # A driver that knows the first two alone writes 0: no traffic with ToS 0 may become bf16.
            m.d.sync += bf16_tos.eq(Mux((bf16 & mask).any(), bf16, value))
            m.d.comb += self.bf16_tos.eq(bf16_tos)
        for config, name in ((self.tx_config, "TX_ENABLE"), (self.rx_config, "RX_ENABLE")):
            enable = Signal(name=name.lower(), init=self.registers["CONTROL"][name].reset)
            m.d.sync += enable.eq(field("CONTROL", name))
            m.d.comb += [config.enable.eq(enable), config.parameters_valid.eq(valid)]

    def _counter_at(self, direction: Direction, place: Value) -> tuple[Value, Value]:
        """Return whether a direction has a counter at an address, in counters, and that counter's slot."""
        number, page = place[: exact_log2(VERDICT_SLOTS)], place[exact_log2(VERDICT_SLOTS) :]
        first, others = (base[direction] // COUNTER_BYTES for base in (COUNTER_BASE, OTHERS_BASE))
        upper = page == others // VERDICT_SLOTS
        slot = Cat(number ^ Mux(upper, others % VERDICT_SLOTS, 0), upper)
        slots = Const(sum(1 << number for number in self.registers.counters(direction)), COUNTER_SLOTS)
        return (upper | (page == first // VERDICT_SLOTS)) & slots.bit_select(slot, 1), slot

    def _read(self, m: Module, values: dict[str, Signal]) -> None:
        """Hold the address until the response is made, so that no decoding stage needs an enable."""
        bus = self.s_axil
        held = Signal()
        address = Signal(ADDRESS_WIDTH - 2)
        with m.If(bus.arready & bus.arvalid):
            m.d.sync += [bus.arready.eq(0), held.eq(1)]
        with m.Elif(~held):
            m.d.sync += bus.arready.eq(1)
        with m.If(bus.arready):
            m.d.sync += address.eq(bus.araddr[2:])

        # First stage: select the register. Second stage: the value, unless it is a counter.
        known = Signal()
        is_high = Signal()
        is_low = Signal()
        selected = {name: Signal(name=f"read_{name.lower()}") for name in values}
        for name, select in selected.items():
            m.d.sync += select.eq(address == self.registers[name].offset >> 2)
        counter = {direction: self._counter_at(direction, address[1:]) for direction in DIRECTIONS}
        reading = {direction: Signal(name=f"read_{direction}") for direction in DIRECTIONS}
        for direction, select in reading.items():
            m.d.sync += select.eq(counter[direction][0])
        high_word = Signal()
        m.d.sync += high_word.eq(address[0])
        is_counter = Cat(reading.values()).any()
        value = Signal(DATA_WIDTH)
        m.d.sync += [
            value.eq(reduce(or_, (Mux(select, values[name], 0) for name, select in selected.items()))),
            known.eq(is_counter | Cat(selected.values()).any()),
            is_low.eq(is_counter & ~high_word),
            is_high.eq(is_counter & high_word),
        ]

        ports = {direction: getattr(self, f"{direction}_counters") for direction in DIRECTIONS}
        from_tx = Signal()
        m.d.sync += from_tx.eq(reading["tx"])
        data = Signal(2 * DATA_WIDTH)
        m.d.comb += data.eq(Mux(from_tx, ports["tx"].data, ports["rx"].data))
        kept_high = Signal(DATA_WIDTH)
        for direction, port in ports.items():
            m.d.sync += port.slot.eq(counter[direction][1])
        strobes = Cat(port.strobe for port in ports.values())
        m.d.sync += strobes.eq(0)

        with m.FSM() as fsm:
            with m.State("IDLE"), m.If(held & ~bus.rvalid):
                m.next = "DECODE"
            with m.State("DECODE"):
                m.next = "RESPOND"
                with m.If(is_counter & ~high_word):
                    m.next = "FETCH"
            # While the counters are being cleared, some may hold their old value: wait.
            with m.State("FETCH"), m.If(~ports["tx"].busy & ~ports["rx"].busy):
                m.d.sync += strobes.eq(Cat(reading.values()))
                m.next = "WAIT_0"
            latency = counter_read_latency(self.shape)
            for cycle in range(latency):
                with m.State(f"WAIT_{cycle}"):
                    m.next = f"WAIT_{cycle + 1}" if cycle + 1 < latency else "RESPOND"
            with m.State("RESPOND"):
                m.d.sync += [
                    bus.rvalid.eq(1),
                    bus.rdata.eq(Mux(is_low, data[:DATA_WIDTH], Mux(is_high, kept_high, value))),
                    bus.rresp.eq(Mux(known, Response.OKAY.value, Response.SLVERR.value)),
                    held.eq(0),
                ]
                with m.If(is_low):
                    m.d.sync += kept_high.eq(data[DATA_WIDTH:])
                m.next = "IDLE"
        self.probes["read"] = {
            "held": held, "address": address, "kept_high": kept_high, "state": fsm.state,
        }  # fmt: skip
        with m.If(bus.rvalid & bus.rready):
            m.d.sync += bus.rvalid.eq(0)

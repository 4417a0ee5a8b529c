# SPDX-License-Identifier: BSD-2-Clause
"""AXI4-Lite (Arm IHI 0022): the register bank and the decoder keep the slave's rules, for any master."""

from functools import partial
from typing import Any

from amaranth.hdl import C, Cat, Mux, Signal, Value
from harness import Fault, Harness, Proof

from inceptionn.hdl.attach.axi_lite_decoder import AXI4LiteDecoder
from inceptionn.hdl.codec.shape import EngineShape
from inceptionn.hdl.control.register_bank import RegisterBank
from inceptionn.hdl.control.registers import IDENTITY
from inceptionn.wire import CODECS, DEFAULT_MAX_PAYLOAD

OKAY, SLVERR = 0, 2


class Master:
    """A master that does anything, and the slave's rules towards it."""

    def __init__(self, h: Harness, bus: Any):
        self.h, self.bus, m = h, bus, h.m
        for name in ("awvalid", "wvalid", "arvalid", "bready", "rready"):
            m.d.comb += getattr(bus, name).eq(h.anything(1, name))
        for name in ("awaddr", "wdata", "wstrb", "araddr"):
            m.d.comb += getattr(bus, name).eq(h.anything(len(getattr(bus, name)), name))
        # Requests that are accepted and not answered.
        self.open = {prefix: Signal(3, name=f"{prefix}_open") for prefix in ("aw", "w", "ar")}
        for prefix, answer in (("aw", "b"), ("w", "b"), ("ar", "r")):
            taken = getattr(bus, f"{prefix}valid") & getattr(bus, f"{prefix}ready")
            given = getattr(bus, f"{answer}valid") & getattr(bus, f"{answer}ready")
            m.d.sync += self.open[prefix].eq(self.open[prefix] + taken - given)
        h.claim(
            "no answer without its request",
            (~bus.bvalid | ((self.open["aw"] != 0) & (self.open["w"] != 0)))
            & (~bus.rvalid | (self.open["ar"] != 0)),
        )
        h.claim(
            "at most two requests of a kind are open", Cat(number <= 2 for number in self.open.values()).all()
        )
        for answer, payload in (("b", Cat(bus.bresp)), ("r", Cat(bus.rresp, bus.rdata))):
            waits, was = Signal(name=f"{answer}_waits"), Signal(len(payload), name=f"{answer}_was")
            valid = getattr(bus, f"{answer}valid")
            m.d.sync += [waits.eq(valid & ~getattr(bus, f"{answer}ready")), was.eq(payload)]
            h.claim("an answer stays until it is taken", ~waits | (valid & (payload == was)))

    def rises(self, answer: str) -> Value:
        """Return whether this is the first cycle of an answer."""
        valid = getattr(self.bus, f"{answer}valid")
        before = Signal(name=f"{answer}_before")
        self.h.m.d.sync += before.eq(valid & ~getattr(self.bus, f"{answer}ready"))
        return valid & ~before

    def kept(self, prefix: str, name: str) -> Signal:
        """Return what the request accepted last carried."""
        value = getattr(self.bus, name)
        kept = Signal(len(value), name=f"kept_{name}")
        with self.h.m.If(getattr(self.bus, f"{prefix}valid") & getattr(self.bus, f"{prefix}ready")):
            self.h.m.d.sync += kept.eq(value)
        return kept

    def age(self, waiting: Value, name: str) -> Signal:
        """Cycles before this one in which ``waiting`` held without a break."""
        age = Signal(6, name=name)
        self.h.m.d.sync += age.eq(Mux(waiting, age + (age != 63), 0))
        return age


def register_bank(codec: str, h: Harness) -> None:
    dut = RegisterBank(EngineShape.of(codec=codec))
    inside = h.add(dut)
    bus, m = dut.s_axil, h.m
    for port in (dut.tx_counters, dut.rx_counters):
        m.d.comb += [port.data.eq(h.anything(64, "counter")), port.busy.eq(h.anything(1, "busy"))]
    master = Master(h, bus)
    address, data, strobe = (
        master.kept(*pair) for pair in (("aw", "awaddr"), ("w", "wdata"), ("w", "wstrb"))
    )
    read_at = master.kept("ar", "araddr")

    # What the bank holds of a write, and its one token.
    aw_held, w_held, apply, respond = (inside[name] for name in ("aw_held", "w_held", "apply", "respond"))
    h.invariant(
        "what is held is not answered",
        (master.open["aw"] == aw_held + bus.bvalid) & (master.open["w"] == w_held + bus.bvalid),
    )
    h.invariant("ready is low while a value is held", ~(bus.awready & aw_held) & ~(bus.wready & w_held))
    h.invariant(
        "one token for each write",
        (apply + respond + bus.bvalid <= 1) & (~(apply | respond) | (aw_held & w_held)),
    )
    held_at, reading_at = inside.every("address")
    (held_data,) = (one for one in inside.every("data") if len(one) == 32)
    h.invariant(
        "a held write is the one accepted",
        (~aw_held | (held_at == address[2:]))
        & (~w_held | ((held_data == data) & (inside["strobe"] == strobe))),
    )
    waiting = (master.open["aw"] != 0) & (master.open["w"] != 0) & ~bus.bvalid
    age = master.age(waiting, "write_age")
    h.claim("a write is answered 4 cycles after the later of its handshakes", ~waiting | (age < 3))
    h.invariant("the token is as old as the wait", ~waiting | (age == apply + 2 * respond))

    registers = list(dut.registers)
    at = Cat(C(0, 2), address[2:])
    writable = Cat(at == register.offset for register in registers if register.access != "ro").any()
    written = master.rises("b") & h.running(6)
    h.claim(
        "a write is refused if and only if its register cannot be written",
        ~written | (bus.bresp == Mux(writable, OKAY, SLVERR)),
    )
    tos = dut.registers["TOS"]
    part = tos["VALUE"].lsb
    h.claim(
        "a setting is in force when its write is answered",
        ~written
        | (at != tos.offset)
        | ~strobe.bit_select(part // 8, 1)
        | (dut.tx_config.tos == data[part : part + 8]),
    )
    settings = ("tos", "tos_mask", "e0", "t", "b", "parameters_valid", "min_payload", "max_payload")
    h.claim(
        "both engines have the same settings",
        Cat(dut.tx_config[name] == dut.rx_config[name] for name in settings).all(),
    )
    e0, t, b = dut.tx_config.e0, dut.tx_config.t, dut.tx_config.b
    usable = (e0 >= 113) & (e0 <= 126) if codec == "planes" else (e0 >= 1) & (e0 <= t) & (t <= 127) & (t <= b)
    started = h.running(1)
    h.claim(
        "parameters_valid is that of the parameters beside it",
        ~started | (dut.tx_config.parameters_valid == usable),
    )
    h.claim("max_payload is at most 9216", dut.tx_config.max_payload <= DEFAULT_MAX_PAYLOAD)

    held = inside["held"]
    h.invariant(
        "a read that is held is not answered, and no other is taken",
        (master.open["ar"] == held + bus.rvalid) & ~(bus.arready & held),
    )
    state = inside["fsm_state"]
    h.invariant("a held read is the one accepted", ~held | (reading_at == read_at[2:]))
    h.invariant("the reader works only for a read that is held", (state == 0) | (held & ~bus.rvalid))
    place = Cat(C(0, 2), read_at[2:])
    readable: Value = Cat(place == register.offset for register in registers if register.fields).any()
    for direction, base in (("tx", 0x100), ("rx", 0x200)):
        for number in dut.registers.counter_slots(direction):
            start = base + 8 * number if number < 32 else 0x300 + 8 * (number - 32)
            readable = readable | (Cat(C(0, 3), place[3:]) == start)
    done = master.rises("r") & h.running(4)
    h.claim(
        "a read is refused if and only if nothing lies at its address",
        ~done | (bus.rresp == Mux(readable, OKAY, SLVERR)),
    )
    h.claim("ID reads as itself", ~done | (place != dut.registers["ID"].offset) | (bus.rdata == IDENTITY))
    h.cover("a write of TOS with another open", written & (at == tos.offset) & (dut.tx_config.tos == 0x5A))
    h.cover("a counter's low word is read", done & (bus.rresp == OKAY) & (place == 0x1C0))
    h.cover("a refused read", done & (bus.rresp == SLVERR))


def decoder(h: Harness) -> None:
    """Four pages, slaves at the first two, which answer what they are asked and may be reset at any time."""
    dut = AXI4LiteDecoder(2, page_width=4, addr_width=6)
    h.add(dut)
    m, bus = h.m, dut.s_axil
    master = Master(h, bus)
    m.d.comb += dut.alive.eq(h.anything(2, "alive"))
    given = {}
    for number, slave in enumerate(dut.m_axil):
        for name in ("awready", "wready", "arready"):
            m.d.comb += getattr(slave, name).eq(h.anything(1, f"{name}_{number}"))
        for answer, prefixes, payload in (("b", ("aw", "w"), ("bresp",)), ("r", ("ar",), ("rresp", "rdata"))):
            # A request is open from its handshake on; an answer or a reset closes it.
            opened = [Signal(name=f"{prefix}_at_{number}") for prefix in prefixes]
            valid = h.anything(1, f"{answer}valid_{number}")
            m.d.comb += getattr(slave, f"{answer}valid").eq(valid)
            for name in payload:
                m.d.comb += getattr(slave, name).eq(h.anything(len(getattr(slave, name)), f"{name}_{number}"))
            h.assume(
                "a slave answers only what it was asked, and not in reset",
                ~valid | (Cat(opened).all() & dut.alive[number]),
            )
            for prefix, one in zip(prefixes, opened, strict=True):
                taken = (
                    getattr(slave, f"{prefix}valid") & getattr(slave, f"{prefix}ready") & dut.alive[number]
                )
                with m.If(~dut.alive[number] | (valid & getattr(slave, f"{answer}ready"))):
                    m.d.sync += one.eq(0)
                with m.Elif(taken):
                    m.d.sync += one.eq(1)
                h.claim(
                    "a slave gets one request of a kind at a time", ~(getattr(slave, f"{prefix}valid") & one)
                )
            given[number, answer] = valid & getattr(slave, f"{answer}ready")
    for answer, prefix in (("b", "aw"), ("r", "ar")):
        at = master.kept(prefix, f"{prefix}addr")
        page, rises = at[4:], master.rises(answer)
        response = getattr(bus, f"{answer}resp")
        for number, slave in enumerate(dut.m_axil):
            came = h.past(given[number, answer])
            h.claim(
                "an answer of the slave that the address selects is passed on",
                ~(rises & came) | ((page == number) & (response == h.past(getattr(slave, f"{answer}resp")))),
            )
        nobody = ~(h.past(given[0, answer]) | h.past(given[1, answer]))
        h.claim("any other answer is SLVERR", ~(rises & nobody) | (response == SLVERR))
        open_now = (
            (master.open[prefix] != 0)
            & ((answer == "r") | (master.open["w"] != 0))
            & ~getattr(bus, f"{answer}valid")
        )
        age = master.age(open_now & (page >= 2), f"{answer}_age")
        h.claim("a page without a slave is answered within 3 cycles", ~(open_now & (page >= 2)) | (age < 3))
        dead = open_now & (page < 2) & ~dut.alive.bit_select(page[:1], 1)
        h.claim("so is an access to a slave in reset", ~dead | (master.age(dead, f"{answer}_dead") < 3))
    r = bus.rvalid & bus.rready
    h.cover("a read of the second slave", r & (bus.rdata == 0x1234) & (bus.rresp == OKAY))
    h.cover(
        "a write that a reset of its slave ends",
        bus.bvalid & (bus.bresp == SLVERR) & (master.open["aw"] == 1),
    )


_BANK = "control.register_bank"
PROOFS = (
    *(
        Proof(f"registers, {codec}", partial(register_bank, codec), 8, (
            Fault(_BANK, "~apply & ~respond & ~bus.bvalid", "~apply & ~respond"),
            Fault(_BANK, "Mux(beyond, DEFAULT_MAX_PAYLOAD, max_payload)", "max_payload"),
        ), refute_depth=16, cover_depth=20)
        for codec in CODECS
    ),
    Proof("axi_lite_decoder", decoder, 24, (
        Fault("attach.axi_lite_decoder", "Response.SLVERR.value if", "Response.OKAY.value if"),
        Fault("attach.axi_lite_decoder", "busy & (came | ~alive | ~there)", "busy & (came | ~there)"),
    ), bounded=True, cover_depth=20),
)  # fmt: skip

# SPDX-License-Identifier: BSD-2-Clause
"""AXI4-Lite (Arm IHI 0022): the slave's rules towards any master, the decoder, and the registers' wires."""

from typing import Any

from amaranth.hdl import C, Cat, Mux, Signal, Value
from harness import Fault, Harness, Inside, Proof

from inceptionn.hdl.attach.axi_lite_decoder import AXI4LiteDecoder
from inceptionn.hdl.attach.clock_crossing import CHANNELS
from inceptionn.hdl.control.management import Management

OKAY, SLVERR = 0, 2


def drive(h: Harness, bus: Any) -> None:
    """Let a master do anything."""
    for name in ("awvalid", "wvalid", "arvalid", "bready", "rready"):
        h.m.d.comb += getattr(bus, name).eq(h.anything(1, name))
    for name in ("awaddr", "awprot", "wdata", "wstrb", "araddr", "arprot"):
        h.m.d.comb += getattr(bus, name).eq(h.anything(len(getattr(bus, name)), name))


class Master:
    """A master that does anything, and the slave's rules towards it."""

    def __init__(self, h: Harness, bus: Any):
        self.h, self.bus, m = h, bus, h.m
        drive(h, bus)
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


ANSWERS = {"b": ("aw", "w"), "r": ("ar",)}
"""The requests that an answer closes; the first one has the address."""
KINDS = {"b": "write", "r": "read"}
"""The accesses that end with an answer."""


class Slave:
    """Slave ``number`` of the decoder: answers what it is asked, and may be reset at any time."""

    def __init__(self, h: Harness, dut: AXI4LiteDecoder, number: int):
        self.h, self.number = h, number
        self.bus, self.alive = dut.m_axil[number], dut.alive[number]
        self.opened: dict[str, Signal] = {}
        """Of each kind, whether a request is open: from its handshake to its answer or a reset."""
        self.given: dict[str, Value] = {}
        """Of each kind, whether an answer is taken."""
        for answer in ANSWERS:
            self._answer(answer)

    def _answer(self, answer: str) -> None:
        """Add one side, writes or reads."""
        h, m, bus, number = self.h, self.h.m, self.bus, self.number
        for prefix in ANSWERS[answer]:
            m.d.comb += getattr(bus, f"{prefix}ready").eq(h.anything(1, f"{prefix}ready_{number}"))
            self.opened[prefix] = Signal(name=f"{prefix}_at_{number}")
        opened = Cat(self.opened[prefix] for prefix in ANSWERS[answer])
        valid = h.anything(1, f"{answer}valid_{number}")
        m.d.comb += getattr(bus, f"{answer}valid").eq(valid)
        for name in CHANNELS[answer]:
            m.d.comb += getattr(bus, name).eq(h.anything(len(getattr(bus, name)), f"{name}_{number}"))
        h.assume(
            "a slave answers only what it was asked since the last reset, and not in reset",
            ~valid | (opened.all() & self.alive),
        )
        h.claim("an answer of a slave is taken at once", ~valid | getattr(bus, f"{answer}ready"))
        self.given[answer] = valid & getattr(bus, f"{answer}ready")
        for prefix in ANSWERS[answer]:
            offered, one = getattr(bus, f"{prefix}valid"), self.opened[prefix]
            taken = offered & getattr(bus, f"{prefix}ready")
            with m.If(~self.alive | self.given[answer]):
                m.d.sync += one.eq(0)
            with m.Elif(taken):
                m.d.sync += one.eq(1)
            h.claim("a slave gets one request of a kind at a time", ~(offered & one))
            waits, was = Signal(name=f"{prefix}_waits_{number}"), self.payload(prefix)
            before = Signal(len(was), name=f"{prefix}_was_{number}")
            m.d.sync += [waits.eq(offered & ~taken & self.alive), before.eq(was)]
            h.claim(
                "a request stays as it is until the slave takes it or is in reset",
                ~waits | (offered & (was == before)),
            )

    def payload(self, prefix: str) -> Value:
        """Return all that a channel carries."""
        return Cat(getattr(self.bus, name) for name in CHANNELS[prefix])


def decoder(h: Harness) -> None:
    """Four pages, slaves at the first two."""
    dut = AXI4LiteDecoder(2, page_width=4, addr_width=6)
    inside = h.add(dut)
    m, bus = h.m, dut.s_axil
    master = Master(h, bus)
    m.d.comb += dut.alive.eq(h.anything(2, "alive"))
    slaves = [Slave(h, dut, number) for number in range(2)]
    for answer, prefixes in ANSWERS.items():
        kept = {prefix: [master.kept(prefix, name) for name in CHANNELS[prefix]] for prefix in prefixes}
        for prefix in prefixes:
            h.invariant(
                "what is held is the request that the master made last",
                ~inside[f"{KINDS[answer]}.held.{prefix}"]
                | (
                    Cat(inside[f"{KINDS[answer]}.kept.{name}"] for name in CHANNELS[prefix])
                    == Cat(kept[prefix])
                ),
            )
        page = kept[prefixes[0]][0][4:]
        kept[prefixes[0]][0] = kept[prefixes[0]][0][:4]
        valid = getattr(bus, f"{answer}valid")
        open_now = Cat(master.open[prefix] != 0 for prefix in prefixes).all() & ~valid
        open_age = master.age(open_now, f"{answer}_open")
        for slave in slaves:
            mine = page == slave.number
            for prefix in prefixes:
                offered = getattr(slave.bus, f"{prefix}valid")
                h.claim(
                    "a slave gets the request that the master made last, and only one for its page",
                    ~offered | (mine & (slave.payload(prefix) == Cat(kept[prefix]))),
                )
                h.claim(
                    "a complete request reaches its slave in the next cycle, once no earlier answer waits",
                    ~open_now | (open_age == 0) | ~mine | offered | slave.opened[prefix],
                )
        passed_on(h, master, slaves, answer, page)
        inner(h, inside, master, slaves, answer, page)
        for prefix in prefixes:
            idle = master.age(master.open[prefix] == 0, f"{prefix}_idle")
            h.claim(
                "a request is taken if none of its kind was open in the cycle before either",
                (master.open[prefix] != 0) | (idle == 0) | getattr(bus, f"{prefix}ready"),
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


def inner(h: Harness, inside: Inside, master: Master, slaves: list[Slave], answer: str, page: Value) -> None:
    """State what the decoder holds of an access, for the induction."""
    valid, prefixes = getattr(master.bus, f"{answer}valid"), ANSWERS[answer]
    busy = inside[f"{KINDS[answer]}.busy"]
    held = {prefix: inside[f"{KINDS[answer]}.held.{prefix}"] for prefix in prefixes}
    h.invariant(
        "a request is held until its answer",
        Cat(master.open[prefix] == one + valid for prefix, one in held.items()).all(),
    )
    h.invariant("an access holds all its requests", ~busy | (Cat(held.values()).all() & ~valid))
    for slave in slaves:
        chosen = busy & (page == slave.number)
        for prefix in prefixes:
            reached = getattr(slave.bus, f"{prefix}valid") | slave.opened[prefix]
            h.invariant("the slave of an access, and no other, has its requests", chosen == reached)


def passed_on(h: Harness, master: Master, slaves: list[Slave], answer: str, page: Value) -> None:
    """Claim that the master gets the slaves' answers, and SLVERR for lack of one."""
    bus, rises = master.bus, master.rises(answer)
    payload = [
        Cat(getattr(one, name) for name in CHANNELS[answer]) for one in (bus, *(s.bus for s in slaves))
    ]
    nobody: Value = C(1, 1)
    for slave, given in zip(slaves, payload[1:], strict=True):
        came, was = Signal(name=f"{answer}_came_{slave.number}"), Signal.like(given)
        h.m.d.sync += [came.eq(slave.given[answer]), was.eq(given)]
        nobody = nobody & ~came
        h.claim(
            "every answer of a slave is passed on as it is in the next cycle, from the page of the request",
            ~came | (rises & (page == slave.number) & (payload[0] == was)),
        )
    refused = (getattr(bus, f"{answer}resp") == SLVERR) & ((bus.rdata == 0) if answer == "r" else 1)
    h.claim("any other answer is SLVERR, of a read with 0", ~(rises & nobody) | refused)


def management(h: Harness) -> None:
    """Claim the wires between bank, counters and engines; of the counters, only that a clear arrives."""
    dut = Management()
    inside = h.add(dut)
    drive(h, dut.s_axil)
    for direction, engine in (("tx", dut.tx), ("rx", dut.rx)):
        for name, port in (
            ("in", engine.frame_in),
            ("out", engine.frame_out),
            ("valid", engine.reports.valid),
        ):
            h.m.d.comb += port.eq(h.anything(1, f"{direction}_{name}"))
        counters = f"{direction}_counters"
        cleared = Signal(name=f"{direction}_cleared", init=1)
        h.m.d.sync += cleared.eq(inside["registers.clear"])
        h.claim(
            "the counters of both engines are cleared by a reset and by the bank's clear, a cycle later",
            inside[f"{counters}.clears"] == cleared,
        )
        h.claim(
            "the bank reads the counters of both engines",
            Cat(
                inside[f"{counters}.read.{name}"] == inside[f"registers.{counters}.{name}"]
                for name in ("strobe", "slot", "data", "busy")
            ).all(),
        )
        h.claim(
            "an engine's settings are the bank's",
            Value.cast(engine.config) == inside[f"registers.{direction}_config"],
        )
    h.cover("a clear", ~dut.s_axil.bvalid & inside["registers.clear"])


_DECODER = "attach.axi_lite_decoder"
_FAULTS = (
    ("Response.SLVERR.value if", "Response.OKAY.value if"),
    ("busy & (came | ~alive | ~there)", "busy & (came | ~there)"),
    ("busy & (came | ~alive | ~there)", "busy & (came | ~alive)"),
    ("busy & (came | ~alive | ~there)", "busy & (~alive | ~there)"),
    ("Mux(answered, outcome[name], refusal)", "Mux(answered, outcome[name] ^ (name == 'rdata'), refusal)"),
    ("kept[name].eq(getattr(bus, name))", "kept[name].eq(getattr(bus, name) ^ (name == 'wdata'))"),
    ('m.Elif(getattr(slave, f"{prefix}ready") | ~self.alive[n])', "m.Else()"),
    ("eq(mine[n])", "eq(mine[n] & bus.bready)"),
    ("~accept & ~valid)", "~accept & ~valid & self.alive[0])"),
)
_WIRES = Fault("control.management", "counters.clear.eq(registers.clear)", "counters.clear.eq(0)")
PROOFS = (
    Proof("registers, wires", management, 3, (_WIRES,), refute_depth=8, cover_depth=8),
    Proof(
        "axi_lite_decoder", decoder, 5, tuple(Fault(_DECODER, old, new) for old, new in _FAULTS),
        cover_depth=12, refute_depth=12,
    ),
)  # fmt: skip

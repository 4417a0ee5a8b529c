# SPDX-License-Identifier: BSD-2-Clause
"""The register bank: what a write sets, what a read returns, and when both are answered, for any master."""

from functools import partial, reduce
from operator import or_
from typing import Any

from amaranth.hdl import C, Cat, Mux, Signal, Value
from bus import OKAY, SLVERR, Master
from harness import Fault, Harness, Proof

from inceptionn.hdl.codec.shape import EngineShape
from inceptionn.hdl.control.register_bank import RegisterBank
from inceptionn.hdl.control.registers import IDENTITY
from inceptionn.wire import DEFAULT_MAX_PAYLOAD

FETCH = 3
"""Number of the reader's state in which it waits for the counters: its place in the order of their names."""


class Bank:
    """The bank under its master, with the last request of each kind."""

    def __init__(self, h: Harness, shape: EngineShape):
        self.h, self.shape, m = h, shape, h.m
        self.dut = dut = RegisterBank(shape)
        self.inside = h.add(dut)
        self.ports = {"tx": dut.tx_counters, "rx": dut.rx_counters}
        for port in self.ports.values():
            m.d.comb += [port.data.eq(h.anything(64, "counter")), port.busy.eq(h.anything(1, "busy"))]
        self.bus = bus = dut.s_axil
        self.master = master = Master(h, bus)
        self.address, self.data, self.strobe = (
            master.kept(*pair) for pair in (("aw", "awaddr"), ("w", "wdata"), ("w", "wstrb"))
        )
        self.read_at = master.kept("ar", "araddr")
        self.at, self.place = (Cat(C(0, 2), address[2:]) for address in (self.address, self.read_at))
        self.writing = (master.open["aw"] != 0) & (master.open["w"] != 0) & ~bus.bvalid
        self.reading = (master.open["ar"] != 0) & ~bus.rvalid
        self.written, self.done = master.rises("b"), master.rises("r")
        powered = h.running(1)
        for prefix in ("aw", "w", "ar"):
            ready = getattr(bus, f"{prefix}ready")
            h.claim(
                "a request is taken at once if none of its kind is open, except in the cycle after a reset",
                ~powered | (master.open[prefix] != 0) | ready,
            )

    def register(self, name: str) -> Signal:
        """Return the flip-flops that hold a register."""
        found: Signal = self.inside[f"values.{name}"]
        return found


def write_protocol(bank: Bank) -> None:
    """Claim when a write is answered, and how."""
    h, inside, bus, master = bank.h, bank.inside, bank.bus, bank.master
    # What the bank holds of a write, and its one token.
    names = ("aw_held", "w_held", "apply", "respond", "address", "data", "strobe")
    aw_held, w_held, apply, respond, at, data, strobe = (inside[f"write.{name}"] for name in names)
    h.invariant(
        "what is held is not answered",
        (master.open["aw"] == aw_held + bus.bvalid) & (master.open["w"] == w_held + bus.bvalid),
    )
    h.invariant("ready is low while a value is held", ~(bus.awready & aw_held) & ~(bus.wready & w_held))
    h.invariant(
        "one token for each write",
        (apply + respond + bus.bvalid <= 1) & (~(apply | respond) | (aw_held & w_held)),
    )
    h.invariant(
        "a held write is the one accepted",
        (~aw_held | (at == bank.address[2:])) & (~w_held | ((data == bank.data) & (strobe == bank.strobe))),
    )
    age = master.age(bank.writing, "write_age")
    h.claim(
        "a write is answered within 4 cycles of its handshakes and of the end of the answer before it",
        ~bank.writing | (age < 3),
    )
    h.invariant("the token is as old as the wait", ~bank.writing | (age == apply + 2 * respond))
    writable = Cat(bank.at == one.offset for one in bank.dut.registers if one.access != "ro").any()
    h.claim(
        "a write is refused if and only if its register cannot be written",
        ~bank.written | (bus.bresp == Mux(writable, OKAY, SLVERR)),
    )
    h.cover(
        "a write of TOS with another open",
        bank.written & (bank.at == bank.dut.registers["TOS"].offset) & (bank.dut.tx_config.tos == 0x5A),
    )


def contents(bank: Bank) -> dict[str, Value]:
    """Return what each register holds after the writes that have been answered, this cycle's included."""
    found: dict[str, Value] = {}
    for register in bank.dut.registers:
        if not register.fields or register.access != "rw":
            continue
        word = Signal(32, name=f"word_{register.name.lower()}", init=register.reset)
        lanes = (
            Mux((bank.at == register.offset) & bank.strobe[lane], bank.data.word_select(lane, 8), old)
            for lane, old in enumerate(word.word_select(lane, 8) for lane in range(4))
        )
        raw = Signal(32, name=f"raw_{register.name.lower()}")
        bank.h.m.d.comb += raw.eq(Cat(lanes) & register.mask)
        after: Value = raw
        if register.name == "PAYLOAD":
            longest = raw[16:]
            after = Cat(raw[:16], Mux(longest > DEFAULT_MAX_PAYLOAD, C(DEFAULT_MAX_PAYLOAD, 16), longest))
        now = Signal(32, name=f"now_{register.name.lower()}")
        bank.h.m.d.comb += now.eq(Mux(bank.written, after, word))
        bank.h.m.d.sync += word.eq(now)
        bank.h.invariant(
            "a register changes one cycle before the answer, and a limit is cut with it",
            bank.register(register.name) == Mux(bank.inside["write.respond"], raw, now),
        )
        bank.h.invariant("the bits beside the fields are 0", (word & ~C(register.mask, 32)) == 0)
        found[register.name] = now
    return found


def field_of(bank: Bank, held: dict[str, Value], register: str, name: str) -> Value:
    """Return a field of what a register holds."""
    part = bank.dut.registers[register][name]
    return held[register][part.lsb : part.lsb + part.width]


def settings(bank: Bank, held: dict[str, Value]) -> Value:
    """Claim what the writes have set; return whether the parameters that are held can be used."""
    h, dut = bank.h, bank.dut
    tx, rx = dut.tx_config, dut.rx_config
    effects = {
        ("CONTROL", "TX_ENABLE"): tx.enable,
        ("CONTROL", "RX_ENABLE"): rx.enable,
        ("CONTROL", "LEARN_PHASES"): tx.learn_phases,
        ("TOS", "VALUE"): tx.tos,
        ("TOS", "MASK"): tx.tos_mask,
        ("PARAMETERS", "E0"): tx.e0,
        ("PAYLOAD", "MIN"): tx.min_payload,
        ("PAYLOAD", "MAX"): tx.max_payload,
    }
    if bank.shape.codec.name == "paper":
        effects |= {("PARAMETERS", "T"): tx.t, ("PARAMETERS", "B"): tx.b}
    expected = {pair: field_of(bank, held, *pair) for pair in effects}
    if bank.shape.bf16:
        value, mask, bf16 = (field_of(bank, held, "TOS", name) for name in ("VALUE", "MASK", "BF16"))
        effects["TOS", "BF16"], expected["TOS", "BF16"] = dut.bf16_tos, Mux((bf16 & mask) == 0, value, bf16)
    fields = {(one.name, part.name) for one in dut.registers if one.access == "rw" for part in one.fields}
    if fields != set(effects):
        raise ValueError(f"each field that can be written needs its effect: {fields ^ set(effects)}")
    h.claim(
        "every setting is that of the writes answered so far, in force with the answer",
        Cat(setting == expected[pair] for pair, setting in effects.items()).all(),
    )
    limits = ("min_payload", "max_payload", "learn_phases")
    shared = ("tos", "tos_mask", "e0", "t", "b", "parameters_valid", *limits)
    h.claim("both engines have the same settings", Cat(tx[name] == rx[name] for name in shared).all())
    e0, t, b = tx.e0, tx.t, tx.b
    usable = (e0 >= 1) & (e0 <= t) & (t <= 127) & (t <= b)
    if bank.shape.codec.name == "planes":
        usable = (e0 >= 113) & (e0 <= 126)
    h.claim("parameters_valid is that of the parameters beside it", tx.parameters_valid == usable)
    h.claim("max_payload is at most 9216", tx.max_payload <= DEFAULT_MAX_PAYLOAD)
    return usable


def clearing(bank: Bank) -> None:
    """Claim that a command clears once."""
    h, clear = bank.h, bank.dut.clear
    commands = [
        (one.name, part.name) for one in bank.dut.registers if one.access == "wo" for part in one.fields
    ]
    if commands != [("COMMAND", "CLEAR_COUNTERS")]:
        raise ValueError(f"each command needs its effect: {commands}")
    wanted = (bank.at == bank.dut.registers["COMMAND"].offset) & bank.strobe[0] & bank.data[0]
    cleared = Signal(name="cleared")
    h.m.d.sync += cleared.eq(bank.writing & (cleared | clear))
    h.claim(
        "clear is high for one cycle of each CLEAR_COUNTERS, before its answer, and in no other cycle",
        (~clear | (bank.writing & wanted & ~cleared)) & (~bank.written | (cleared == wanted)),
    )
    h.cover("the counters are cleared", clear)


def reads(bank: Bank, held: dict[str, Value], usable: Value) -> None:
    """Claim what a read of a register returns, and when any read is answered."""
    h, inside, bus, master, place = bank.h, bank.inside, bank.bus, bank.master, bank.place
    reader = inside["read.held"]
    h.invariant(
        "a read that is held is not answered, and no other is taken",
        (master.open["ar"] == reader + bus.rvalid) & ~(bus.arready & reader),
    )
    state = inside["read.state"]
    reading_at = inside["read.address"]
    h.invariant("a held read is the one accepted", ~reader | (reading_at == bank.read_at[2:]))
    h.invariant("the reader works only for a read that is held", (state == 0) | (reader & ~bus.rvalid))
    h.invariant("STATUS has one bit", bank.register("STATUS")[1:] == 0)

    # No write is between its handshakes and its answer from the read's handshake on.
    alone = Signal(name="alone")
    h.m.d.sync += alone.eq(~bank.writing & (alone | (bus.arvalid & bus.arready)))
    registers = [one for one in bank.dut.registers if one.fields]
    values: dict[str, Any] = {one.name: one.reset for one in registers if one.access == "ro"}
    values |= {"ID": IDENTITY, "STATUS": usable, "COMMAND": 0} | held
    for one in registers:
        h.claim(
            "a register reads as what was written, or as its constant, if no write is open beside the read",
            ~bank.done | ~alone | (place != one.offset) | (bus.rdata == values[one.name]),
        )
    h.cover("PAYLOAD reads as written", bank.done & alone & (place == 0x1C) & (bus.rdata == 0x12345678))


def counters(bank: Bank) -> None:
    """Claim that the right counter is asked, once, and that its answer is returned."""
    h, m, bus, place, ports = bank.h, bank.h.m, bank.bus, bank.place, bank.ports
    pair, is_low = Cat(C(0, 3), place[3:]), ~place[2]
    busy = ports["tx"].busy | ports["rx"].busy
    age = bank.master.age(bank.reading, "read_age")
    asked, last, is_counter = Signal(name="asked"), Signal(64, name="last"), C(0, 1)
    with m.If(bus.arvalid & bus.arready):
        m.d.sync += asked.eq(0)
    for direction, base, others in (("tx", 0x100, 0x300), ("rx", 0x200, 0x340)):
        port = ports[direction]
        starts = {
            number: base + 8 * number if number < 32 else others + 8 * (number - 32)
            for number in bank.dut.registers.counters(direction)
        }
        here = Cat(pair == start for start in starts.values()).any()
        slot = reduce(or_, (Mux(pair == start, number, 0) for number, start in starts.items()))
        is_counter = is_counter | here
        h.claim(
            "only the counter whose low word is read is asked, once",
            ~port.strobe | (bank.reading & here & is_low & (port.slot == slot) & ~asked),
        )
        h.claim(
            "a counter is asked 4 cycles or more after its read's handshake, when none is being cleared",
            ~port.strobe | ((age >= 3) & ~h.past(busy)),
        )
        due = Signal(4, name=f"{direction}_due")
        m.d.sync += due.eq(Cat(port.strobe, due))
        with m.If(port.strobe):
            m.d.sync += asked.eq(1)
        with m.If(due[3]):
            m.d.sync += last.eq(port.data)
    h.invariant("the high word is kept with the low one", bank.inside["read.kept_high"] == last[32:])
    counter = bank.done & is_counter
    h.claim(
        "a counter's low word reads as the counter gave it 4 cycles after it was asked",
        ~(counter & is_low) | (asked & (bus.rdata == last[:32])),
    )
    h.claim(
        "a counter's high word reads as what the last read of a low word took with it (0 if there was none)",
        ~(counter & ~is_low) | (bus.rdata == last[32:]),
    )
    known = Cat(place == one.offset for one in bank.dut.registers if one.fields).any()
    h.claim(
        "a read is refused if and only if nothing lies at its address",
        ~bank.done | (bus.rresp == Mux(known | is_counter, OKAY, SLVERR)),
    )
    # The cycles of a read that count while a counter is cleared, which may take long.
    cycles = Signal(4, name="read_cycles")
    m.d.sync += cycles.eq(Mux(bank.reading, cycles + (~busy & (cycles != 15)), 0))
    state = bank.inside["read.state"]
    h.invariant("the reader waits from the third cycle on", (state != FETCH) | ((age >= 2) & (cycles <= 2)))
    begins = (state == FETCH) | (state == 1) | ((state == 0) & bank.inside["read.held"])
    h.invariant(
        "no counter is asked before the reader has waited",
        ~begins | ~(asked | ports["tx"].strobe | ports["rx"].strobe),
    )
    h.claim(
        "a read is answered within 4 cycles, likewise; that of a counter's low word within 9 cycles, in "
        "which no counter is being cleared",
        ~bank.reading | Mux(is_counter & is_low, cycles < 8, age < 3),
    )
    h.cover("a counter's low word is read", counter & (place == 0x300) & (bus.rdata == 0x12345678))
    h.cover("a counter's high word is read", counter & (place == 0x344) & (bus.rdata == 0x12345678))
    h.cover("a refused read", bank.done & (bus.rresp == SLVERR))


def register_bank(shape: EngineShape, h: Harness) -> None:
    """Claim all of a bank of this shape."""
    bank = Bank(h, shape)
    write_protocol(bank)
    held = contents(bank)
    reads(bank, held, settings(bank, held))
    clearing(bank)
    counters(bank)


_BANK = "control.register_bank"
_READ_DATA = "bus.rdata.eq(Mux(is_low, data[:DATA_WIDTH], Mux(is_high, kept_high, value)))"
VARIANTS: dict[str, tuple[EngineShape, tuple[tuple[str, str], ...]]] = {
    "paper": (EngineShape.of(), (
        ("~apply & ~respond & ~bus.bvalid", "~apply & ~respond"),
        ("Mux(beyond, DEFAULT_MAX_PAYLOAD, max_payload)", "max_payload"),
        ('"min_payload": field("PAYLOAD", "MIN"),', '"min_payload": 0,'),
        ('enable.eq(field("CONTROL", name))', "enable.eq(0)"),
        ("self.clear.eq(selected & strobe[command.lsb // 8] & data[command.lsb])", "self.clear.eq(0)"),
        (_READ_DATA, "bus.rdata.eq(value)"),
        ('m.If(~ports["tx"].busy & ~ports["rx"].busy)', "m.If(0)"),
    )),
    "planes": (EngineShape.of(codec="planes"), (
        ("m.d.sync += ready.eq(1)", "m.d.sync += ready.eq(~bus.bvalid)"),
        ("Mux(select, values[name], 0)", "Mux(select, values[name][1:], 0)"),
        ("Mux(upper, others % VERDICT_SLOTS, 0)", "0"),
        ('~ports["tx"].busy & ~ports["rx"].busy', '~ports["tx"].busy'),
        ("Mux(is_high, kept_high, value)", "Mux(is_high, data[DATA_WIDTH:], value)"),
    )),
    "planes with bf16": (EngineShape.of(codec="planes", bf16=True), (
        ("Mux((bf16 & mask).any(), bf16, value)", "bf16"),
    )),
}  # fmt: skip
"""Shape of each bank, and what is changed in its source."""
PROOFS = tuple(
    Proof(
        f"register_bank, {name}", partial(register_bank, shape), 8,
        tuple(Fault(_BANK, old, new) for old, new in faults), refute_depth=20, cover_depth=20,
    )
    for name, (shape, faults) in VARIANTS.items()
)  # fmt: skip

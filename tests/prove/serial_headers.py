# SPDX-License-Identifier: BSD-2-Clause
"""The header parser of one lane, which takes words, against the table of docs/wire-format.md, section 5."""

from functools import partial

from amaranth.hdl import Array, C, Cat, Mux, Signal, Value
from harness import Fault, Harness, Inside, Proof
from headers import FIELDS, bytes_at, named, result_claims, verdict_of
from sums import MODULUS

from inceptionn.hdl.control.config import EngineConfig
from inceptionn.hdl.parts.width import Width
from inceptionn.hdl.serial.word_parser import LAST_WORD, WordParser

LATENCY = 3
"""Cycles from a frame's last word that counts to its result."""
WORDS = LAST_WORD + 1


class Words:
    """Frames of any words with gaps anywhere, and what the harness keeps of them."""

    def __init__(self, h: Harness, dut: WordParser) -> None:
        m, config_bits = h.m, EngineConfig.as_shape().size
        start, self.valid, complete = (h.anything(1, name) for name in ("start", "valid", "complete"))
        word, settings = h.anything(32, "word"), h.anything(config_bits + 8 * dut.width.bf16, "settings")
        self.place = place = Signal(5)  # the next word's
        self.begun, self.done = Signal(), Signal()
        self.kept, self.words = Signal.like(settings), [Signal(32, name=f"word_{i}") for i in range(WORDS)]
        self.length, before = h.anything(15, "length"), Signal(16, name="half_before")
        self.whole = self.valid & complete & ~self.done
        h.assume("words come behind a start", ~self.valid | (self.begun & ~start))
        h.assume(
            f"one of the first {WORDS} is said to be the last", (place < LAST_WORD) | self.done | complete
        )
        h.assume("but one", ~(self.valid & complete & self.done) | (place > LAST_WORD))
        ended, last = Signal(), Signal(range(WORDS))
        m.d.sync += [ended.eq(self.whole), last.eq(place)]
        h.assume(
            "it is the last that the frame has, or it has more",
            ~ended
            | (((self.length - 1)[2:] == last) & (self.length != 0))
            | ((last == LAST_WORD) & (self.length > 60)),
        )
        with m.If(start):
            m.d.sync += [self.begun.eq(1), self.done.eq(0), place.eq(0), self.kept.eq(settings)]
        with m.Elif(self.valid):
            m.d.sync += [place.eq(place + ~place.all()), before.eq(word[16:])]
            m.d.sync += self.done.eq(self.done | complete)
            for number, one in enumerate(self.words):
                with m.If(place == number):
                    m.d.sync += one.eq(word)
        self.aligned = Cat(before, word[:16])
        m.d.comb += [
            dut.start.eq(start), dut.valid.eq(self.valid), dut.complete.eq(complete), dut.word.eq(word),
            dut.length.eq(self.length), dut.aligned.eq(self.aligned),
            Value.cast(dut.config).eq(settings[:config_bits]),
            *([dut.bf16_tos.eq(settings[config_bits:])] if dut.width.bf16 else []),
        ]  # fmt: skip
        self.start, self.before, self.word = start, before, word
        self.frame = named(h, "frame", Cat(self.words)[: 8 * FIELDS])

    def alike(self, tagged: Value) -> Value:
        """Whether the word is that of one TCP segment, which may have a VLAN tag and any size of header."""
        ip = bytes((0x45, 0x28, 0, 100, 0, 0, 0, 0, 0, 6)) + bytes(10)
        tcp = bytes(12) + bytes((0, 0x10)) + bytes(14)
        found = C(0, 1)
        for tag, condition in ((b"", ~tagged), (b"\x81\x00\x00\x05", tagged)):
            frame = bytes(12) + tag + b"\x08\x00" + ip + tcp
            number = (46 + len(tag)) // 4  # has the size of the header
            words = [int.from_bytes(frame[4 * i : 4 * i + 4], "little") for i in range(WORDS)]
            size = Mux(self.place == number, 0xF << 20, 0)
            found |= condition & ((self.word | size) == (Array(words)[self.place] | size))
        return found | (self.place >= WORDS)


def registers(h: Harness, inside: Inside, words: Words, bf16: bool) -> None:
    """Add invariants about what is captured of the words so far."""
    frame, place = words.frame, words.place
    outer, inner = bytes_at(frame, 12, 2), bytes_at(frame, 16, 2)
    tagged = named(h, "tagged", outer == 0x8100)
    captured = Signal(name="captured")
    h.m.d.sync += captured.eq(words.whole)
    h.invariant("words are counted", inside["number"] == place)
    h.invariant("a frame that is whole is captured", inside["captured"] == captured)
    h.invariant("words before the last are not too many", words.done | (place <= LAST_WORD))
    h.invariant("nothing comes before the first start", words.begun | ((place == 0) & ~words.done))
    h.invariant(
        "the settings are kept",
        ~words.begun
        | (Cat(inside["config_held"], *([inside["bf16_tos_held"]] if bf16 else [])) == words.kept),
    )
    for which, value, at in (("outer", outer, 3), ("inner", inner, 4)):
        same = Cat(
            inside[f"{which}_is.{kind}"] == (value == kind) for kind in (0x8100, 0x88A8, 0x0800, 0x86DD)
        )
        h.invariant(f"the {which} type is known", (place <= at) | same.all())
    ip = named(h, "ip_so_far", Mux(tagged, frame[8 * 18 : 8 * 58], frame[8 * 14 : 8 * 54]))
    held = Cat(inside["ip"], inside["l4"])
    for i in range(10):
        there = (place > 4 + i) & ((place > 5 + i) | ~tagged)
        h.invariant(f"word {i} of the headers", ~there | (held.word_select(i, 32) == ip.word_select(i, 32)))
    there = (place > 6) & ((place > 7) | ~tagged)
    h.invariant("the protocol is known", ~there | (inside["tcp"] == (bytes_at(ip, 9, 1) == 6)))
    for i in range(1, WORDS):
        h.invariant("half a word is kept", (place != i) | (words.before == words.words[i - 1][16:]))


def sums(h: Harness, dut: WordParser, inside: Inside, words: Words) -> None:
    """Claim that the sum is that of the words of the TCP or UDP header so far."""
    frame, total = words.frame, Signal(21, name="sum_so_far")
    tagged = bytes_at(frame, 12, 2) == 0x8100
    ip = Mux(tagged, frame[8 * 18 : 8 * 58], frame[8 * 14 : 8 * 54])
    tcp = bytes_at(ip, 9, 1) == 6
    size = Mux(tcp, ip[8 * 32 + 4 : 8 * 33] << 2, 8)
    behind = ((words.place << 2) - 2 - Mux(tagged, 38, 34)).as_signed()  # begin of the four bytes
    # Bytes 12 and later of a TCP header say how long it is, so 20 at least are summed.
    counts = (behind >= 0) & ((behind < size) | (tcp & (behind < 20)))
    with h.m.If(words.start):
        h.m.d.sync += total.eq(0)
    with h.m.Elif(words.valid & counts):
        h.m.d.sync += total.eq(total + words.aligned[:16] + words.aligned[16:])
    h.invariant("the sum so far", ~words.begun | (inside["total"] == total))
    once = named(h, "once", total[:16] + total[16:])
    remainder = Mux(once >= MODULUS, once - MODULUS, once)
    h.claim(
        "the sum is the remainder by 65535 of the TCP or UDP header so far, or 65535 for 0 if it is not zero",
        ~words.begun | (dut.sums == Mux((remainder == 0) & (total != 0), MODULUS, remainder)),
    )
    h.cover("a sum with options", words.begun & (behind == 24) & tcp & (size == 24))


def word_parser(transmit: bool, bf16: bool, h: Harness) -> None:
    """Any frame of any length, one after the other; its first words hold the headers."""
    dut = WordParser(Width(1, bf16=bf16), transmit=transmit)
    inside = h.add(dut)
    words = Words(h, dut)
    h.narrow(words.valid | words.start | words.done | ~words.begun)
    h.narrow(~(words.start & words.begun) & (~words.whole | (words.place == LAST_WORD)))
    usual = {"enable": 1, "parameters_valid": 1, "tos": 0x28, "tos_mask": 0xFC, "max_payload": 1460}
    h.narrow(~words.begun | (words.kept == Cat(EngineConfig.const(usual), C(0x2C, 8 * bf16))))
    h.narrow(~words.valid | words.alike(h.any_constant(1, "tag")))
    registers(h, inside, words, bf16)
    sums(h, dut, inside, words)
    came = h.past(words.whole, LATENCY)
    late_frame, late_size, settings = (
        h.past(value, LATENCY - 1) for value in (words.frame, words.length, words.kept)
    )
    config_bits = EngineConfig.as_shape().size
    config = EngineConfig(settings[:config_bits])
    bf16_tos = settings[config_bits:] if bf16 else config.tos
    wanted = verdict_of(h, late_frame, late_size, config, bf16_tos, transmit=transmit)
    running, result = h.running(LATENCY), dut.headers.payload
    h.claim(f"one result for each frame, after {LATENCY} cycles", ~running | (dut.headers.valid == came))
    h.claim(
        "clear says that there is a result and no line holds",
        ~running | (result.clear == (came & (wanted[0] == 0))),
    )
    result_claims(h, result, running & came, (*wanted, config))
    if bf16:
        h.cover("bf16 lanes", running & came & (wanted[0] == 0) & wanted[1]["bf16"])


_PARSER, _JUDGE = "serial.word_parser", "frame.header_judge"
PROOFS = tuple(
    Proof(f"word_parser, {'transmit' if transmit else 'receive'}{', bf16' if bf16 else ''}",
          partial(word_parser, transmit, bf16), LATENCY + 1, faults, cover_depth=22, refute_depth=22)
    for transmit, bf16, faults in (
        (True, False, (
            Fault(_PARSER, "place.eq(number - vlan)", "place.eq(number)"),
            Fault(_PARSER, "self.complete & (number <= LAST_WORD)", "self.complete"),
            Fault(_PARSER, "self.length[7:].any()", "self.length[8:].any()"),
            Fault(_PARSER, 'step < TCP.read(l4, "data_offset")', "0"),
        )),
        (False, False, (
            Fault(_PARSER, "(place == l4_at + i)", "(place >= l4_at + i)"),
            Fault(_PARSER, "& inside)", ")"),
            Fault(_JUDGE, "header_words << 2", "header_words[:4] << 2"),
        )),
        (True, True, (Fault(_PARSER, "config.eq(self.config)]", "config.eq(config)]"),)),
        (False, True, (Fault(_PARSER, "bf16_tos.eq(self.bf16_tos)", "bf16_tos.eq(self.config.tos)"),)),
    )
)  # fmt: skip

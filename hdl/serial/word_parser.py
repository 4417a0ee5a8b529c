# SPDX-License-Identifier: BSD-2-Clause
"""The headers of a frame from its words, one a cycle."""

from typing import Any

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value
from amaranth.lib import data, stream
from amaranth.lib.wiring import In, Out

from inceptionn.wire import PROTOCOL_TCP

from ..control.config import EngineConfig
from ..frame.header_checks import Headers
from ..frame.header_fields import ETHERNET, IPV4, L3, TCP, UDP, VLAN
from ..frame.header_judge import ETHERTYPES, HeaderJudge, ParsedHeader, kinds
from ..parts.width import Width

LAST_WORD = 14
"""The word that completes the fields of all headers, with a VLAN tag."""
_IP_AT = L3 // 4 + 1
"""The word with which the first four bytes of the IP header are complete, without a VLAN tag."""


def parsed_words() -> data.StructLayout:
    """Return the layout of the parser's result for a frame; ``clear``: no objection, so the verdict is 0."""
    return data.StructLayout({"header": ParsedHeader, "clear": 1})


class WordParser(HeaderJudge):
    """Reads the headers from a frame's words 0 to 14, or to its last.

    The IP header begins at byte 2 of a word, so its words, the TCP or UDP header's and the payload's each
    lie in two. A VLAN tag moves them by a whole word.

    Latency: a header follows the last of these words after three cycles.
    """

    def __init__(self, width: Width, *, transmit: bool):
        self.width = width
        self.transmit = transmit
        super().__init__(
            {
                "config": In(EngineConfig),  #: Sampled with ``start``.
                **({"bf16_tos": In(8)} if width.bf16 else {}),  #: Likewise.
                "start": In(1),  #: A frame begins with the next word.
                "valid": In(1),  #: The frame's next word is there.
                "word": In(32),  #: That word.
                "complete": In(1),  #: With word 14, or the last before; after word 14 it says nothing.
                "length": In(15),  #: Of the frame in bytes. Holds.
                "aligned": In(32),  #: The four bytes that end two bytes before ``word`` does.
                "sums": Out(16),  #: One's-complement sum of the TCP or UDP header, little-endian words.
                #: One per frame, three cycles after ``complete``.
                "headers": Out(stream.Signature(parsed_words(), always_ready=True)),
            },
        )

    def _capture(self, m: Module) -> tuple[Value, Headers]:
        number = Signal(range(32))
        config = Signal(EngineConfig, reset_less=True)
        bf16_tos: Any = Const(0, 8)
        if self.width.bf16:
            bf16_tos = Signal(8, name="bf16_tos", reset_less=True)
            with m.If(self.start):
                m.d.sync += bf16_tos.eq(self.bf16_tos)
        with m.If(self.start):
            m.d.sync += [number.eq(0), config.eq(self.config)]
        with m.Elif(self.valid):
            m.d.sync += number.eq(number + ~number.all())

        # The type fields stand in the lower halves of two words.
        types = Cat(self.word[8:16], self.word[:8])
        outer_is, inner_is = (
            {ethertype: Signal(name=f"{place}_is_{ethertype:04x}") for ethertype in ETHERTYPES}
            for place in ("outer", "inner")
        )
        outer_at, inner_at = ETHERNET["ethertype"].byte, ETHERNET.size + VLAN["ethertype"].byte
        for is_type, at in ((outer_is, outer_at), (inner_is, inner_at)):
            with m.If(self.valid & (number == at // 4)):
                m.d.sync += [is_type[ethertype].eq(types == ethertype) for ethertype in ETHERTYPES]
        vlan, stacked, ipv6, ipv4 = kinds(outer_is, inner_is)

        place = Signal(5)  # the word's number without a VLAN tag
        m.d.comb += place.eq(number - vlan)
        ip = Signal(8 * IPV4.size, reset_less=True)
        l4 = Signal(8 * TCP.size, reset_less=True)
        tcp = Signal(reset_less=True)
        for i in range(IPV4.size // 4):
            with m.If(self.valid & (place == _IP_AT + i)):
                m.d.sync += ip.word_select(i, 32).eq(self.aligned)
                if i == IPV4["protocol"].byte // 4:
                    at = 8 * (IPV4["protocol"].byte % 4)
                    m.d.sync += tcp.eq(self.aligned[at : at + 8] == PROTOCOL_TCP)
        l4_at = _IP_AT + IPV4.size // 4
        for i in range(TCP.size // 4):
            with m.If(self.valid & (place == l4_at + i)):
                m.d.sync += l4.word_select(i, 32).eq(self.aligned)

        # The sum of a TCP header goes on through its options.
        total = Signal(21, reset_less=True)
        in_l4 = Signal()
        step = Signal(5)
        m.d.comb += step.eq(place - l4_at)
        inside = Mux(tcp, (step < TCP.size // 4) | (step < TCP.read(l4, "data_offset")), step < UDP.size // 4)
        m.d.comb += in_l4.eq(self.valid & (place >= l4_at) & inside)
        with m.If(self.start):
            m.d.sync += total.eq(0)
        with m.Elif(in_l4):
            m.d.sync += total.eq(total + (self.aligned[:16] + self.aligned[16:]))
        folded = Signal(17)
        m.d.comb += [folded.eq(total[:16] + total[16:]), self.sums.eq(folded[:16] + folded[16])]

        captured = Signal()
        m.d.sync += captured.eq(self.valid & self.complete & (number <= LAST_WORD))
        self.probes = {
            "number": number, "config_held": config, "bf16_tos_held": bf16_tos, "outer_is": outer_is,
            "inner_is": inner_is, "ip": ip, "l4": l4, "tcp": tcp, "total": total, "captured": captured,
        }  # fmt: skip
        seen = Mux(self.length[7:].any(), 127, self.length[:7])
        return captured, Headers.of(config, bf16_tos, seen, vlan, stacked, ipv6, ipv4, tcp, ip=ip, l4=l4)

# SPDX-License-Identifier: BSD-2-Clause
"""Steps through a frame's beats: which of them hold its headers, and which words are patched."""

from typing import Any

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from ..parts.checksum import swap16
from ..parts.width import BURST, Width
from .header_fields import IPV4, L3, L4, MAX_TCP_BYTES, TCP, UDP, VLAN

_MOST_HEADER_BYTES = VLAN.size + L4 + MAX_TCP_BYTES
"""Bytes of headers before a payload, at most."""


class HeaderMarks(data.Struct):
    """The beat's fields to patch. Bit 0 of each mark: frame without VLAN tag; bit 1: with one."""

    first: 2  # the first beat: IPv4 header
    udp: 2  # the beat with the UDP header's fields: the second one, with 16 lanes the first
    tcp: 2  # the same for TCP


# Field, its mark, its 16-bit word in the frame without VLAN tag.
_FIELDS = (
    ("total_length", "first", (L3 + IPV4["total_length"].byte) // 2),
    ("ip_checksum", "first", (L3 + IPV4["checksum"].byte) // 2),
    ("udp_length", "udp", (L4 + UDP["length"].byte) // 2),
    ("udp_checksum", "udp", (L4 + UDP["checksum"].byte) // 2),
    ("tcp_checksum", "tcp", (L4 + TCP["checksum"].byte) // 2),
)


def patched_word(
    marks: Any, word: int, fields: dict[str, Value], width: Width = BURST
) -> tuple[Value, Value]:
    """Tell whether ``word`` of the beat is one of ``fields``; return its 16 bits in ``tdata``'s byte order.

    ``marks``: a :class:`HeaderMarks`. ``fields``: values in host order by name:
    ``total_length``, ``ip_checksum``, ``udp_length``, ``udp_checksum``, ``tcp_checksum``. No two fields share
    a word.
    """
    words = width.words
    for name, mark, place in _FIELDS:
        for vlan in range(2):
            if name in fields and word == place % words + VLAN.size // 2 * vlan:
                return marks[mark][vlan], swap16(fields[name])
    return Const(0, 1), Const(0, 16)


class HeaderWalk(wiring.Component):
    """Describes the current beat to an assembler. It is computed one beat ahead: all outputs are registers.

    ``step`` advances to the frame's next beat, or with ``load`` to the first of the next frame, both from the
    next cycle on.
    """

    def __init__(self, width: Width = BURST):
        self.width = width
        self.words = self.width.words
        super().__init__(
            {
                "step": In(1),  #: To the next beat.
                "load": In(1),  #: With ``step``: a frame begins.
                #: With ``load``: the frame's header is patched and its payload replaced. Otherwise the frame
                #: is unchanged: all of it is "header".
                "patch": In(1),
                "vlan": In(1),  #: With ``load``: the frame has a VLAN tag.
                "tcp": In(1),  #: With ``load``: the frame is TCP, else UDP.
                #: With ``load``: offset of the payload in the frame in bytes, 34..98 and 2 modulo 4.
                "payload_at": In(7),
                "in_header": Out(1),  #: The beat holds bytes of the header.
                "header_follows": Out(1),  #: The next beat does.
                "in_payload": Out(1),  #: The beat holds bytes after the header, or follows the header.
                "payload_follows": Out(1),  #: The next beat does.
                "keep": Out(self.words),  #: Words of the beat that belong to the header.
                "marks": Out(HeaderMarks),  #: What the beat holds of the header.
            }
        )

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        # One bit for this beat and for each later beat that may hold headers. Every step shifts them by one,
        # so there is no counter and no comparison. `covers`: the header's words in the beat that header and
        # payload share.
        beats = -(-_MOST_HEADER_BYTES // (self.width.bytes))
        header = Signal(beats)
        payload = Signal(beats)
        covers = Signal(self.words)
        patch = Signal()
        tcp = Signal()
        self.probes = {
            "header": header, "payload": payload, "covers": covers, "held_patch": patch, "held_tcp": tcp,
        }  # fmt: skip
        place_bits = self.width.place_bits
        join = self.payload_at[place_bits:]
        covered = [self.payload_at[1:place_bits] > word for word in range(self.words)]
        # Whether all fields lie in the first beat, and the payload may begin in it.
        one_beat = self.width.headers_in_one_beat
        first = Mux(self.patch, Cat(~self.vlan, self.vlan), 0)
        m.d.comb += [
            Cat(self.in_header, self.header_follows).eq(header),
            Cat(self.in_payload, self.payload_follows).eq(payload),
        ]
        with m.If(self.step):
            with m.If(self.load):
                m.d.sync += [
                    header.eq(Cat(~self.patch | (join >= beat) for beat in range(beats))),
                    payload.eq(Cat(self.patch & (join <= beat) for beat in range(beats))),
                    covers.eq(Cat(covered)),
                    patch.eq(self.patch),
                    tcp.eq(self.tcp),
                    self.keep.eq(
                        Cat(~self.patch | (join != 0) | word for word in covered) if one_beat else ~0
                    ),
                    self.marks.first.eq(first),
                    self.marks.udp.eq(Mux(self.tcp, 0, first) if one_beat else 0),
                    self.marks.tcp.eq(Mux(self.tcp, first, 0) if one_beat else 0),
                ]
            with m.Else():
                m.d.sync += [
                    header.eq(Cat(header[1:], ~patch)),
                    payload.eq(Cat(payload[1:], patch)),
                    self.keep.eq(Cat(header[1] & (~payload[1] | word) for word in covers)),
                    self.marks.first.eq(0),
                    self.marks.udp.eq(0 if one_beat else Mux(tcp, 0, self.marks.first)),
                    self.marks.tcp.eq(0 if one_beat else Mux(tcp, self.marks.first, 0)),
                ]
        return m

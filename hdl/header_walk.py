# SPDX-License-Identifier: BSD-2-Clause
"""A walk along a frame's beats: which hold its headers, and which words of them are patched."""

from typing import Any

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from inceptionn.hdl.checksum import swap16
from inceptionn.wire import BURST_BYTES

WORDS = BURST_BYTES // 2
_HEADER_BEATS = 4  # at most: the payload begins at byte 98 or before


class HeaderMarks(data.Struct):
    """Where the beat is that has fields to patch; each mark without VLAN tag (0) and with one (1)."""

    first: 2  # the first beat: IPv4 header
    udp: 2  # the second one, of UDP
    tcp: 2  # the second one, of TCP


# Field, its mark, its word in that beat without VLAN tag; a tag moves everything by two words.
_FIELDS = (
    ("total_length", "first", 8),
    ("ip_checksum", "first", 12),
    ("udp_length", "udp", 3),
    ("udp_checksum", "udp", 4),
    ("tcp_checksum", "tcp", 9),
)


def patched_word(marks: Any, word: int, fields: dict[str, Value]) -> tuple[Value, Value]:
    """Whether ``word`` of the beat is one of ``fields``, and its 16 bits as they lie in ``tdata``.

    ``marks``: a :class:`HeaderMarks`. ``fields``: values in host order; names as in the wire format:
    ``total_length``, ``ip_checksum``, ``udp_length``, ``udp_checksum``, ``tcp_checksum``. No two fields
    share a word.
    """
    for name, mark, place in _FIELDS:
        for vlan in range(2):
            if name in fields and word == place + 2 * vlan:
                return marks[mark][vlan], swap16(fields[name])
    return Const(0, 1), Const(0, 16)


class HeaderWalk(wiring.Component):
    """What an assembler must know of the beat at hand, worked out one beat ahead: every output is a register.

    ``load`` begins a frame and ``step`` goes to its next beat; of both in one cycle, ``load`` counts.

    Members
    -------
    load : :py:`In(1)`
    patch : :py:`In(1)`
        With ``load``: the frame's header is patched and its payload replaced. Without, the frame is taken
        as it is: all of it is "header".
    vlan, tcp : :py:`In(1)`
        With ``load``.
    payload_at : :py:`In(7)`
        With ``load``: byte of the frame where the payload begins, 34..98 and 2 modulo 4.
    step : :py:`In(1)`
    in_header : :py:`Out(1)`
        The beat holds bytes of the header.
    header_follows : :py:`Out(1)`
        The next one does.
    in_payload : :py:`Out(1)`
        The beat holds bytes behind the header, or comes later.
    payload_follows : :py:`Out(1)`
        The next one does.
    keep : :py:`Out(16)`
        Words of the beat that belong to the header.
    marks : :py:`Out(HeaderMarks)`
    """

    load: In(1)
    patch: In(1)
    vlan: In(1)
    tcp: In(1)
    payload_at: In(7)
    step: In(1)
    in_header: Out(1)
    header_follows: Out(1)
    in_payload: Out(1)
    payload_follows: Out(1)
    keep: Out(WORDS)
    marks: Out(HeaderMarks)

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        # One bit for this beat and each of the next three, shifted by one with every step: no counter, no
        # comparison. `covers`: words of the header in the beat that header and payload share.
        header, payload = Signal(_HEADER_BEATS), Signal(_HEADER_BEATS)
        covers = Signal(WORDS)
        patch, tcp = Signal(), Signal()
        join = self.payload_at[5:]
        m.d.comb += [
            Cat(self.in_header, self.header_follows).eq(header),
            Cat(self.in_payload, self.payload_follows).eq(payload),
        ]
        with m.If(self.load):
            m.d.sync += [
                header.eq(Cat(~self.patch | (join >= beat) for beat in range(_HEADER_BEATS))),
                payload.eq(Cat(self.patch & (join <= beat) for beat in range(_HEADER_BEATS))),
                covers.eq(Cat(self.payload_at[1:5] > word for word in range(WORDS))),
                patch.eq(self.patch),
                tcp.eq(self.tcp),
                self.keep.eq(~0),
                self.marks.first.eq(Mux(self.patch, Cat(~self.vlan, self.vlan), 0)),
                self.marks.udp.eq(0),
                self.marks.tcp.eq(0),
            ]
        with m.Elif(self.step):
            m.d.sync += [
                header.eq(Cat(header[1:], ~patch)),
                payload.eq(Cat(payload[1:], patch)),
                self.keep.eq(Cat(header[1] & (~payload[1] | covered) for covered in covers)),
                self.marks.first.eq(0),
                self.marks.udp.eq(Mux(tcp, 0, self.marks.first)),
                self.marks.tcp.eq(Mux(tcp, self.marks.first, 0)),
            ]
        return m

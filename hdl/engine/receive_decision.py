# SPDX-License-Identifier: BSD-2-Clause
"""Whether a received frame is restored: headers, shim, and the header that the host will see."""

from typing import Any

from amaranth.hdl import Cat, Const, Module, Mux, Signal
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from inceptionn.wire import GROUP_LANES, SHIM_BYTES, SHIM_MAGIC, SHIM_VERSION, Verdict

from ..frame.header_fields import SHIM
from ..frame.header_parser import ParsedHeader
from ..frame.payload_realigner import PayloadRealigner
from ..parts.beat import Beat
from ..parts.checksum import add16, fold17
from ..parts.delay import delayed


class ReceiveOrder(data.Struct):
    """What the assembler has to do for a frame."""

    restore: 1
    verdict: 5  # of a frame that passes
    vlan: 1
    tcp: 1
    payload_at: 7
    total_length: 16  # from here on: as restored
    ip_checksum: 16
    payload_length: 16


class Shim(data.Struct):
    """The shim's fields in host order."""

    b: 8
    length: 16


class ReceiveDecision(wiring.Component):
    """Decides once per frame, as early as its bytes allow, and in the frames' order.

    A frame that fails a header check is decided with its second beat (or its only one; with 16 lanes always
    its first), any other with the beat that holds the shim's last byte, or with its last beat if that comes
    before. All decisions take the same :attr:`LATENCY` cycles from that beat, so none overtakes another.

    Parameters
    ----------
    lanes : :class:`int`
        fp32 lanes of a beat, 8 or 16.

    Members
    -------
    header : :py:`In(ParsedHeader)`
        The frame's; holds from its second beat (its only one; with 16 lanes its first) to its last.
    valid, last : :py:`In(1)`
    count : :py:`In(6)`, with 16 lanes :py:`In(7)`
        A beat of the frame, in step with the :class:`PayloadRealigner`'s input.
    burst : :py:`In(256)`, with 16 lanes :py:`In(64)`
        The realigner's ``out_burst``, with 16 lanes its ``out_front``: its latency after the beat that holds
        the shim's last byte, the shim is in the last 8 bytes.
    order, order_valid : :py:`Out`
    shim : :py:`Out(Shim)`
        With ``order_valid`` of a frame that is restored: its shim.
    """

    LATENCY = PayloadRealigner.LATENCY + 2

    def __init__(self, *, lanes: int = GROUP_LANES):
        self.width = Beat.of_groups(lanes)
        self.lanes = lanes
        self.burst_bytes = SHIM_BYTES if self.width.payload_overlaps else self.width.bytes
        super().__init__(
            {
                "header": In(ParsedHeader),
                "valid": In(1),
                "last": In(1),
                "count": In(range(self.width.bytes + 1)),
                "burst": In(8 * self.burst_bytes),
                "order": Out(ReceiveOrder),
                "order_valid": Out(1),
                "shim": Out(Shim),
            }
        )

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        header = self.header

        # Stage 0: is this the beat? `block_at`: first byte after the shim, never the first of a beat.
        index = Signal(3)
        decided = Signal()
        block_at = Signal(7)
        place_bits = self.width.place_bits
        objection = header.verdict != 0
        behind_headers = Const(1) if self.width.headers_in_one_beat else index != 0
        parsed = behind_headers | self.last
        at_shim = Signal()
        whole = Signal()
        decide = Signal()
        m.d.comb += [
            block_at.eq(header.payload_at + SHIM_BYTES),
            at_shim.eq(behind_headers & (index == block_at[place_bits:])),
            whole.eq(at_shim & (~self.last | (self.count >= block_at[:place_bits]))),
            decide.eq(self.valid & ~decided & parsed & (objection | at_shim | self.last)),
        ]
        with m.If(self.valid):
            m.d.sync += [
                index.eq(Mux(self.last, 0, index + (index < 7))),
                decided.eq(~self.last & (decided | decide)),
            ]
        verdict = Mux(objection, header.verdict, Mux(whole, 0, Verdict.LENGTHS))

        # The realigner shows the shim.
        wait = PayloadRealigner.LATENCY
        decide3 = delayed(m, decide, wait, name="decide", reset=True)
        verdict3 = delayed(m, verdict, wait, name="verdict")
        header3 = ParsedHeader(delayed(m, header.as_value(), wait, name="header"))
        # The IP checksum without the old length; one's complement, like all that follows.
        without3 = delayed(m, add16(header.ip_checksum, header.payload_length), wait, name="without")
        at = self.burst_bytes - SHIM.size
        shim = {name: SHIM.read(self.burst, name, at) for name in SHIM}
        length = shim["length"]

        # Stage 4: each check by itself.
        decide4 = Signal()
        verdict4 = Signal(5, reset_less=True)
        header4 = Signal(ParsedHeader, reset_less=True)
        shim4 = Signal(Shim, reset_less=True)
        magic4 = Signal(reset_less=True)
        faults4 = Signal(5, reset_less=True)
        gained4 = Signal(16, reset_less=True)
        checksum4 = Signal(17, reset_less=True)
        m.d.sync += [
            decide4.eq(decide3),
            verdict4.eq(verdict3),
            header4.eq(header3),
            shim4.length.eq(length),
            shim4.b.eq(shim["b"]),
            magic4.eq(shim["magic"] == SHIM_MAGIC),
            faults4.eq(
                Cat(
                    shim["version"] != SHIM_VERSION,
                    shim["reserved"] != 0,
                    length[:2] != 0,
                    length <= header3.payload_length,
                    length > header3.config.max_payload,
                )
            ),
            gained4.eq(length - header3.payload_length),
            checksum4.eq(without3 + (~length)[:16]),
        ]

        # Stage 5: the verdict, and the header as the host will see it.
        choice = Mux(
            verdict4 != 0, verdict4, Mux(~magic4, Verdict.NO_SHIM, Mux(faults4.any(), Verdict.BAD_SHIM, 0))
        )
        restore = Signal()
        m.d.comb += restore.eq(decide4 & (verdict4 == 0) & magic4 & ~faults4.any())
        m.d.sync += [
            self.order_valid.eq(decide4),
            self.order.restore.eq(restore),
            self.order.verdict.eq(choice),
            self.order.vlan.eq(header4.vlan),
            self.order.tcp.eq(header4.tcp),
            self.order.payload_at.eq(header4.payload_at),
            self.order.total_length.eq(header4.total_length + gained4),
            self.order.ip_checksum.eq(fold17(checksum4)),
            self.order.payload_length.eq(shim4.length),
        ]
        m.d.sync += self.shim.eq(shim4)
        return m

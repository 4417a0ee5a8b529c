# SPDX-License-Identifier: BSD-2-Clause
"""Decides whether a received frame is restored, from headers and shim; makes the header for the host."""

from typing import Any

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from inceptionn.wire import SHIM_BYTES, SHIM_MAGIC, Verdict

from ..codec.shape import USUAL, EngineShape
from ..frame.frame_input import frame_beat
from ..frame.header_fields import SHIM
from ..frame.header_judge import ParsedHeader
from ..frame.payload_realigner import PayloadRealigner
from ..parts.checksum import add16, fold17
from ..parts.compare import in_range
from ..parts.pipeline import Pipeline


class ReceiveOrder(data.Struct):
    """The assembler's instructions for a frame."""

    restore: 1
    verdict: 5  # of a frame that passes; of a restored one, 1 if it has bf16 lanes
    vlan: 1
    tcp: 1
    payload_at: 7
    total_length: 16  # from here on: as restored
    ip_checksum: 16
    payload_length: 16


class Shim(data.Struct):
    """The shim's fields in host order. ``base``: byte 3, B, E0, or for bf16 E0 + 128."""

    base: 8
    length: 16


class ReceiveDecision(wiring.Component):
    """Decides once per frame, as early as its bytes allow, and in the frames' order.

    A frame that fails a header check is decided with its second beat (or its only one; with 16 lanes always
    its first), any other with the beat that holds the shim's last byte, or with its last beat if that comes
    before. All decisions take the same :attr:`LATENCY` cycles from that beat, so none overtakes another.
    """

    LATENCY = PayloadRealigner.LATENCY + 2

    def __init__(self, shape: EngineShape = USUAL):
        self.shape = shape
        super().__init__(
            {
                #: The frame's; holds from its second beat (its only one; with 16 lanes its first) to its
                #: last.
                "header": In(ParsedHeader),
                #: In step with the :class:`PayloadRealigner`'s.
                "beats": In(stream.Signature(frame_beat(self.shape.bytes), always_ready=True)),
                #: The realigner's: the shim, the realigner's latency after the beat that holds the shim's
                #: last byte.
                "front": In(8 * SHIM_BYTES),
                "orders": Out(stream.Signature(ReceiveOrder, always_ready=True)),  #: One per frame, in order.
                "shim": Out(Shim),  #: With the order of a frame that is restored: its shim.
            }
        )

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        header, beat, order = self.header, self.beats.payload, self.orders.payload

        # Stage 0: is this the beat? `block_at`: first byte after the shim, never the first of a beat.
        index = Signal(3)
        decided = Signal()
        block_at = Signal(7)
        place_bits = self.shape.place_bits
        objection = header.verdict != 0
        behind_headers = Const(1) if self.shape.headers_in_one_beat else index != 0
        parsed = behind_headers | beat.last
        at_shim = Signal()
        whole = Signal()
        decide = Signal()
        m.d.comb += [
            block_at.eq(header.payload_at + SHIM_BYTES),
            at_shim.eq(behind_headers & (index == block_at[place_bits:])),
            whole.eq(at_shim & (~beat.last | (beat.count >= block_at[:place_bits]))),
            decide.eq(self.beats.valid & ~decided & parsed & (objection | at_shim | beat.last)),
        ]
        with m.If(self.beats.valid):
            m.d.sync += [
                index.eq(Mux(beat.last, 0, index + (index < 7))),
                decided.eq(~beat.last & (decided | decide)),
            ]
        verdict = Mux(objection, header.verdict, Mux(whole, 0, Verdict.LENGTHS))

        # The realigner shows the shim.
        p = Pipeline(m, control={"decide"})
        p.let(
            decide=decide,
            verdict=verdict,
            header=header,
            # The IP checksum without the old length; one's complement, like all that follows.
            without=add16(header.ip_checksum, header.payload_length),
        )
        p.until(PayloadRealigner.LATENCY)
        judge_shim(m, p, self.shape, self.front, self.orders.valid, order, self.shim)
        return m


def judge_shim(
    m: Module, p: Pipeline, shape: EngineShape, front: Value, decided: Value, order: Any, result: Any
) -> None:
    """Check the shim ``front`` and make the frame's order, two stages after that of ``p``.

    ``p`` has ``decide``, the headers' ``verdict``, ``header``, and ``without``, the IP checksum without the
    old length. Registers ``decided``, ``order`` and the shim's fields in ``result`` get the outcome.
    """
    shim = {name: SHIM.read(front, name) for name in SHIM}
    length, header = shim["length"], p.header

    # Each check by itself.
    everything = shape.codec.spec.accepted == range(1 << len(shim["base"]))
    p.stage(
        length=length,
        base=shim["base"],
        magic=shim["magic"] == SHIM_MAGIC,
        faults=Cat(
            shim["version"] != shape.codec.spec.version,
            shim["reserved"] != 0,
            length[:2] != 0,
            length <= header.payload_length,
            length > header.config.max_payload,
            *([] if everything else [~_usable(shape, shim["base"], header)]),
        ),
        gained=(length - header.payload_length)[:16],
        checksum=p.without + (~length)[:16],
    )

    # The verdict, and the header as the host will see it.
    header, faulty = p.header, p.faults.any()
    restored = p.base[-1] if shape.bf16 else 0
    choice = Mux(
        p.verdict != 0, p.verdict, Mux(~p.magic, Verdict.NO_SHIM, Mux(faulty, Verdict.BAD_SHIM, restored))
    )
    m.d.sync += [
        decided.eq(p.decide),
        order.restore.eq(p.decide & (p.verdict == 0) & p.magic & ~faulty),
        order.verdict.eq(choice),
        order.vlan.eq(header.vlan),
        order.tcp.eq(header.tcp),
        order.payload_at.eq(header.payload_at),
        order.total_length.eq(header.total_length + p.gained),
        order.ip_checksum.eq(fold17(p.checksum)),
        order.payload_length.eq(p.length),
        result.length.eq(p.length),
        result.base.eq(p.base),
    ]


def _usable(shape: EngineShape, base: Value, header: Any) -> Value:
    """Return whether byte 3 of the shim is E0, or E0 + 128 where a block may have bf16 lanes."""
    if not shape.bf16:
        return in_range(base, shape.codec.spec.accepted)
    return in_range(base[:-1], shape.codec.spec.accepted) & (header.bf16 | ~base[-1])

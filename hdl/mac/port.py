# SPDX-License-Identifier: BSD-2-Clause
"""An Ethernet port as the engines see it: whole frames in wide beats, in their clock."""

from typing import Any

from amaranth.hdl import DomainRenamer, Module, ResetSignal, Signal, Value
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from ..attach.clock_crossing import StreamCrossing, pulse_seen, reset_seen
from ..attach.frame_guard import FrameGuard
from ..attach.frame_queue import FrameQueue
from ..attach.width_adapter import Narrower, Widener
from ..parts.axi import AXIStream
from .octets import Octet
from .push_guard import PushGuard
from .receiver import MacReceiver
from .transmitter import MacTransmitter

_WORD_BYTES = 4
"""Width of the queues: with its marks, one column of block RAM."""


class PortEvents(data.Struct):
    """Each bit is high for one cycle of ``sync`` per frame."""

    good: 1
    error: 1
    short: 1
    fcs: 1
    control: 1
    overflow: 1  # good, and without room in the queue; or, good or not, cut by a reset of the engines' side
    unsent: 1  # marked bad, or longer than the queue
    underrun: 1
    sent: 1  # its last octet has left, an underrun included


class EthernetPort(wiring.Component):
    """A MAC between its media interface's clocks and ``sync``, with a queue of whole frames each way.

    ::

        received ─► MacReceiver ─► Widener ─► PushGuard ─► StreamCrossing ─► FrameGuard ─► FrameQueue ─┐
                                                                                m_axis ◄─── Widener ◄──┘
        s_axis ─► Narrower ─► FrameQueue ─► FrameGuard ─► StreamCrossing ─► Narrower ─► MacTransmitter ─► sent

    Any of the three clock domains may be reset alone, also inside a frame. A frame that is cut is lost whole;
    so is at most one more in each direction. A received frame without room is lost whole. A frame that is
    marked bad is neither received nor sent. A frame must be 4 bytes shorter than its queue, or it is lost.
    ``sync`` must be faster than a quarter of the octet clock.

    With ``wide_bytes`` of 4, ``s_axis`` and ``m_axis`` are as wide as the queues, and need no adapters. With
    ``receive_bytes`` of 0 there is no receive queue: frames arrive as they come, damaged ones marked bad, and
    what follows must always be ready, drop frames whole, and tell so.

    Parameters
    ----------
    receive_domain, transmit_domain : :class:`str`
        Clock domains of the media interface.
    wide_bytes : :class:`int`
        Bytes of a beat on ``s_axis`` and ``m_axis``.
    receive_bytes, transmit_bytes : :class:`int`
        Sizes of the queues; powers of two. ``receive_bytes`` may be 0.
    """

    def __init__(
        self,
        *,
        receive_domain: str,
        transmit_domain: str,
        wide_bytes: int,
        receive_bytes: int = 16384,
        transmit_bytes: int = 16384,
    ):
        self.receive_domain = receive_domain
        self.transmit_domain = transmit_domain
        self.wide_bytes = wide_bytes
        self.receive_bytes = receive_bytes
        self.transmit_bytes = transmit_bytes
        super().__init__(
            {
                "received": In(stream.Signature(Octet, always_ready=True)),  #: In ``receive_domain``.
                "sent": Out(stream.Signature(Octet)),  #: In ``transmit_domain``.
                "s_axis": In(AXIStream(wide_bytes)),  #: Frames to be sent.
                "m_axis": Out(AXIStream(wide_bytes)),  #: Frames received.
                #: Without a receive queue: in the cycle after the last beat, its frame was dropped.
                **({} if receive_bytes else {"dropped": In(1)}),
                "events": Out(PortEvents),  #: For the counters, in ``sync``.
            }
        )

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        receive, transmit = DomainRenamer(self.receive_domain), DomainRenamer(self.transmit_domain)
        m.submodules.receiver = receiver = receive(MacReceiver())
        m.submodules.words = words = receive(Widener(1, _WORD_BYTES))
        m.submodules.guard = guard = receive(PushGuard(_WORD_BYTES))
        m.submodules.receive_crossing = inward = StreamCrossing(
            write_domain=self.receive_domain, read_domain="sync", data_bytes=_WORD_BYTES
        )
        m.submodules.receive_guard = closing = FrameGuard(_WORD_BYTES)
        wiring.connect(m, wiring.flipped(self.received), receiver.octets)
        for source, sink in (
            (receiver.m_axis, words.s_axis),
            (words.m_axis, guard.s_axis),
            (guard.m_axis, inward.s_axis),
            (inward.m_axis, closing.s_axis),
        ):
            wiring.connect(m, source, sink)
        refused = self._received(m, closing.m_axis)

        frames = wiring.flipped(self.s_axis)
        if self.wide_bytes != _WORD_BYTES:
            m.submodules.cut = cut = Narrower(self.wide_bytes, _WORD_BYTES)
            wiring.connect(m, frames, cut.s_axis)
            frames = cut.m_axis
        m.submodules.transmit_queue = waiting = FrameQueue(
            _WORD_BYTES, depth=self.transmit_bytes // _WORD_BYTES, drop_bad=True
        )
        m.submodules.transmit_guard = dropping = FrameGuard(_WORD_BYTES)
        m.submodules.transmit_crossing = outward = StreamCrossing(
            write_domain="sync", read_domain=self.transmit_domain, data_bytes=_WORD_BYTES
        )
        words_out = outward.m_axis
        if self.wide_bytes == _WORD_BYTES:
            # Parts for engines this narrow are slow: the octets' `ready` reaches the crossing's pointer in
            # two cycles, not in one.
            m.submodules.transmit_register = register = transmit(FrameGuard(_WORD_BYTES))
            wiring.connect(m, words_out, register.s_axis)
            words_out = register.m_axis
        m.submodules.octets = octets = transmit(Narrower(_WORD_BYTES, 1))
        m.submodules.transmitter = transmitter = transmit(MacTransmitter())
        for source, sink in (
            (frames, waiting.s_axis),
            (waiting.m_axis, dropping.s_axis),
            (dropping.m_axis, outward.s_axis),
            (words_out, octets.s_axis),
            (octets.m_axis, transmitter.s_axis),
        ):
            wiring.connect(m, source, sink)
        wiring.connect(m, transmitter.octets, wiring.flipped(self.sent))

        def in_reset(name: str, domain: str, seen_in: str) -> Signal:
            return reset_seen(m, name, ResetSignal(domain, allow_reset_less=True), seen_in, domain)

        m.d.comb += [
            guard.cut.eq(in_reset("engines_reset", "sync", self.receive_domain)),
            closing.source_reset.eq(in_reset("receiver_reset", self.receive_domain, "sync")),
            dropping.sink_reset.eq(in_reset("transmitter_reset", self.transmit_domain, "sync")),
        ]

        # A bad frame's mark tells a frame that the receiver refused, or the guard, from one without room.
        spoilt = Signal()
        with m.If(closing.m_axis.tvalid & closing.m_axis.tlast):
            m.d.sync += spoilt.eq(closing.m_axis.tuser)
        lost = pulse_seen(m, "lost", guard.lost, self.receive_domain, "sync")
        m.d.comb += [
            self.events.overflow.eq((refused & ~spoilt) | lost),
            self.events.unsent.eq(waiting.dropped),
        ]
        for name in ("good", "error", "short", "fcs", "control"):
            event = pulse_seen(m, name, receiver.events[name], self.receive_domain, "sync")
            m.d.comb += self.events[name].eq(event)
        for name in ("sent", "underrun"):
            event = pulse_seen(m, name, getattr(transmitter, name), self.transmit_domain, "sync")
            m.d.comb += self.events[name].eq(event)
        return m

    def _received(self, m: Module, frames: wiring.PureInterface) -> Value:
        """Queue received frames and widen their beats; return whether one was dropped."""
        refused: Value
        if self.receive_bytes:
            m.submodules.receive_queue = arrived = FrameQueue(
                _WORD_BYTES, depth=self.receive_bytes // _WORD_BYTES, lossy=True, drop_bad=True
            )
            wiring.connect(m, frames, arrived.s_axis)
            frames, refused = arrived.m_axis, arrived.dropped
        else:
            refused = self.dropped
        if self.wide_bytes != _WORD_BYTES:
            m.submodules.beats = beats = Widener(_WORD_BYTES, self.wide_bytes)
            wiring.connect(m, frames, beats.s_axis)
            frames = beats.m_axis
        wiring.connect(m, frames, wiring.flipped(self.m_axis))
        return refused

# SPDX-License-Identifier: BSD-2-Clause
"""The frames that all of several transmit engines must see, so that their flow tables stay equal."""

from functools import reduce
from operator import or_
from typing import Any

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from inceptionn.wire import ETHERTYPE_IPV4, ETHERTYPE_VLAN, FLOW_TABLE_SIZE, LANE_BYTES, PROTOCOL_TCP

from ..control.config import EngineConfig
from ..frame.flow_table import FlowKey, FlowTable, flow_index
from ..frame.header_fields import ETHERNET, IPV4, L3, L4, TCP, VLAN
from ..frame.tos_matcher import TosMatcher
from ..parts.memory import BlockRam
from ..parts.pipeline import Pipeline
from ..parts.queue import PushQueue

HEADER_BYTES = 64
"""Bytes of a frame that hold every field that is examined, with a VLAN tag."""
_GENERATION_BITS = 8


class Ticket(data.Struct):
    """The directory's decision on a frame; returned to it with the engine's report."""

    shared: 1  # every engine must see the frame
    slot: range(FLOW_TABLE_SIZE)
    generation: _GENERATION_BITS


class FlowFrame(data.Struct):
    """The beginning of a frame."""

    header: 8 * HEADER_BYTES  # its first bytes, undefined where it is shorter
    config: EngineConfig


class _Query(data.Struct):
    """A frame as the directory sees it."""

    touches: 1  # it may change the flow table, or asks it
    syn: 1
    index: range(FLOW_TABLE_SIZE)
    key: FlowKey


class _State(data.Struct):
    """Beside a flow in the directory."""

    generation: _GENERATION_BITS
    certain: 1  # the engines' tables hold the flow


class FlowDirectory(wiring.Component):
    """Separates frames that any engine may process from those that may change the flow-phase table.

    Every engine has a flow-phase table of its own (wire format, section 7). What an engine does with a frame
    depends only on the frame, its settings and that table. So the tables stay equal, and equal to one table
    that sees all frames, if each frame that changes the table passes through all engines. A frame cannot
    change it unless it has SYN or its flow is not in the table.

    The directory keeps the flows that the tables hold for *certain*. A segment without SYN of such a flow
    goes to one engine. Any other frame that could touch the table is *shared*: it goes to all. In doubt a
    frame is shared, which costs time but changes no result. So the directory needs neither the frame's end
    nor all of the engine's checks.

    A flow becomes certain by the engine's report (``confirmations``) on a shared frame of it. Each flow in a
    slot has a number, its generation, which is returned with the report. A report on an earlier flow of the
    slot has another generation and is ignored.

    Throughput: one frame per cycle of those that do not touch the table, one in 5 cycles of the others.

    Parameters
    ----------
    half : :class:`bool`
        The engines have bf16 lanes, whose frames have a ToS byte of their own.
    """

    def __init__(self, *, half: bool = False):
        self.has_half = half
        super().__init__(
            {
                #: The beginning of each frame, in order.
                "frames": In(stream.Signature(FlowFrame, always_ready=True)),
                #: With ``half=True``: the setting of that frame.
                **({"bf16_tos": In(8)} if half else {}),
                #: Frames are accepted, and 8 more after it falls; low after reset until the directory is
                #: empty.
                "room": Out(1),
                "tickets": Out(stream.Signature(Ticket)),  #: One for each frame, in order.
                #: Of shared frames: the engines' tables hold the frame's flow. May be forgotten under
                #: pressure.
                "confirmations": In(stream.Signature(Ticket, always_ready=True)),
            }
        )

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        m.submodules.queries = queries = PushQueue(_Query, 32, 14)
        m.submodules.tickets = tickets = PushQueue(Ticket, 16, 4)
        m.submodules.confirmations = confirmations = PushQueue(Ticket, 8, 1)
        m.submodules.flows = flows = FlowTable()
        m.submodules.states = states = BlockRam(_State.as_shape().size, FLOW_TABLE_SIZE)
        self._classify(m, queries)
        wiring.connect(m, tickets.o, wiring.flipped(self.tickets))
        m.d.comb += [
            confirmations.i.valid.eq(self.confirmations.valid & confirmations.room),
            confirmations.i.payload.eq(self.confirmations.payload),
        ]
        m.d.sync += self.room.eq(queries.room & flows.ready)
        self._look_up(m, queries, tickets, confirmations, flows, states)
        return m

    def _classify(self, m: Module, queries: PushQueue) -> None:
        """Classify a frame in three registers.

        They hold the fields at their place, with or without VLAN tag; conditions; their conjunction.
        """
        outer = ETHERNET.read(self.frames.payload.header, "ethertype")
        inner = VLAN.read(self.frames.payload.header, "ethertype", at=ETHERNET.size)
        vlan = outer == ETHERTYPE_VLAN
        tcp_bytes = TCP["syn"].end

        header = self.frames.payload.header

        def cut(begin: int, end: int) -> Any:
            """Return bytes ``begin`` to ``end`` of the frame without its VLAN tag, first byte lowest."""
            return Mux(vlan, *(header[8 * (tag + begin) : 8 * (tag + end)] for tag in (VLAN.size, 0)))

        p = Pipeline(m, control={"valid"})
        p.let(valid=self.frames.valid, config=self.frames.payload.config)
        if self.has_half:
            p.let(bf16_tos=self.bf16_tos)
        p.stage(
            ipv4=Mux(vlan, inner, outer) == ETHERTYPE_IPV4,
            ip=cut(L3, L4),
            tcp=cut(L4, L4 + tcp_bytes),
        )
        ip, tcp, config = p.ip, p.tcp, p.config

        matches = []
        tags = {"matcher": config.tos, **({"bf16_matcher": p.bf16_tos} if self.has_half else {})}
        for name, tos in tags.items():
            m.submodules[name] = matcher = TosMatcher()
            m.d.comb += [
                matcher.tos.eq(IPV4.read(ip, "tos")),
                matcher.config_tos.eq(tos),
                matcher.config_mask.eq(config.tos_mask),
            ]
            matches.append(matcher.match)
        key = Signal(FlowKey)
        m.d.comb += [
            key.source.eq(IPV4.read(ip, "source")),
            key.destination.eq(IPV4.read(ip, "destination")),
            key.source_port.eq(TCP.read(tcp, "source_port")),
            key.destination_port.eq(TCP.read(tcp, "destination_port")),
        ]
        headers = (TCP.read(tcp, "data_offset") << 2) + IPV4.size
        p.stage(
            payload=(IPV4.read(ip, "total_length") - headers)[:17],
            tagged=(
                config.enable & config.parameters_valid & p.ipv4 & reduce(or_, matches)
                & (Cat(IPV4.read(ip, "ihl"), IPV4.read(ip, "version")) == 0x45)
                & (IPV4.read(ip, "protocol") == PROTOCOL_TCP)
            ),
            syn=TCP.read(tcp, "syn"),
            key=key,
            index=flow_index(key),
        )  # fmt: skip
        eligible = (
            ~p.payload[-1]
            & (p.payload != 0)
            & (p.payload >= p.config.min_payload)
            & (p.payload <= p.config.max_payload)
            & (p.payload % LANE_BYTES == 0)
        )
        query = queries.i.payload
        m.d.sync += [
            queries.i.valid.eq(p.valid),
            query.syn.eq(p.syn),
            query.key.eq(p.key),
            query.index.eq(p.index),
            query.touches.eq(p.tagged & (p.syn | eligible)),
        ]

    @staticmethod
    def _look_up(
        m: Module,
        queries: PushQueue,
        tickets: PushQueue,
        confirmations: PushQueue,
        flows: FlowTable,
        states: BlockRam,
    ) -> None:
        """Do one look-up or confirmation at a time: none reads what an earlier one has yet to write."""
        query = queries.o.payload
        step = Signal(range(FlowTable.LATENCY + 1))
        confirming = Signal()
        state = data.View(_State, states.read_data)
        # The states' memory answers one cycle before the flows'.
        found = Signal(_State, reset_less=True)
        m.d.sync += found.eq(state)
        generation = Signal(_GENERATION_BITS)
        fresh = Signal(_State)
        slot = Signal(range(FLOW_TABLE_SIZE))
        m.d.comb += [
            flows.index.eq(query.index),
            flows.key.eq(query.key),
            slot.eq(Mux(confirming, confirmations.o.payload.slot, query.index)),
            states.read_address.eq(slot),
            states.write_address.eq(slot),
            states.write_data.eq(fresh),
            tickets.i.payload.slot.eq(query.index),
            flows.learn_phase.eq(generation),  # the table keeps two bits with a flow, here of its generation
        ]
        with m.If(step != 0):
            m.d.sync += step.eq(Mux(step == FlowTable.LATENCY, 0, step + 1))
            with m.If(step == FlowTable.LATENCY):
                with m.If(confirming):
                    m.d.comb += [
                        fresh.generation.eq(found.generation),
                        fresh.certain.eq(1),
                        states.write.eq(found.generation == confirmations.o.payload.generation),
                        confirmations.o.ready.eq(1),
                    ]
                    m.d.sync += confirming.eq(0)
                with m.Else():
                    m.d.comb += [
                        queries.o.ready.eq(1),
                        fresh.generation.eq(generation),
                        flows.learn.eq(~flows.known),
                        states.write.eq(~flows.known),
                        tickets.i.valid.eq(1),
                        tickets.i.payload.generation.eq(
                            Mux(flows.known, Cat(flows.phase, found.generation[2:]), generation)
                        ),
                        tickets.i.payload.shared.eq(query.syn | ~flows.known | ~found.certain),
                    ]
                    m.d.sync += generation.eq(generation + ~flows.known)
        with m.Elif(confirmations.o.valid & ~confirming):
            # One idle cycle: the memories see the slot with the next one.
            m.d.sync += confirming.eq(1)
        with m.Elif(confirming):
            m.d.sync += step.eq(1)
        with m.Elif(queries.o.valid & tickets.room):
            with m.If(query.touches):
                m.d.sync += step.eq(1)
            with m.Else():
                m.d.comb += [queries.o.ready.eq(1), tickets.i.valid.eq(1)]

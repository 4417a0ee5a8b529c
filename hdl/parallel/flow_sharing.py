# SPDX-License-Identifier: BSD-2-Clause
"""The frames that all of several transmit engines must see, so that their flow tables stay equal."""

from functools import reduce
from operator import or_
from typing import Any

from amaranth.hdl import Module, Mux, Value
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from inceptionn.wire import ETHERTYPE_IPV4, ETHERTYPE_VLAN, PROTOCOL_TCP

from ..control.config import EngineConfig
from ..frame.header_fields import ETHERNET, IPV4, L3, L4, TCP, VLAN, Header
from ..frame.tos_matcher import TosMatcher
from ..parts.pipeline import Pipeline

HEADER_BYTES = VLAN.size + L4 + TCP["rst"].end
"""Bytes of a frame that hold every field that is examined, with a VLAN tag."""


class FlowFrame(data.Struct):
    """The beginning of a frame."""

    header: 8 * HEADER_BYTES  # its first bytes, undefined where it is shorter
    config: EngineConfig


class FlowSharing(wiring.Component):
    """Separates frames that any engine may process from those that may change the flow-phase table.

    Every engine has a flow-phase table of its own (wire format, section 7). What an engine does with a frame
    depends only on the frame, its settings and that table. So the tables stay equal, and equal to one table
    that sees all frames, if each frame that changes the table passes through all engines. Such a frame is
    *shared*: a TCP segment with SYN, FIN or RST, and with the setting ``learn_phases`` every marked one.

    In doubt a frame is shared, which costs time but changes no result. So neither the frame's end is needed
    nor all of the engine's checks.

    Throughput: one frame per cycle. Latency: :attr:`LATENCY` cycles.

    Parameters
    ----------
    bf16 : :class:`bool`
        The engines have bf16 lanes, whose frames have a ToS byte of their own.
    """

    LATENCY = 3

    def __init__(self, *, bf16: bool = False):
        self.has_bf16 = bf16
        super().__init__(
            {
                #: The beginning of each frame, in order.
                "frames": In(stream.Signature(FlowFrame, always_ready=True)),
                #: With ``bf16=True``: the setting of that frame.
                **({"bf16_tos": In(8)} if bf16 else {}),
                #: One for each frame, in order: every engine must see it.
                "shared": Out(stream.Signature(1, always_ready=True)),
            }
        )

    def elaborate(self, platform: Any) -> Module:
        # Three registers: the fields at their place, with or without VLAN tag; conditions; their conjunction.
        m = Module()
        first, config = self.frames.payload.header, self.frames.payload.config
        outer = ETHERNET.read(first, "ethertype")
        inner = VLAN.read(first, "ethertype", at=ETHERNET.size)
        vlan = outer == ETHERTYPE_VLAN

        def read(header: Header, name: str, at: int) -> Value:
            """Return the field of a header that is at byte ``at`` of a frame without VLAN tag."""
            return Mux(vlan, header.read(first, name, at + VLAN.size), header.read(first, name, at))

        p = Pipeline(m, control={"valid"})
        p.let(valid=self.frames.valid, tos_mask=config.tos_mask, fp32_tos=config.tos)
        if self.has_bf16:
            p.let(bf16_tos=self.bf16_tos)
        p.stage(
            ipv4=Mux(vlan, inner, outer) == ETHERTYPE_IPV4,
            version=read(IPV4, "version", L3),
            ihl=read(IPV4, "ihl", L3),
            tos=read(IPV4, "tos", L3),
            protocol=read(IPV4, "protocol", L3),
            flags=read(TCP, "syn", L4) | read(TCP, "fin", L4) | read(TCP, "rst", L4),
            learns=config.learn_phases & config.enable & config.parameters_valid,
        )
        matches = []
        tags = {"matcher": p.fp32_tos, **({"bf16_matcher": p.bf16_tos} if self.has_bf16 else {})}
        for name, tos in tags.items():
            m.submodules[name] = matcher = TosMatcher()
            m.d.comb += [
                matcher.tos.eq(p.tos),
                matcher.config_tos.eq(tos),
                matcher.config_mask.eq(p.tos_mask),
            ]
            matches.append(matcher.match)
        p.stage(
            tcp=p.ipv4 & (p.version == 4) & (p.ihl == 5) & (p.protocol == PROTOCOL_TCP),
            learns=p.learns & reduce(or_, matches),
        )
        p.stage(shared=p.tcp & (p.flags | p.learns))
        m.d.comb += [self.shared.valid.eq(p.valid), self.shared.payload.eq(p.shared)]
        return m

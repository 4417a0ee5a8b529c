# SPDX-License-Identifier: BSD-2-Clause
"""The ports of both engines."""

from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from ..codec.shape import USUAL, EngineShape
from ..control.config import EngineConfig
from ..control.counters import frame_report
from ..parts.axi import AXIStream


class Engine(wiring.Component):
    """One direction of the NIC: frames in, the same frames out, and a report on each.

    Parameters
    ----------
    shape : :class:`EngineShape`
    **more
        Ports that a kind of engine has beside these.
    """

    def __init__(self, shape: EngineShape = USUAL, **more: wiring.Member):
        self.shape = shape
        super().__init__(
            {
                #: From the host, or in receive from the wire. ``tuser`` at ``tlast``: bad frame.
                "s_axis": In(AXIStream(shape.bytes)),
                "m_axis": Out(AXIStream(shape.bytes)),  #: To the wire, or in receive to the host.
                #: Sampled once for a frame, in the cycle after its first beat was accepted.
                "config": In(EngineConfig),
                #: With ``shape.bf16``: see :class:`HeaderParser`.
                **({"bf16_tos": In(8)} if shape.bf16 else {}),
                #: One per frame, in order.
                "reports": Out(stream.Signature(frame_report(shape), always_ready=True)),
                **more,
            }
        )

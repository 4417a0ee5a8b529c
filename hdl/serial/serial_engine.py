# SPDX-License-Identifier: BSD-2-Clause
"""What both engines of one lane have in common."""

from amaranth.hdl import Module
from amaranth.lib import wiring
from amaranth.lib.wiring import Out

from ..codec.shape import USUAL, EngineShape
from ..engine.engine import Engine
from .frame_reader import FrameReader


class SerialEngine(Engine):
    """An engine that takes whole frames from a store, one at a time.

    Parameters
    ----------
    shape : :class:`EngineShape`
    lossy : :class:`bool`
        As of :class:`FrameStore`, as is the port ``dropped``.
    """

    def __init__(self, shape: EngineShape = USUAL, *, lossy: bool = False):
        self.lossy = lossy
        dropped = {"dropped": Out(1)}  #: With ``lossy``, as of :class:`FrameStore`.
        super().__init__(shape, **(dropped if lossy else {}))

    def _read(self, m: Module, *, transmit: bool) -> FrameReader:
        """Add the reader of the frames at ``s_axis``, with their settings."""
        m.submodules.reader = reader = FrameReader(self.shape, transmit=transmit, lossy=self.lossy)
        wiring.connect(m, wiring.flipped(self.s_axis), reader.s_axis)
        m.d.comb += reader.config.eq(self.config)
        if self.shape.bf16:
            m.d.comb += reader.bf16_tos.eq(self.bf16_tos)
        if self.lossy:
            m.d.comb += self.dropped.eq(reader.dropped)
        return reader

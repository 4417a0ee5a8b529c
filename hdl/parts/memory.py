# SPDX-License-Identifier: BSD-2-Clause
"""The two memories of the engines, in the form that every family's tools infer well."""

from typing import Any

from amaranth.hdl import Module, Signal, unsigned
from amaranth.lib import wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out


class BlockRam(wiring.Component):
    """Simple dual-port block RAM with its output register: reads take 2 cycles, one per cycle.

    Reading an address in the cycle in which it is written gives undefined data. The second read
    register has neither enable nor reset, so that it becomes the RAM's own output register.

    Parameters
    ----------
    width : :class:`int`
    depth : :class:`int`
        Words; a power of two.
    init : :class:`int`
        Each word after configuration.
    """

    LATENCY = 2
    STYLE = "block"

    def __init__(self, width: int, depth: int, init: int = 0):
        if width < 1 or depth < 2 or depth & (depth - 1):
            raise ValueError(
                f"memory needs a width of 1 or more and a power-of-two depth, not {(width, depth)!r}"
            )
        self.width = width
        self.depth = depth
        self.init = init
        super().__init__(
            {
                "write": In(1),  #: Store ``write_data`` at ``write_address``.
                "write_address": In(range(depth)),  #: Where to write.
                "write_data": In(width),  #: The word to store.
                "read_address": In(range(depth)),  #: What to read.
                "read_data": Out(width),  #: The word at ``read_address`` of two cycles before.
            }
        )

    def _memory(self) -> Memory:
        attrs = {"ram_style": self.STYLE, "no_rw_check": 1}
        init = [self.init] * self.depth if self.init else []
        return Memory(shape=unsigned(self.width), depth=self.depth, init=init, attrs=attrs)

    def _connect_write(self, m: Module, memory: Memory) -> None:
        port = memory.write_port()
        m.d.comb += [port.addr.eq(self.write_address), port.data.eq(self.write_data), port.en.eq(self.write)]

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        m.submodules.memory = memory = self._memory()
        self._connect_write(m, memory)
        read = memory.read_port()
        output = Signal(self.width, reset_less=True)
        self.probes = {"memory": memory.data, "found": read.data, "output": output}
        m.d.comb += [read.addr.eq(self.read_address), self.read_data.eq(output)]
        m.d.sync += output.eq(read.data)
        return m


class LutRam(BlockRam):
    """Distributed RAM with asynchronous read: ``read_data`` is the word at ``read_address`` at once.

    For small, wide queues. Parameters and members as of :class:`BlockRam`.
    """

    LATENCY = 0
    STYLE = "distributed"

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        m.submodules.memory = memory = self._memory()
        self._connect_write(m, memory)
        self.probes = {"memory": memory.data}
        read = memory.read_port(domain="comb")
        m.d.comb += [read.addr.eq(self.read_address), self.read_data.eq(read.data)]
        return m

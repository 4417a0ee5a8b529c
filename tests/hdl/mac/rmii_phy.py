# SPDX-License-Identifier: BSD-2-Clause
"""A PHY with RMII pins for the benches (RMII Consortium, revision 1.2); cocotbext-eth has none."""

import random
from collections.abc import Iterator
from typing import Any

import cocotb
from cocotb.queue import Queue
from cocotb.triggers import Event, FallingEdge, First, RisingEdge, Timer
from cocotb.utils import get_sim_time
from cocotbext.eth import GmiiFrame

_GAP_DIBITS = 48


class RmiiPhy:
    """``rx`` sends frames to the MAC, ``tx`` takes what it sends; a dibit lasts 1 or 10 cycles of ``clk``."""

    def __init__(self, dut: Any, *, slow: bool):
        self.rx = _Source(dut, 10 if slow else 1)
        self.tx = _Sink(dut, 10 if slow else 1)


class _Source:
    def __init__(self, dut: Any, hold: int):
        self.dut, self.hold = dut, hold
        self.queue: Queue[tuple[GmiiFrame, int]] = Queue()
        self.idle = Event()
        self.idle.set()
        dut.crs_dv.value = dut.rxd.value = dut.rx_er.value = 0
        cocotb.start_soon(self._run())

    async def send(self, frame: GmiiFrame, *, dribble: int = 0) -> None:
        """``dribble``: dibits after the last octet."""
        self.idle.clear()
        self.queue.put_nowait((GmiiFrame(frame), dribble))

    async def wait(self) -> None:
        await self.idle.wait()

    def _dibits(self, frame: GmiiFrame, dribble: int) -> Iterator[tuple[int, int, int]]:
        """``crs_dv``, ``rxd``, ``rx_er``: zeros first; half of the frames lose the carrier early."""
        frame.normalize()
        early = random.getrandbits(1)
        yield from [(1, 0, 0)] * random.randrange(6)
        dibits = [
            (octet >> 2 * place & 3, error)
            for octet, error in zip(frame.data, frame.error, strict=True)
            for place in range(4)
        ]
        dibits += [(random.getrandbits(2), 0)] * dribble
        for number, (bits, error) in enumerate(dibits):
            ending = early and len(dibits) - number <= 8
            yield int(not ending or number % 2), bits, error

    async def _run(self) -> None:
        while True:
            if self.queue.empty():
                self.idle.set()
            frame, dribble = await self.queue.get()
            for valid, bits, error in [*self._dibits(frame, dribble), *[(0, 0, 0)] * _GAP_DIBITS]:
                for _ in range(self.hold):
                    await FallingEdge(self.dut.clk)
                    self.dut.crs_dv.value, self.dut.rxd.value, self.dut.rx_er.value = valid, bits, error


class _Sink:
    def __init__(self, dut: Any, hold: int):
        self.dut, self.hold = dut, hold
        self.queue: Queue[GmiiFrame] = Queue()
        self.arrived = Event()
        cocotb.start_soon(self._run())

    def empty(self) -> bool:
        return self.queue.empty()

    def recv_nowait(self) -> GmiiFrame:
        frame = self.queue.get_nowait()
        if self.queue.empty():
            self.arrived.clear()
        return frame

    async def wait(self, timeout: int, timeout_unit: str) -> None:
        await First(self.arrived.wait(), Timer(timeout, timeout_unit))

    async def _run(self) -> None:
        while True:
            await RisingEdge(self.dut.clk)
            if not int(self.dut.tx_en.value):
                continue
            frame, dibits = GmiiFrame(b""), []
            frame.sim_time_start = get_sim_time()
            while int(self.dut.tx_en.value):
                bits = int(self.dut.txd.value)
                for _ in range(self.hold):
                    assert int(self.dut.tx_en.value), "a dibit was cut"
                    assert int(self.dut.txd.value) == bits, "a dibit changed"
                    await RisingEdge(self.dut.clk)
                dibits.append(bits)
            frame.sim_time_end = get_sim_time()
            assert len(dibits) % 4 == 0, "the MAC sends whole octets"
            frame.data = bytearray(
                sum(bits << 2 * place for place, bits in enumerate(dibits[at : at + 4]))
                for at in range(0, len(dibits), 4)
            )
            self.queue.put_nowait(frame)
            self.arrived.set()

# SPDX-License-Identifier: BSD-2-Clause
"""An inline device as a host's NIC, with its MAC, RGMII, queues and transmission times."""

from collections import deque
from collections.abc import Callable, Sequence

from inceptionn.wire import GROUP_LANES

from ..inline.model import US, InlineModel
from ..inline.pair import SERIAL_WINDOW, WINDOW
from ..nic_codec import NIC_VARIANTS
from ..verilated.nic import DRAIN
from .network.switch import WireFrame
from .nics import Nic

_SLICE = 5 * US
_PATIENCE = 500 * US
"""Simulated time without a frame after which missing frames count as dropped."""
_FROM_NETWORK = 2
"""Most frames from the network in the device. Restored frames leave no faster than the host's link."""
_CYCLE = US // 50


class InlineNic(Nic):
    """An inline device with 1000 Mbit/s on both sides. Its registers are accessed over its serial line.

    A frame that was damaged on the cable (bad) gets a wrong FCS, so the device's MAC drops it. The MAC also
    drops frames that its engine marks bad.
    """

    kind = "inline"
    registers = True

    def __init__(
        self, codec: str, seed: int, step: Callable[[str], None] = lambda text: None, lanes: int = GROUP_LANES
    ) -> None:
        super().__init__()
        self.codec = NIC_VARIANTS[codec]
        self._window = SERIAL_WINDOW if lanes == 1 else WINDOW
        self._model = InlineModel(
            codec, lanes=lanes, network="rgmii", network_mbit=1000, seed=seed, step=step
        )
        self._begin = self._model.cycles

    def _exchange(self, tx: Sequence[bytes], rx: Sequence[WireFrame]) -> tuple[list[bytes], list[WireFrame]]:
        model = self._model
        outward, inward = deque(tx), deque(rx)
        wire: list[bytes] = []
        host: list[WireFrame] = []
        lengths: deque[int] = deque()  # of frames from the host that are in the device
        waiting, quiet = 0, 0
        while outward or inward or ((lengths or waiting) and quiet < _PATIENCE):
            while outward and sum(lengths) < self._window:
                frame = outward.popleft()
                model.send("host", frame.ljust(60, b"\0"))
                lengths.append(len(frame))
            while inward and waiting < _FROM_NETWORK:
                data, bad = inward.popleft()
                model.send("network", data.ljust(60, b"\0"), good=not bad)
                waiting += not bad
            model.run(_SLICE)
            sent, received = model.taken("network"), model.taken("host")
            quiet = (
                0
                if sent or received or not (model.idle("host") and model.idle("network"))
                else quiet + _SLICE
            )
            if quiet >= _PATIENCE:
                lengths.clear()
                waiting = 0
            for _ in sent:
                if lengths:
                    lengths.popleft()
            waiting = max(0, waiting - len(received))
            wire += [frame.data for frame in sent if frame.good]
            host += [(frame.data, False) for frame in received if frame.good]
        self.cycles = model.cycles - self._begin
        return wire, host

    def _drain(self) -> None:
        self._model.run(DRAIN * _CYCLE)

    def _read_word(self, address: int) -> int:
        return self._model.read_word(address)

    def _write_word(self, address: int, value: int) -> None:
        self._model.write_word(address, value)

    def close(self) -> None:
        with self.lock:
            self._model.close()

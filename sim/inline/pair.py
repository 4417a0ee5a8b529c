# SPDX-License-Identifier: BSD-2-Clause
"""Two connected inline devices: host, device, cable, device, host."""

from collections.abc import Callable, Sequence
from typing import Self

from inceptionn.hdl.inline.registers import PORTS
from inceptionn.wire import GROUP_LANES

from ..golden.packets import MINIMUM_FRAME
from .model import MS, US, Arrived, InlineModel

SLICE = 10 * US
"""Time for which the devices run in turn, and by which a frame arrives later at the other device."""
WINDOW = 48 * 1024
"""Most bytes that a host may have in its device. It is less than the device's queue, as TCP's window would
ensure.
"""
SERIAL_WINDOW = 12 * 1024
"""The same for engines of one lane, whose store is smaller."""
_LOST = MS
"""Time without a frame after which missing frames count as lost. A host then continues, as TCP does."""
_QUIET = 2 * MS


class Stuck(RuntimeError):
    """Expected frames did not arrive. The text has their number and place."""


class Side:
    """A device and the frames that left it: ``wire`` from its network port, ``host`` to its host.

    ``host`` frames are as the host's MAC receives them. ``spoilt`` counts frames with a wrong FCS, which are
    in neither list.
    """

    def __init__(self, model: InlineModel) -> None:
        self.model = model
        self.wire: list[Arrived] = []
        self.host: list[Arrived] = []
        self.spoilt = 0
        self.to_send: list[bytes] = []
        self.sent = 0
        self._sent_bytes = 0
        self._written_off = 0

    def feed(self, window: int | None) -> None:
        """Give the host's next frames to its MAC, as many as ``window`` allows, or all if it is None."""
        gone = self._left() + self._written_off
        while self.sent < len(self.to_send) and (window is None or self._sent_bytes - gone < window):
            frame = self.to_send[self.sent]
            self.model.send("host", frame.ljust(MINIMUM_FRAME, b"\0"))
            self.sent += 1
            self._sent_bytes += len(frame)

    def write_off(self) -> None:
        """Count frames that the host sent and that have not left on the cable as lost.

        This frees the window.
        """
        self._written_off = self._sent_bytes - self._left()

    def _left(self) -> int:
        """Return the total bytes of the frames that have left on the cable."""
        return sum(map(len, self.to_send[: len(self.wire)]))


class Pair:
    """Two devices, joined by their network ports, as a context manager.

    Each host sends through its own device.

    Parameters
    ----------
    codec, lanes, network_mbit, step
        As of `InlineModel`; the network is RMII at 100 Mbit/s, RGMII otherwise.
    """

    def __init__(
        self,
        codec: str | None = "paper",
        *,
        lanes: int = GROUP_LANES,
        network_mbit: int = 100,
        step: Callable[[str], None] = lambda text: None,
    ) -> None:
        self.window = SERIAL_WINDOW if lanes == 1 else WINDOW
        """Most bytes that a host has in its device."""
        network = "rmii" if network_mbit == 100 else "rgmii"
        self.sides = [
            Side(
                InlineModel(
                    codec,
                    lanes=lanes,
                    network=network,
                    network_mbit=network_mbit,
                    seed=seed,
                    offsets=offsets,
                    step=step,
                )
            )
            for seed, offsets in ((1, (0, 0, 1, -1)), (2, (2, -1, 0, 1)))
        ]

    def close(self) -> None:
        """Free both models. A second call does nothing."""
        for side in self.sides:
            side.model.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def slice(self) -> bool:
        """Advance both sides by one slice of time. Return whether any frame moved."""
        moved = False
        for side in self.sides:
            side.model.run(SLICE)
        for side, other in (self.sides, self.sides[::-1]):
            for frame in side.model.taken("network"):
                moved = True
                if frame.good:
                    side.wire.append(frame)
                    other.model.send("network", frame.data, start=frame.start + 2 * SLICE)
                else:
                    side.spoilt += 1
            for frame in side.model.taken("host"):
                moved = True
                if frame.good:
                    side.host.append(frame)
                else:
                    side.spoilt += 1
        return moved

    def run(
        self,
        *frames: Sequence[bytes],
        window: int | None = WINDOW,
        progress: Callable[[int], None] = lambda frames: None,
        each: Callable[[], None] = lambda: None,
    ) -> None:
        """Send frames from each side's host, until nothing has moved for 2 ms.

        A device whose registers were read is ahead of the other, which first catches up.
        ``window``: bytes that a host has in its device at most, and never more than :attr:`window`; None: it
        sends at its line's rate.
        ``each`` is called after every slice, ``progress`` with the number of frames on the cable since.
        `Stuck` if frames that fit in the window were not all sent.
        """
        for side, batch in zip(self.sides, frames, strict=False):
            side.to_send += batch
        limit = None if window is None else min(window, self.window)
        latest = max(side.model.now for side in self.sides)
        for side in self.sides:
            side.model.run(latest - side.model.now)
        quiet, told = 0, sum(len(side.wire) for side in self.sides)
        while quiet < _QUIET:
            for side in self.sides:
                side.feed(limit)
            quiet = 0 if self.slice() else quiet + SLICE
            if quiet == _LOST:
                for side in self.sides:
                    side.write_off()
            each()
            now = sum(len(side.wire) for side in self.sides)
            progress(now - told)
            told = now
        for name, side in zip("AB", self.sides, strict=True):
            if side.sent < len(side.to_send):
                left = len(side.to_send) - side.sent
                raise Stuck(f"device {name} stopped: {left} of {len(side.to_send)} frames were not sent")

    def counter_mismatches(self) -> list[str]:
        """List contradictions among the counters of both devices, read over serial lines.

        The list is empty if all agree. Each frame from a host or the cable must be received, pass an engine
        and be sent, and be counted at each step.
        """
        wrong = []
        for name, side in zip("AB", self.sides, strict=True):
            counts = side.model.counters()
            kept = {
                port: counts[f"{port}_GOOD"] - counts[f"{port}_OVERFLOW"] for port in map(str.upper, PORTS)
            }
            pairs = [
                ("frames to the wire", counts["NETWORK_SENT"], len(side.wire) + side.spoilt),
                ("frames to the host", counts["HOST_SENT"], len(side.host)),
                ("frames from the host", counts["HOST_GOOD"], side.sent),
            ]
            if side.model.codec is not None:
                left = {port: counts[f"{port}_SENT"] + counts[f"{port}_UNSENT"] for port in kept}
                pairs += [
                    ("frames into the transmit engine", kept["HOST"], counts["TX_FRAMES_IN"]),
                    ("frames out of it", counts["TX_FRAMES_OUT"], left["NETWORK"]),
                    ("frames into the receive engine", kept["NETWORK"], counts["RX_FRAMES_IN"]),
                    ("frames out of it", counts["RX_FRAMES_OUT"], left["HOST"]),
                ]
            else:
                pairs += [("frames across", kept["HOST"], counts["NETWORK_SENT"])]
            wrong += [f"device {name}, {what}: {a} but {b}" for what, a, b in pairs if a != b]
        return wrong

# SPDX-License-Identifier: BSD-2-Clause
"""The thread of a host's NIC, which moves frames from the TAP through the engines to the switch, and back.

The model is C++ and releases the GIL, so the NICs run in parallel on all processors.
"""

import select
import struct
import threading
from collections import Counter
from collections.abc import Sequence

from inceptionn.netns.tap import Tap

from ..capture import PcapWriter
from .network.switch import Switch, WireFrame
from .nics import Nic

BATCH = 32
"""Most frames of a direction in one call of the model. A call then takes about a millisecond, and its
overhead is small.
"""
SHORTEST = 60
"""Bytes of the shortest Ethernet frame, without its check sequence. The transmitting MAC pads to this
length.
"""
_VLAN = 0x8100
_LOOK = 0.5
"""Seconds between checks whether to stop."""


class Pump:
    """Moves a host's frames until `stop`.

    ``counts`` has ``tx_frames`` and ``tx_bytes`` (from the host), ``padding`` (bytes that the MAC added),
    ``wire_frames`` and ``wire_bytes`` (to the switch), ``flooded`` and ``flooded_bytes`` (the switch's
    additional copies of broadcasts), ``rx_frames`` and ``rx_bytes`` (to the host), ``bad`` (frames marked
    bad, which the MAC dropped), ``other_vlan`` (frames dropped for their VLAN tag), and ``refused`` (frames
    that the kernel did not accept). ``error`` is the exception that ended the thread, or None.
    """

    def __init__(
        self,
        number: int,
        nic: Nic,
        tap: Tap,
        switch: Switch,
        pcaps: tuple[PcapWriter, PcapWriter] | None = None,
        vlan: int | None = None,
    ) -> None:
        self.number, self.nic, self.tap, self.switch = number, nic, tap, switch
        self.counts: Counter[str] = Counter()
        self.error: Exception | None = None
        self._port = switch.ports[number]
        self._pcaps = pcaps
        self._tag = b"" if vlan is None else struct.pack(">HH", _VLAN, vlan)
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"nic{number}", daemon=True)

    def start(self) -> None:
        """Begin to move frames."""
        self._thread.start()

    def stop(self) -> None:
        """End the thread. Frames in flight are dropped."""
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join(30)

    @property
    def moved(self) -> int:
        """Number of frames so far in both directions. It stays equal while nothing moves."""
        return self.counts["tx_frames"] + self.counts["rx_frames"] + self.counts["bad"]

    def _run(self) -> None:
        port, tap = self._port, self.tap
        try:
            while not self._stopping.is_set():
                tx, rx = tap.read(BATCH), port.take(BATCH)
                if tx or rx:
                    self._move(tx, rx)
                    continue
                wait = port.sleep()
                wait = _LOOK if wait is None else min(wait, _LOOK)
                select.select([tap.fd, port.wake], [], [], wait)
                port.awake()
        except Exception as error:
            self.error = error

    def _move(self, tx: Sequence[bytes], rx: Sequence[WireFrame]) -> None:
        counts, tag = self.counts, self._tag
        tagged = [frame[:12] + tag + frame[12:] for frame in tx] if tag else tx
        wire, host = self.nic.exchange(tagged, rx)
        if self._pcaps is not None:
            outside, inside = self._pcaps
            outside.write(frame for frame, _ in rx)
            inside.write(tx)
        for number, frame in enumerate(wire):
            if len(frame) < SHORTEST:
                counts["padding"] += SHORTEST - len(frame)
                frame = wire[number] = frame.ljust(SHORTEST, b"\0")
            counts["wire_bytes"] += len(frame)
            copies = self.switch.forward(self.number, frame)
            if copies != 1:
                counts["flooded"] += copies - 1
                counts["flooded_bytes"] += (copies - 1) * len(frame)
        counts["wire_frames"] += len(wire)
        counts["tx_frames"] += len(tx)
        counts["tx_bytes"] += sum(map(len, tx))
        taken = []
        for frame, bad in host:
            if bad:
                counts["bad"] += 1
                continue
            if tag:
                if frame[12:16] != tag:
                    counts["other_vlan"] += 1
                    continue
                frame = frame[:12] + frame[16:]
            taken.append(frame)
            if self.tap.write(frame):
                counts["rx_frames"] += 1
                counts["rx_bytes"] += len(frame)
            else:
                counts["refused"] += 1
        if self._pcaps is not None:
            outside.write(wire)
            inside.write(taken)

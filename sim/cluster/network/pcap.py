# SPDX-License-Identifier: BSD-2-Clause
"""Writing of classic pcap files of Ethernet frames, with nanosecond timestamps (draft-ietf-opsawg-pcap)."""

from __future__ import annotations

import struct
import time
from collections.abc import Iterable
from pathlib import Path

_HEADER = struct.pack("<IHHiIII", 0xA1B23C4D, 2, 4, 0, 0, 262144, 1)
_RECORD = struct.Struct("<IIII")


class PcapWriter:
    """A file to which `write` appends frames. Only one thread may use it.

    Raises ``OSError`` if it cannot be written.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file = path.open("wb", buffering=1 << 16)
        self._file.write(_HEADER)

    def write(self, frames: Iterable[bytes]) -> None:
        """Appends frames in order, with the current time."""
        seconds, nanoseconds = divmod(time.time_ns(), 1_000_000_000)
        for frame in frames:
            self._file.write(_RECORD.pack(seconds, nanoseconds, len(frame), len(frame)))
            self._file.write(frame)

    def close(self) -> None:
        """Writes buffered frames and closes the file."""
        self._file.close()

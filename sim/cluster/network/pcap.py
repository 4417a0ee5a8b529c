# SPDX-License-Identifier: BSD-2-Clause
"""Classic pcap files of Ethernet frames, nanosecond timestamps (draft-ietf-opsawg-pcap), as they happen."""

from __future__ import annotations

import struct
import time
from collections.abc import Iterable
from pathlib import Path

_HEADER = struct.pack("<IHHiIII", 0xA1B23C4D, 2, 4, 0, 0, 262144, 1)
_RECORD = struct.Struct("<IIII")


class PcapWriter:
    """A file that `write` appends frames to; for one thread. Raises ``OSError`` if it cannot be written."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file = path.open("wb", buffering=1 << 16)
        self._file.write(_HEADER)

    def write(self, frames: Iterable[bytes]) -> None:
        """Frames of now, in order."""
        seconds, nanoseconds = divmod(time.time_ns(), 1_000_000_000)
        for frame in frames:
            self._file.write(_RECORD.pack(seconds, nanoseconds, len(frame), len(frame)))
            self._file.write(frame)

    def close(self) -> None:
        """Writes what is still in memory."""
        self._file.close()

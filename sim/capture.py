# SPDX-License-Identifier: BSD-2-Clause
"""Captured traffic: pcap and pcapng files of whole Ethernet frames.

pcap: draft-ietf-opsawg-pcap; written with nanoseconds. pcapng: draft-ietf-opsawg-pcapng, of which the blocks
with frames are read.
"""

import struct
import time
from collections.abc import Iterable
from pathlib import Path

_ORDERS = {
    bytes.fromhex("d4c3b2a1"): "<",  # microseconds
    bytes.fromhex("4d3cb2a1"): "<",  # nanoseconds
    bytes.fromhex("a1b2c3d4"): ">",
    bytes.fromhex("a1b23c4d"): ">",
}
_FILE_HEADER, _FRAME_HEADER = 24, 16
_PCAPNG = bytes.fromhex("0a0d0d0a")
_LITTLE = bytes.fromhex("4d3c2b1a")
_INTERFACE, _SIMPLE, _ENHANCED = 1, 3, 6
"""Types of blocks."""
_ETHERNET = 1
_RECORD = struct.Struct("<IIII")


def read_pcap(path: Path) -> list[bytes]:
    """Read the frames of a pcap or pcapng file, without timestamps, in order.

    Raises ``ValueError`` for a file that is neither, holds no frames, holds frames that were not captured
    whole, or another link type than Ethernet.
    """
    data = path.read_bytes()
    frames = _pcapng(data, path) if data[:4] == _PCAPNG else _pcap(data, path)
    if not frames:
        raise ValueError(f"capture holds no frames: {str(path)!r}")
    return frames


def _pcap(data: bytes, path: Path) -> list[bytes]:
    order = _ORDERS.get(data[:4])
    if order is None or len(data) < _FILE_HEADER:
        raise ValueError(f"capture must be a pcap or pcapng file: {str(path)!r}")
    _check_link(struct.unpack_from(f"{order}I", data, 20)[0] & 0xFFFF)
    frames: list[bytes] = []
    at = _FILE_HEADER
    while at < len(data):
        if at + _FRAME_HEADER > len(data):
            raise ValueError(f"capture ends inside frame {len(frames)}: {str(path)!r}")
        captured, length = struct.unpack_from(f"{order}II", data, at + 8)
        at += _FRAME_HEADER
        if captured != length:
            raise ValueError(f"frame {len(frames)} was not captured whole: {str(path)!r}")
        if captured == 0 or at + captured > len(data):
            raise ValueError(f"capture ends inside frame {len(frames)}: {str(path)!r}")
        frames.append(data[at : at + captured])
        at += captured
    return frames


def _check_link(link_type: int) -> None:
    if link_type != _ETHERNET:
        raise ValueError(
            f"capture must hold Ethernet frames, not link type {link_type!r}: record on an Ethernet "
            "interface, such as tcpdump -i eth0 (not -i any)"
        )


def _pcapng(data: bytes, path: Path) -> list[bytes]:
    frames: list[bytes] = []
    order, at, links = "<", 0, list[int]()
    while at < len(data):
        if data[at : at + 4] == _PCAPNG and at + 12 <= len(data):  # a section begins; its order of bytes
            order = "<" if data[at + 8 : at + 12] == _LITTLE else ">"
            links = []
        kind, length = struct.unpack_from(f"{order}II", data, at) if at + 8 <= len(data) else (0, 0)
        if length < 12 or length % 4 or at + length > len(data):
            raise ValueError(f"capture ends inside a block after frame {len(frames)}: {str(path)!r}")
        body, at = data[at + 8 : at + length - 4], at + length
        try:
            if kind == _INTERFACE:
                links.append(struct.unpack_from(f"{order}H", body)[0])
            elif kind == _ENHANCED:
                interface, _, _, captured, original = struct.unpack_from(f"{order}IIIII", body)
                frames.append(_whole(body[20:], captured, original, links[interface], len(frames), path))
            elif kind == _SIMPLE:
                (original,) = struct.unpack_from(f"{order}I", body)
                captured = min(original, len(body) - 4)
                frames.append(_whole(body[4:], captured, original, links[0], len(frames), path))
        except (struct.error, IndexError):
            raise ValueError(f"block after frame {len(frames)} is damaged: {str(path)!r}") from None
    return frames


def _whole(body: bytes, captured: int, original: int, link: int, number: int, path: Path) -> bytes:
    """Return the frame at the beginning of ``body``, which may be padded."""
    _check_link(link)
    if captured != original:
        raise ValueError(f"frame {number} was not captured whole: {str(path)!r}")
    if captured == 0 or captured > len(body):
        raise ValueError(f"capture ends inside frame {number}: {str(path)!r}")
    return body[:captured]


class PcapWriter:
    """A file to which `write` appends frames. Only one thread may use it.

    Raises ``OSError`` if it cannot be written.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file = path.open("wb", buffering=1 << 16)
        self._file.write(struct.pack("<IHHiIII", 0xA1B23C4D, 2, 4, 0, 0, 262144, _ETHERNET))

    def write(self, frames: Iterable[bytes]) -> None:
        """Append frames in order, with the current time."""
        seconds, nanoseconds = divmod(time.time_ns(), 1_000_000_000)
        for frame in frames:
            self._file.write(_RECORD.pack(seconds, nanoseconds, len(frame), len(frame)))
            self._file.write(frame)

    def close(self) -> None:
        """Write buffered frames and close the file."""
        self._file.close()

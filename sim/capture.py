# SPDX-License-Identifier: BSD-2-Clause
"""Captured traffic: pcap and pcapng files of whole Ethernet frames.

pcap: draft-ietf-opsawg-pcap; written with nanoseconds. pcapng: draft-ietf-opsawg-pcapng, of which the blocks
with frames are read.
"""

import gzip
import io
import struct
import time
import zlib
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

_ORDERS = {
    bytes.fromhex("d4c3b2a1"): "<",  # microseconds
    bytes.fromhex("4d3cb2a1"): "<",  # nanoseconds
    bytes.fromhex("a1b2c3d4"): ">",
    bytes.fromhex("a1b23c4d"): ">",
}
_FILE_HEADER, _FRAME_HEADER = 24, 16
_PCAPNG = bytes.fromhex("0a0d0d0a")
_GZIP, _ZSTD = bytes.fromhex("1f8b"), bytes.fromhex("28b52ffd")
_MOST_UNPACKED = 1 << 32
_LITTLE = bytes.fromhex("4d3c2b1a")
_INTERFACE, _SIMPLE, _ENHANCED = 1, 3, 6
"""Types of blocks."""
_ETHERNET = 1
_RECORD = struct.Struct("<IIII")


@dataclass
class Capture:
    """The frames of a capture in order, without timestamps, and the number of ``broken`` ones left out."""

    path: Path
    skip_broken: bool = False
    frames: list[bytes] = field(default_factory=list)
    broken: int = 0

    @property
    def number(self) -> int:
        """The number of the next frame in the file, from 0."""
        return len(self.frames) + self.broken

    def take(self, body: bytes, captured: int, original: int) -> None:
        """Append the frame at the beginning of ``body``, which may be padded."""
        if captured == 0 or captured > len(body):
            self.leave_out(f"capture ends inside frame {self.number}")
        elif captured != original:
            self.leave_out(f"frame {self.number} was not captured whole")
        else:
            self.frames.append(body[:captured])

    def leave_out(self, reason: str) -> None:
        """Count a broken frame, or raise ``ValueError``."""
        if not self.skip_broken:
            raise ValueError(f"{reason}: {str(self.path)!r} (replay --skip-broken leaves such frames out)")
        self.broken += 1


def read_capture(path: Path, skip_broken: bool = False) -> Capture:
    """Read a pcap or pcapng file, which may be compressed by gzip or, where a library is installed, zstd.

    Raises ``ValueError`` for a file that is neither, holds no frames, or frames of another link type than
    Ethernet; without ``skip_broken`` also for frames that were not captured whole and for a file that is cut.
    ``ModuleNotFoundError`` where no library for zstd is installed.
    """
    data, cut = _unpacked(path.read_bytes(), path)
    capture = Capture(path, skip_broken)
    whole = _pcapng(data, capture) if data[:4] == _PCAPNG else _pcap(data, capture)
    if cut and whole:
        capture.leave_out(f"capture ends inside frame {capture.number}")
    if not capture.frames:
        raise ValueError(f"capture holds no {'whole ' * bool(capture.broken)}frames: {str(path)!r}")
    return capture


def read_pcap(path: Path) -> list[bytes]:
    """Return the frames of `read_capture`, all of which must be whole."""
    return read_capture(path).frames


def _unpacked(data: bytes, path: Path) -> tuple[bytes, bool]:
    """Return the content of a compressed file, and whether it is cut."""
    if data.startswith(_GZIP):
        opened: Callable[[Any], Any] = gzip.open
        errors: tuple[type[Exception], ...] = (gzip.BadGzipFile, zlib.error)
    elif data.startswith(_ZSTD):
        opened, errors = _zstd(path)
    else:
        return data, False
    content = bytearray()
    try:
        with opened(io.BytesIO(data)) as file:
            while part := file.read1(1 << 20):  # `read` would lose what comes before the end of a cut file
                content += part
                if len(content) > _MOST_UNPACKED:
                    raise ValueError(f"capture has more than {_MOST_UNPACKED} bytes: {str(path)!r}")
    except EOFError:
        return bytes(content), True
    except errors as error:
        raise ValueError(f"compressed capture is damaged: {error}: {str(path)!r}") from error
    return bytes(content), False


def _zstd(path: Path) -> tuple[Callable[[Any], Any], tuple[type[Exception], ...]]:
    """Return what opens files of zstd, and its errors: Python's own from 3.14 on, or a package's."""
    with suppress(ModuleNotFoundError):
        zstd = import_module("compression.zstd")
        return zstd.open, (zstd.ZstdError,)
    with suppress(ModuleNotFoundError):
        package = import_module("zstandard")
        reader = package.ZstdDecompressor().stream_reader
        return partial(reader, read_across_frames=True), (package.ZstdError,)
    raise ModuleNotFoundError(
        f"a capture of zstd needs Python 3.14 or pip install zstandard (or zstd -d): {str(path)!r}"
    )


def _pcap(data: bytes, capture: Capture) -> bool:
    """Take the frames of a pcap file; return whether it ends where a frame does."""
    order = _ORDERS.get(data[:4])
    if order is None or len(data) < _FILE_HEADER:
        raise ValueError(f"capture must be a pcap or pcapng file: {str(capture.path)!r}")
    _check_link(struct.unpack_from(f"{order}I", data, 20)[0] & 0xFFFF)
    at = _FILE_HEADER
    while at < len(data):
        if at + _FRAME_HEADER > len(data):
            capture.leave_out(f"capture ends inside frame {capture.number}")
            return False
        captured, length = struct.unpack_from(f"{order}II", data, at + 8)
        at += _FRAME_HEADER
        capture.take(data[at : at + captured], captured, length)
        at += captured
    return at == len(data)


def _check_link(link_type: int) -> None:
    if link_type != _ETHERNET:
        raise ValueError(
            f"capture must hold Ethernet frames, not link type {link_type!r}: record on an Ethernet "
            "interface, such as tcpdump -i eth0 (not -i any)"
        )


def _pcapng(data: bytes, capture: Capture) -> bool:
    """Take the frames of a pcapng file; return whether it ends where a block does."""
    order, at, links = "<", 0, list[int]()
    while at < len(data):
        if data[at : at + 4] == _PCAPNG and at + 12 <= len(data):  # a section begins; its order of bytes
            order = "<" if data[at + 8 : at + 12] == _LITTLE else ">"
            links = []
        kind, length = struct.unpack_from(f"{order}II", data, at) if at + 8 <= len(data) else (0, 0)
        if length < 12 or length % 4 or at + length > len(data):
            capture.leave_out(f"capture ends inside a block after frame {capture.number}")
            return False
        body, at = data[at + 8 : at + length - 4], at + length
        try:
            if kind == _INTERFACE:
                links.append(struct.unpack_from(f"{order}H", body)[0])
            elif kind == _ENHANCED:
                interface, _, _, captured, original = struct.unpack_from(f"{order}IIIII", body)
                _check_link(links[interface])
                capture.take(body[20:], captured, original)
            elif kind == _SIMPLE:
                (original,) = struct.unpack_from(f"{order}I", body)
                _check_link(links[0])
                capture.take(body[4:], min(original, len(body) - 4), original)
        except (struct.error, IndexError):
            capture.leave_out(f"block after frame {capture.number} is damaged")
    return True


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

# SPDX-License-Identifier: BSD-2-Clause
"""Reading captured traffic: the classic pcap format, Ethernet, whole frames."""

from __future__ import annotations

import struct
from pathlib import Path

_ORDERS = {
    bytes.fromhex("d4c3b2a1"): "<",  # microseconds
    bytes.fromhex("4d3cb2a1"): "<",  # nanoseconds
    bytes.fromhex("a1b2c3d4"): ">",
    bytes.fromhex("a1b23c4d"): ">",
}
_FILE_HEADER, _FRAME_HEADER = 24, 16
_PCAPNG = bytes.fromhex("0a0d0d0a")
_ETHERNET = 1


def read_pcap(path: Path) -> list[bytes]:
    """The frames of a pcap file, without time stamps, in order.

    Raises ``ValueError`` for a file that is no pcap, holds no frames, holds frames that were not captured
    whole, or another link type than Ethernet.
    """
    data = path.read_bytes()
    order = _ORDERS.get(data[:4])
    if order is None or len(data) < _FILE_HEADER:
        hint = "; pcapng can be converted with editcap -F pcap" if data[:4] == _PCAPNG else ""
        raise ValueError(f"capture must be a pcap file{hint}: {str(path)!r}")
    link_type = struct.unpack_from(f"{order}I", data, 20)[0] & 0xFFFF
    if link_type != _ETHERNET:
        raise ValueError(
            f"capture must hold Ethernet frames, not link type {link_type!r}: record on an Ethernet "
            "interface, such as tcpdump -i eth0 (not -i any)"
        )
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
    if not frames:
        raise ValueError(f"capture holds no frames: {str(path)!r}")
    return frames

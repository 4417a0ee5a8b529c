# SPDX-License-Identifier: BSD-2-Clause
"""How the gradients of `record_capture.py` travel between its two hosts: the connections of one phase."""

import hashlib
import json
import socket
from dataclasses import dataclass
from multiprocessing.synchronize import Barrier
from typing import Any

import digits
import numpy as np

TOS = 0x28
BF16_TOS = 0x2C
DATA_PORT, CONTROL_PORT, WEIGHTS_PORT = 5001, 5000, 5002


@dataclass(frozen=True)
class Phase:
    """A stretch of the training: how its gradients travel, and how much of it is recorded."""

    name: str
    mtu: int
    transport: str
    """``tcp`` or ``udp``."""
    timestamps: bool
    """TCP timestamps (RFC 7323): 12 bytes of options in every segment."""
    ecn: bool
    """Explicit congestion notification (RFC 3168): the ToS byte reads 0x2A where ECT(0) is set."""
    recorded: int
    """Iterations in the capture."""
    deaf: int | None = None
    """Iteration of the phase in which the second host loses what reaches it for a moment."""
    bf16: bool = False
    """The gradients travel as bfloat16, marked with a ToS of 0x2C, and not as float32 with 0x28."""

    @property
    def tos(self) -> int:
        """The mark of the gradients' packets."""
        return BF16_TOS if self.bf16 else TOS

    @property
    def segment(self) -> int:
        """Largest TCP segment to announce, or UDP payload to send, a multiple of 4."""
        return (self.mtu - (40 if self.transport == "tcp" else 28)) & ~3


class Peer:
    """The way to the other rank for one part of a phase: data, control and weights."""

    def __init__(self, rank: int, phase: Phase, barrier: Barrier, addresses: tuple[str, str]):
        self.rank, self.phase, self.barrier, self.addresses = rank, phase, barrier, addresses
        self.control = self._tcp(CONTROL_PORT, tos=0)
        self.data = self._tcp(DATA_PORT, phase.tos) if phase.transport == "tcp" else self._udp()
        self.sent = hashlib.sha256()
        self.port = self.data.getsockname()[1]

    def _tcp(self, port: int, tos: int) -> socket.socket:
        """Open one connection, from the first rank to the second."""
        s = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        s.setsockopt(socket.IPPROTO_IP, socket.IP_TOS, tos)
        s.setsockopt(socket.IPPROTO_TCP, socket.TCP_MAXSEG, self.phase.segment)
        s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if self.rank == 1:
            s.bind((self.addresses[1], port))
            s.listen(1)
            self.barrier.wait()
            connection, _ = s.accept()
            s.close()
            return connection
        self.barrier.wait()
        s.connect((self.addresses[1], port))
        return s

    def _udp(self) -> socket.socket:
        s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        s.setsockopt(socket.IPPROTO_IP, socket.IP_TOS, self.phase.tos)
        s.bind((self.addresses[self.rank], DATA_PORT))
        s.connect((self.addresses[1 - self.rank], DATA_PORT))
        self.barrier.wait()
        return s

    def rounded(self, gradient: digits.Floats) -> digits.Floats:
        """Return a gradient, float32[SIZE], as the other rank gets it: a bf16 is rounded to the nearest."""
        if not self.phase.bf16:
            return gradient
        words = gradient.view(np.uint32)
        even = (words >> 16) & 1
        return ((words + 0x7FFF + even) & np.uint32(0xFFFF0000)).view(np.float32)

    def payload(self, gradient: digits.Floats) -> bytes:
        """Return the bytes that are sent for a gradient of `rounded`: a bf16 is the upper half of a float."""
        words = gradient.astype("<f4").view("<u4")
        return ((words >> 16).astype("<u2") if self.phase.bf16 else words).tobytes()

    def send(self, gradient: digits.Floats) -> None:
        """Send a gradient of `rounded`, float32[SIZE]."""
        payload = self.payload(gradient)
        self.sent.update(payload)
        if self.phase.transport == "udp":
            self.barrier.wait()  # datagrams are not held back: both sockets' buffers are known to be empty
            for start in range(0, len(payload), self.phase.segment):
                self.data.send(payload[start : start + self.phase.segment])
        else:
            self.data.sendall(payload)

    def receive(self) -> digits.Floats:
        """Return the other rank's gradient, float32[SIZE]."""
        if not self.phase.bf16:
            return self._floats(self.data)
        halves = np.frombuffer(self._bytes(self.data, 2 * digits.SIZE), "<u2")
        return (halves.astype("<u4") << 16).view("<f4")

    def tell(self, **facts: Any) -> None:
        """Send one line of JSON over the untagged control connection, and read the answering line."""
        self.control.sendall(json.dumps({"rank": self.rank, **facts}).encode() + b"\n")
        line = b""
        while not line.endswith(b"\n"):
            line += self._receive(4096, self.control)

    def share_weights(self, weights: digits.Floats) -> digits.Floats:
        """Return the first rank's weights on both ranks.

        They are exact, so the connection is not tagged.
        """
        with self._tcp(WEIGHTS_PORT, tos=0) as s:
            if self.rank == 0:
                s.sendall(weights.astype("<f4").tobytes())
                return weights
            return self._floats(s)

    def _floats(self, s: socket.socket) -> digits.Floats:
        return np.frombuffer(self._bytes(s, 4 * digits.SIZE), "<f4")

    def _bytes(self, s: socket.socket, count: int) -> bytearray:
        data = bytearray()
        while len(data) < count:
            data += self._receive(count - len(data), s)
        return data

    @staticmethod
    def _receive(most: int, s: socket.socket) -> bytes:
        data = s.recv(min(most, 65536))
        if not data:
            raise ConnectionError("the other rank closed its connection early")
        return data

    def close(self) -> None:
        """Close the connections in order, the first rank first."""
        for s in (self.data, self.control):
            if self.rank == 0:
                s.close()
            elif s.type == socket.SOCK_STREAM:
                s.recv(1)
                s.close()
            else:
                s.close()

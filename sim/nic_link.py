# SPDX-License-Identifier: BSD-2-Clause
"""The real NIC between ranks: what arrives of floats that leave through one and enter by another."""

from itertools import count
from threading import Lock
from typing import Self

from inceptionn.hdl.control.registers import parameters_word
from inceptionn.wire import DEFAULT_TOS, LANE_BYTES, CodecParameters

from .golden import packets
from .models.cache import keep_source
from .nic_verilog import emit_nic
from .verilated import VerilatedNic

PACKET_BYTES = 362 * LANE_BYTES
"""fp32 values of a TCP segment with timestamps on Ethernet."""


class NicLink:
    """Both engines of a verilated NIC, as one NIC's transmitter and the next one's receiver.

    A context manager, which closes the model. Threads may share it.
    """

    def __init__(self, nic: VerilatedNic) -> None:
        self._nic = nic
        self._lock, self._sequence = Lock(), count(0, PACKET_BYTES)
        nic.transmit([packets.OPENING])
        self.frames = self.compressed = 0
        """Frames so far, and those that were shorter on the wire."""

    @classmethod
    def of(cls, codec: str) -> Self:
        """Make the link of a NIC with this codec, of fp32 lanes alone."""
        return cls(VerilatedNic(keep_source(emit_nic(codec), "inceptionn_nic"), gated=True))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._nic.close()

    def configure(self, parameters: CodecParameters) -> None:
        """Set the codec's parameters, of which those of ``planes`` have the bound."""
        with self._lock:
            self._nic.write(self._nic.codec.registers["PARAMETERS"].offset, parameters_word(parameters))

    def carry(self, lanes: bytes) -> bytes:
        """Return what arrives of a message of little-endian fp32 lanes, cut into marked TCP segments.

        Raises ``RuntimeError`` if frames are lost, or their headers change.
        """
        payloads = [lanes[start : start + PACKET_BYTES] for start in range(0, len(lanes), PACKET_BYTES)]
        frames = [
            packets.tcp(payload, tos=DEFAULT_TOS, sequence=sequence)
            for payload, sequence in zip(payloads, self._sequence, strict=False)
        ]
        with self._lock:
            wire, host = self._nic.loopback(frames)
            self.frames += len(frames)
            self.compressed += sum(len(sent.data) < len(f) for sent, f in zip(wire, frames, strict=True))
        headers = len(packets.tcp(b""))
        found = b"".join(output.data[headers:] for output in host)
        if len(host) != len(frames) or len(found) != len(lanes) or any(output.bad for output in host):
            counts = f"{len(host)} of {len(frames)} frames, {len(found)} of {len(lanes)} bytes"
            raise RuntimeError(f"the NIC's Verilog gave back {counts}")
        return found

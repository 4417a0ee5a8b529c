# SPDX-License-Identifier: BSD-2-Clause
"""Effects of a switch port on frames: rate, delay, loss and faults."""

from dataclasses import dataclass, fields

from inceptionn.netns import bits_per_second, fraction, seconds
from inceptionn.wire import ETHERTYPE_IPV4

from ...golden import checksum

_VLAN = 0x8100
_ECN = 0x03
_CE = 0x03


@dataclass(frozen=True)
class Impairments:
    """The impairments of every port of the switch, towards its host.

    Shares are those of the frames that a port forwards, 0..1 or a text such as ``"0.1%"``. Each is drawn
    independently from the cluster's seed. Raises ``ValueError`` with a wrong value.
    """

    rate: str | float | None = None
    """Bits per second, with 24 bytes of preamble, checksum and gap per frame. None for no limit."""
    delay: str | float = 0.0
    """Latency of each frame in the switch, in seconds or as "20us", in addition to that of the rate."""
    queue: str | float = 0.05
    """Seconds of traffic that a port with a rate queues before it drops frames."""
    loss: str | float = 0.0
    reorder: str | float = 0.0
    """Share of the frames that are held back by 0.2 to 2 ms, so that later ones overtake them."""
    duplicate: str | float = 0.0
    flip: str | float = 0.0
    """Share of the frames with one inverted bit, anywhere after the Ethernet addresses."""
    truncate: str | float = 0.0
    """Share of the frames that are cut at a random byte after the Ethernet header."""
    fcs: bool = False
    """True if the receiving MAC detects damage by the frame check sequence and marks the frame bad. Otherwise
    the NIC receives the damaged frame as good.
    """
    tos: int | None = None
    """The ToS byte that the switch writes into every IPv4 packet. It keeps the ECN bits and updates the
    header checksum.
    """
    mark: str | float = 0.0
    """Share of the ECN-capable packets (RFC 3168) that the switch marks "congestion experienced". It also
    marks those that find a port's queue more than half full.
    """

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            try:
                if field.name in ("loss", "reorder", "duplicate", "flip", "truncate", "mark"):
                    value = fraction(value)
                elif field.name in ("delay", "queue"):
                    value = seconds(value)
                elif field.name == "rate" and value is not None:
                    value = bits_per_second(value)
            except ValueError as error:
                raise ValueError(f"{field.name}: {error}") from None
            object.__setattr__(self, field.name, value)
        if self.tos is not None and not 0 <= self.tos <= 0xFF:
            raise ValueError(f"tos must be 0..255, not {self.tos!r}")

    @property
    def any_fault(self) -> bool:
        """True if frames may be changed, lost or reordered, other than by a full queue."""
        shares = (self.loss, self.reorder, self.duplicate, self.flip, self.truncate, self.mark)
        return any(shares) or self.tos is not None


def _ipv4_at(frame: bytes) -> int | None:
    """Return the offset of the IPv4 header, after at most one VLAN tag. None for other frames."""
    at = 14 if frame[12:14] != _VLAN.to_bytes(2, "big") else 18
    if frame[at - 2 : at] != ETHERTYPE_IPV4.to_bytes(2, "big") or len(frame) < at + 20:
        return None
    return at


def with_tos(frame: bytes, value: int, mask: int) -> bytes:
    """Set the bits of ``value`` in the frame's ToS byte where ``mask`` is 1; update the header checksum.

    Returns the same object if it is not IPv4 or already has these bits.
    """
    at = _ipv4_at(frame)
    if at is None:
        return frame
    old = int.from_bytes(frame[at : at + 2], "big")
    new = (old & ~mask) | (value & mask)
    if new == old:
        return frame
    changed = bytearray(frame)
    changed[at : at + 2] = new.to_bytes(2, "big")
    sum_at = at + 10
    was = int.from_bytes(frame[sum_at : sum_at + 2], "big")
    changed[sum_at : sum_at + 2] = checksum.update(was, old, new).to_bytes(2, "big")
    return bytes(changed)


def with_congestion(frame: bytes) -> bytes:
    """Mark the frame "congestion experienced" if it is ECN-capable; otherwise return the same object."""
    at = _ipv4_at(frame)
    if at is None or frame[at + 1] & _ECN not in (1, 2):
        return frame
    return with_tos(frame, _CE, _ECN)

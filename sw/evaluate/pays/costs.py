# SPDX-License-Identifier: BSD-2-Clause
"""The costs of links, hosts, and the forms in which values travel: seconds, bytes, bits per second."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from .ratios import Ratio, constant

Where = Literal["none", "software", "nic", "inline"]
"""The places that compress: none, the host, its NIC, an inline device on the cable before the host."""

TCP_IP_BYTES = 52
"""IPv4 and TCP headers with timestamps, of every packet."""
ETHERNET_BYTES = 38
"""Header, frame check sequence, preamble and gap, of every frame."""
SHIM_BYTES = 8
"""Bytes that the engines add to a compressed payload (docs/wire-format.md, section 3)."""
ENGINE_RATE = 64e9
"""Bits per second of uncompressed values through one engine pair: 256 bits at 250 MHz."""
CABLE_RATE = 1e9
"""Bits per second between host and inline device, whose ports are RGMII."""
PASS_RATE = 4 * 70e6 * 8 / 9
"""Bytes per second at which engines of one lane compress a stored frame, at 70 MHz."""


@dataclass(frozen=True)
class Link:
    """A host's full-duplex link: ``bandwidth`` in bits/s each way, ``latency`` one way between hosts.

    ``mtu``: bytes of an IP packet. ``framing``: bytes on the wire around it. ``burst``: bytes that pass at
    once before the rate holds (a token bucket's; 0 on real links).
    """

    bandwidth: float
    latency: float = 10e-6
    mtu: int = 1500
    framing: int = ETHERNET_BYTES
    burst: int = 0

    @property
    def segment(self) -> int:
        """Bytes of values in a full packet."""
        return self.mtu - TCP_IP_BYTES

    def seconds(self, size: float, ratio: float = 1.0, per_packet: bool = False) -> float:
        """Return the time on the wire of ``size`` bytes of values that a codec shrinks by ``ratio``.

        ``per_packet``: a NIC shrinks each packet by itself. Their number stays, and so do their headers, so
        the wire gains less than the ratio (Sec. VIII-C); a packet that would grow goes raw.
        """
        around = TCP_IP_BYTES + self.framing
        if per_packet:
            payload = min(self.segment, SHIM_BYTES + self.segment / ratio)
            wire = size / self.segment * (around + payload)
        else:
            wire = size / ratio * (1 + around / self.segment)
        return 8 * wire / self.bandwidth


@dataclass(frozen=True)
class Coder:
    """Rates of a codec in software, in bytes of fp32 per second of one thread; see `measure.coder`."""

    compress: float
    decompress: float
    decompress_add: float
    lossy: float


@dataclass(frozen=True)
class Host:
    """The time that a host spends beside the codec; see `measure.host`.

    ``add``: bytes of fp32 summed per second, the paper's 1/gamma. ``stack``: bytes of TCP payload per second
    of processor time, sent and received together. ``message``: seconds per message, for software.
    ``shared``: processors that *all* hosts share, where they are on one machine; None: each has its own.
    """

    add: float = 4e9
    stack: float = 2.5e9
    message: float = 60e-6
    shared: float | None = None


@dataclass(frozen=True)
class Collectives:
    """What matters of this package's collectives, which agree with all ranks before data move.

    ``exact``: whether sums of few values may take one step, as exact ones of fp32 in software do. ``bound``:
    of a codec whose scale follows the values, else None.
    """

    exact: bool = False
    bound: float | None = None


@dataclass(frozen=True)
class Form:
    """A form in which values travel: ``bytes_per_value`` uncompressed, and the compressor.

    ``ratio``: of fp32 bytes to compressed ones, by how many ranks' values are in the sum. ``coder``: rates of
    software; None elsewhere. ``engine``: bits per second that a NIC's engines take; ``cable``: those between
    host and inline device. ``widen``: bytes per second at which bf16 gradients become fp32 and return
    in passes of their own; None where nothing does. ``bf16_lanes``: whether engines take bf16 gradients as
    lanes of 16 bits. ``collectives``: this package's, if they send the values; None for others.
    """

    where: Where = "none"
    ratio: Ratio = constant(1.0)
    coder: Coder | None = None
    bytes_per_value: int = 4
    engine: float = ENGINE_RATE
    cable: float = CABLE_RATE
    widen: float | None = None
    bf16_lanes: bool = False
    collectives: Collectives | None = None

    @property
    def of_bf16(self) -> Form:
        """The same form, for values of 2 bytes: as many compressed bytes."""
        return replace(self, bytes_per_value=2, ratio=lambda ranks: self.ratio(ranks) / 2)

    def wire(self, link: Link, size: float, ranks: float) -> float:
        """Return the seconds on the wire of ``size`` bytes of values, sums of ``ranks`` ranks' values."""
        return link.seconds(size, self.ratio(ranks), per_packet=self.where in ("nic", "inline"))

    def stack_bytes(self, size: float, ranks: float) -> float:
        """Return the bytes that the host's TCP stack moves: raw where hardware compresses."""
        return size / self.ratio(ranks) if self.where == "software" else size

    def device(self, link: Link, size: float) -> float:
        """Return the seconds that a NIC's engines or an inline device's cable need for ``size`` bytes."""
        if self.where == "nic":
            return 8 * size / self.engine
        if self.where == "inline":
            return replace(link, bandwidth=self.cable).seconds(size)
        return 0.0

    def delay(self, link: Link) -> float:
        """Return the seconds by which two inline devices delay a full packet, each of which stores it."""
        frame = link.mtu + link.framing
        return 2 * 8 * frame / self.cable + frame / PASS_RATE if self.where == "inline" else 0.0

# SPDX-License-Identifier: BSD-2-Clause
"""Counts of a cluster's frames, read from the NICs' registers, the kernels and the switch."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from inceptionn.commands.console import Table
from inceptionn.hdl.control.registers import VERDICTS

from ..nic_codec import NicCodec, codec_of_counters

_UNCHANGED = {"COMPRESSED", "RESTORED"}


@dataclass
class HostReport:
    """The counts of one host. Bytes are those of frames without check sequence.

    ``registers`` has every 64-bit counter of the NIC by name, read over AXI4-Lite; it is empty without a NIC.
    ``mac`` has the counts of TAP and MAC (`Pump`), and ``switch`` those of the switch's port.
    ``checksum_errors`` are packets that the kernel dropped, by protocol. ``kernel`` has the TCP segments
    sent, those retransmitted, and the packets received with the mark "congestion experienced".
    """

    name: str
    address: str
    nic: str
    registers: dict[str, int] = field(default_factory=dict)
    mac: dict[str, int] = field(default_factory=dict)
    switch: dict[str, int] = field(default_factory=dict)
    checksum_errors: dict[str, int] = field(default_factory=dict)
    kernel: dict[str, int] = field(default_factory=dict)
    cycles: int = 0
    tx_beats: int = 0
    rx_beats: int = 0
    model_seconds: float = 0.0

    @property
    def frames(self) -> int:
        """Frames that the host sent."""
        return self.registers.get("TX_FRAMES_IN", self.mac.get("tx_frames", 0))

    @property
    def bytes_in(self) -> int:
        """Bytes that the host sent."""
        return self.registers.get("TX_BYTES_IN", self.mac.get("tx_bytes", 0))

    @property
    def bytes_wire(self) -> int:
        """Bytes of these frames on the wire."""
        return self.registers.get("TX_BYTES_OUT", self.mac.get("tx_bytes", 0))

    @property
    def codec(self) -> NicCodec:
        """The codec of its NIC, or the paper's if it has none."""
        return codec_of_counters(self.registers)

    @property
    def lanes(self) -> int:
        """Number of values in compressed frames."""
        return self.codec.lanes(self.registers)

    @property
    def classes(self) -> dict[str, int]:
        """The class counters of its codec: lanes by tag, or groups by code."""
        return self.codec.classes(self.registers)

    @property
    def tagged_bytes(self) -> int:
        """Payload bytes of the compressed frames, as the host sent them."""
        return self.codec.payload_bytes(self.registers)

    @property
    def payload_ratio(self) -> float | None:
        """Ratio of the compressed frames' payload at the host to that on the wire.

        None without such frames.
        """
        saved = self.bytes_in - self.bytes_wire
        return self.tagged_bytes / (self.tagged_bytes - saved) if self.tagged_bytes else None

    @property
    def raw(self) -> dict[str, int]:
        """Number of frames that the transmit engine passed unchanged, by reason."""
        return self._verdicts("tx")

    @property
    def passed(self) -> dict[str, int]:
        """Number of frames that the receive engine passed unchanged or marked bad, by reason."""
        return self._verdicts("rx")

    def _verdicts(self, direction: str) -> dict[str, int]:
        found = {}
        for verdict in VERDICTS["tx" if direction == "tx" else "rx"]:
            count = self.registers.get(f"{direction.upper()}_{verdict.name}", 0)
            if count and verdict.name not in _UNCHANGED:
                found[verdict.name] = count
        return found

    @property
    def malformed(self) -> int:
        """Number of frames whose block could not be restored."""
        return self.registers.get("RX_MALFORMED", 0)

    @property
    def beats_per_cycle(self) -> float | None:
        """Beats of both directions per simulated cycle, at most 2. None without cycles."""
        return (self.tx_beats + self.rx_beats) / self.cycles if self.cycles else None


@dataclass
class Report:
    """A whole run. ``seconds`` and ``status`` are the program's run time and exit status."""

    hosts: list[HostReport]
    seconds: float
    status: int
    conditions: dict[str, Any] = field(default_factory=dict)

    @property
    def tagged_bytes(self) -> int:
        """Compressed payload of all hosts, in bytes before compression."""
        return sum(host.tagged_bytes for host in self.hosts)

    @property
    def model_rate(self) -> float | None:
        """Bytes on the host sides of all engines per second of the models' processor time. None if idle.

        If one engine per model is busy, this is the rate of one processor core.
        """
        spent = sum(host.model_seconds for host in self.hosts)
        moved = sum(host.bytes_in + host.mac.get("rx_bytes", 0) for host in self.hosts)
        return moved / spent if spent else None

    def as_dict(self) -> dict[str, Any]:
        """Return all figures, including derived ones, for JSON."""
        hosts = []
        for host in self.hosts:
            facts = asdict(host)
            for name in (
                "frames", "bytes_in", "bytes_wire", "lanes", "classes", "tagged_bytes", "payload_ratio",
                "raw", "passed", "malformed", "beats_per_cycle",
            ):  # fmt: skip
                facts[name] = getattr(host, name)
            facts["codec"] = host.codec.variant if host.registers else None
            hosts.append(facts)
        return {
            "seconds": self.seconds,
            "status": self.status,
            "tagged_bytes": self.tagged_bytes,
            "model_bytes_per_second": self.model_rate,
            "conditions": self.conditions,
            "hosts": hosts,
        }


def live_table(registers: Mapping[str, Mapping[str, int]], kinds: Mapping[str, str]) -> Table:
    """Tabulate the live view of a running cluster, by host, from the NICs' registers only."""
    codecs = {
        codec_of_counters(values).name: codec_of_counters(values) for values in registers.values() if values
    }
    table = Table(
        "NICs, read over AXI4-Lite",
        "host", "frames", "bytes in", "on the wire", "ratio", "\n".join(map(_classes, codecs.values())),
        "raw", "restored", "malformed",
    )  # fmt: skip
    for name, values in registers.items():
        if not values:
            table.add_row(name, f"({kinds[name]})", *[""] * 7)
            continue
        host = HostReport(name, "", kinds[name], dict(values))
        table.add_row(
            name, f"{host.frames:,}", f"{host.bytes_in:,}", f"{host.bytes_wire:,}", _ratio(host),
            _shares(host), f"{sum(host.raw.values()):,}", f"{values['RX_RESTORED']:,}",
            f"{host.malformed:,}",
        )  # fmt: skip
    return table


def _ratio(host: HostReport) -> str:
    return f"{host.bytes_in / host.bytes_wire:.2f}" if host.bytes_wire else ""


def _classes(codec: NicCodec) -> str:
    """Return the heading of `_shares`: ``tags 00/01/10/11 %``."""
    return f"{codec.spec.entry}s {'/'.join(name for name, _ in codec.spec.shares)} %"


def _shares(host: HostReport) -> str:
    counts = list(host.classes.values())
    total = sum(counts)
    sums = (sum(counts[i] for i in classes) for _, classes in host.codec.spec.shares)
    return " ".join(f"{100 * count / total:.0f}" for count in sums) if total else ""


def end_table(report: Report) -> Table:
    """Tabulate the report of a run, with one column per host."""
    headings = [f"{host.name} ({host.nic})" for host in report.hosts]
    table = Table(f"{len(report.hosts)} hosts, {report.seconds:.1f} s", "", *headings)

    def row(name: str, values: list[str]) -> None:
        if any(value not in ("", "0") for value in values):
            table.add_row(name, *values)

    hosts = report.hosts
    row("frames sent", [f"{host.frames:,}" for host in hosts])
    row("bytes sent", [f"{host.bytes_in:,}" for host in hosts])
    row("on the wire", [f"{host.bytes_wire:,}" for host in hosts])
    row("ratio of all bytes", [_ratio(host) for host in hosts])
    ratios = [host.payload_ratio for host in hosts]
    row("ratio of the compressed payloads", ["" if ratio is None else f"{ratio:.2f}" for ratio in ratios])
    for codec in {host.codec.name: host.codec for host in hosts}.values():
        row(
            f"{codec.spec.unit} by {_classes(codec)}",
            [_shares(host) if host.codec.spec == codec.spec else "" for host in hosts],
        )
    row("frames compressed", [f"{host.registers.get('TX_COMPRESSED', 0):,}" for host in hosts])
    row("of these bf16", [f"{host.registers.get('TX_COMPRESSED_BF16', 0):,}" for host in hosts])
    for title, which in (("sent raw", "raw"), ("received unchanged", "passed")):
        for reason in sorted({name for host in hosts for name in getattr(host, which)}):
            row(f"{title}: {reason}", [f"{getattr(host, which).get(reason, 0):,}" for host in hosts])
    row("frames restored", [f"{host.registers.get('RX_RESTORED', 0):,}" for host in hosts])
    row("of these bf16", [f"{host.registers.get('RX_RESTORED_BF16', 0):,}" for host in hosts])
    row("malformed", [f"{host.malformed:,}" for host in hosts])
    row("dropped by the MAC (marked bad)", [f"{host.mac.get('bad', 0):,}" for host in hosts])
    for name in ("lost", "queue_full", "reordered", "duplicated", "marked", "flipped", "truncated",
                 "tos_rewritten"):  # fmt: skip
        row(f"switch: {name.replace('_', ' ')}", [f"{host.switch.get(name, 0):,}" for host in hosts])
    row("kernel: segments retransmitted", [f"{host.kernel.get('retransmitted', 0):,}" for host in hosts])
    row("kernel: packets received with mark CE", [f"{host.kernel.get('congestion', 0):,}" for host in hosts])
    table.add_row("kernel: wrong checksums", *[f"{sum(host.checksum_errors.values()):,}" for host in hosts])
    row("simulated cycles", [f"{host.cycles:,}" if host.cycles else "" for host in hosts])
    rates = [host.beats_per_cycle for host in hosts]
    row("beats per cycle, both directions", ["" if rate is None else f"{rate:.2f}" for rate in rates])
    row("model, s of processor time", [f"{host.model_seconds:.2f}" for host in hosts])
    return table

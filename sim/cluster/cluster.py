# SPDX-License-Identifier: BSD-2-Clause
"""`Cluster`: hosts, NICs and switch, as a context manager."""

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from inceptionn.netns import Namespaces, NetworkError
from inceptionn.netns.iproute import batch
from inceptionn.netns.network import INTERFACE
from inceptionn.netns.tap import Tap, available
from inceptionn.system.integers import integer
from inceptionn.wire import DEFAULT_K, GROUP_LANES

from ..capture import PcapWriter
from ..nic_codec import INLINE_LANES, NIC_VARIANTS
from .network.impairments import Impairments
from .network.kernel_counters import checksum_errors, kernel_counters
from .network.switch import Switch
from .nics import KINDS, GoldenNic, Nic, PlainNic, RtlNic, set_bound
from .pump import Pump
from .register_server import RegisterServer
from .report import HostReport

MOST_MTU = 9216
_SOCKET_BUFFER = 1 << 20
"""Most bytes in flight on a TCP connection, a tenth of a second at the models' rate."""


class ClusterError(RuntimeError):
    """A NIC of the cluster has failed. The text names the NIC and the error."""


class Cluster(Namespaces):
    """A number of hosts, each with a NIC, at one switch, while the context is entered.

    Host *i* has two names, ``host<i>`` and that of its namespace. It has the address *i + 1* of the subnet
    and the hardware address ``02:00:00:00:00:<i + 1>``. Its parts are ``nics[i]``, ``pumps[i]`` and
    ``switch.ports[i]``. Leaving the context ends every process in the hosts and removes them (`Namespaces`).

    Parameters
    ----------
    hosts, subnet
        As for `Namespaces`.
    nics
        Kind of each host's NIC: "rtl", "inline", "golden" or "none". One for all, or a sequence.
    verilog
        File with ``inceptionn_nic``, needed if a NIC is "rtl". One for all, or one per word of ``codecs``.
    codecs
        Codec of each host's NIC: "paper", "planes", or "planes-bf16" with bf16 lanes, too. One for all, or a
        sequence. The default is that of the Verilog, or "paper".
    lanes
        Lanes of the engines of inline devices, 1 or 8.
    impairments
        Impairments of the switch.
    mtu
        Bytes of an IP packet, 576..9216.
    vlan
        802.1Q tag of the hosts' traffic, 1..4094, inserted and removed between host and engine, as NICs do.
        None for no tag.
    ecn
        Whether the hosts' TCP negotiates explicit congestion notification (RFC 3168).
    k, mode
        Error bound 2^-k of all NICs, and mode of those with the paper's codec (None means ``bounded``).
    pcap
        Folder for ``host<i>.pcap``, the traffic on the host's interface, and ``wire-host<i>.pcap``, the
        traffic on its cable.
    congestion
        TCP's congestion control in the hosts. None means the machine's own.
    seed
        Seed of the switch's faults. The kernel orders the frames, so equal seeds do not make equal runs.
    step
        Called with the current step of the start as text.

    Raises ``ValueError`` with a wrong value, and `NetworkUnavailable` with what the machine lacks.
    """

    def __init__(
        self,
        hosts: int,
        nics: str | Sequence[str] = "rtl",
        *,
        verilog: Path | Mapping[str, Path] | None = None,
        codecs: str | Sequence[str] | None = None,
        lanes: int = GROUP_LANES,
        impairments: Impairments | None = None,
        mtu: int = 1500,
        vlan: int | None = None,
        ecn: bool = False,
        k: int = DEFAULT_K,
        mode: str | None = None,
        pcap: Path | None = None,
        congestion: str | None = None,
        seed: int = 1,
        subnet: str = "10.77.0.0/24",
        step: Callable[[str], None] | None = None,
    ) -> None:
        super().__init__(hosts, subnet)
        self.kinds = [nics] * hosts if isinstance(nics, str) else list(nics)
        for kind in self.kinds:
            if kind not in KINDS:
                raise ValueError(f"NIC must be one of {', '.join(KINDS)}, not {kind!r}")
        if len(self.kinds) != hosts:
            raise ValueError(f"nics must be one for each of the {hosts} hosts, not {self.kinds!r}")
        self.codecs = [codecs] * hosts if codecs is None or isinstance(codecs, str) else list(codecs)
        for codec in self.codecs:
            if codec not in (None, *NIC_VARIANTS):
                raise ValueError(f"codec must be one of {', '.join(NIC_VARIANTS)}, not {codec!r}")
        if len(self.codecs) != hosts:
            raise ValueError(f"codecs must be one for each of the {hosts} hosts, not {self.codecs!r}")
        if "rtl" in self.kinds and verilog is None:
            raise ValueError("a NIC of kind 'rtl' needs the Verilog of inceptionn_nic")
        if lanes not in INLINE_LANES:
            raise ValueError(f"lanes must be {' or '.join(map(str, INLINE_LANES))}, not {lanes!r}")
        self.lanes = lanes
        self.mtu = integer("mtu", mtu, 576, MOST_MTU)
        if vlan is not None and not 1 <= vlan <= 4094:
            raise ValueError(f"vlan must be 1..4094, not {vlan!r}")
        self.verilog, self.vlan, self.ecn = verilog, vlan, ecn
        self.impairments = impairments or Impairments()
        self.k, self.mode, self.pcap, self.congestion, self.seed = k, mode, pcap, congestion, seed
        self.nics: list[Nic] = []
        self.pumps: list[Pump] = []
        self.switch: Switch | None = None
        self._step = step or (lambda text: None)
        self._taps: list[Tap] = []
        self._pcaps: list[PcapWriter] = []
        self._registers: RegisterServer | None = None

    def _join(self) -> None:
        available()
        table = self.folder / "hosts"
        with table.open("a") as names:
            names.writelines(f"{host.address} host{host.index}\n" for host in self.hosts)
        self.switch = Switch(self.size, self.impairments, self.seed)
        if self.pcap is not None:
            self.pcap.mkdir(parents=True, exist_ok=True)
        for host in self.hosts:
            number = host.index
            self._step(f"host{number}: {self.kinds[number]} NIC")
            nic = self._nic(number)
            self.nics.append(nic)
            set_bound(nic, self.k, self.mode)
            self._settings(number)
            mac = f"02:00:00:00:{number + 1 >> 8:02x}:{number + 1 & 0xFF:02x}"
            tap = Tap(host.name, INTERFACE, self.mtu, f"address {mac} addrgenmode none")
            self._taps.append(tap)
            address = f"address add {host.address}/{host.prefix} dev {INTERFACE}"
            batch("ip", host.name, [f"link set {INTERFACE} up", address])
            self.pumps.append(Pump(number, nic, tap, self.switch, self._pcap_pair(number), self.vlan))
        for pump in self.pumps:
            pump.start()
        self._registers = RegisterServer(self.folder, self.nics)

    def _nic(self, number: int) -> Nic:
        kind = self.kinds[number]
        if kind == "none":
            return PlainNic()
        codec = self.codecs[number]
        if kind == "golden":
            return GoldenNic(codec or "paper")
        if kind == "inline":
            from .inline_nic import InlineNic

            return InlineNic(codec or "paper", self.seed + number, self._step, self.lanes)
        assert self.verilog is not None
        verilog = self.verilog if isinstance(self.verilog, Path) else self.verilog[codec or "paper"]
        nic = RtlNic(verilog, self.seed + number, self._step)
        if codec is not None and nic.codec != NIC_VARIANTS[codec]:
            nic.close()
            raise ValueError(f"host{number}: {verilog.name} has the codec {nic.codec.variant}, not {codec}")
        return nic

    def _settings(self, number: int) -> None:
        """Set the TCP variables of a host."""
        host = self.hosts[number]
        values: dict[str, Any] = {"tcp_ecn": int(self.ecn)}
        for name in ("tcp_rmem", "tcp_wmem"):
            values[name] = f"4096 131072 {_SOCKET_BUFFER}"
        if self.congestion is not None:
            values["tcp_congestion_control"] = self.congestion
        host.set(**values)

    def _pcap_pair(self, number: int) -> tuple[PcapWriter, PcapWriter] | None:
        if self.pcap is None:
            return None
        pair = (
            PcapWriter(self.pcap / f"wire-host{number}.pcap"),
            PcapWriter(self.pcap / f"host{number}.pcap"),
        )
        self._pcaps += pair
        return pair

    def check(self) -> None:
        """Raise `ClusterError` if a NIC has failed."""
        for pump in self.pumps:
            if pump.error is not None:
                kind = self.kinds[pump.number]
                raise ClusterError(f"NIC of host{pump.number} ({kind}): {pump.error}") from pump.error

    def drain(self, quiet: float = 0.1, limit: float = 5.0) -> bool:
        """Wait until no frame has moved for ``quiet`` seconds.

        False if frames still move after ``limit`` seconds.
        """
        deadline, last, since = time.monotonic() + limit, -1, time.monotonic()
        while time.monotonic() < deadline:
            now = sum(pump.moved for pump in self.pumps) + sum(p.queued for p in self._switch.ports)
            if now != last:
                last, since = now, time.monotonic()
            elif time.monotonic() - since >= quiet:
                return True
            time.sleep(quiet / 5)
        return False

    @property
    def _switch(self) -> Switch:
        if self.switch is None:
            raise NetworkError("the cluster is not up: use it in a with statement")
        return self.switch

    def impair(self, impairments: Impairments) -> None:
        """Replace the impairments of all ports of the switch, from now on."""
        self.impairments = impairments
        self._switch.impair(impairments)

    def registers(self) -> dict[str, dict[str, int]]:
        """Read every counter of every NIC, by host, over AXI4-Lite."""
        return {f"host{number}": nic.read_all() for number, nic in enumerate(self.nics)}

    def host_reports(self) -> list[HostReport]:
        """Return the counts of all frames so far, for each host."""
        ports, reports = self._switch.ports, []
        for number, (host, nic, pump) in enumerate(zip(self.hosts, self.nics, self.pumps, strict=True)):
            kernel = kernel_counters(host.name)
            reports.append(
                HostReport(
                    f"host{number}", host.address, nic.kind, nic.read_all(), dict(pump.counts),
                    {name: count for name, count in ports[number].counts.items() if count},
                    checksum_errors(kernel),
                    {
                        "segments": kernel["TcpOutSegs"],
                        "retransmitted": kernel["TcpRetransSegs"],
                        "congestion": kernel["IpExtInCEPkts"],
                    },
                    nic.cycles, nic.tx_beats, nic.rx_beats, nic.seconds,
                )
            )  # fmt: skip
        return reports

    def _leave(self) -> None:
        """End the NICs, after the hosts' processes."""
        if self._registers is not None:
            self._registers.close()
            self._registers = None
        for pump in self.pumps:
            pump.stop()
        for tap in self._taps:
            tap.close()
        for pcap in self._pcaps:
            with suppress(OSError):
                pcap.close()
        for nic in self.nics:
            nic.close()
        if self.switch is not None:
            self.switch.close()
            self.switch = None
        self.pumps, self._taps, self._pcaps, self.nics = [], [], [], []

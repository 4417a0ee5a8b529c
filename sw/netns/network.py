# SPDX-License-Identifier: BSD-2-Clause
"""Hosts joined by a switch whose ports have a rate: links, a bridge, tc on both ends of each link."""

from ..system.integers import integer
from .cables import Cables
from .iproute import NetworkError, batch, ip
from .namespaces import Host, Namespaces
from .units import bits_per_second, fraction, seconds

DEFAULT_QUEUE = 0.05
"""Seconds of traffic that a port queues before it drops."""
_BURST_SECONDS, _LEAST_BURST = 200e-6, 128 * 1024
"""Bytes that may pass at line rate: what accrues between two timers, and no less than two of TCP's largest
writes, which would otherwise be cut up in software."""
INTERFACE = "eth0"
"""Name of every host's interface towards the switch."""


class Network(Namespaces):
    """``hosts`` hosts, each with ``eth0`` at its own port of one switch (a bridge in a further namespace).

    Both directions of every port are shaped: what the host sends at its ``eth0``, and what the switch sends
    to it at the port, each by a token bucket (tbf(8)). So every host has a full-duplex link of that rate, and
    many-to-one traffic queues at the switch.

    Parameters
    ----------
    hosts, subnet
        As for `Namespaces`.
    rate
        Bits per second of each direction of each link: a number or "100m", "1g", "10g"; None: not shaped.
        Counted with the Ethernet header, without preamble, checksum and gap.
    delay
        One way, of each link: seconds or "5ms". A packet passes two links, so a round trip takes four. With
        delay or loss, links are `Cables`: a process carries some 100,000 packets a second for all of them,
        so high rates are not reached.
    loss
        Share of the packets that each link loses in each direction: 0..1 or "0.1%".
    mtu
        Bytes of IP packet, 576..9216.
    queue
        Seconds of traffic (or "50ms") that each port holds before it drops.
    congestion
        TCP's congestion control in the hosts, one of the machine's tcp_allowed_congestion_control; None: the
        machine's own.

    ``ValueError`` names a wrong value; `NetworkUnavailable` says what the machine or the kernel lacks.
    """

    _extra = ("switch",)

    def __init__(
        self,
        hosts: int,
        rate: str | float | None = None,
        *,
        delay: str | float | None = None,
        loss: str | float | None = None,
        mtu: int = 1500,
        queue: str | float = DEFAULT_QUEUE,
        congestion: str | None = None,
        subnet: str = "10.77.0.0/24",
    ) -> None:
        super().__init__(hosts, subnet)
        self.rate = None if rate is None else bits_per_second(rate)
        self.delay = 0.0 if delay is None else seconds(delay)
        self.loss = 0.0 if loss is None else fraction(loss)
        self.queue = seconds(queue)
        self.mtu = integer("mtu", mtu, 576, 9216)
        self.congestion = congestion
        self._cables: Cables | None = None

    @property
    def switch(self) -> str:
        """The namespace of the bridge."""
        return self.names(self._entered())[-1]

    @property
    def burst(self) -> int:
        """Bytes of the token bucket."""
        return max(_LEAST_BURST, int((self.rate or 0) / 8 * _BURST_SECONDS))

    def shape(self, rate: str | float | None) -> None:
        """Set another rate for all ports, from now on."""
        self.rate = None if rate is None else bits_per_second(rate)
        self._entered()
        for host in self.hosts:
            batch("tc", host.name, self._discipline(INTERFACE))
        ports = [f"port{host.index}" for host in self.hosts]
        batch("tc", self.switch, [line for port in ports for line in self._discipline(port)])

    def _entered(self) -> int:
        if self._number is None:
            raise NetworkError("the network is not up: use it in a with statement")
        return self._number

    def _join(self) -> None:
        switch = self.switch
        bridge = ["link add bridge0 type bridge", f"link set bridge0 up mtu {self.mtu}"]
        batch("ip", switch, bridge)
        if self.delay or self.loss:
            self._cables = Cables(self.delay, self.loss)
        for host in self.hosts:
            port = f"port{host.index}"
            if self._cables is not None:
                self._cables.lay(((host.name, INTERFACE), (switch, port)), self.mtu)
            else:
                ip("link", "add", INTERFACE, "mtu", str(self.mtu), "type", "veth", "peer", "name", port,
                   "mtu", str(self.mtu), "netns", switch, namespace=host.name)  # fmt: skip
            batch("ip", switch, [f"link set {port} master bridge0", f"link set {port} up"])
            address = f"address add {host.address}/{host.prefix} dev {INTERFACE}"
            hardware = f"link set {INTERFACE} address {_hardware_address(host.index)}"
            batch("ip", host.name, [hardware, address, f"link set {INTERFACE} up", *self._neighbours(host)])
            if self.congestion is not None:
                host.set(tcp_congestion_control=self.congestion)
        self.shape(self.rate)
        if self._cables is not None:
            self._cables.start()

    def _neighbours(self, host: Host) -> list[str]:
        """Return ip commands that tell a host all others' hardware addresses.

        The kernel keeps 1,024 neighbours that it has asked for, in all namespaces together: too few for 33
        hosts that all connect to each other.
        """
        others = {each.address: _hardware_address(each.index) for each in self.hosts if each is not host}
        on = f"dev {INTERFACE} nud permanent"
        return [f"neigh replace {address} lladdr {hardware} {on}" for address, hardware in others.items()]

    def _leave(self) -> None:
        if self._cables is not None:
            self._cables.close()
            self._cables = None

    def _discipline(self, device: str) -> list[str]:
        """Return tc commands for one device."""
        if self.rate is None:
            return [f"qdisc replace dev {device} root pfifo limit 1000"]
        limit = self.burst + int(self.rate / 8 * self.queue)
        bucket = f"tbf rate {round(self.rate)}bit burst {self.burst} limit {limit}"
        return [f"qdisc replace dev {device} root handle 1: {bucket}"]


def _hardware_address(index: int) -> str:
    """Return the address of a host's interface: one that is administered locally."""
    return "02:00:" + (index + 1).to_bytes(4, "big").hex(":")

# SPDX-License-Identifier: BSD-2-Clause
"""The checks of a frame's headers, in the verdict order of docs/wire-format.md, section 5."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from amaranth.hdl import Cat, Const, Mux, Value

from inceptionn.wire import PROTOCOL_UDP, SHIM_BYTES, Verdict

from .header_fields import IPV4, L3, L4, TCP, UDP, VLAN

Check = tuple[Verdict, Any]
"""A verdict, and a bit that is 1 if the frame gets it."""


class Headers(NamedTuple):
    """A frame's headers, as its first 58 bytes have them. What a short frame lacks is arbitrary."""

    config: Any
    """:class:`.EngineConfig`, sampled with the frame's first beat."""
    bf16_tos: Value
    """The ToS byte of frames with bf16 lanes, likewise; zero without them."""
    seen: Value
    """Bytes of the frame that have arrived, up to all those."""
    vlan: Value
    """The first type field says VLAN."""
    stacked: Value
    ipv6: Value
    ipv4: Value
    tcp: Value
    """The IP protocol is TCP."""
    ip: dict[str, Value]
    segment: dict[str, Value]
    datagram: dict[str, Value]

    @classmethod
    def of(cls, *known: Any, ip: Value, l4: Value) -> "Headers":
        """Take the IP header and 20 bytes behind it apart; ``known``: what comes before ``ip``."""
        return cls(
            *known,
            ip={name: IPV4.read(ip, name) for name in IPV4},
            segment={name: TCP.read(l4, name) for name in TCP},
            datagram={name: UDP.read(l4, name) for name in UDP},
        )

    def at(self, untagged: int) -> Value:
        """Return the byte of the frame that is byte ``untagged`` of the same frame without VLAN tag."""
        return Mux(self.vlan, VLAN.size + untagged, untagged)


def sums_to(a: Value, b: int, c: Value) -> Value:
    """Test that ``a + b == c`` modulo ``2**len(a)``, without a carry chain.

    Each bit is checked with the next lower one.
    """
    wrong = []
    carry: Any = Const(0, 1)
    for i in range(len(a)):
        wrong.append(a[i] ^ c[i] ^ carry if not b >> i & 1 else ~(a[i] ^ c[i] ^ carry))
        # If the sum is right, the carry out of a bit follows from that bit alone.
        carry = a[i] | ~c[i] if b >> i & 1 else a[i] & ~c[i]
    return ~Cat(wrong).any()


def field_checks(headers: Headers, tagged: Value, *, transmit: bool) -> list[Check]:
    """Return the checks that need no adder; ``tagged``: the ToS byte asks for compression."""
    config, ip, tcp, at = headers.config, headers.ip, headers.tcp, headers.at
    enabled = config.enable & config.parameters_valid if transmit else config.enable
    udp_wrong = ~sums_to(headers.datagram["length"], IPV4.size, ip["total_length"])
    return [
        (Verdict.DISABLED, ~enabled),
        (Verdict.TRUNCATED, headers.seen < at(L3)),
        (Verdict.VLAN_STACK, headers.stacked),
        (Verdict.IPV6, headers.ipv6),
        (Verdict.NOT_IPV4, ~headers.ipv4),
        (Verdict.TRUNCATED, headers.seen < at(L4)),
        (Verdict.NOT_IPV4, ip["version"] != 4),
        (Verdict.UNTAGGED, ~tagged),
        (Verdict.IP_OPTIONS, ip["ihl"] != 5),
        (Verdict.FRAGMENT, (ip["fragment"] & 0x3FFF) != 0),
        (Verdict.PROTOCOL, ~tcp & (ip["protocol"] != PROTOCOL_UDP)),
        (Verdict.TRUNCATED, headers.seen < Mux(tcp, at(L4 + TCP.size), at(L4 + UDP.size))),
        (Verdict.LENGTHS, Mux(tcp, headers.segment["data_offset"] < 5, udp_wrong)),
    ]


def length_checks(
    config: Any, length: Value, *, negative: Value, syn: Value, unsummed: Value, transmit: bool
) -> list[Check]:
    """Return the checks that follow those, of the payload's ``length``.

    ``negative``: the lengths contradict each other; ``syn``: of a TCP connection; ``unsummed``: UDP without a
    checksum.
    """
    checks: list[Check] = [
        (Verdict.LENGTHS, negative),
        (Verdict.SYN, syn),
        (Verdict.NO_CHECKSUM, unsummed),
    ]
    if not transmit:
        return [*checks, (Verdict.NO_SHIM, length < SHIM_BYTES)]
    return [
        *checks,
        (Verdict.SHORT, (length < config.min_payload) | (length == 0)),
        (Verdict.LONG, length > config.max_payload),
        (Verdict.ALIGNMENT, length[:2].any()),
    ]


def flow_changes(early: Sequence[Check], *, negative: Value, syn: Value, ends: Value) -> tuple[Value, Value]:
    """Return whether the frame stores its TCP flow in the flow-phase table, and whether it frees its entry.

    Neither if one of the ``early`` checks fails, the fields' or ``negative``; but engine and mark only tell
    one from the other (wire format, section 7). ``syn``, ``ends``: of a TCP connection; FIN or RST.
    """
    apart = (Verdict.DISABLED, Verdict.UNTAGGED)
    sound = ~(negative | Cat(bit for verdict, bit in early if verdict not in apart).any())
    untagged = Cat(bit for verdict, bit in early if verdict == Verdict.UNTAGGED).any()
    return sound & syn & ~ends & ~untagged, sound & (ends | (syn & untagged))


def failed(checks: Sequence[Check]) -> Value:
    """Return one bit per check, set if it fails."""
    return Cat(bit for _, bit in checks)


def recalled(checks: Sequence[Check], bits: Value) -> list[Check]:
    """Return the checks with their outcomes of an earlier stage, which :func:`failed` gave there."""
    return [(verdict, bits[i]) for i, (verdict, _) in enumerate(checks)]


def first_failed(checks: Sequence[Check]) -> Value:
    """Return the verdict of the first check that fails, or 0."""
    choice: Any = Const(0, 5)
    for verdict, bit in reversed(checks):
        choice = Mux(bit, verdict, choice)
    return choice

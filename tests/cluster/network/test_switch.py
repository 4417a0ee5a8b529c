# SPDX-License-Identifier: BSD-2-Clause
"""The switch by hand: where frames go, when, and what its faults make of them."""

import select
import time
from collections.abc import Iterator
from typing import Any

import pytest
from scapy.layers.inet import IP, UDP
from scapy.layers.l2 import Dot1Q, Ether

from inceptionn.sim.cluster import Impairments
from inceptionn.sim.cluster.network.impairments import with_congestion, with_tos
from inceptionn.sim.cluster.network.switch import Switch

BROADCAST = b"\xff" * 6


def mac(number: int) -> bytes:
    return bytes([2, 0, 0, 0, 0, number + 1])


def frame(source: int, target: bytes, payload: bytes = b"x" * 46) -> bytes:
    return target + mac(source) + b"\x08\x01" + payload


@pytest.fixture
def switches() -> Iterator[Any]:
    made: list[Switch] = []

    def make(ports: int = 3, seed: int = 1, **impairments: Any) -> Switch:
        made.append(Switch(ports, Impairments(**impairments), seed))
        return made[-1]

    yield make
    for switch in made:
        switch.close()


def taken(switch: Switch) -> list[list[bytes]]:
    return [[data for data, _ in port.take(1000)] for port in switch.ports]


def test_it_floods_until_it_has_learnt(switches: Any) -> None:
    switch = switches()
    to_one = frame(0, mac(1))
    switch.forward(0, to_one)
    assert taken(switch) == [[], [to_one], [to_one]], "unknown: everywhere else"
    back = frame(1, mac(0))
    switch.forward(1, back)
    assert taken(switch) == [[back], [], []], "known by now"
    switch.forward(0, to_one)
    assert taken(switch) == [[], [to_one], []]
    everyone = frame(2, BROADCAST)
    switch.forward(2, everyone)
    assert taken(switch) == [[everyone], [everyone], []]
    assert switch.forward(1, frame(1, mac(1))) == 0
    assert taken(switch) == [[], [], []], "already where it wants to go"


def test_a_sleeping_receiver_is_woken(switches: Any) -> None:
    switch = switches(2)
    port = switch.ports[1]
    assert port.sleep() is None
    assert not select.select([port.wake], [], [], 0)[0]
    switch.forward(0, frame(0, mac(1)))
    assert select.select([port.wake], [], [], 0)[0]
    port.awake()
    assert not select.select([port.wake], [], [], 0)[0]
    assert len(port.take(10)) == 1


def test_delay_and_rate_hold_frames_back(switches: Any) -> None:
    switch = switches(2, delay="30ms")
    begin = time.monotonic()
    switch.forward(0, frame(0, mac(1)))
    assert switch.ports[1].take(1) == []
    assert 0 < (switch.ports[1].sleep() or 0) <= 0.03
    while not switch.ports[1].take(1):
        assert time.monotonic() < begin + 10
    assert time.monotonic() - begin >= 0.03

    switch = switches(2, rate="1m", queue="1s")  # 1250 bytes take 10 ms
    begin = time.monotonic()
    for _ in range(3):
        switch.forward(0, frame(0, mac(1), bytes(1250 - 24 - 14)))
    got = 0
    while got < 3:
        got += len(switch.ports[1].take(3))
        assert time.monotonic() < begin + 10
    assert time.monotonic() - begin >= 0.03 - 1e-4


def test_a_full_queue_drops(switches: Any) -> None:
    switch = switches(2, rate="1m", queue="50ms")
    for _ in range(20):
        switch.forward(0, frame(0, mac(1), bytes(1250 - 24 - 14)))
    counts = switch.ports[1].counts
    assert counts["frames"] + counts["queue_full"] == 20
    assert 5 <= counts["frames"] <= 7


@pytest.mark.parametrize(
    ("fault", "name"),
    [
        ("loss", "lost"),
        ("duplicate", "duplicated"),
        ("flip", "flipped"),
        ("truncate", "truncated"),
        ("reorder", "reordered"),
    ],
)
def test_shares_are_kept_and_follow_the_seed(switches: Any, fault: str, name: str) -> None:
    outcomes = []
    for seed in (5, 5, 6):
        switch = switches(2, seed=seed, **{fault: "20%"})
        for number in range(2000):
            switch.forward(0, frame(0, mac(1), number.to_bytes(4, "big") * 12))
        assert 300 < switch.ports[1].counts[name] < 500
        if fault == "reorder":
            time.sleep(0.003)
        outcomes.append([data for data, _ in switch.ports[1].take(9000)])
    if fault != "reorder":  # whose order depends on the clock
        assert outcomes[0] == outcomes[1] != outcomes[2]
    sent = [frame(0, mac(1), number.to_bytes(4, "big") * 12) for number in range(2000)]
    got = outcomes[0]
    if fault == "loss":
        assert 1500 < len(got) < 1700
        assert set(got) <= set(sent)
    elif fault == "duplicate":
        assert 2300 < len(got) < 2500
        assert set(got) == set(sent)
    elif fault == "reorder":
        assert sorted(got) == sent != got
    else:
        changed = [(a, b) for a, b in zip(sent, got, strict=True) if a != b]
        assert 300 < len(changed) < 500
        for a, b in changed:
            if fault == "truncate":
                assert 14 <= len(b) < len(a)
                assert a.startswith(b)
            else:
                difference = int.from_bytes(a, "big") ^ int.from_bytes(b, "big")
                assert difference.bit_count() == 1
                assert a[:12] == b[:12]


def test_damage_is_seen_with_a_frame_check_sequence(switches: Any) -> None:
    for fcs in (False, True):
        switch = switches(2, flip=1.0, fcs=fcs)
        switch.forward(0, frame(0, mac(1)))
        ((_, bad),) = switch.ports[1].take(1)
        assert bad is fcs


@pytest.mark.parametrize("vlan", [False, True])
def test_tos_and_congestion_marks_keep_the_header_right(vlan: bool) -> None:
    """Scapy writes the expected frame."""

    def packet(tos: int) -> bytes:
        head = Ether(src="02:00:00:00:00:01", dst="02:00:00:00:00:02")
        head = head / Dot1Q(vlan=5) if vlan else head
        return bytes(head / IP(src="10.0.0.1", dst="10.0.0.2", tos=tos) / UDP(sport=1, dport=2) / b"abc")

    assert with_tos(packet(0x2A), 0, 0xFC) == packet(0x02)
    assert with_tos(packet(0x28), 0x28, 0xFC) == packet(0x28)
    assert with_congestion(packet(0x2A)) == packet(0x2B)
    assert with_congestion(packet(0x29)) == packet(0x2B)
    assert with_congestion(packet(0x28)) == packet(0x28), "its sender does not know what that is"
    arp = frame(0, BROADCAST)
    assert with_tos(arp, 0, 0xFC) == with_congestion(arp) == arp


def test_wrong_impairments_are_named() -> None:
    for name, value, said in (
        ("loss", "3x", "loss: share must be a number in 0..1 or a text such as '1%', not '3x'"),
        ("delay", "fast", "delay: time must be .* not 'fast'"),
        ("rate", "1", "rate: rate must be 8 kbit/s to 1 Tbit/s, not '1'"),
        ("tos", 256, "tos must be 0..255, not 256"),
    ):
        with pytest.raises(ValueError, match=said):
            Impairments(**{name: value})

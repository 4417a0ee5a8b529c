# SPDX-License-Identifier: BSD-2-Clause
"""An inline device of one lane between two ports on RGMII: hostile frames, resets, and links that change."""

import random
from collections.abc import Callable, Iterator

import pytest
from plain_frames import frames_of, in_order
from refusals import refused

from inceptionn.hdl.inline.registers import PORTS
from inceptionn.hdl.mac.octets import MAC_CONTROL
from inceptionn.sim.golden import EngineConfig, FlowTable, Result, packets, receive, transmit
from inceptionn.sim.golden.packets import MINIMUM_FRAME
from inceptionn.sim.inline.model import HOST_RX, MAC, MS, NETWORK_RX, SPEEDS, SYNC, US, InlineModel
from inceptionn.sim.nic_codec import NIC_VARIANTS
from inceptionn.sim.scaling import LINE_OVERHEAD
from inceptionn.sim.traffic import Frame, host_frames, wire_frames
from inceptionn.wire import Verdict

pytestmark = pytest.mark.slow


@pytest.fixture(
    scope="module", params=[pytest.param("paper", marks=pytest.mark.exhaustive), "planes-bf16"], ids=str
)
def codec(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


@pytest.fixture
def device(codec: str) -> Iterator[InlineModel]:
    """Yield a device out of reset, both links at 100 Mbit/s."""
    with InlineModel(codec, lanes=1, network="rgmii", host_mbit=100, network_mbit=100) as model:
        yield model


def config(model: InlineModel) -> EngineConfig:
    assert model.codec is not None
    return NIC_VARIANTS[model.codec].config()


def padded(frame: bytes) -> bytes:
    return frame.ljust(MINIMUM_FRAME, b"\0")


def drain(model: InlineModel) -> dict[str, list[bytes]]:
    """Run until nothing has moved for 3 ms; return the good frames that left each port."""
    left: dict[str, list[bytes]] = {port: [] for port in PORTS}
    quiet, limit = 0, model.now + 4_000 * MS
    while quiet < 3 * MS:
        model.run(200 * US)
        moved = not all(map(model.idle, PORTS))
        for port in PORTS:
            frames = model.taken(port)
            moved |= bool(frames)
            left[port] += [frame.data for frame in frames if frame.good]
        quiet = 0 if moved else quiet + 200 * US
        assert model.now < limit
    return left


def datagrams(model: InlineModel, count: int, seed: int) -> tuple[list[bytes], list[bytes]]:
    """Tagged gradients as the host sends them, and as they go over the wire."""
    source = random.Random(seed)
    host = [packets.udp(b"\0\0\x80\x39" * source.randint(8, 300), tos=0x28) for _ in range(count)]
    wire = [transmit(frame, config(model), FlowTable()).frame for frame in host]
    assert all(len(short) < len(long) for short, long in zip(wire, host, strict=True))
    return host, wire


def passes_all(model: InlineModel, seed: int) -> None:
    """Frames of either kind pass both ways, and gradients leave compressed and come restored."""
    host, wire = datagrams(model, 4, seed)
    plain = frames_of(6, seed, 300)
    for frame in [*plain, *host]:
        model.send("host", frame)
    for frame in [*plain, *wire]:
        model.send("network", padded(frame))
    left = drain(model)
    assert left["network"] == [*plain, *map(padded, wire)]
    assert left["host"] == [*plain, *(receive(frame, config(model)).frame for frame in wire)]


def counters_agree(model: InlineModel) -> None:
    """Every frame that a port kept has passed an engine, and left the other port or was counted there."""
    counts = model.counters()
    for port, other, engine in (("HOST", "NETWORK", "TX"), ("NETWORK", "HOST", "RX")):
        kept = counts[f"{port}_GOOD"] - counts[f"{port}_OVERFLOW"]
        assert kept == counts[f"{engine}_FRAMES_IN"] == counts[f"{engine}_FRAMES_OUT"]
        assert kept == counts[f"{other}_SENT"] + counts[f"{other}_UNSENT"]


def test_hostile_frames(device: InlineModel) -> None:
    """Good, spoilt and random frames leave as the golden model says; none that is malformed leaves.

    They come no faster than they leave: a port that has restored frames to send at the speed at which they
    came compressed would have to drop some.
    """
    source, flows = random.Random(5), FlowTable()
    settings = config(device)

    def left_by(port: str, frames: list[Frame], engine: Callable[[bytes], Result]) -> list[bytes]:
        """Send ``frames`` to a port; return what shall leave the other one."""
        start, left = device.now, []
        for data, bad in frames:
            if data[12:14] == MAC_CONTROL.to_bytes(2, "big"):
                continue
            frame = padded(data)
            device.send(port, frame, start=start, good=not bad)
            result = Result(frame, Verdict.BAD, bad=True) if bad else engine(frame)
            if not result.bad:
                left.append(padded(result.frame))
            start += (max(len(frame), len(result.frame)) + LINE_OVERHEAD) * 8 * US // 100
        return left

    for _ in range(4):
        sent = host_frames(source, 150)
        came = wire_frames(source, 150, settings.parameters)
        there = left_by("host", sent, lambda frame: transmit(frame, settings, flows))
        back = left_by("network", came, lambda frame: receive(frame, settings))
        left = drain(device)
        assert left["network"] == there
        assert left["host"] == back
    counters_agree(device)


@pytest.mark.parametrize("domain", [SYNC, MAC, HOST_RX, NETWORK_RX])
def test_one_clock_is_reset_in_traffic(device: InlineModel, domain: int) -> None:
    """What leaves was sent, whole and in its order; afterwards everything passes again."""
    source = random.Random(domain)
    for number in range(5):
        there, back = frames_of(12, 2 * number), frames_of(12, 2 * number + 1)
        for port, frames in zip(PORTS, (there, back), strict=True):
            for frame in frames:
                device.send(port, frame)
        device.run(source.randrange(50, 1_500) * US)
        device.reset(domain, True)
        device.run(source.randrange(100, 3 * US))
        device.reset(domain, False)
        left = drain(device)
        for frames, sent in ((left["network"], there), (left["host"], back)):
            assert in_order(frames, sent)
        passes_all(device, number)


def test_links_change_in_traffic(device: InlineModel) -> None:
    """A port's link goes and comes back at another speed in the middle of frames; then all pass."""
    source = random.Random(9)
    speeds = dict.fromkeys(PORTS, 100)
    changes = [(port, speed) for speed in (1000, 10, 100, 1000) for port in PORTS]
    for number, (port, speed) in enumerate(changes):
        sent = {each: frames_of(10, 100 + 2 * number + place) for place, each in enumerate(PORTS)}
        for each, frames in sent.items():
            for frame in frames:
                device.send(each, frame)
        device.run(source.randrange(20, 400) * US)
        if number // 2 % 2:
            device.link(port, None)
            device.run(source.randrange(1, 300) * US)
        device.link(port, speed)
        speeds[port] = speed
        left = drain(device)
        for there, back in (PORTS, PORTS[::-1]):
            assert in_order(left[there], sent[back])
        passes_all(device, number)
        links = device.registers["LINKS"]
        for each, now in speeds.items():
            assert links[f"{each.upper()}_UP"].get(device.read("LINKS")) == 1
            assert links[f"{each.upper()}_SPEED"].get(device.read("LINKS")) == SPEEDS[now]
    counters_agree(device)


@pytest.mark.parametrize("port", PORTS)
def test_no_link(device: InlineModel, port: str) -> None:
    """Frames for a port without a link stop nothing; its registers say so."""
    (other,) = {*PORTS} - {port}
    device.link(port, None)
    for frame in frames_of(80, 1):
        device.send(other, frame)
    drain(device)
    assert device.registers["LINKS"][f"{port.upper()}_UP"].get(device.read("LINKS")) == 0
    device.link(port, 1000)
    device.run(20 * US)  # until it is believed
    passes_all(device, 3)


def test_a_port_at_rmii_keeps_its_link() -> None:
    with InlineModel(None) as plain:
        refused(ValueError, "the PHY at RMII keeps its link", plain.link, "network", 10)

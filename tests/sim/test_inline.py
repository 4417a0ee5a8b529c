# SPDX-License-Identifier: BSD-2-Clause
"""Inline devices in simulation: alone, facing each other, overloaded, and reset on one side."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from plain_frames import frames_of, in_order
from refusals import refused

from inceptionn.boards.access.inline import InlineBus
from inceptionn.sim.capture import read_pcap
from inceptionn.sim.golden import packets
from inceptionn.sim.inline.model import HOST_RX, MAC, NETWORK_RX, SYNC, US, InlineModel, NoAnswer
from inceptionn.sim.inline.pair import Pair
from inceptionn.sim.inline.scenarios import LEAST_GAIN, SCALES, differences, gain, gradients
from inceptionn.sim.nic_codec import NIC_VARIANTS
from inceptionn.sim.replay.replay import DEFAULT_CAPTURE
from inceptionn.wire import DEFAULT_BF16_TOS

ROOT = Path(__file__).parents[2]
BF16_CAPTURE = ROOT / DEFAULT_CAPTURE.with_name("bf16.pcap")


@pytest.fixture
def plain() -> Iterator[Pair]:
    with Pair(None) as pair:
        yield pair


def test_frames_pass_both_ways(plain: Pair) -> None:
    there, back = frames_of(40), frames_of(40, seed=2)
    plain.run(there, back)
    a, b = plain.sides
    assert [frame.data for frame in b.host] == there
    assert [frame.data for frame in a.host] == back
    assert plain.counter_mismatches() == []


@pytest.mark.parametrize("host_mbit", [100, 1000])
def test_speeds_and_links(host_mbit: int) -> None:
    """The host's speed comes from the PHY's in-band status."""
    with InlineModel(None, host_mbit=host_mbit) as model:
        frames = frames_of(5)
        for frame in frames:
            model.send("host", frame)
            model.send("network", frame)
        model.run(2_000 * US)
        for port in ("host", "network"):
            arrived = model.taken(port)
            assert [frame.data for frame in arrived] == frames
            assert all(frame.good for frame in arrived)
        links = model.registers["LINKS"]
        assert links["HOST_UP"].get(model.read("LINKS")) == 1
        assert links["HOST_SPEED"].get(model.read("LINKS")) == {100: 1, 1000: 2}[host_mbit]
        assert links["NETWORK_SPEED"].get(model.read("LINKS")) == 1


def test_a_burst_loses_whole_frames_and_counts_them(plain: Pair) -> None:
    """A host that sends at 1000 Mbit/s into 100: what does not fit is lost whole, in order, and counted."""
    sent = frames_of(300)
    plain.run(sent, window=None)
    a, b = plain.sides
    arrived = [frame.data for frame in b.host]
    lost = a.model.read("HOST_OVERFLOW")
    assert in_order(arrived, sent)
    assert lost > 50
    assert len(arrived) == len(sent) - lost
    assert plain.counter_mismatches() == []


def test_damaged_frames_are_counted(plain: Pair) -> None:
    model = plain.sides[0].model
    good = frames_of(4)
    for frame in good:
        model.send("host", frame, good=False)
        model.send("host", frame)
    model.send("host", packets.ethernet(bytes(60), 0x8808))
    model.run(1_000 * US)
    assert [frame.data for frame in model.taken("network")] == good
    assert (model.read("HOST_FCS"), model.read("HOST_CONTROL"), model.read("HOST_GOOD")) == (4, 1, 4)


@pytest.mark.parametrize(
    "domain", [SYNC, *(pytest.param(domain, marks=pytest.mark.slow) for domain in (MAC, HOST_RX, NETWORK_RX))]
)
def test_one_clock_is_reset_in_mid_frame(plain: Pair, domain: int) -> None:
    """Device B loses the frames that it holds, whole; afterwards all pass again."""
    sent = frames_of(80)
    resets = iter([(30, True), (33, False), (60, True), (61, False)])
    at, on = next(resets)
    slices = 0

    def each() -> None:
        nonlocal at, on, slices
        slices += 1
        if slices == at:
            plain.sides[1].model.run(3 * US)
            plain.sides[0].model.run(3 * US)
            plain.sides[1].model.reset(domain, on)
            at, on = next(resets, (0, False))

    plain.run(sent, sent, window=4096, each=each)  # few frames wait in the device, since all are lost
    a, b = plain.sides
    for arrived in ([frame.data for frame in side.host] for side in (a, b)):
        assert in_order(arrived, sent)
        assert len(arrived) > 40
    before = [len(side.host) for side in plain.sides]
    more = frames_of(10, seed=5)
    plain.run(more, more)
    for side, start in zip(plain.sides, before, strict=True):
        assert [frame.data for frame in side.host[start:]][-9:] == more[-9:]


def test_the_console(plain: Pair) -> None:
    """Lines that are not right are answered, and change nothing."""
    model = plain.sides[0].model
    assert model.ask("r 1000") == model.ask("R 1000") == f"{model.read('LINKS'):08x}"
    wrong = "hello,r,w,r 1001,r 2000,r 1000 1,w 1000,w 1000 1 2,r zz,r 1004,x 0,w 1000 5,r 0"
    for line in wrong.split(","):
        assert model.ask(line) == "error", line
    assert model.ask(" r  1000 ".rstrip()) == f"{model.read('LINKS'):08x}"
    model.say("\r\n\r\n")
    model.run(100 * US)
    assert model.hear() == ""
    refused(NoAnswer, "refuses the read of 0x4", model.read_word, 4)


def test_refused() -> None:
    refused(ValueError, "100 Mbit/s, not 1000", InlineModel, None, network_mbit=1000)


# With engines. Their model takes a minute to compile.


@pytest.fixture(
    scope="module",
    params=[
        pytest.param(("paper", 8), marks=pytest.mark.exhaustive),
        ("planes-bf16", 8),
        pytest.param(("paper", 1), marks=pytest.mark.exhaustive),
        ("planes-bf16", 1),
    ],
    ids="{0[0]}-{0[1]}".format,
)
def pair(request: pytest.FixtureRequest) -> Iterator[Pair]:
    codec, lanes = request.param
    with Pair(codec, lanes=lanes) as made:
        yield made


@pytest.mark.slow
def test_the_capture(pair: Pair) -> None:
    """Wire and host bytes equal the golden model in both directions, and the serial line's counters agree."""
    codec = pair.sides[0].model.codec
    assert codec is not None
    nic = NIC_VARIANTS[codec]
    sent = read_pcap(ROOT / DEFAULT_CAPTURE)[:160]
    if nic.bf16:
        sent = [*sent[:60], *read_pcap(BF16_CAPTURE)[:100]]
    pair.run(sent, sent[::2])
    assert differences(sent, pair, nic.config()) == []
    assert differences(sent[::2], pair, nic.config(), sender=1) == []
    assert pair.counter_mismatches() == []
    counts = pair.sides[0].model.counters()
    assert counts["TX_COMPRESSED"] > 0
    assert counts["RX_RESTORED"] > 0
    if nic.bf16:
        assert 0 < counts["TX_COMPRESSED_BF16"] < counts["TX_COMPRESSED"]
        assert 0 < counts["RX_RESTORED_BF16"] < counts["RX_RESTORED"]


@pytest.mark.slow
def test_the_gain(pair: Pair) -> None:
    for scale in SCALES:
        measured = gain(pair, scale, 40)
        assert 90 < measured.untagged < 100
        assert measured.gain >= LEAST_GAIN
    assert pair.counter_mismatches() == []


@pytest.mark.slow
def test_settings_over_the_serial_line(pair: Pair) -> None:
    """An engine that is switched off passes tagged frames as they are."""
    model = pair.sides[0].model
    control = model.registers["CONTROL"].offset
    model.write_word(control, 0)
    before, sent = len(pair.sides[0].wire), gradients(5, 1e-3)[1:]  # without the SYN, which would be padded
    pair.run(sent)
    assert [frame.data for frame in pair.sides[0].wire[before:]] == sent
    model.write_word(control, 3)
    assert model.read_word(control) == 3


class Line:
    """The device's serial line, as `InlineBus` uses one."""

    def __init__(self, model: InlineModel) -> None:
        self.model = model

    def ask(self, text: str, answer: re.Pattern[bytes], refused: re.Pattern[bytes]) -> re.Match[bytes]:
        found = answer.search(f"{self.model.ask(text)}\r\n".encode())
        assert found is not None
        return found


@pytest.mark.slow
def test_the_tool_finds_codec_and_lanes(pair: Pair) -> None:
    model = pair.sides[0].model
    bus = InlineBus(Line(model))  # type: ignore[arg-type]
    assert [register.name for register in bus.registers] == [register.name for register in model.registers]
    if model.codec == "planes-bf16":
        assert bus.read("TOS.BF16") == DEFAULT_BF16_TOS
        assert bus.read("RX_RESTORED_BF16") == model.read("RX_RESTORED_BF16")


@pytest.mark.slow
def test_a_burst_into_the_engines(pair: Pair) -> None:
    """What does not fit before the engines is lost whole, in order, and counted; damaged frames, too."""
    sides, model = pair.sides, pair.sides[0].model
    before, lost = len(sides[1].host), model.read("HOST_OVERFLOW")
    sent = frames_of(400, seed=7)
    model.send("host", sent[0], good=False)
    pair.run(sent, window=None)
    arrived = [frame.data for frame in sides[1].host[before:]]
    assert in_order(arrived, sent)
    lost = model.read("HOST_OVERFLOW") - lost
    assert lost > 50
    assert len(arrived) == len(sent) - lost
    assert pair.counter_mismatches() == []

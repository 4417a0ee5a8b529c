# SPDX-License-Identifier: BSD-2-Clause
"""cocotb bench of FrontEnd: frames in, their beats early and late, their headers and payloads out.

Parameters ``transmit`` and ``lanes``. The header parser, which has proofs, and the payload realigner are
checked here alone.
"""

import random
from collections import deque
from collections.abc import Iterator
from dataclasses import replace

import cocotb
from chosen_width import WIDTH
from engine_bench import BEAT_BYTES, DEFAULT, Stimulus, bits
from engine_traffic import cuts, ethertypes, ones, replay, shapes, with_configs, with_field
from lockstep import Lockstep
from parsed_headers import fields, objection

from inceptionn.hdl.frame.frame_input import frame_beat
from inceptionn.hdl.frame.front_end import FrontEnd
from inceptionn.hdl.frame.header_parser import parsed_frame
from inceptionn.hdl.frame.payload_realigner import PayloadRealigner, payload_burst
from inceptionn.sim.golden import FlowTable, transmit
from inceptionn.sim.golden.cases import receive_sequences, transmit_sequences
from inceptionn.sim.golden.packets import tcp, udp
from inceptionn.sim.golden.values import payload
from inceptionn.sim.runner import bench_parameters
from inceptionn.sim.traffic import host_frames, noise, wire_frames
from inceptionn.wire import SHIM_BYTES, Verdict, parameters

TRANSMIT = bench_parameters()["transmit"]
DELAY = FrontEnd.delay_of(WIDTH)
LATE = 2
"""Cycles from the fall of ``room`` to that of ``tready``, and one more."""


class TB(Lockstep):
    """Offers frames beat by beat, taken as ``room`` and ``tready`` allow, and checks all that comes."""

    def __init__(self, dut):
        layouts = {
            "beats_payload": frame_beat(BEAT_BYTES),
            "late_beats_payload": frame_beat(BEAT_BYTES),
            "headers_payload": parsed_frame(WIDTH),
            "bursts_payload": payload_burst(WIDTH),
        }
        quiet = {"beats_valid": 0, "late_beats_valid": 0}
        super().__init__(dut, pulses=("s_axis_tvalid", "room"), quiet=quiet, layouts=layouts)
        self.payloads = 0
        self.verdicts: set[int] = set()

    async def start(self) -> None:
        self._headers: deque[tuple[int, Stimulus]] = deque()  # with the cycle of the late beat that follows
        self._bursts: deque[tuple[bytes, bool]] = deque()
        self._config: int | None = None
        await self.reset()

    def _accepted(self, stimulus: Stimulus, index: int) -> None:
        """Beat ``index`` is taken in this cycle: says what must come of it."""
        data = stimulus.frame[index * BEAT_BYTES : (index + 1) * BEAT_BYTES]
        last = index == stimulus.beats - 1
        beat = {"first": int(index == 0), "second": int(index == 1), "last": int(last), "count": len(data)}
        if last:
            beat["bad"] = int(stimulus.arrives_bad)
        if len(data) == BEAT_BYTES:
            beat["data"] = int.from_bytes(data, "little")
        self.due(1, beats_valid=1, beats_payload=beat)
        self.due(1 + DELAY, late_beats_valid=1, late_beats_payload=beat)
        if index == min(WIDTH.parsed_beat, stimulus.beats - 1):
            self._headers.append((self.now + DELAY, stimulus))
        if index == 0:
            self._config = bits(stimulus.config)

    def _check(self) -> None:
        """Headers in their cycle, and the bursts of clear ones with a frame's bytes."""
        due = bool(self._headers) and self._headers[0][0] == self.now
        assert self.read("headers_valid") == due, f"cycle {self.now}: header {due}"
        if due:
            _, stimulus = self._headers.popleft()
            verdict, headers = objection(stimulus, transmit=TRANSMIT)
            found = self.fields("headers_payload")
            what = f"{stimulus.name}, {len(stimulus.frame)} bytes {stimulus.frame[:64].hex()}"
            assert (found.header.verdict, found.clear) == (verdict, verdict == 0), what
            self.verdicts.add(int(verdict))
            for name, value in fields(headers, stimulus).items():
                shown = found.header[name] if name != "config" else found.header.config.as_bits()
                assert shown == value, f"{what}: {name} is {shown:#x}, not {value:#x}"
            if verdict == 0 and headers:
                start = headers.payload + (0 if TRANSMIT else SHIM_BYTES)
                whole = len(stimulus.frame) >= headers.end
                self._bursts.append((stimulus.frame[start : headers.end], whole))
                self.payloads += whole
        if self.read("bursts_valid"):
            burst = self.fields("bursts_payload")
            data, whole = self._bursts[0]
            count = min(burst.count, len(data))
            shown = burst.data.to_bytes(BEAT_BYTES, "little")
            if whole:
                assert shown[:count] == data[:count], f"cycle {self.now}: {shown.hex()}"
                assert burst.last == (len(data) <= BEAT_BYTES), f"cycle {self.now}: {len(data)} bytes left"
                assert data == b"" or burst.count == min(len(data), BEAT_BYTES)
            self._bursts[0] = data[BEAT_BYTES:], whole
            if burst.last:
                self._bursts.popleft()

    async def run(self, stimuli: list[Stimulus], *, idle: float = 0.0, full: float = 0.0) -> None:
        """``idle``: probability of a cycle without input; ``full``: of one without room."""
        limit = self.now + 1000 + 40 * sum(stimulus.beats + 4 for stimulus in stimuli)
        dut = self.dut
        offers = deque((s, index) for s in stimuli for index in range(s.beats))
        offered = False
        tail = 0
        while tail < DELAY + PayloadRealigner.LATENCY + 20:
            assert self.now < limit, f"hang: {len(offers)} beats to come"
            self._check()
            room = random.random() >= full
            inputs: dict[str, int] = {"room": int(room)}
            inputs["config"] = random.getrandbits(len(dut.config)) if self._config is None else self._config
            self._config = None
            offered = bool(offers) and (offered or random.random() >= idle)
            if offered:
                stimulus, index = offers[0]
                last = index == stimulus.beats - 1
                data = stimulus.frame[index * BEAT_BYTES : (index + 1) * BEAT_BYTES]
                keep = (1 << len(data)) - 1
                if index == stimulus.partial:
                    keep >>= random.randint(1, BEAT_BYTES - 1)
                noisy = data + random.randbytes(BEAT_BYTES - len(data))
                inputs |= {
                    "s_axis_tvalid": 1,
                    "s_axis_tdata": int.from_bytes(noisy, "little"),
                    "s_axis_tkeep": keep,
                    "s_axis_tlast": int(last),
                    "s_axis_tuser": int(stimulus.bad) if last else random.getrandbits(1),
                }
                if self.read("s_axis_tready"):
                    self._accepted(stimulus, index)
                    offers.popleft()
                    offered = False
            tail = 0 if offers else tail + 1
            await self.cycle(**inputs)
        assert not self._headers
        assert not self._bursts


def good_and_spoilt() -> Iterator[Stimulus]:
    """Frames of both kinds, runs of one beat, bytes that look like headers; each with settings of its own."""
    frames = host_frames(random, 400) + wire_frames(random, 200, parameters(10, "bounded"))
    frames += [(noise(random), False) for _ in range(200)]
    random.shuffle(frames)
    yield from with_configs(frames) + ones(30)
    yield from (Stimulus(frame) for frame in shapes(lambda: payload("zeros", random.randint(1, 40))))


def cut_anywhere() -> Iterator[Stimulus]:
    """Frames that end anywhere, and often one of a single beat directly after; then a very long payload."""
    data = payload("gradients", 40)
    for frame in (tcp(data), tcp(data, vlan=1, tcp_options=bytes(8)), udp(data), udp(data, vlan=1)):
        for one in random.sample(every := cuts(frame, "cut"), len(every)):
            yield from (one, *ones(random.randrange(3)))
    yield Stimulus(udp(bytes(65_000)))  # which a receive engine would restore


def one_bit_wrong() -> Iterator[Stimulus]:
    """Any one bit of a frame's first 60 bytes, of its lengths, and of EtherTypes that are told apart."""
    data = payload("gradients", 40)
    for frame in (tcp(data), tcp(data, vlan=5), udp(data)):
        form = frame if TRANSMIT else transmit(frame, DEFAULT, FlowTable()).frame
        number = int.from_bytes(form, "little")
        for bit in range(8 * 60):
            yield Stimulus((number ^ 1 << bit).to_bytes(len(form), "little"))
    for vlan, moved in ((None, 0), (1, 4)):
        for frame, places in ((tcp(bytes(160), vlan=vlan), (16,)), (udp(bytes(160), vlan=vlan), (16, 38))):
            for at in (place + moved for place in places):
                right = int.from_bytes(frame[at : at + 2], "big")
                for value in (right, *(right ^ 1 << bit for bit in range(16))):
                    yield Stimulus(with_field(frame, at, value), name=f"length at {at}")
    yield from ethertypes()


def about_their_limits() -> Iterator[Stimulus]:
    """Limits with any one bit set and any others; payloads of a lane less, as many, and a lane more."""
    for limit in (4 << bit for bit in range(12)):
        for config in (replace(DEFAULT, min_payload=limit), replace(DEFAULT, max_payload=limit)):
            for size in (limit - 4, limit, limit + 4):
                yield Stimulus(udp(bytes(size)), config=config)
    for _ in range(100):
        size, name = 4 * random.randint(1, 2304), f"{random.choice(('min', 'max'))}_payload"
        yield Stimulus(udp(bytes(size)), config=replace(DEFAULT, **{name: size + random.randint(-4, 4)}))


TRAFFIC = {make.__name__: make for make in (good_and_spoilt, cut_anywhere, one_bit_wrong, about_their_limits)}


@TB.test()
@cocotb.parametrize(idle=[0.0, 0.3], full=[0.0, 0.2])
async def every_case(tb, idle, full):
    """All hand-written frames of both directions; between them they have every verdict of the headers."""
    await tb.run(replay(transmit_sequences) + replay(receive_sequences), idle=idle, full=full)
    own = {Verdict.SHORT, Verdict.LONG, Verdict.ALIGNMENT} if TRANSMIT else {Verdict.NO_SHIM}
    assert tb.verdicts == {0, *range(Verdict.DISABLED, Verdict.NO_CHECKSUM + 1)} | own
    assert tb.payloads > 20


@TB.test()
@cocotb.parametrize(traffic=list(TRAFFIC), idle=[0.0, 0.3])
async def any_frame(tb, traffic, idle):
    """Back to back and with gaps."""
    await tb.run(list(TRAFFIC[traffic]()), idle=idle, full=idle / 2)
    least = {
        "one_bit_wrong": {0, Verdict.LENGTHS},
        "about_their_limits": {0, Verdict.SHORT, Verdict.LONG} if TRANSMIT else {0, Verdict.NO_SHIM},
    }
    assert tb.verdicts >= least.get(traffic, {0})
    assert tb.payloads > 20 or traffic == "cut_anywhere"


@TB.test()
async def without_room(tb):
    """No beat is taken once ``room`` has been low for two cycles, and none is lost."""
    for _ in range(LATE):
        await tb.cycle(room=0)
    for _ in range(20):
        assert not tb.read("s_axis_tready")
        await tb.cycle(room=0, s_axis_tvalid=1)
    await tb.run([Stimulus(frame) for frame, _ in host_frames(random, 5)])

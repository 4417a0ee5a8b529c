# SPDX-License-Identifier: BSD-2-Clause
"""The replay's judgement: it accepts a NIC that is right and names what is wrong with one that is not."""

import gzip
import struct
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from refusals import refused

pytest.importorskip("scapy")
from rich.console import Console
from rich.progress import Progress
from scapy.utils import rdpcap, wrpcapng

from inceptionn import wire
from inceptionn.sim.capture import read_capture, read_pcap
from inceptionn.sim.golden import EngineConfig, FlowTable, packets, receive, transmit
from inceptionn.sim.golden.cases import alone, sharing_ports
from inceptionn.sim.golden.values import bf16_payload
from inceptionn.sim.nic_codec import NIC_CODECS
from inceptionn.sim.nic_verilog import nic_verilog
from inceptionn.sim.replay import referee, replay
from inceptionn.sim.replay.payloads import PAYLOADS, RAW, gradients, table_bytes
from inceptionn.sim.replay.performance import TIMESTAMPS, segments
from inceptionn.sim.replay.ratios import ratios
from inceptionn.sim.replay.tables import print_tables
from inceptionn.sim.verilated import Output, Timing

CAPTURE = Path(__file__).parents[2] / "examples" / "captures" / "digits.pcap"
Spoil = Callable[[list[Output], list[Output]], None]


class ModelNic:
    """Stands in for a `VerilatedNic`: the golden model with its interface, faulty on request."""

    def __init__(self, spoil: Spoil = lambda wire, host: None, codec: str = "paper", bf16: bool = False):
        self.spoil = spoil
        self.codec = replace(NIC_CODECS[codec], bf16=bf16)
        self.parameters = self.codec.spec.parameters(wire.DEFAULT_K)
        self.learn_phases = False
        self.counters: dict[int, int] = {}
        self.cycle = 0

    def loopback(self, frames: Sequence[bytes], **_: Any) -> tuple[list[Output], list[Output]]:
        config, flows = replace(self.codec.config(), parameters=self.parameters), FlowTable()
        config = replace(config, learn_phases=self.learn_phases)
        timing = Timing(0, 0, 0, 0)
        out, back = [], []
        for frame in frames:
            sent = transmit(frame, config, flows)
            came = receive(sent.frame, config)
            out.append(Output(sent.frame, sent.bad, timing))
            back.append(Output(came.frame, came.bad, timing))
            self._count("TX", sent, frame)
            self._count("RX", came, sent.frame)
        self.cycle += 1000
        self.spoil(out, back)
        return out, back

    def _count(self, prefix: str, result: Any, frame: bytes) -> None:
        add = {result.verdict.name: 1, "FRAMES_IN": 1, "FRAMES_OUT": 1, "BYTES_IN": len(frame)}
        add["BYTES_OUT"] = len(result.frame)
        if prefix == "TX":
            names = (name.removeprefix("TX_") for name in self.codec.counters)
            add |= dict(zip(names, result.counts, strict=False))
            bf16 = self.codec.bf16 and result.frame.find(b"IN\x02") > 0 and result.frame[57] > 128
            if self.codec.name == "planes" and result.counts:
                add |= {"LANES_BF16": result.lanes, "COMPRESSED_BF16": 1} if bf16 else {"LANES": result.lanes}
        elif self.codec.bf16 and result.lanes:
            add["RESTORED_BF16"] = int(frame[57] > 128)
        for name, n in add.items():
            offset = self.codec.registers[f"{prefix}_{name}"].offset
            self.counters[offset] = self.counters.get(offset, 0) + n

    def drain(self) -> None:
        """Count no frame late."""

    def read(self, address: int) -> int:
        for name in ("ID", "VERSION"):
            if address == self.codec.registers[name].offset:
                return self.codec.registers[name].reset
        return self.counters.get(address & ~4, 0) >> (32 if address & 4 else 0) & 0xFFFF_FFFF

    def write(self, address: int, value: int) -> None:
        control = self.codec.registers["CONTROL"]
        if address == control.offset:
            self.learn_phases = bool(control["LEARN_PHASES"].get(value))
            assert value == control.reset | control["LEARN_PHASES"].put(self.learn_phases)
            return
        assert address == self.codec.registers["PARAMETERS"].offset
        self.parameters = self.codec.spec.from_numbers((value & 0xFF, value >> 8 & 0xFF, value >> 16))


def run(
    nic: ModelNic, frames: list[bytes], k: int = 10, mode: str | None = None, learn: bool = False
) -> replay.Totals:
    config = replace(nic.codec.config(k, mode), learn_phases=learn)
    return replay.run(nic, frames, config, Progress(disable=True)).totals  # type: ignore[arg-type]


def small_mix() -> list[bytes]:
    """Make a SYN, and compressed, expanded, untagged and short frames."""
    return [
        packets.OPENING,
        *segments(gradients, 1500, 4),
        *segments(RAW, 1500, 2),
        *segments(gradients, 1500, 2, tos=0),
        packets.udp(bytes(400)),
        packets.tcp(b"1234"),
    ]


@pytest.mark.parametrize("codec", NIC_CODECS)
def test_totals_of_a_small_mix(codec: str) -> None:
    totals = run(ModelNic(codec=codec), small_mix())
    assert totals.codec == codec
    assert totals.frames == 11
    assert totals.transmit == {"COMPRESSED": 5, "UNTAGGED": 2, "SYN": 1, "SHORT": 1, "EXPANDED": 2}
    assert totals.receive == {"RESTORED": 5, "UNTAGGED": 2, "SYN": 1, "NO_SHIM": 3}
    assert totals.payload_bytes == 4 * 1460 + 400
    assert totals.lanes == totals.payload_bytes // 4
    groups = 4 * 46 + 13
    assert sum(totals.classes.values()) == (totals.lanes if codec == "paper" else groups)
    assert totals.host_bytes - totals.wire_bytes == totals.payload_bytes - totals.block_bytes
    assert 0 < totals.largest_error < totals.bound == 2**-10
    assert totals.checksums == {referee.IP_HEADER: 22, referee.HOST: 11, referee.WIRE: 5}
    assert (totals.flows, totals.assumed_flows, totals.unknown_flows) == (1, 0, 0)
    assert totals.ratio > 1.5
    assert totals.payload_ratio > 2


def test_bf16_beside_fp32() -> None:
    """Each type has its sums, errors by its own values, and counters; without bf16 lanes ToS 0x2C passes."""
    fp32, bf16 = gradients(np.random.default_rng(2), 352), bf16_payload("gradients", 704)
    frames = [packets.OPENING, packets.tcp(fp32.tobytes()), packets.tcp(bf16, sequence=1408, tos=0x2C)]
    frames.append(packets.tcp(b"1"))
    totals = run(ModelNic(codec="planes", bf16=True), frames)
    assert (totals.lanes, totals.bf16_frames, totals.bf16_lanes) == (352, 1, 704)
    assert totals.transmit == {"COMPRESSED": 2, "SYN": 1, "SHORT": 1}
    assert sum(totals.classes.values()) == 44 + 44
    assert 1.5 < totals.bf16_ratio < totals.payload_bytes / totals.block_bytes
    assert 0 < totals.largest_error <= totals.bound
    found = {each.codec: each for each in ratios(frames, (10,), bf16=True)}
    assert found["planes, bf16"].wire_bytes == totals.bf16_block_bytes
    assert found["planes"].wire_bytes == totals.block_bytes - totals.bf16_block_bytes
    without = run(ModelNic(codec="planes"), frames)
    assert without.transmit == {"COMPRESSED": 1, "UNTAGGED": 1, "SYN": 1, "SHORT": 1}
    assert without.bf16_lanes == 0
    spoilt = ModelNic(codec="planes", bf16=True)
    spoilt.counters[spoilt.codec.registers["TX_LANES_BF16"].offset] = 1
    refused(replay.ReplayError, "TX_LANES_BF16 reads 705, but 704 were counted outside", run, spoilt, frames)


def test_values_are_judged_on_the_stream_s_grid_and_not_on_the_engine_s() -> None:
    """A flow that was displaced is learnt anew in mid-value; the block keeps the bound, the values do not."""
    a, b, c = sharing_ports(3)
    data = gradients(np.random.default_rng(2), 1000).tobytes()
    frames = [
        packets.tcp(b"", sequence=7, source_port=a, flags=packets.SYN),
        packets.tcp(data[:1000], sequence=8, source_port=a),
        packets.tcp(data[1000:1402], sequence=1008, source_port=a),
        *(packets.tcp(b"", source_port=port, flags=packets.SYN) for port in (b, c)),
        packets.tcp(data[1402:2802], sequence=1410, source_port=a),
    ]
    totals = run(ModelNic(), frames)
    assert totals.transmit == {"COMPRESSED": 1, "SYN": 3, "ALIGNMENT": 1, "UNKNOWN_FLOW": 1}
    assert (totals.flows, totals.unknown_flows) == (1, 0)
    refused(replay.ReplayError, "^frame 5: ", run, ModelNic(), frames, learn=True)


def test_flows_without_a_syn(capsys: pytest.CaptureFixture[str]) -> None:
    frames = [packets.tcp(frame[54:], sequence=3) for frame in segments(gradients, 1500, 2)]
    totals = run(ModelNic(), frames)
    assert (totals.transmit, totals.unknown_flows) == ({"UNKNOWN_FLOW": 2}, 1)
    assert ratios(frames, (10,))[0].payload_bytes == 0
    print_tables(Console(width=300, force_terminal=False), CAPTURE, totals, None, ratios(frames))
    assert "no SYN in the capture: 1 tagged TCP flows, which passed raw" in capsys.readouterr().out
    learnt = run(ModelNic(), frames, learn=True)
    assert (learnt.transmit, learnt.unknown_flows) == ({"COMPRESSED": 2}, 0)
    assert (learnt.flows, learnt.assumed_flows) == (0, 1)
    assert ratios(frames, (10,), learn_phases=True)[0].payload_bytes == 2 * 1460
    assert 0 < learnt.largest_error <= learnt.bound


def test_malformed_frames_pass_like_any_other() -> None:
    """IP lengths that cannot be, and frames that end anywhere in their headers."""
    opening, *whole = small_mix()
    frames = [frame[:size] for frame in whole[:1] + whole[-2:] for size in range(1, 60)]
    tagged = packets.ethernet(whole[0][14:], vlan=7)
    frames += [tagged[:size] for size in range(12, 44)]
    for length in (0, 1, 19, 20, 39, 0xFFFF):
        frames += [frame[:16] + length.to_bytes(2, "big") + frame[18:] for frame in (whole[0], whole[-1])]
    totals = run(ModelNic(), [opening, *frames, opening, whole[0]])
    assert totals.frames == len(frames) + 3
    assert totals.compressed_frames == 1
    assert totals.checksums[referee.WIRE] == 1


def test_the_wrong_verilog_is_named(tmp_path: Path) -> None:
    other = tmp_path / "other.v"
    other.write_text("// inceptionn_nic\nmodule inceptionn_compressor(); endmodule\n")
    with pytest.raises(ValueError, match=r"^no module inceptionn_nic in '.*other\.v'; it is"):
        nic_verilog(other, tmp_path, lambda text: None)


@pytest.mark.parametrize(("codec", "ratio"), [("paper", 4.5), ("planes", 7.7)])
def test_whole_capture_on_the_model(codec: str, ratio: float) -> None:
    frames = read_pcap(CAPTURE)
    totals = run(ModelNic(codec=codec), frames)
    assert totals.payload_ratio > ratio
    assert totals.frames == len(frames)
    assert totals.transmit["COMPRESSED"] == totals.receive["RESTORED"] > 200
    assert {"UNTAGGED", "SYN", "SHORT", "NOT_IPV4"} <= totals.transmit.keys()
    assert "MALFORMED" not in totals.receive
    assert (totals.flows, totals.assumed_flows, totals.unknown_flows) == (8, 0, 0)


@pytest.mark.parametrize(
    ("codec", "k", "mode"),
    [("paper", 6, "bounded"), ("paper", 6, "literal"), ("paper", 14, "bounded"), ("paper", 10, "literal"),
     ("planes", 1, None), ("planes", 14, None)],
)  # fmt: skip
def test_settings_reach_the_nic(codec: str, k: int, mode: str | None) -> None:
    totals = run(ModelNic(codec=codec), small_mix(), k, mode)
    assert totals.bound == 2.0**-k
    assert totals.largest_error < totals.bound * (8 if mode == "literal" else 1)


def spoil_byte(outputs: list[Output], number: int, at: int) -> None:
    data = bytearray(outputs[number].data)
    data[at] ^= 1
    outputs[number] = outputs[number]._replace(data=bytes(data))


@pytest.mark.parametrize(
    ("spoil", "text"),
    [
        (
            lambda w, h: spoil_byte(w, 2, 100),
            "frame 2 on the wire .COMPRESSED.: byte 100 is 0x.. instead of 0x..",
        ),
        (lambda w, h: spoil_byte(h, 7, 3), "frame 7 at the host .UNTAGGED.: byte 3 is"),
        (
            lambda w, h: h.__setitem__(3, h[3]._replace(bad=True)),
            "frame 3 at the host .RESTORED.: marked bad",
        ),
        (
            lambda w, h: w.__setitem__(1, w[1]._replace(data=w[1].data[:-1])),
            "frame 1 on the wire .COMPRESSED.: [0-9]+ bytes instead of [0-9]+",
        ),
    ],
)
def test_a_wrong_frame_is_named(spoil: Spoil, text: str) -> None:
    refused(replay.ReplayError, text, run, ModelNic(spoil), small_mix())


@pytest.mark.parametrize(
    ("codec", "name"),
    [
        *(("paper", name) for name in ("TX_COMPRESSED", "RX_NO_SHIM", "TX_BYTES_OUT", "RX_FRAMES_IN")),
        ("paper", "TX_LANES_ZERO"),
        ("planes", "TX_LANES"),
        ("planes", "TX_GROUPS_CODE_15"),
    ],
)
def test_a_wrong_counter_is_named(codec: str, name: str) -> None:
    nic = ModelNic(codec=codec)
    nic.counters[nic.codec.registers[name].offset] = 1 << 32
    with pytest.raises(replay.ReplayError, match=f"register {name} reads [0-9]+, but [0-9]+ were counted"):
        run(nic, small_mix())


def test_a_device_of_another_kind_is_refused() -> None:
    nic = ModelNic()
    nic.read = lambda address: 0xDEAD  # type: ignore[method-assign]
    refused(replay.ReplayError, "register ID reads 0xdead", run, nic, small_mix())


def test_a_nic_of_the_other_codec_is_refused() -> None:
    with pytest.raises(replay.ReplayError, match="the NIC has the codec planes, not paper"):
        replay.run(ModelNic(codec="planes"), small_mix(), EngineConfig(), Progress(disable=True))  # type: ignore[arg-type]
    nic = ModelNic()
    version = nic.codec.registers["VERSION"].reset & ~0xFF | 9
    nic.read = lambda address: 0x494E4350 if address == 0 else version  # type: ignore[method-assign]
    refused(replay.ReplayError, r"VERSION reads wire format 9, not one of \[1, 2\]", run, nic, small_mix())


def test_ratios_of_both_codecs() -> None:
    """As the engines send the same frames; the capture's are above what was asked."""
    found = {(each.codec, each.k): each for each in ratios(small_mix(), (6, 10))}
    assert list(found) == [("paper", 6), ("paper", 10), ("planes", 6), ("planes", 10)]
    for codec in NIC_CODECS:
        totals = run(ModelNic(codec=codec), small_mix())
        raw = 2 * 1460
        each = found[codec, 10]
        assert (each.payload_bytes, each.wire_bytes) == (totals.payload_bytes + raw, totals.block_bytes + raw)
    (paper, planes) = ratios(read_pcap(CAPTURE), (10,))
    assert (paper.ratio > 4.5, planes.ratio > 7.7) == (True, True)


def test_payloads_of_every_code_and_bytes_of_planes() -> None:
    config = EngineConfig(parameters=wire.planes_parameters(10))
    for kind, values in PAYLOADS["planes"].items():
        for frame in segments(values, 1500, 1):
            counts = alone(frame, config).counts
            if kind.startswith("code"):
                assert max(range(16), key=counts.__getitem__) == int(kind.split()[1].rstrip(",")), kind
    assert [table_bytes("paper", n) for n in (4, 32, 36, 1460)] == [2, 2, 4, 92]
    assert [table_bytes("planes", n) for n in (4, 32, 128, 132, 1460)] == [2, 2, 2, 4, 24]


@pytest.mark.parametrize("codec", NIC_CODECS)
@pytest.mark.parametrize("mtu", [1500, 9000])
def test_little_is_saved(codec: str, mtu: int) -> None:
    """The kind of this name is compressed, and by at most a group of 8 lanes."""
    config = EngineConfig(parameters=NIC_CODECS[codec].spec.parameters(10))
    for options in (b"", TIMESTAMPS):
        (frame,) = segments(PAYLOADS[codec]["less than a beat saved"], mtu, 1, options=options)
        result = alone(frame, config)
        assert result.verdict is wire.Verdict.COMPRESSED
        assert 0 < len(frame) - len(result.frame) <= wire.BURST_BYTES


def test_referee() -> None:
    """Right checksums are right, wrong ones are seen, at every place."""
    good = packets.tcp(bytes(range(100)), padding=b"\xff" * 7)
    assert referee.valid(good) == (True, True)
    assert referee.valid(packets.udp(b"x" * 33, vlan=5)) == (True, True)
    assert referee.valid(bytes(60)) == (None, None)
    bad = bytearray(good)
    bad[60] ^= 1
    assert referee.valid(bytes(bad)) == (True, False)
    with pytest.raises(referee.ChecksumError, match="TCP or UDP checksum wrong at the host"):
        referee.check(good, good, bytes(bad), False)
    refused(referee.ChecksumError, "would accept the compressed frame", referee.check, good, good, good, True)
    bad = bytearray(good)
    bad[24] ^= 1
    with pytest.raises(referee.ChecksumError, match="IP header checksum wrong on the wire"):
        referee.check(good, bytes(bad), good, False)
    with pytest.raises(referee.ChecksumError, match="IP header checksum wrong at the host"):
        referee.check(good, good, bytes(bad), False)
    assert referee.check(bytes(bad), bytes(bad), bytes(bad), False) == [referee.HOST]


def test_tables(capsys: pytest.CaptureFixture[str]) -> None:
    console = Console(width=100, force_terminal=False)
    print_tables(console, CAPTURE, run(ModelNic(), small_mix()), None, ratios(small_mix(), (10,)))
    text = capsys.readouterr().out
    for expected in (
        "digits.pcap through both engines",
        "11, 5",
        "largest error, bound",
        "expanded",
        "no shim",
        "lanes with tag 01 (8 bits)",
        "planes / paper",
    ):
        assert expected in text


def test_captures_are_read_as_scapy_reads_them() -> None:
    assert read_pcap(CAPTURE) == [bytes(frame) for frame in rdpcap(str(CAPTURE))]


def pcapng(order: str, *blocks: tuple[int, bytes]) -> bytes:
    """Return a section with an Ethernet interface, in either order of bytes, then these blocks."""
    head = (0x0A0D0D0A, struct.pack(f"{order}IHHq", 0x1A2B3C4D, 1, 0, -1))
    interface = (1, struct.pack(f"{order}HHI", 1, 0, 0))
    data = b""
    for kind, body in (head, interface, *blocks):
        body += bytes(-len(body) % 4)
        length = len(body) + 12
        data += struct.pack(f"{order}II", kind, length) + body + struct.pack(f"{order}I", length)
    return data


@pytest.mark.parametrize("order", ["<", ">"])
def test_pcapng_is_read(order: str, tmp_path: Path) -> None:
    path = tmp_path / "x.pcapng"
    frame = bytes(range(61))
    enhanced = struct.pack(f"{order}5I", 0, 0, 0, 61, 61) + frame
    simple = struct.pack(f"{order}I", 61) + frame
    section = pcapng(order, (6, enhanced), (5, bytes(8)), (3, simple))
    path.write_bytes(section + pcapng("<"))
    assert read_pcap(path) == [frame, frame]
    cut = struct.pack(f"{order}5I", 0, 0, 0, 60, 61) + frame
    other = (1, struct.pack(f"{order}HHI", 101, 0, 0))
    for data, text in (
        (section[:-20], "ends inside a block after frame 1"),
        (pcapng(order), "holds no frames"),
        (pcapng(order, (6, cut)), "frame 0 was not captured whole"),
        (pcapng(order, (6, enhanced[:40])), "ends inside frame 0"),
        (pcapng(order, (6, b"")), "block after frame 0 is damaged"),
        (pcapng(order, other, (6, struct.pack(f"{order}I", 1) + enhanced[4:])), "not link type 101"),
    ):
        path.write_bytes(data)
        refused(ValueError, text, read_pcap, path)


def test_pcapng_of_scapy_is_read(tmp_path: Path) -> None:
    frames = rdpcap(str(CAPTURE))[:40]
    wrpcapng(str(tmp_path / "x.pcapng"), frames)
    assert read_pcap(tmp_path / "x.pcapng") == [bytes(frame) for frame in frames]


def test_rows_of_frames() -> None:
    frames = small_mix()
    nic = ModelNic()
    config = EngineConfig(parameters=nic.codec.spec.parameters(10, None))
    done = replay.run(nic, frames, config, Progress(disable=True))  # type: ignore[arg-type]
    rows = done.frames(frames)
    assert len(rows) == len(frames) == len(done.wire)
    assert rows[1] == {
        "frame": 1, "host_bytes": len(frames[1]), "wire_bytes": len(done.wire[1]),
        "transmit": "COMPRESSED", "receive": "RESTORED",
    }  # fmt: skip
    assert len(done.wire[1]) < len(frames[1])
    assert (rows[-1]["transmit"], rows[-1]["receive"]) == ("SHORT", "NO_SHIM")
    assert sum(row["transmit"] == "COMPRESSED" for row in rows) == done.totals.compressed_frames


def test_captures_that_cannot_be_used(tmp_path: Path) -> None:
    path = tmp_path / "x.pcap"
    whole = CAPTURE.read_bytes()[:200]

    def spoilt(data: bytes, text: str) -> None:
        path.write_bytes(data)
        refused(ValueError, text, read_pcap, path)

    spoilt(b"no capture at all, only text", "must be a pcap or pcapng file: '.*x.pcap'")
    spoilt(bytes.fromhex("0a0d0d0a") + bytes(40), "ends inside a block after frame 0")
    spoilt(whole[:24], "holds no frames")
    spoilt(whole[:20] + b"\x65" + whole[21:24], "must hold Ethernet frames, not link type 101")
    spoilt(whole[:30], "ends inside frame 0")
    spoilt(whole[:45], "ends inside frame 0")
    spoilt(whole[:36] + b"\xff" + whole[37:], "frame 0 was not captured whole")


def cut_capture(path: Path) -> list[bytes]:
    """Write a capture with 40 bytes of frame 1, which ends inside frame 4; return the whole frames."""
    frames = [bytes(frame) for frame in rdpcap(str(CAPTURE))[:5]]
    data = CAPTURE.read_bytes()[:24]
    for number, frame in enumerate(frames):
        kept = frame[:40] if number == 1 else frame
        data += struct.pack("<IIII", 0, 0, len(kept), len(frame)) + kept
    path.write_bytes(data[:-7])
    return frames


def test_broken_frames_are_left_out_and_counted(tmp_path: Path) -> None:
    frames = cut_capture(tmp_path / "x.pcap")
    with pytest.raises(ValueError, match=r"^frame 1 was not captured whole: .* \(replay --skip-broken"):
        read_pcap(tmp_path / "x.pcap")
    capture = read_capture(tmp_path / "x.pcap", skip_broken=True)
    assert (capture.frames, capture.broken) == ([frames[0], *frames[2:4]], 2)
    enhanced = [struct.pack("<5I", 0, 0, 0, 60, original) + bytes(range(60)) for original in (61, 60)]
    (tmp_path / "x.pcapng").write_bytes(pcapng("<", *((6, each) for each in enhanced), (6, b""))[:-1])
    capture = read_capture(tmp_path / "x.pcapng", skip_broken=True)
    assert (capture.frames, capture.broken) == ([bytes(range(60))], 2)
    (tmp_path / "x.pcapng").write_bytes(pcapng("<", (6, enhanced[0])))
    with pytest.raises(ValueError, match="capture holds no whole frames"):
        read_capture(tmp_path / "x.pcapng", skip_broken=True)


def zstd_of(data: bytes) -> bytes:
    for name in ("compression.zstd", "zstandard"):
        with suppress(ModuleNotFoundError):
            compressed: bytes = import_module(name).compress(data)
            return compressed
    pytest.skip("no library for zstd here")


@pytest.mark.parametrize("compress", [gzip.compress, zstd_of])
def test_compressed_captures_are_read(compress: Callable[[bytes], bytes], tmp_path: Path) -> None:
    """In one part or several, as loggers append them; cut ones end inside a frame, whatever is missing."""
    frames, data = read_pcap(CAPTURE), CAPTURE.read_bytes()
    path = tmp_path / "x.pcap.packed"
    for packed in (compress(data), compress(data[:100_000]) + compress(data[100_000:])):
        path.write_bytes(packed)
        assert read_pcap(path) == frames
    path.write_bytes(compress(data)[:-2000])
    refused(ValueError, "ends inside frame", read_pcap, path)
    capture = read_capture(path, skip_broken=True)
    assert 0 < len(capture.frames) < len(frames)
    assert (capture.frames, capture.broken) == (frames[: len(capture.frames)], 1)
    path.write_bytes(packed[:5000] + bytes(500) + packed[5500:])
    refused(ValueError, "damaged|must be a pcap|ends inside|not captured", read_pcap, path)


def test_a_compressed_capture_that_lacks_its_end_alone(tmp_path: Path) -> None:
    (tmp_path / "x.pcap.gz").write_bytes(gzip.compress(CAPTURE.read_bytes())[:-4])
    refused(ValueError, r"ends inside frame \d+", read_pcap, tmp_path / "x.pcap.gz")
    assert read_capture(tmp_path / "x.pcap.gz", skip_broken=True).frames == read_pcap(CAPTURE)


def test_zstd_without_its_library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("compression", "zstandard"):
        monkeypatch.setitem(sys.modules, name, None)
    (tmp_path / "x.zst").write_bytes(bytes.fromhex("28b52ffd") + bytes(20))
    refused(ModuleNotFoundError, "needs Python 3.14 or pip install zstandard", read_pcap, tmp_path / "x.zst")

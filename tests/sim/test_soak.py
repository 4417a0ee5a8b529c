# SPDX-License-Identifier: BSD-2-Clause
"""100,000 random frames through each engine of the real NIC: all as the golden model says, and no hang.

With the planes codec they are 20,000, as most of what they meet is common to both; 100,000 with EXHAUSTIVE=1.
"""

import json
import os
import random
import sys
from collections import Counter
from pathlib import Path

import pytest
from programs import said_by

from inceptionn.hdl.control.registers import VERDICTS, Direction
from inceptionn.sim.golden import EngineConfig, FlowTable, packets, receive, transmit
from inceptionn.sim.soak_frames import CHUNK, CONFIGS, PAUSES, Difference, check, soak
from inceptionn.sim.traffic import host_frames, wire_frames
from inceptionn.sim.verilated import VerilatedNic

FRAMES = {"paper": 100_000, "planes": 100_000 if os.environ.get("EXHAUSTIVE") else 20_000}


@pytest.mark.slow
@pytest.mark.parametrize("direction", ["tx", "rx"])
def test_soak(nic: VerilatedNic, direction: Direction, codec: str) -> None:
    verdicts: Counter[str] = Counter()
    for number in range(FRAMES[codec] // CHUNK):
        verdicts += soak(nic, direction, codec, number)
    assert {verdict.name for verdict in VERDICTS[direction]} <= verdicts.keys()
    assert verdicts["COMPRESSED" if direction == "tx" else "RESTORED"] > FRAMES[codec] // 20


@pytest.mark.slow
def test_the_command(tmp_path: Path) -> None:
    arguments = ["--codec", "planes", "--direction", "tx", "--json", str(tmp_path / "frames.json")]
    for frames in (CHUNK, 2 * CHUNK):  # the second goes on
        said = said_by(sys.executable, "-m", "inceptionn.sim.soak_frames", "--frames", frames, *arguments)
        assert said.endswith("no difference, no hang\n")
    (row,) = json.loads((tmp_path / "frames.json").read_text())
    assert row["frames"] == sum(row["verdicts"].values()) == 2 * CHUNK


def test_a_difference_is_found(nic: VerilatedNic) -> None:
    frame, config = packets.tcp(bytes(352)), EngineConfig(enable=False)
    (came,) = nic.receive([frame])
    with pytest.raises(Difference, match="frame 0, DISABLED, sent good"):
        check([(frame, False)], [came], [receive(frame[:-1] + b"1", config)])


def test_both_engines_at_a_time(nic: VerilatedNic, codec: str) -> None:
    """The directions do not touch each other."""
    source, config, flows = random.Random(3), CONFIGS[codec][0], FlowTable()
    for idle, back_pressure in PAUSES:
        out, back = host_frames(source, 1000), wire_frames(source, 1000, config.parameters)
        wire_side, host_side = nic.exchange(out, back, idle=idle, back_pressure=back_pressure)
        check(out, wire_side, [transmit(frame, config, flows, bad) for frame, bad in out])
        check(back, host_side, [receive(frame, config, bad) for frame, bad in back])


def test_long_frames(nic: VerilatedNic, codec: str) -> None:
    """Jumbo frames and frames beyond what the engine holds, mixed with short ones."""
    source, config, flows = random.Random(4), CONFIGS[codec][0], FlowTable()
    for idle, back_pressure in PAUSES:
        frames = host_frames(source, 150, long_share=0.5)
        check(
            frames,
            nic.transmit(frames, idle=idle, back_pressure=back_pressure),
            [transmit(frame, config, flows, bad) for frame, bad in frames],
        )
        frames = wire_frames(source, 150, config.parameters, long_share=0.5)
        check(
            frames,
            nic.receive(frames, idle=idle, back_pressure=back_pressure),
            [receive(frame, config, bad) for frame, bad in frames],
        )


@pytest.mark.parametrize("options", [0, 12, 40])
def test_frames_cut_short(nic: VerilatedNic, codec: str, options: int) -> None:
    """An eligible frame cut at every place in its payload, in front of frames of one beat and of many."""
    whole = packets.tcp(bytes(352), tcp_options=bytes(options))
    good = packets.tcp(bytes(352))
    frames: list[tuple[bytes, bool]] = [(packets.OPENING, False)]
    for end in range(54 + options, len(whole)):
        for behind in ([], [bytes(13)], [whole[:end]], [bytes(33), good]):
            frames += [(frame, False) for frame in (whole[:end], *behind, good)]
    flows = FlowTable()
    config = CONFIGS[codec][0]
    check(frames, nic.transmit(frames), [transmit(frame, config, flows) for frame, _ in frames])


def test_a_frame_of_the_longest_kind_passes(nic: VerilatedNic) -> None:
    """64 KiB in one frame: nothing holds that, and nothing needs to."""
    frames: list[tuple[bytes, bool]] = [(random.Random(5).randbytes(65_536), False), (bytes(60), False)]
    assert [output.data for output in nic.transmit(frames)] == [frame for frame, _ in frames]
    assert [output.data for output in nic.receive(frames)] == [frame for frame, _ in frames]


def test_performance(nic: VerilatedNic) -> None:
    """Every figure of the specification's table, from cycles; see inceptionn.sim.replay.performance."""
    from inceptionn.sim.replay.performance import measure

    assert measure(nic).shortfalls() == []


def test_replay_command(nic_verilog: Path, codec: str, tmp_path: Path) -> None:
    """The main job, as ``make nic`` calls it; the capture is compressed, and has been cut."""
    import gzip
    import json

    from inceptionn.cli import main

    report = tmp_path / "replay.json"
    whole = (Path(__file__).parents[2] / "examples" / "captures" / "digits.pcap").read_bytes()
    capture = tmp_path / "digits.pcap.gz"
    capture.write_bytes(gzip.compress(whole + whole[24:60]))
    options = ["--verilog", str(nic_verilog), "--json", str(report), "--no-measure", "--skip-broken"]
    assert main(["replay", str(capture), *options]) == 0
    facts = json.loads(report.read_text())
    assert facts["replay"]["transmit"]["COMPRESSED"] == facts["replay"]["receive"]["RESTORED"] > 400
    assert facts["replay"]["largest_error"] < facts["replay"]["bound"]
    assert facts["performance"] is None
    assert facts["broken_frames"] == 1
    assert facts["environment"]["seed"] is None
    assert facts["codec"] == codec
    ratios = {(each["codec"], each["k"]): each["ratio"] for each in facts["ratios"]}
    assert (ratios["paper", 10] > 4.5, ratios["planes", 10] > 7.7) == (True, True)
    totals = facts["replay"]
    assert totals["payload_bytes"] / totals["block_bytes"] > {"paper": 4.5, "planes": 7.7}[codec]

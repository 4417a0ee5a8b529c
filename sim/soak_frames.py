# SPDX-License-Identifier: BSD-2-Clause
"""Sends random and hostile frames through both engines of the NIC: ``python -m inceptionn.sim.soak_frames``.

Frames go through the verilated Verilog in chunks. Each chunk begins with a reset and has four settings: the
reset values, a known case, and two drawn at random, valid or not, written by register between frames. What
leaves is compared with the golden model, byte for byte, as are all counters at the chunk's end. A frame that
does not leave is an error of the simulation. A chunk depends on the seed and its number only, so a command
that was ended goes on where it was, and a difference is found again by its chunk alone. Engines of one lane
get the beginnings of frames that they cannot hold; their bench shows that they drop the whole ones.
"""

import argparse
import json
import random
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from inceptionn import wire
from inceptionn.commands.console import Console, new_progress
from inceptionn.hdl.control.registers import REGISTERS, VERDICTS, Direction, parameters_word
from inceptionn.hdl.serial.frame_store import FrameStore
from inceptionn.hdl.yosys import YosysMissing
from inceptionn.system import atomic_file
from inceptionn.wire import GROUP_LANES, Parameters, PlanesParameters

from .golden import EngineConfig, FlowTable, Result, receive, transmit
from .nic_codec import NIC_CODECS
from .replay.registers import read_counter
from .traffic import host_frames, near_ambiguous, wire_frames
from .verilated import Output, Pause, VerilatedNic

CHUNK, PARTS = 4_000, 4
NEAR_AMBIGUOUS = 50
"""One in so many frames gets a checksum around the one with which its wire form is ambiguous."""

PAUSES = (
    (Pause(), Pause()),
    (Pause(0.4), Pause()),
    (Pause(), Pause(0.4)),
    (Pause(0.3), Pause(0.3)),
    (Pause(0.02, 60), Pause(0.02, 60)),
    (Pause(), Pause(0.002, 1500)),
)
PLANES = EngineConfig(parameters=PlanesParameters(117))
CONFIGS = {
    "paper": (
        EngineConfig(),
        EngineConfig(parameters=wire.parameters(6, "literal")),
        EngineConfig(parameters=wire.parameters(14, "bounded"), min_payload=4),
        EngineConfig(tos=0x68, tos_mask=0x7C, max_payload=400, learn_phases=True),
        EngineConfig(parameters=wire.parameters(1, "bounded"), tos=0, tos_mask=0),
        EngineConfig(parameters=Parameters(90, 127, 140), min_payload=0),
        EngineConfig(parameters=Parameters(1, 1, 255)),
        EngineConfig(enable=False),
        EngineConfig(parameters=Parameters(0, 120, 120)),
    ),
    "planes": (
        PLANES,
        replace(PLANES, parameters=PlanesParameters(113), min_payload=4),
        replace(PLANES, tos=0x68, tos_mask=0x7C, max_payload=400, learn_phases=True),
        replace(PLANES, parameters=PlanesParameters(126), tos=0, tos_mask=0),
        replace(PLANES, parameters=PlanesParameters(112)),
        replace(PLANES, parameters=PlanesParameters(121), min_payload=0),
        replace(PLANES, enable=False),
        replace(PLANES, parameters=PlanesParameters(127)),
    ),
}
"""Settings that all come in turn; the reset values come first."""


class Difference(AssertionError):
    """A frame or a counter that is not as the golden model says."""


def settings(source: random.Random, codec: str) -> EngineConfig:
    """Draw settings, most of them valid."""
    base, spec = CONFIGS[codec][0], wire.CODECS[codec]
    if not spec.modes:
        parameters = spec.type(source.randint(110, 129))
    elif source.random() < 0.8:
        parameters = spec.parameters(source.randint(1, 14), source.choice(spec.modes))
    else:
        parameters = spec.from_numbers([source.randrange(256) for _ in range(3)])
    return replace(
        base,
        parameters=parameters,
        tos=source.choice((base.tos, base.tos, 0x68, 0x2A, source.randrange(256))),
        tos_mask=source.choice((base.tos_mask, base.tos_mask, 0, 0xFF, source.randrange(256))),
        min_payload=source.choice((base.min_payload, 0, 4, 255, 256, 260, source.randrange(2048))),
        enable=source.random() > 0.1,
        learn_phases=source.random() < 0.3,
        max_payload=source.choice((base.max_payload, base.max_payload, 1460, 400, source.randrange(9217))),
    )


def configure(nic: VerilatedNic, config: EngineConfig) -> None:
    """Write an `EngineConfig` into the registers."""
    settings: dict[str, dict[str, int]] = {
        "CONTROL": {
            "TX_ENABLE": config.enable,
            "RX_ENABLE": config.enable,
            "LEARN_PHASES": config.learn_phases,
        },
        "TOS": {"VALUE": config.tos, "MASK": config.tos_mask},
        "PAYLOAD": {"MIN": config.min_payload, "MAX": config.max_payload},
    }
    for name, fields in settings.items():
        register = REGISTERS[name]
        nic.write(register.offset, sum(register[field].put(int(value)) for field, value in fields.items()))
    nic.write(REGISTERS["PARAMETERS"].offset, parameters_word(config.parameters))


def check(frames: Sequence[tuple[bytes, bool]], came: Sequence[Output], expected: Sequence[Result]) -> None:
    """Raise `Difference` for the first frame that is not as expected."""
    for number, ((sent, bad), output, result) in enumerate(zip(frames, came, expected, strict=True)):
        limit = result.unspecified_from
        agree = output.data[:limit] == result.frame[:limit] and len(output.data) == len(result.frame)
        if not agree or output.bad != result.bad:
            raise Difference(
                f"frame {number}, {result.verdict.name}, sent {'bad' if bad else 'good'}:\n"
                f"sent     {sent.hex()}\ncame     {output.data.hex()} {output.bad}\n"
                f"expected {result.frame.hex()} {result.bad}"
            )


def soak(nic: VerilatedNic, direction: Direction, codec: str, number: int, seed: int = 1) -> Counter[str]:
    """Send chunk ``number`` through one engine; return the verdicts, or raise `Difference`."""
    source, flows = random.Random(f"{seed} {codec} {direction} {number}"), FlowTable()
    expected: Counter[str] = Counter()
    known, prefix = NIC_CODECS[codec], direction.upper()
    verdicts: Counter[str] = Counter()
    longest = FrameStore.LONGEST if nic.lanes == 1 else None
    cases = CONFIGS[codec][0], CONFIGS[codec][-1 - number % len(CONFIGS[codec])]
    nic.reset()
    for part in range(PARTS):
        config = cases[part] if part < len(cases) else settings(source, codec)
        idle, back_pressure = PAUSES[(number * PARTS + part) % len(PAUSES)]
        configure(nic, config)
        long_share = source.choice((0.0, 0.01, 0.02))
        if direction == "tx":
            frames = host_frames(source, CHUNK // PARTS, long_share)
            frames = [(frame[:longest], bad) for frame, bad in frames]
            for at in source.sample(range(len(frames)), len(frames) // NEAR_AMBIGUOUS):
                frame, bad = frames[at]
                frames[at] = near_ambiguous(frame, config, source.choice((-1, 0, 0, 1))), bad
            came = nic.transmit(frames, idle=idle, back_pressure=back_pressure)
            results = [transmit(frame, config, flows, bad) for frame, bad in frames]
        else:
            mode = source.choice(known.spec.modes) if known.spec.modes else None
            sender = known.spec.parameters(source.randint(1, 14), mode)
            frames = wire_frames(source, CHUNK // PARTS, sender, long_share)
            frames = [(frame[:longest], bad) for frame, bad in frames]
            came = nic.receive(frames, idle=idle, back_pressure=back_pressure)
            results = [receive(frame, config, bad) for frame, bad in frames]
        check(frames, came, results)
        verdicts.update(result.verdict.name for result in results)
        expected[f"{prefix}_BYTES_IN"] += sum(len(frame) for frame, _ in frames)
        expected[f"{prefix}_BYTES_OUT"] += sum(len(output.data) for output in came)
        if direction == "tx":
            counted = [result for result in results if result.counts]
            totals = np.sum([result.counts for result in counted], axis=0) if counted else []
            expected.update(dict(zip(known.counters, map(int, totals), strict=False)))
            if not known.spec.counts_lanes:
                expected["TX_LANES"] += sum(result.lanes for result in counted)
    for name in ("FRAMES_IN", "FRAMES_OUT"):
        expected[f"{prefix}_{name}"] = CHUNK
    expected.update({f"{prefix}_{verdict.name}": verdicts[verdict.name] for verdict in VERDICTS[direction]})
    nic.drain()
    for name, amount in expected.items():
        found = read_counter(nic, name, known)
        if found != amount:
            raise Difference(f"register {name} reads {found}, not {amount}")
    return verdicts


# The command


def commit() -> str:
    """Return the last commit that changed the RTL, with "+" if it has changed since."""
    git = ["git", "-C", str(Path(__file__).parent)]
    log = [*git, "log", "-1", "--format=%h", "--abbrev=8", "--", "../hdl"]
    name = subprocess.run(log, capture_output=True, text=True, check=False).stdout.strip()
    changed = subprocess.run(
        [*git, "diff", "--quiet", "HEAD", "--", "../hdl"], capture_output=True, check=False
    )
    return name + ("+" if changed.returncode == 1 else "")


def rows_of(path: Path) -> dict[str, dict[str, Any]]:
    """Return what a file holds, by `name_of`."""
    rows = json.loads(path.read_text()) if path.exists() else []
    return {name_of(row["codec"], row["direction"], row.get("lanes", GROUP_LANES)): row for row in rows}


def name_of(codec: str, direction: Direction, lanes: int) -> str:
    """Name a row."""
    return f"{codec} {direction}" + (f", lanes {lanes}" if lanes != GROUP_LANES else "")


def keep(row: dict[str, Any], path: Path) -> None:
    """Put a row into a file, in place of the older one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    rows = rows_of(path) | {name_of(row["codec"], row["direction"], row["lanes"]): row}
    atomic_file.write(path, json.dumps([rows[name] for name in sorted(rows)], indent=1) + "\n")


def run(codec: str, direction: Direction, lanes: int, frames: int, seed: int, path: Path) -> dict[str, Any]:
    """Go on from what the file says, chunk by chunk; the row that it then has."""
    from .models.cache import keep_source
    from .nic_verilog import emit_nic

    verilog = keep_source(emit_nic(codec, lanes), "inceptionn_nic")
    name = name_of(codec, direction, lanes)
    row = rows_of(path).get(name, {})
    if row.get("verilog") != verilog.parent.name or row.get("seed") != seed:
        if row.get("frames", 0) > frames:
            raise SystemExit(
                f"{path} has {row['frames']} frames of {name}, of seed {row['seed']} and commit "
                f"{row['commit']}; move it away, or ask for --frames {row['frames']}"
            )
        row = {"codec": codec, "direction": direction, "lanes": lanes, "seed": seed, "frames": 0}
        row |= {"cpu_s": 0.0, "commit": commit(), "verdicts": {}, "verilog": verilog.parent.name}
    with VerilatedNic(verilog, gated=True) as nic, new_progress(Console(stderr=True)) as progress:
        task = progress.add_task(name, total=frames, completed=row["frames"])
        while row["frames"] < frames:
            number, begun = row["frames"] // CHUNK, time.process_time()
            try:
                verdicts = soak(nic, direction, codec, number, seed)
            except (Difference, RuntimeError) as error:
                raise SystemExit(f"{name}, seed {seed}, chunk {number}: {error}") from error
            row["frames"] += CHUNK
            row["cpu_s"] = round(row["cpu_s"] + time.process_time() - begun, 1)
            row["verdicts"] = dict(Counter(row["verdicts"]) + verdicts)
            keep(row, path)
            progress.update(task, completed=row["frames"])
    return row


def main() -> int:
    """Run what the command line asks for; 0 if all answers are as the golden model's."""
    style = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=style)
    parser.add_argument("--frames", type=int, default=1_000_000, help="per direction and codec (1,000,000)")
    parser.add_argument("--seed", type=int, default=1, help="of frames, settings and pauses (1)")
    parser.add_argument("--codec", choices=[*CONFIGS], help="one codec alone")
    parser.add_argument("--direction", choices=["tx", "rx"], help="one direction alone")
    lanes = [1, GROUP_LANES, 2 * GROUP_LANES]
    parser.add_argument("--lanes", type=int, choices=lanes, default=GROUP_LANES, help="of the engines (8)")
    parser.add_argument(
        "--json",
        type=Path,
        default=Path("build/soak-frames.json"),
        help="what was done (build/soak-frames.json)",
    )
    arguments = parser.parse_args()
    if arguments.frames < 1:
        parser.error(f"--frames must be at least 1, not {arguments.frames}")
    print(f"{'codec':10}{'direction':10}{'frames':>10}{'CPU s':>10}  verdicts")
    for codec in [arguments.codec] if arguments.codec else CONFIGS:
        for direction in [arguments.direction] if arguments.direction else ("tx", "rx"):
            row = run(codec, direction, arguments.lanes, arguments.frames, arguments.seed, arguments.json)
            verdicts = ", ".join(f"{name} {count}" for name, count in sorted(row["verdicts"].items()))
            print(f"{codec:10}{direction:10}{row['frames']:10}{row['cpu_s']:10}  {verdicts}", flush=True)
    print("no difference, no hang")
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except YosysMissing as missing:
        sys.exit(str(missing))
    except KeyboardInterrupt:
        sys.exit("interrupted; the same command goes on from here")

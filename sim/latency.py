# SPDX-License-Identifier: BSD-2-Clause
"""``inceptionn latency``: how long a NIC's engines hold a frame, by its kind, length and direction."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Annotated

import typer

from inceptionn.commands.codec_option import EngineCodec
from inceptionn.commands.console import Table
from inceptionn.commands.study import Study, measurement
from inceptionn.wire import DEFAULT_CODEC, DEFAULT_TOS, GROUP_LANES

from .golden import packets
from .replay.performance import beats
from .scaling import ClockOption, EnginesOption, Size, measured, run_frames, size_name, sizes_of
from .verilated import Output, VerilatedNic

FRAMES = (60, 258, 1514, 9014)
"""Bytes without check sequence."""
KINDS = ("untagged", "engine off", "tagged")
"""Frames that a header check rules out: by their ToS byte, or as ``TX_ENABLE`` and ``RX_ENABLE`` are 0; and
frames with gradients. A tagged frame of 60 bytes is too short to be compressed."""


@dataclass(frozen=True)
class Held:
    """How long an idle engine holds a frame that comes without a gap."""

    engines: int
    lanes: int
    """fp32 lanes of each engine."""
    direction: str
    """``transmit`` or ``receive``."""
    kind: str
    """One of `KINDS`."""
    frame_bytes: int
    """On the host's side."""
    cycles: int
    """First beat in to first beat out."""
    gaps: int
    """Cycles between the first and the last beat out in which none left."""

    @property
    def size(self) -> Size:
        """Engines and lanes."""
        return self.engines, self.lanes


def measure(nic: VerilatedNic) -> Iterator[Held]:
    """Measure a NIC in its reset configuration: one frame at a time, while the engine is idle."""
    nic.transmit([packets.OPENING])
    control = nic.codec.registers["CONTROL"]
    for kind in KINDS:
        off = control.reset & ~(control["TX_ENABLE"].put(1) | control["RX_ENABLE"].put(1))
        nic.write(control.offset, off if kind == "engine off" else control.reset)
        for size in FRAMES:
            frame = run_frames(size, 0 if kind == "untagged" else DEFAULT_TOS, 1)[0]
            (sent,) = nic.transmit([frame])
            (came,) = nic.receive([sent.data])
            for direction, output in (("transmit", sent), ("receive", came)):
                yield _held(nic, direction, kind, size, output)
    nic.write(control.offset, control.reset)


def _held(nic: VerilatedNic, direction: str, kind: str, size: int, output: Output) -> Held:
    timing = output.timing
    gaps = timing.last_out - timing.first_out + 1 - beats(len(output.data), nic.beat_bytes)
    return Held(nic.engines, nic.lanes, direction, kind, size, timing.first_out - timing.first_in, gaps)


def latency_table(found: Sequence[Held], mhz: float) -> Table:
    """Tabulate the cycles, and the time of the longest frames at a clock."""
    table = Table(
        "Cycles from a frame's first beat in to its first beat out (time at this clock)",
        "engines", "direction", "frames", *(f"{size} bytes" for size in FRAMES), left=3,
    )  # fmt: skip
    rows: dict[tuple[str, str, str], list[str]] = {}
    for held in found:
        row = rows.setdefault((size_name(held.size), held.direction, held.kind), [])
        row.append(f"{held.cycles} ({held.cycles / mhz:.2f} us)")
    for heads, cells in rows.items():
        table.add_row(*heads, *cells)
    return table


@measurement()
def latency(
    study: Study,
    engines: EnginesOption = None,
    lanes: Annotated[
        list[int] | None,
        typer.Option(
            "--lanes", metavar="N", help="fp32 lanes of an engine: 1, 8 or 16; repeatable. Default: all."
        ),
    ] = None,
    codec: EngineCodec = DEFAULT_CODEC,
    clock: ClockOption = 250.0,
) -> None:
    """Measure how long a NIC's engines hold a frame, untagged ones above all; print cycles and time.

    Simulated with Verilator: one frame at a time passes an idle engine, and the output is always ready. The
    first run builds the models: half a minute for one engine of 8 lanes, ten minutes for all.
    """
    found = measured(sizes_of(engines, lanes or [1, GROUP_LANES, 2 * GROUP_LANES]), codec, measure)
    study.show(latency_table(found, clock))
    study.facts |= {"codec": codec, "clock_mhz": clock, "latencies": list(map(asdict, found))}
    study.rows = [{**asdict(held), "nanoseconds": 1000 * held.cycles / clock} for held in found]

# SPDX-License-Identifier: BSD-2-Clause
"""``inceptionn scale``: the line rate of more engines or more lanes, and the clock that a link needs.

Each NIC is emitted, verilated and fed with long back-to-back runs of one TCP flow, tagged and untagged. The
measured quantity is a frame's number of cycles on the host's side, where it has its full length. The clock
for a link follows from the frames per second that the link can carry.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import Annotated, TypeVar

import numpy as np
import typer
from rich.text import Text

from inceptionn.commands.codec_option import EngineCodec
from inceptionn.commands.console import Console, Table, new_progress
from inceptionn.commands.study import Study, measurement
from inceptionn.system.options import usage_error
from inceptionn.wire import DEFAULT_CODEC, DEFAULT_TOS, GROUP_LANES, LANE_BYTES

from .golden import packets
from .models.cache import build_root
from .models.verilator import Step
from .nic_verilog import emit_nic
from .replay.performance import beats
from .verilated import Output, VerilatedNic

LINKS = (1, 10, 25, 40, 100, 200, 400)
"""Line rates in Gbit/s."""
FRAMES = {60: 1200, 1514: 240, 9014: 60}
"""Frames of a run for each engine, by bytes without check sequence: Ethernet's least, MTU 1500, MTU 9000."""
LINE_OVERHEAD = 24
"""Bytes that a frame takes on the line beside these: check sequence 4, preamble 8, gap 12 (IEEE 802.3)."""
TCP_HEADERS = 54
Found = TypeVar("Found")
Size = tuple[int, int]
"""Engines per direction, and lanes of each."""
KINDS = {"untagged": 0, "tagged": DEFAULT_TOS}
"""Frames that pass, and frames whose gradients are compressed (a 60-byte frame is too short for that)."""


@dataclass(frozen=True)
class Pace:
    """Cycles that a frame of one kind takes, sustained."""

    engines: int
    lanes: int
    """fp32 lanes of each engine."""
    direction: str
    """``transmit`` or ``receive``."""
    kind: str
    """A key of `KINDS`."""
    frame_bytes: int
    cycles: float

    @property
    def beats_per_cycle(self) -> float:
        """Beats of the host-side stream per cycle."""
        return beats(self.frame_bytes, self.stream_bytes) / self.cycles

    @property
    def size(self) -> Size:
        """Engines and lanes."""
        return self.engines, self.lanes

    @property
    def stream_bytes(self) -> int:
        """Width of the stream in bytes."""
        return self.engines * self.lanes * LANE_BYTES


def size_name(size: Size) -> str:
    """Name a size: ``2`` for two engines, ``2 x 16`` for a number of lanes other than 8."""
    engines, lanes = size
    return f"{engines}" if lanes == GROUP_LANES else f"{engines} x {lanes}"


def frames_per_second(gbit: float, frame_bytes: int) -> float:
    """Return the frames of this length per second that a link of ``gbit`` Gbit/s carries.

    Check sequence, preamble and gap are included.
    """
    return gbit * 1e9 / (8 * (frame_bytes + LINE_OVERHEAD))


def clock_mhz(gbit: float, frame_bytes: int, cycles: float) -> float:
    """Return the clock in MHz at which frames keep up with a link of ``gbit`` Gbit/s.

    Each takes ``cycles`` cycles.
    """
    return frames_per_second(gbit, frame_bytes) * cycles / 1e6


def carried_gbit(mhz: float, frame_bytes: int, cycles: float) -> float:
    """Return the line rate in Gbit/s of frames of ``cycles`` cycles each at a clock of ``mhz`` MHz."""
    return mhz * 1e6 / cycles * 8 * (frame_bytes + LINE_OVERHEAD) / 1e9


def slowest(paces: Iterable[Pace], size: Size, frame_bytes: int) -> Pace:
    """Return the pace that limits this setting, over both directions and both kinds."""
    return max(
        (pace for pace in paces if (pace.size, pace.frame_bytes) == (size, frame_bytes)),
        key=lambda pace: pace.cycles,
    )


def run_frames(frame_bytes: int, tos: int, count: int) -> list[bytes]:
    """Make ``count`` segments of one flow with gradients in them."""
    size = frame_bytes - TCP_HEADERS
    random = np.random.default_rng(frame_bytes)
    values = (random.standard_t(3, size) * 3e-3).astype("<f4").tobytes()[:size]
    return [
        packets.tcp(values, sequence=4 * (i * size // 4), tos=tos, identification=i & 0xFFFF)
        for i in range(count)
    ]


def _cycles(outputs: Sequence[Output], moment: str) -> float:
    """Return the cycles from one frame's first beat to the next one's.

    They are those from the second quarter of a run on.
    """
    begin = len(outputs) // 4
    first, last = (getattr(outputs[i].timing, moment) for i in (begin, -1))
    return float(last - first) / (len(outputs) - 1 - begin)


def measure(nic: VerilatedNic) -> list[Pace]:
    """Measure the paces of a NIC in its reset configuration.

    It takes some 200 thousand cycles for one engine.
    """
    paces = []
    nic.transmit([packets.OPENING])
    for size in FRAMES:
        for kind, tos in KINDS.items():
            sent = nic.transmit(run_frames(size, tos, nic.engines * FRAMES[size]))
            came = nic.receive([output.data for output in sent])
            for direction, outputs, side in (("transmit", sent, "first_in"), ("receive", came, "first_out")):
                paces.append(Pace(nic.engines, nic.lanes, direction, kind, size, _cycles(outputs, side)))
    return paces


@contextmanager
def sized_nic(size: Size, codec: str, step: Step = lambda text: None) -> Iterator[VerilatedNic]:
    """Emit and build (or find in the cache) a NIC of this size; it is closed at the end."""
    name, (engines, lanes) = size_name(size), size
    step(f"{name}: writing Verilog")
    path = build_root().with_name("scale") / f"nic_{engines}_{lanes}_{codec}.v"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(emit_nic(codec, lanes, engines))
    short = size != (1, GROUP_LANES)  # that model is replay's, too, and mostly built already
    with VerilatedNic(path, short_runs=short, step=lambda text: step(f"{name}: {text}")) as nic:
        step(f"{name}: measuring")
        yield nic


def measured(
    sizes: Iterable[Size], codec: str, measure: Callable[[VerilatedNic], Iterable[Found]]
) -> list[Found]:
    """Return what ``measure`` finds of a NIC of each size, one after the other, and show progress."""
    found: list[Found] = []
    with new_progress(Console(stderr=True), bar=False) as progress:
        task = progress.add_task("")
        for size in sizes:
            with sized_nic(size, codec, lambda text: progress.update(task, description=text)) as nic:
                found += measure(nic)
    return found


def paces_table(paces: Sequence[Pace]) -> Table:
    """Tabulate beats per cycle and cycles per frame."""
    table = Table(
        "Beats of the host-side stream per cycle (cycles per frame)",
        "engines", "stream", "direction", "frames", *(f"{size} bytes" for size in FRAMES), left=4,
    )  # fmt: skip
    rows: dict[tuple[str, str, str, str], list[str]] = {}
    for pace in paces:
        stream = f"{8 * pace.stream_bytes} bits"
        row = rows.setdefault((size_name(pace.size), stream, pace.direction, pace.kind), [])
        row.append(f"{pace.beats_per_cycle:.3f} ({pace.cycles:.2f})")
    for heads, cells in rows.items():
        table.add_row(*heads, *cells)
    return table


def links_table(paces: Sequence[Pace], mhz: float) -> Table:
    """Tabulate the clock in MHz that each line rate needs, by engines and frame length.

    It is green within ``mhz``.
    """
    sizes = sorted({pace.size for pace in paces})
    headings = [f"{size_name(size)}: {length} B" for size in sizes for length in FRAMES]
    table = Table(f"MHz for a full link (green: at most {mhz:g})", "Gbit/s", *headings)
    for gbit in LINKS:
        needs = [
            clock_mhz(gbit, length, slowest(paces, size, length).cycles)
            for size in sizes
            for length in FRAMES
        ]
        table.add_row(str(gbit), *(Text(f"{need:.0f}", "green" if need <= mhz else "red") for need in needs))
    return table


def carried_table(paces: Sequence[Pace], mhz: float) -> Table:
    """Tabulate the line rate that each setting carries at a clock."""
    headings = [f"{length} bytes" for length in FRAMES]
    table = Table(f"Gbit/s of line at {mhz:g} MHz", "engines", *headings)
    for size in sorted({pace.size for pace in paces}):
        cells = [carried_gbit(mhz, length, slowest(paces, size, length).cycles) for length in FRAMES]
        table.add_row(size_name(size), *(f"{cell:.1f}" for cell in cells))
    return table


def sizes_of(engines: Sequence[int] | None, lanes: Sequence[int]) -> list[Size]:
    """Return the sizes with these numbers of engines (None: all) and lanes; one lane has one engine.

    Other numbers are usage errors.
    """
    from inceptionn.hdl.parallel.parallel_engines import ENGINES
    from inceptionn.hdl.parts.width import Width

    counts = engines or ENGINES
    for count in counts:
        if count not in ENGINES:
            known = ", ".join(map(str, ENGINES))
            raise typer.BadParameter(f"engines must be one of {known}, not {count!r}", param_hint="--engines")
    for number in lanes:
        with usage_error("--lanes"):
            Width(number)
    return sorted({(count if number > 1 else 1, number) for count in counts for number in lanes})


EnginesOption = Annotated[
    list[int] | None,
    typer.Option(
        "--engines", metavar="N", help="Engines per direction: 1, 2 or 4; repeatable. Default: all."
    ),
]


def checked_clock(mhz: float) -> float:
    """Return a clock in MHz; one out of reach is a usage error."""
    if not 1 <= mhz <= 2000:
        raise typer.BadParameter(f"must be 1..2000 MHz, not {mhz!r}")
    return mhz


ClockOption = Annotated[
    float, typer.Option("--clock", metavar="MHZ", help="Your clock in MHz.", callback=checked_clock)
]


@measurement()
def scale(
    study: Study,
    engines: EnginesOption = None,
    lanes: Annotated[
        list[int] | None,
        typer.Option(
            "--lanes", metavar="N", help="fp32 lanes of an engine: 8 or 16; repeatable. Default: 8."
        ),
    ] = None,
    codec: EngineCodec = DEFAULT_CODEC,
    clock: ClockOption = 250.0,
) -> None:
    """Measure NICs of 1, 2 and 4 engines per direction; print the clock that each needs for each link rate.

    Simulated with Verilator. The first run builds the models: half a minute for one engine, three minutes for
    all. The values are always the same, so there is no seed. The area of each comes from inceptionn timing
    nic --no-route --engines N --lanes N.
    """
    sizes = sizes_of(engines, lanes or [GROUP_LANES])
    paces = measured(sizes, codec, measure)
    study.show(paces_table(paces), carried_table(paces, clock), links_table(paces, clock))
    clocks = {
        size_name(size): {
            str(length): {
                str(gbit): clock_mhz(gbit, length, slowest(paces, size, length).cycles) for gbit in LINKS
            }
            for length in FRAMES
        }
        for size in sizes
    }
    study.facts |= {
        "codec": codec, "clock_mhz": clock, "paces": list(map(asdict, paces)), "clocks_mhz": clocks,
    }  # fmt: skip
    study.rows = [{**asdict(pace), "beats_per_cycle": pace.beats_per_cycle} for pace in paces]

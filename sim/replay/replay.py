# SPDX-License-Identifier: BSD-2-Clause
"""The command ``replay``: captured traffic through the transmit engine, the wire, and the receive engine.

Every frame on the wire and every frame that reaches the host is compared with the golden model, scapy
referees the checksums, and the NIC's own counters must agree with both.
"""

import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.progress import Progress

from inceptionn.commands.codec_option import Bf16Option, NicBound, PaperMode, check_bf16, chosen
from inceptionn.commands.console import Console, JsonFile, Output, new_progress
from inceptionn.commands.environment import environment
from inceptionn.system.options import one_of, usage_error
from inceptionn.wire import CODECS, DEFAULT_CODEC

from ..capture import PcapWriter, read_capture
from ..golden import EngineConfig, Result
from ..models.cache import build_root
from ..models.waves import wave_format
from ..nic_verilog import nic_verilog
from ..verilated import VerilatedNic
from . import performance
from .ratios import ratios
from .registers import configure, identify, reconcile
from .tables import print_tables
from .totals import ReplayError, Totals, compare, tally

DEFAULT_CAPTURE = Path("examples/captures/digits.pcap")


@dataclass
class Replay:
    """A replay without a difference: its sums, the frames on the wire, and both engines' results by frame."""

    totals: Totals
    wire: list[bytes]
    results: list[tuple[Result, Result]]

    def frames(self, sent: Sequence[bytes]) -> list[dict[str, int | str]]:
        """Return a row for each frame: its bytes at the host and on the wire, and both verdicts."""
        names = ("frame", "host_bytes", "wire_bytes", "transmit", "receive")
        found = enumerate(zip(sent, self.wire, self.results, strict=True))
        rows = (
            (number, len(frame), len(wire), out.verdict.name, back.verdict.name)
            for number, (frame, wire, (out, back)) in found
        )
        return [dict(zip(names, row, strict=True)) for row in rows]


def run(nic: VerilatedNic, frames: Sequence[bytes], config: EngineConfig, bar: Progress) -> Replay:
    """Run a whole replay on a NIC fresh out of reset; raise `ReplayError` at the first disagreement."""
    configure(nic, config)
    begin, cycle = time.perf_counter(), nic.cycle
    task = bar.add_task("both engines", total=2 * len(frames))
    wire, host = nic.loopback(frames, progress=lambda n: bar.advance(task, n))
    seconds, cycles = time.perf_counter() - begin, nic.cycle - cycle
    task = bar.add_task("golden model", total=len(frames))
    results = compare(frames, wire, host, config, lambda: bar.advance(task))
    task = bar.add_task("referee", total=len(frames))
    totals = tally(frames, wire, host, results, config, lambda: bar.advance(task))
    totals.counters = reconcile(nic, totals)
    totals.seconds, totals.cycles = seconds, cycles
    return Replay(totals, [output.data for output in wire], results)


def _results(totals: Totals, compared: Sequence[Any], figures: Any) -> dict[str, Any]:
    """Collect the results of a replay, for ``--json``."""
    return {
        "replay": asdict(totals),
        "ratios": [{**asdict(each), "ratio": each.ratio} for each in compared],
        "performance": figures.as_dict() if figures else None,
    }


def check_capture(pcap: Path) -> None:
    """Raise ``FileNotFoundError``, with what to do, unless there is such a file."""
    if not pcap.is_file():
        hint = "; name a pcap file, or run this in a clone of the project" if pcap == DEFAULT_CAPTURE else ""
        raise FileNotFoundError(f"no such capture{hint}: {str(pcap)!r}")


def replay(
    pcap: Annotated[Path, typer.Argument(help="Ethernet frames, also .gz or .zst.")] = DEFAULT_CAPTURE,
    verilog: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Verilog of inceptionn_nic; default: generated in build/replay."),
    ] = None,
    report: JsonFile = None,
    k: NicBound = 10,
    mode: PaperMode = None,
    codec: Annotated[
        str | None,
        one_of(CODECS, f"{{}}; default: --verilog's or {DEFAULT_CODEC}.", "--codec", metavar="CODEC"),
    ] = None,
    bf16: Bf16Option = False,
    learn_phases: Annotated[
        bool, typer.Option("--learn-phases", help="Also compress flows without a SYN: CONTROL.LEARN_PHASES.")
    ] = False,
    waves: Annotated[
        Path | None,
        typer.Option(metavar="FILE", dir_okay=False, help="Waveform, *.vcd or *.fst (large and slow)."),
    ] = None,
    frames_file: Annotated[
        Path | None,
        typer.Option("--frames", metavar="FILE", dir_okay=False, help="CSV: bytes and verdicts per frame."),
    ] = None,
    out_pcap: Annotated[
        Path | None,
        typer.Option("--out-pcap", metavar="FILE", dir_okay=False, help="pcap file for the wire side."),
    ] = None,
    skip_broken: Annotated[
        bool, typer.Option("--skip-broken", help="Leave out frames that were not captured whole; count them.")
    ] = False,
    measure: Annotated[bool, typer.Option(help="Also measure throughput and latency.")] = True,
) -> None:
    """Drive captured traffic through the NIC's Verilog, both engines back to back, and check every frame."""
    check_capture(pcap)
    capture = read_capture(pcap, skip_broken)
    chosen(codec, mode)
    check_bf16(codec, bf16)
    if waves is not None:
        with usage_error("--waves"):
            wave_format(waves, "verilator")
    output = Output(report, frames_file, files=(waves, out_pcap))
    facts: dict[str, Any] = {"environment": environment(performance.SEED if measure else None)}
    with new_progress(Console(stderr=True)) as bar:
        task = bar.add_task("preparing", total=None)

        def step(text: str) -> None:
            bar.update(task, description=text)

        path = nic_verilog(verilog, build_root().with_name("replay"), step, codec or "paper", bf16)
        with VerilatedNic(path, waves=waves, step=step) as nic:
            found = identify(nic)
            if codec not in (None, found.name):
                raise ReplayError(f"{path.name} has the codec {found.name}, not {codec}")
            if bf16 and not found.bf16:
                raise ReplayError(f"{path.name} has no bf16 lanes")
            chosen(found.name, mode)
            config = replace(found.config(k, mode), learn_phases=learn_phases)
            step("replaying")
            done = run(nic, capture.frames, config, bar)
            figures = None
            if measure:
                nic.reset()
                figures = performance.measure(nic, step)
        step("comparing the codecs")
        compared = ratios(capture.frames, bf16=found.bf16, learn_phases=learn_phases)
    if capture.broken:
        output.console.print(f"{capture.broken} broken frames of the capture left out")
    print_tables(output.console, pcap, done.totals, figures, compared)
    if out_pcap is not None:
        writer = PcapWriter(out_pcap)
        writer.write(done.wire)
        writer.close()
    facts |= {"capture": str(pcap), "broken_frames": capture.broken}
    facts |= {"bound": k, "codec": found.name, "mode": mode, "bf16": found.bf16, "learn_phases": learn_phases}
    output.write(facts | _results(done.totals, compared, figures), done.frames(capture.frames))
    if figures and (misses := figures.shortfalls()):
        raise ReplayError(f"{len(misses)} figures miss their limit, the first: {misses[0]}")

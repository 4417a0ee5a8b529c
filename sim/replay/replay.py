# SPDX-License-Identifier: BSD-2-Clause
"""The command ``replay``: captured traffic through the transmit engine, the wire, and the receive engine.

Every frame on the wire and every frame that reaches the host is compared with the golden model, scapy
referees the checksums, and the NIC's own counters must agree with both.
"""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from rich.progress import Progress

from inceptionn.commands.console import Console, JsonFile, check_json, new_progress, write_json
from inceptionn.hdl.control.registers import REGISTERS, VERDICTS
from inceptionn.system import atomic_file
from inceptionn.wire import EXPONENT_BIAS, PAPER_MODES, Parameters, PlanesParameters, Tag, Verdict, parameters

from ..golden import EngineConfig, FlowTable, Result, receive, transmit
from ..models.cache import build_root
from ..verilated import Output, VerilatedNic
from . import performance, referee
from .capture import read_pcap
from .tables import print_tables

DEFAULT_CAPTURE = Path("examples/captures/digits.pcap")


class ReplayError(RuntimeError):
    """The NIC and the golden model, the referee or the counters do not agree; the text says where first."""


@dataclass
class Totals:
    """What a replay found, all from the frames that the NIC emitted. Bytes are without FCS."""

    frames: int = 0
    host_bytes: int = 0
    wire_bytes: int = 0
    compressed_frames: int = 0
    payload_bytes: int = 0
    """Payload of the compressed frames as the hosts see it."""
    block_bytes: int = 0
    """The same on the wire: shims and blocks."""
    lanes: dict[str, int] = field(default_factory=dict)
    transmit: dict[str, int] = field(default_factory=dict)
    """Frames by verdict of the transmit engine."""
    receive: dict[str, int] = field(default_factory=dict)
    bound: float = 0.0
    largest_error: float = 0.0
    """Over the lanes below 1 in magnitude; all others must be exact."""
    checksums: dict[str, int] = field(default_factory=dict)
    counters: int = 0
    """Hardware counters that were read and agreed."""
    cycles: int = 0
    seconds: float = 0.0

    @property
    def ratio(self) -> float:
        """Bytes of all frames, host over wire."""
        return self.host_bytes / self.wire_bytes

    @property
    def payload_ratio(self) -> float:
        """Payload of the compressed frames, host over wire."""
        return self.payload_bytes / self.block_bytes if self.block_bytes else 1.0


def _first_difference(number: int, place: str, output: Output, expected: Result) -> str | None:
    """What is wrong with one frame, or None."""
    limit = expected.unspecified_from
    if len(output.data) != len(expected.frame):
        what = f"{len(output.data)} bytes instead of {len(expected.frame)}"
    elif output.bad != expected.bad:
        what = f"marked {'bad' if output.bad else 'good'}"
    elif output.data[:limit] != expected.frame[:limit]:
        pairs = enumerate(zip(output.data, expected.frame, strict=True))
        at = next(i for i, (ours, golden) in pairs if ours != golden)
        what = f"byte {at} is {output.data[at]:#04x} instead of {expected.frame[at]:#04x}"
    else:
        return None
    return f"frame {number} {place} ({expected.verdict.name}): {what}"


def compare(
    sent: Sequence[bytes], wire: Sequence[Output], host: Sequence[Output], config: EngineConfig,
    tick: Callable[[], None] = lambda: None,
) -> list[tuple[Result, Result]]:  # fmt: skip
    """The golden model's results for ``sent``, transmit and receive; raises `ReplayError` at a difference."""
    flows, results = FlowTable(), []
    for number, (frame, on_wire, at_host) in enumerate(zip(sent, wire, host, strict=True)):
        expected = transmit(frame, config, flows)
        if what := _first_difference(number, "on the wire", on_wire, expected):
            raise ReplayError(what)
        restored = receive(on_wire.data, config, bad=on_wire.bad)
        if what := _first_difference(number, "at the host", at_host, restored):
            raise ReplayError(what)
        results.append((expected, restored))
        tick()
    return results


def _errors(sent: bytes, restored: bytes, payload: int) -> tuple[float, int]:
    """Largest error of a frame's floats below 1 in magnitude, and how many of the others changed at all."""
    before = np.frombuffer(sent[: len(restored)], "<u4", offset=payload)
    after = np.frombuffer(restored, "<u4", offset=payload)
    small = (before >> 23 & 0xFF) < EXPONENT_BIAS
    difference = np.abs(before[small].view("<f4").astype(float) - after[small].view("<f4"))
    return float(difference.max(initial=0)), int(np.count_nonzero(before[~small] != after[~small]))


def tally(
    sent: Sequence[bytes], wire: Sequence[Output], host: Sequence[Output],
    results: Sequence[tuple[Result, Result]], config: EngineConfig, tick: Callable[[], None] = lambda: None,
) -> Totals:  # fmt: skip
    """Sums, errors and checksums of a replay; raises `ReplayError` for a broken bound or checksum."""
    totals = Totals(frames=len(sent), bound=2.0 ** (config.parameters.e0 - EXPONENT_BIAS))
    lanes, checksums = [0, 0, 0, 0], Counter[str]()
    for number, (frame, on_wire, at_host, (out, _)) in enumerate(zip(sent, wire, host, results, strict=True)):
        totals.host_bytes += len(frame)
        totals.wire_bytes += len(on_wire.data)
        compressed = out.verdict is Verdict.COMPRESSED
        try:
            checksums.update(referee.check(frame, on_wire.data, at_host.data, compressed))
        except referee.ChecksumError as error:
            raise ReplayError(f"frame {number}: {error}") from error
        if compressed:
            payload = referee.payload_offset(frame)
            small, large = _errors(frame, at_host.data, payload)
            totals.largest_error = max(totals.largest_error, small)
            if large:
                raise ReplayError(f"frame {number}: a value of at least 1 did not come back bit for bit")
            totals.compressed_frames += 1
            totals.payload_bytes += len(at_host.data) - payload
            totals.block_bytes += len(on_wire.data) - payload
            lanes = [a + b for a, b in zip(lanes, out.counts, strict=True)]
        elif at_host.data != frame:
            raise ReplayError(f"frame {number} ({out.verdict.name}): not bit for bit at the host")
        tick()
    chosen = config.parameters
    if isinstance(chosen, Parameters) and chosen.b == chosen.t and totals.largest_error >= totals.bound:
        raise ReplayError(f"largest error {totals.largest_error!r} is not below the bound {totals.bound!r}")
    totals.lanes = {tag.name: count for tag, count in zip(Tag, lanes, strict=True)}
    totals.checksums = dict(checksums)
    totals.transmit = _by_name(out.verdict for out, _ in results)
    totals.receive = _by_name(back.verdict for _, back in results)
    return totals


def _by_name(verdicts: Any) -> dict[str, int]:
    counts = Counter(verdicts)
    return {verdict.name: counts[verdict] for verdict in Verdict if counts[verdict]}


def read_counter(nic: VerilatedNic, name: str) -> int:
    """A 64-bit counter of `REGISTERS`, low word first."""
    register = REGISTERS[name]
    low = nic.read(register.offset)
    return nic.read(register.offset + 4) << 32 | low


def reconcile(nic: VerilatedNic, totals: Totals) -> int:
    """Checks every counter of a NIC that has seen this replay and nothing else; returns how many there are.

    Raises `ReplayError` naming the first counter that disagrees.
    """
    expected: dict[str, int] = {}
    for prefix, verdicts, before, after in (
        ("TX", totals.transmit, totals.host_bytes, totals.wire_bytes),
        ("RX", totals.receive, totals.wire_bytes, None),
    ):
        direction = "tx" if prefix == "TX" else "rx"
        expected |= {f"{prefix}_{v.name}": verdicts.get(v.name, 0) for v in VERDICTS[direction]}  # type: ignore[index]
        expected |= {f"{prefix}_FRAMES_IN": totals.frames, f"{prefix}_FRAMES_OUT": totals.frames}
        expected[f"{prefix}_BYTES_IN"] = before
        if after is not None:
            expected[f"{prefix}_BYTES_OUT"] = after
    expected |= {f"TX_LANES_{name}": count for name, count in totals.lanes.items()}
    for name, count in expected.items():
        found = read_counter(nic, name)
        if found != count:
            raise ReplayError(f"register {name} reads {found}, but {count} were counted outside")
    return len(expected)


def configure(nic: VerilatedNic, chosen: Parameters | PlanesParameters) -> None:
    """Writes E0, T and B, and reads the identity first; `ReplayError` if this is no INCEPTIONN NIC."""
    identity = REGISTERS["ID"]
    if nic.read(identity.offset) != identity.reset:
        raise ReplayError(f"register ID reads {nic.read(identity.offset):#x}, not {identity.reset:#x}")
    register = REGISTERS["PARAMETERS"]
    value = sum(register[name.upper()].put(number) for name, number in asdict(chosen).items())
    nic.write(register.offset, value)


def run(nic: VerilatedNic, frames: Sequence[bytes], config: EngineConfig, bar: Progress) -> Totals:
    """A whole replay on a NIC fresh out of reset; raises `ReplayError` at the first disagreement."""
    configure(nic, config.parameters)
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
    return totals


def nic_verilog(given: Path | None, scratch: Path, step: Callable[[str], None]) -> Path:
    """The Verilog to simulate: what is given, or written now from this package."""
    if given is not None:
        if not given.is_file():
            raise FileNotFoundError(f"no Verilog there; inceptionn generate writes it: {str(given)!r}")
        if not re.search(r"^\s*module\s+inceptionn_nic\b", given.read_text(errors="replace"), re.MULTILINE):
            raise ValueError(f"no module inceptionn_nic in {str(given)!r}; it is in inceptionn_nic.v")
        return given
    from inceptionn.hdl.tops import TOPS

    from ..runner import emit

    step("writing the Verilog")
    scratch.mkdir(parents=True, exist_ok=True)
    path = scratch / "inceptionn_nic.v"
    path.write_text(emit(TOPS["inceptionn_nic"], "inceptionn_nic"))
    return path


def replay(
    pcap: Annotated[Path, typer.Argument(help="Capture of Ethernet frames.")] = DEFAULT_CAPTURE,
    verilog: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Verilog of inceptionn_nic; default: written now, to build/replay."
        ),
    ] = None,
    report: JsonFile = None,
    k: Annotated[
        int, typer.Option("--bound", metavar="K", help="The error bound is 2^-K; K is 1 to 14.")
    ] = 10,
    mode: Annotated[str, typer.Option(metavar="MODE", help="bounded or literal.")] = "bounded",
    waves: Annotated[
        Path | None,
        typer.Option(metavar="FILE", dir_okay=False, help="*.vcd to write (large, and slow)."),
    ] = None,
    measure: Annotated[bool, typer.Option(help="Measure throughput and latency too.")] = True,
) -> None:
    """Drive captured traffic through the NIC's Verilog, both engines back to back, and check every frame."""
    console = Console(json_file=report)
    if not pcap.is_file():
        hint = "; name a pcap file, or run this in a clone of the project" if pcap == DEFAULT_CAPTURE else ""
        raise FileNotFoundError(f"no capture there{hint}: {str(pcap)!r}")
    try:
        config = EngineConfig(parameters=parameters(k, mode))
    except ValueError as error:
        raise typer.BadParameter(
            str(error), param_hint="--mode" if mode not in PAPER_MODES else "--bound"
        ) from error
    if waves is not None and waves.suffix != ".vcd":
        raise typer.BadParameter(f"wave file must end in .vcd, not {waves.suffix!r}", param_hint="--waves")
    check_json(report)
    if waves is not None:
        waves.parent.mkdir(parents=True, exist_ok=True)
        atomic_file.check(waves)
    frames = read_pcap(pcap)
    with new_progress(Console(stderr=True)) as bar:
        task = bar.add_task("preparing", total=None)

        def step(text: str) -> None:
            bar.update(task, description=text)

        path = nic_verilog(verilog, build_root().with_name("replay"), step)
        with VerilatedNic(path, waves=waves, step=step) as nic:
            step("replaying")
            totals = run(nic, frames, config, bar)
            figures = None
            if measure:
                nic.reset()
                figures = performance.measure(nic, step)
    print_tables(console, pcap, totals, figures)
    if report is not None:
        facts = {"capture": str(pcap), "bound": k, "mode": mode, "replay": asdict(totals)}
        facts["performance"] = figures.as_dict() if figures else None
        write_json(report, facts)
    if figures and (misses := figures.shortfalls()):
        raise ReplayError(f"{len(misses)} figures miss their limit, the first: {misses[0]}")

# SPDX-License-Identifier: BSD-2-Clause
"""The commands ``cluster run`` and ``cluster clean``."""

import re
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any, Self, TextIO

import typer
from rich.live import Live
from rich.text import Text

from inceptionn.commands.codec_option import Bf16Option, NicBound, PaperMode
from inceptionn.commands.console import STANDARD_OUTPUT, Console, JsonFile, Output
from inceptionn.commands.environment import environment
from inceptionn.hdl.control.registers import REGISTERS
from inceptionn.netns import require
from inceptionn.netns.registry import sweep
from inceptionn.netns.tap import available
from inceptionn.system.options import byte_of, usage_error, whole
from inceptionn.wire import DEFAULT_CODEC, GROUP_LANES

from ..models.cache import build_root
from ..nic_codec import NIC_VARIANTS
from ..nic_options import LanesOption, variants
from .cluster import Cluster
from .network.impairments import Impairments
from .nics import KINDS, parse_codecs, parse_kinds
from .program import Program, is_launcher
from .report import Report, end_table, live_table

_REFRESH = 0.5
_LONGEST = 1e9
_EVENT = re.compile(r"(?P<seconds>[0-9.]+):(?:host)?(?P<host>\d+):(?P<register>\w+)=(?P<value>\w+)")

ProgramWords = Annotated[
    list[str],
    typer.Argument(
        metavar="PROGRAM", help="Program to run on every host, after `--`; or mpirun and its options."
    ),
]
Kinds = Annotated[
    str,
    typer.Option(metavar="KINDS", help=f"{', '.join(KINDS)}: one for all, or one per host: rtl,none."),
]
VerilogFile = Annotated[
    Path | None, typer.Option(metavar="FILE", help="Verilog of inceptionn_nic; default: generated.")
]
Codecs = Annotated[
    str | None,
    typer.Option(
        metavar="CODECS",
        help=f"{', '.join(NIC_VARIANTS)} (as with --bf16): one for all, or one per host; "
        f"default: {DEFAULT_CODEC}.",
    ),
]
Congestion = Annotated[str | None, typer.Option(metavar="NAME", help="TCP congestion control of the hosts.")]
Rate = Annotated[
    str | None,
    typer.Option(metavar="RATE", help="Rate of each switch port, such as 10g; default: unlimited."),
]
Delay = Annotated[str, typer.Option(metavar="TIME", help="Delay of each frame in the switch, such as 20us.")]
Tos = Annotated[
    str | None, typer.Option(metavar="BYTE", help="ToS byte that the switch writes into each packet.")
]
Events = Annotated[
    list[str] | None,
    typer.Option(metavar="EVENT", help="Register write, SECONDS:HOST:REGISTER=VALUE; repeatable."),
]
CaptureFolder = Annotated[
    Path | None, typer.Option(metavar="DIR", help="Folder for hostN.pcap and wire-hostN.pcap.")
]
ShowLive = Annotated[
    bool | None,
    typer.Option(help="Show the NICs' registers during the run; default: on a terminal."),
]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Omit the final report on standard error.")]
Limit = Annotated[
    float | None,
    typer.Option("--timeout", metavar="SECONDS", help="End the program after this time, with status 124."),
]


class Event:
    """A register write at a given time, from ``SECONDS:HOST:REGISTER=VALUE``.

    Raises ``ValueError`` for a malformed text.
    """

    def __init__(self, text: str, hosts: int) -> None:
        match = _EVENT.fullmatch(text)
        if match is None:
            raise ValueError(
                f"event must be SECONDS:HOST:REGISTER=VALUE, as in 2.5:1:CONTROL=0, not {text!r}"
            )
        try:
            self.seconds, self.value = float(match["seconds"]), int(match["value"], 0)
        except ValueError:
            raise ValueError(f"event must have a number of seconds and a value, not {text!r}") from None
        self.host, self.register = int(match["host"]), match["register"].upper()
        if self.host >= hosts:
            raise ValueError(f"host of an event must be 0..{hosts - 1}, not {self.host}")
        writable = [register.name for register in REGISTERS if register.access != "ro"]
        if self.register not in writable:
            raise ValueError(f"register must be one of {', '.join(writable)}, not {match['register']!r}")


@dataclass(frozen=True)
class Plan:
    """A run as the options describe it."""

    program: list[str]
    events: list[Event]
    """Register writes, by time."""
    limit: float | None
    """Seconds after which the program is ended."""
    kinds: Sequence[str]
    """Kind of each host's NIC."""
    verilog: Path | None
    """Verilog of the NICs of kind "rtl"; None: it is written."""
    settings: dict[str, Any]
    """Further arguments of `Cluster`."""


def verilog_for(
    kinds: Sequence[str], codecs: Sequence[str] | None, given: Path | None, step: Callable[[str], None],
    lanes: int = GROUP_LANES,
) -> Path | dict[str, Path] | None:  # fmt: skip
    """Return the Verilog to simulate: the given file, or one newly written per codec, of so many ``lanes``.

    None without an RTL NIC.
    """
    if "rtl" not in kinds:
        return None
    from ..nic_verilog import nic_verilog

    scratch = build_root().with_name("cluster")
    if given is not None:
        return nic_verilog(given, scratch, step)
    needed = {
        codec for kind, codec in zip(kinds, codecs or ["paper"] * len(kinds), strict=True) if kind == "rtl"
    }
    return {
        word: nic_verilog(None, scratch, step, NIC_VARIANTS[word].name, NIC_VARIANTS[word].bf16, lanes)
        for word in sorted(needed)
    }


def _check_numbers(hosts: int, limit: float | None) -> None:
    with usage_error("--hosts"):
        if not 1 <= hosts <= 64:
            raise ValueError(f"hosts must be 1..64, not {hosts!r}")
    with usage_error("--timeout"):
        if limit is not None and not 0 < limit <= _LONGEST:
            raise ValueError(f"time-out must be more than 0 seconds and at most {_LONGEST:g}, not {limit!r}")


def _nics(
    hosts: int, nic: str, codec: str | None, bf16: bool, mode: str | None
) -> tuple[Sequence[str], Sequence[str] | None]:
    """Return kind and codec of every host's NIC; the codecs are None if no option names them."""
    with usage_error("--nic"):
        kinds = parse_kinds(nic, hosts)
    with usage_error("--codec"):
        codecs = None if codec is None else parse_codecs(codec, hosts)
    if bf16:
        codecs = variants(codecs or [DEFAULT_CODEC], bf16)
    with usage_error("--mode"):
        used = [NIC_VARIANTS[word].spec for word in codecs or [DEFAULT_CODEC]]
        having_modes = [spec for spec in used if spec.modes]
        (having_modes or used)[0].mode_of(mode)
    return kinds, codecs


def _events(texts: Sequence[str] | None, kinds: Sequence[str]) -> list[Event]:
    """Return the register writes of ``--at``, by time."""
    with usage_error("--at"):
        events = sorted((Event(text, len(kinds)) for text in texts or []), key=lambda event: event.seconds)
        for event in events:
            if kinds[event.host] == "none":
                raise ValueError(f"host{event.host} has no NIC whose registers could be written")
    return events


def _print_end(errors: Console, report: Report, kinds: Sequence[str]) -> None:
    errors.print(end_table(report))
    if report.model_rate is not None and "rtl" in kinds:
        errors.print(f"models: {report.model_rate / 1e6:.1f} MB/s of host bytes per processor core")


def run(
    program: ProgramWords,
    hosts: Annotated[int, typer.Option("--hosts", "-n", metavar="N", help="Hosts, 1 to 64.")] = 2,
    nic: Kinds = "rtl",
    verilog: VerilogFile = None,
    k: NicBound = 10,
    mode: PaperMode = None,
    codec: Codecs = None,
    bf16: Bf16Option = False,
    lanes: LanesOption = GROUP_LANES,
    mtu: Annotated[int, whole(576, 9216, "Size of an IP packet.", metavar="BYTES")] = 1500,
    vlan: Annotated[int | None, whole(1, 4094, "802.1Q tag of all traffic.", metavar="ID")] = None,
    ecn: Annotated[bool, typer.Option("--ecn", help="Let the hosts' TCP use ECN.")] = False,
    congestion: Congestion = None,
    rate: Rate = None,
    delay: Delay = "0s",
    queue: Annotated[str, typer.Option(metavar="TIME", help="Queue of a port with a rate.")] = "50ms",
    loss: Annotated[str, typer.Option(metavar="SHARE", help="Share of frames lost, such as 0.1%.")] = "0",
    reorder: Annotated[str, typer.Option(metavar="SHARE", help="Share of frames overtaken by others.")] = "0",
    duplicate: Annotated[str, typer.Option(metavar="SHARE", help="Share of frames duplicated.")] = "0",
    mark: Annotated[str, typer.Option(metavar="SHARE", help="Share of ECN-capable packets marked CE.")] = "0",
    flip: Annotated[str, typer.Option(metavar="SHARE", help="Share of frames with one bit inverted.")] = "0",
    truncate: Annotated[str, typer.Option(metavar="SHARE", help="Share of frames truncated.")] = "0",
    fcs: Annotated[bool, typer.Option("--fcs", help="Let MACs mark damaged frames bad.")] = False,
    tos: Tos = None,
    at: Events = None,
    pcap: CaptureFolder = None,
    report_file: JsonFile = None,
    live: ShowLive = None,
    quiet: Quiet = False,
    limit: Limit = None,
    seed: Annotated[int, whole(0, 2**32 - 1, "Seed of the switch's faults.", metavar="N")] = 1,
) -> int:
    """Run a program on virtual hosts whose NICs are the generated Verilog.

    The exit status is the program's.
    """
    _check_numbers(hosts, limit)
    kinds, codecs = _nics(hosts, nic, codec, bf16, mode)
    with usage_error("--tos"):
        written = None if tos is None else byte_of(tos)
    with usage_error("switch"):
        impairments = Impairments(
            rate=rate, delay=delay, queue=queue, loss=loss, reorder=reorder, duplicate=duplicate, mark=mark,
            flip=flip, truncate=truncate, fcs=fcs, tos=written,
        )  # fmt: skip
    settings = {
        "codecs": codecs, "lanes": lanes, "impairments": impairments, "mtu": mtu, "vlan": vlan, "ecn": ecn,
        "k": k, "mode": mode, "pcap": pcap, "congestion": congestion, "seed": seed,
    }  # fmt: skip
    plan = Plan(program, _events(at, kinds), limit, kinds, verilog, settings)
    with usage_error("--congestion"):
        check_congestion(congestion)
    if verilog is not None:
        verilog_for(["rtl"], None, verilog, lambda text: None)
    files, machine = Output(report_file), environment(seed)
    if pcap is not None:
        pcap.mkdir(parents=True, exist_ok=True)
    require()
    available()
    errors = Console(stderr=True)
    shown = errors.is_terminal if live is None else live
    out = sys.stderr if str(report_file) == STANDARD_OUTPUT else sys.stdout
    report = _measured(plan, errors, shown, out)
    if not quiet:
        _print_end(errors, report, kinds)
    files.write({**report.as_dict(), "environment": machine})
    return report.status


def _measured(plan: Plan, errors: Console, shown: bool, out: TextIO) -> Report:
    """Run the program of a plan on a cluster, with its output on ``out``, and report the cluster's counts."""
    settings = plan.settings
    with Status(errors) as step:
        path = verilog_for(plan.kinds, settings["codecs"], plan.verilog, step.say, settings["lanes"])
        with usage_error("cluster"):
            cluster = Cluster(len(plan.kinds), plan.kinds, verilog=path, step=step.say, **settings)
        with cluster:
            step.stop()
            begin = time.monotonic()
            status = _attend(cluster, plan, errors, shown, out)
            seconds = time.monotonic() - begin
            cluster.drain()
            cluster.check()
            conditions = {
                name: settings[name] for name in ("mtu", "vlan", "ecn", "mode", "codecs", "lanes", "seed")
            }
            conditions |= {"program": plan.program, "bound": settings["k"], **asdict(settings["impairments"])}
            return Report(cluster.host_reports(), seconds, status, conditions)


def check_congestion(name: str | None) -> None:
    """Raise ``ValueError`` for a TCP congestion control that this kernel has not loaded."""
    try:
        known = Path("/proc/sys/net/ipv4/tcp_available_congestion_control").read_text().split()
    except OSError:
        return
    if name is not None and name not in known:
        raise ValueError(f"congestion control must be one of {', '.join(known)}, not {name!r}")


class Status:
    """A line on a terminal with the current step, until `stop`."""

    def __init__(self, console: Console) -> None:
        self._status = console.status("starting")

    def say(self, text: str) -> None:
        """Replace the text."""
        self._status.update(Text(text))

    def stop(self) -> None:
        """Remove the line. A second call does nothing."""
        self._status.stop()

    def __enter__(self) -> Self:
        self._status.start()
        return self

    def __exit__(self, *error: object) -> None:
        self.stop()


def _attend(cluster: Cluster, plan: Plan, errors: Console, shown: bool, out: TextIO) -> int:
    """Run the program to its end, with events and live view, and write its output to ``out``.

    Returns its exit status.
    """
    program, events, limit = plan.program, list(plan.events), plan.limit
    names = {f"host{number}": kind for number, kind in enumerate(cluster.kinds)}
    view = Live(console=errors, auto_refresh=False, transient=True) if shown else None

    def line(name: str, text: bytes) -> None:
        if view is not None and out.isatty():
            said = text.decode(errors="replace").rstrip("\n")
            errors.print(Text(f"{name}| {said}" if name else said))
            return
        prefix = f"{name}| ".encode() if name else b""
        out.buffer.write(prefix + text)
        out.buffer.flush()

    begin = time.monotonic()
    with view or nullcontext():
        running = Program(cluster, program, line)
        while (status := running.wait(_REFRESH if not events else 0.05)) is None:
            cluster.check()
            now = time.monotonic() - begin
            while events and events[0].seconds <= now:
                event = events.pop(0)
                cluster.nics[event.host].write(event.register, event.value)
            if limit is not None and now > limit:
                running.stop()
                running.wait(2.0)
                errors.print(f"inceptionn: {program[0]} has not ended within {limit:g} s")
                return 124
            if view is not None:
                view.update(live_table(cluster.registers(), names), refresh=True)
    if status == 127 and is_launcher(program):
        errors.print(f"inceptionn: {program[0]} was not found on the hosts")
    return status


def clean() -> None:
    """Remove the hosts of killed clusters. Running clusters are not affected."""
    require()
    removed = sweep()
    print(f"removed {len(removed)} namespaces: {', '.join(removed)}" if removed else "nothing to remove")

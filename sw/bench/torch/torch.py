# SPDX-License-Identifier: BSD-2-Clause
"""``inceptionn bench torch``: DDP between shaped hosts, with this package's hooks and torch's own."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from statistics import median
from typing import Annotated, Any

import typer

from ...commands.console import Console, JsonFile, Table, new_progress, write_json
from ...netns import Network, rate_text, require
from ...system.extras import pip_install
from ...training.data import require_digits
from ..common import report
from ..common.environment import conditions, environment
from ..common.job import heard, one_thread

RANK = "inceptionn.bench.torch.rank"
PORT = 29540
TIMEOUT = 120.0
"""Seconds without progress after which a rank gives up."""
PATIENCE = 600.0
"""Seconds that a training may take before the ranks say anything."""
MODELS = ("mlp", "cnn", "transformer")
SYSTEMS = {
    "plain": "DDP", "fp16": "torch's fp16 hook", "bf16": "torch's bf16 hook", "powersgd": "PowerSGD, rank 2",
    "hook": "compress_hook", "feedback": "the same, error feedback", "planes": "compress_hook, planes",
    "backend": "compressed group",
}  # fmt: skip
OURS = ("hook", "feedback", "planes", "backend")
PARTS = ("time", "accuracy", "overhead")
BUCKETS = (10_000, 100_000, 1_000_000)
BATCH = {"mlp": 16, "cnn": 16, "transformer": 8}
POINTS, PERCENT, LESS = 0.5, 1.0, 3.0
"""Asked: points of accuracy below plain DDP, percent of its loss above, times less communication."""


def torch(
    hosts: Annotated[int, report.whole(2, 16, "Hosts, one process each.")] = 4,
    rates: Annotated[str, typer.Option(metavar="LIST", help="Bits per second of the links.")] = "100m,1g,10g",
    models: Annotated[str, typer.Option(metavar="LIST", help=", ".join(MODELS))] = ",".join(MODELS),
    systems: Annotated[str, typer.Option(metavar="LIST", help=", ".join(SYSTEMS))] = ",".join(SYSTEMS),
    steps: Annotated[int, report.whole(1, 1000, "Timed steps of each system, model and rate.")] = 10,
    trained: Annotated[int, report.whole(10, 100_000, "Steps of each training for accuracy.")] = 300,
    bound: report.Bound = 10,
    seed: Annotated[int, report.whole(0, 2**32 - 1, "Of the first weights and the batches.")] = 0,
    only: Annotated[str, typer.Option(metavar="LIST", help=", ".join(PARTS))] = ",".join(PARTS),
    quick: Annotated[bool, report.quick(rates="1g", models="mlp", steps=4, trained=60)] = False,
    json_file: JsonFile = None,
) -> None:
    """PyTorch's DDP: plain, with torch's fp16, bf16 and PowerSGD hooks, and with this package's ways.

    Times (needs root): real torchrun on each host, links with a rate. Communication is a step's time less
    that of the same step under ``no_sync``, in turn with it: what hides behind the backward pass does not
    count. Accuracy: whole trainings without a rate. Overhead: one bucket on loopback, 2 processes.
    """
    chosen = report.choices(only, PARTS, "--only")
    named = report.choices(models, MODELS, "--models")
    ways = report.choices(systems, tuple(SYSTEMS), "--systems")
    bits = report.rates(rates)
    report.check_files(json_file, None)
    if find_spec("torch") is None:
        raise ModuleNotFoundError(f"torch is not installed: {pip_install('torch')}", name="torch")
    require_digits()
    console, facts = Console(json_file=json_file), environment(seed)
    console.print(conditions(facts), soft_wrap=True)
    common = {"bound": 2.0**-bound, "seed": seed}
    pairs = [(model, system) for model in named for system in ways]
    cases = [{"model": m, "system": s, "batch": BATCH[m], **common} for m, s in pairs]
    lines: list[dict[str, Any]] = []
    networked = [part for part in chosen if part != "overhead"]
    if networked:
        require()
    with new_progress(console) as progress:
        total = len(cases) * (len(bits) * ("time" in chosen) + ("accuracy" in chosen))
        bar = progress.add_task("", total=total + len(BUCKETS) * ("overhead" in chosen))
        if networked:
            with Network(hosts) as network:
                runs: list[tuple[float | None, str, int]] = []
                runs += [(rate, "time", steps) for rate in bits] if "time" in chosen else []
                runs += [(None, "accuracy", trained)] if "accuracy" in chosen else []
                for rate, what, count in runs:
                    network.shape(rate)
                    plan = [{"what": what, "steps": count, **case} for case in cases]
                    for line in on_hosts(network, plan):
                        lines.append({**line, "rate": rate})
                        text = f"{SYSTEMS[line['system']]}, {line['model']}"
                        progress.update(bar, advance=1, description=f"{what}: {text}")
        if "overhead" in chosen:
            plan = [{"what": "overhead", "values": n, "steps": 3 * steps, **common} for n in BUCKETS]
            for line in on_loopback(plan):
                lines.append(line)
                progress.update(bar, advance=1, description="overhead")
    for rate in bits if "time" in chosen else ():
        console.print(times_table(lines, rate, hosts))
    if "accuracy" in chosen:
        console.print(accuracy_table(lines, trained))
    if "overhead" in chosen:
        console.print(overhead_table(lines))
    figures = figures_of(lines)
    if figures:
        console.print(report.figures_table(figures))
    write_json(json_file, {
        "bench": "torch", "environment": facts, "hosts": hosts, "lines": lines,
        "figures": [figure.json() for figure in figures],
    })  # fmt: skip


def on_hosts(network: Network, cases: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """What rank 0 says of each case, one process on each host, started by one torchrun on each."""
    path = network.folder / "plan.json"
    path.write_text(json.dumps({"timeout": TIMEOUT, "cases": cases}))
    with tempfile.TemporaryFile("w+", dir=network.folder) as said:
        started = [
            host.popen(
                [*TORCHRUN, "--nnodes", str(network.size), "--nproc-per-node", "1", "--node-rank",
                 str(host.index), "--master-addr", network.hosts[0].address, "--master-port", str(PORT),
                 "-m", RANK, str(path)],
                stdout=subprocess.PIPE, stderr=said, text=True,
                env={**one_thread(), "GLOO_SOCKET_IFNAME": "eth0"},
            )
            for host in network.hosts
        ]  # fmt: skip
        yield from heard(started, said, PATIENCE)


def on_loopback(cases: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """The same for two processes of this machine."""
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryFile("w+") as said:
        path = Path(folder) / "plan.json"
        path.write_text(json.dumps({"timeout": TIMEOUT, "cases": cases}))
        argv = [*TORCHRUN, "--standalone", "--nproc-per-node", "2", "-m", RANK, str(path)]
        started = subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=said, text=True, env=one_thread())
        yield from heard([started], said, PATIENCE)


TORCHRUN = [sys.executable, "-m", "torch.distributed.run"]


def step_and_communication(line: dict[str, Any]) -> tuple[float, float]:
    """Median seconds of a step, and of what communication adds to it; no less than 10 us."""
    step, computation = (median(line["seconds"][kind]) for kind in ("step", "computation"))
    return step, max(step - computation, 1e-5)


def _timed(lines: list[dict[str, Any]], rate: float) -> dict[tuple[str, str], dict[str, Any]]:
    return {
        (line["model"], line["system"]): line
        for line in lines
        if line["what"] == "time" and line["rate"] == rate
    }


def _trained(lines: list[dict[str, Any]]) -> dict[tuple[str, str], dict[str, Any]]:
    return {(line["model"], line["system"]): line for line in lines if line["what"] == "accuracy"}


def times_table(lines: list[dict[str, Any]], rate: float, hosts: int) -> Table:
    """Time per step and of communication, by model and system, at one rate."""
    columns = ("", "model", "ms/step", "vs DDP", "communication, ms", "vs DDP")
    table = Table(f"{rate_text(rate)}, {hosts} hosts", *columns, left=2)
    found = _timed(lines, rate)
    for (model, system), line in found.items():
        step, communication = step_and_communication(line)
        base = found.get((model, "plain"))
        ratios = ["-", "-"]
        if base is not None:
            ratios = [
                f"{theirs / own:.2f}x"
                for theirs, own in zip(step_and_communication(base), (step, communication), strict=True)
            ]
        size = f"{model}, {4e-6 * line['values']:.1f} MB"
        cells = (f"{1e3 * step:.1f}", ratios[0], f"{1e3 * communication:.1f}", ratios[1])
        table.add_row(SYSTEMS[system], size, *cells, style="bold" if system in OURS else None)
    return table


def accuracy_table(lines: list[dict[str, Any]], steps: int) -> Table:
    """What became of each training."""
    table = Table(f"After {steps} steps", "", "model", "accuracy or loss", "same bits at all ranks", left=2)
    for (model, system), line in _trained(lines).items():
        score = f"{line['score']:.1f} %" if line["final"] == "accuracy" else f"{line['score']:.4f}"
        table.add_row(SYSTEMS[system], model, score, "yes" if line["same_bits"] else "no")
    return table


def overhead_table(lines: list[dict[str, Any]]) -> Table:
    """Time per bucket on loopback."""
    found = [line for line in lines if line["what"] == "overhead"]
    names = list(found[0]["seconds"]) if found else []
    table = Table("One bucket on loopback, 2 processes, ms", "values", *names)
    for line in found:
        times = (f"{1e3 * median(line['seconds'][name]):.2f}" for name in names)
        table.add_row(f"{line['values']:,}", *times)
    return table


def figures_of(lines: list[dict[str, Any]]) -> list[report.Figure]:
    """What is asked at 1 Gbit/s, and of accuracy, of each of this package's ways."""
    figures = []
    found = _timed(lines, 1e9)
    for (model, system), line in found.items():
        if system not in OURS or (model, "plain") not in found:
            continue
        step, communication = step_and_communication(line)
        raw = step_and_communication(found[model, "plain"])[1]
        name = f"{model}, {SYSTEMS[system]}"
        figures.append(
            report.Figure(f"{name}: communication at 1 Gbit/s, DDP / it", raw / communication, LESS)
        )
        theirs = [found[model, other] for other in ("fp16", "bf16", "powersgd") if (model, other) in found]
        if theirs:
            best = min(step_and_communication(other)[0] for other in theirs)
            figures.append(report.Figure(f"{name}: step, torch's fastest hook / it", best / step, 1.0))
    scores = _trained(lines)
    for (model, system), line in scores.items():
        if system not in OURS or (model, "plain") not in scores:
            continue
        name, plain = f"{model}, {SYSTEMS[system]}", scores[model, "plain"]["score"]
        if line["final"] == "accuracy":
            lost = max(0.0, plain - line["score"])
            figures.append(report.Figure(f"{name}: accuracy below DDP's", lost, POINTS, True, "points"))
        else:
            more = max(0.0, 100 * (line["score"] / plain - 1))
            figures.append(report.Figure(f"{name}: loss above DDP's", more, PERCENT, True, "%"))
    return figures

# SPDX-License-Identifier: BSD-2-Clause
"""``inceptionn bench torch``: DDP between shaped hosts, with this package's hooks and torch's own."""

import json
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from ....commands import report
from ....commands.console import new_progress
from ....commands.study import Study, flat, measurement
from ....netns import Network, require
from ....system.extras import pip_install
from ...training.data import require_digits
from ..common.job import heard, one_thread
from .tables import SYSTEMS, figures_of, tables_of

RANK = "inceptionn.evaluate.bench.torch.rank"
PORT = 29540
TIMEOUT = 60.0
"""Seconds without progress after which a rank gives up."""
PATIENCE = 120.0
"""Seconds that a rank may take to start, or for one step: rank 0 shows every second that it goes on."""
PARTS = ("time", "accuracy", "overhead")
BUCKETS = (10_000, 100_000, 1_000_000)
MODELS = {"mlp": 16, "cnn": 16, "transformer": 8}
"""Samples of each rank in a step."""


@measurement("torch")
def torch(
    study: Study,
    hosts: Annotated[int, report.whole(2, 16, "Hosts, one process each.")] = 4,
    rates: Annotated[str, report.listed("Bits per second of the links.")] = "100m,1g,10g",
    models: Annotated[str, report.listed(", ".join(MODELS))] = ",".join(MODELS),
    systems: Annotated[str, report.listed(", ".join(SYSTEMS))] = ",".join(SYSTEMS),
    steps: Annotated[int, report.whole(1, 1000, "Timed steps of each system, model and rate.")] = 10,
    trained: Annotated[int, report.whole(10, 100_000, "Steps of each training for accuracy.")] = 300,
    bound: report.Bound = 10,
    seed: Annotated[int, report.whole(0, 2**32 - 1, "Of the first weights and the batches.")] = 0,
    seeds: Annotated[int, report.whole(1, 100, "Trainings for accuracy, each with the next seed.")] = 3,
    optimizer: Annotated[Literal["sgd", "adam"], typer.Option(help="SGD has momentum.")] = "sgd",
    only: Annotated[str, report.listed(", ".join(PARTS))] = ",".join(PARTS),
    quick: Annotated[bool, report.quick(rates="1g", models="mlp", steps=4, trained=60, seeds=1)] = False,
) -> None:
    """Measure PyTorch's DDP: plain, with torch's fp16, bf16 and PowerSGD hooks, and with this package's.

    About half an hour, with --quick two minutes.

    Times (needs root): a process on each host, links with a rate. Communication is a step's time minus that
    of the same step under ``no_sync``, alternating with it: what overlaps with the backward pass does not
    count. Accuracy: complete training runs without a rate limit (also as root). Overhead: one bucket on
    loopback, 2 processes. An interrupted run shows what it has measured.
    """
    chosen = report.choices(only, PARTS, "--only")
    named = report.choices(models, tuple(MODELS), "--models")
    ways = report.choices(systems, tuple(SYSTEMS), "--systems")
    bits = report.rates(rates)
    if find_spec("torch") is None:
        raise ModuleNotFoundError(f"torch is not installed: {pip_install('torch')}", name="torch")
    require_digits()
    common = {"bound": 2.0**-bound, "seed": seed, "optimizer": optimizer}
    cases = [{"model": m, "system": s, "batch": MODELS[m], **common} for m in named for s in ways]
    runs: list[tuple[float | None, list[dict[str, Any]]]] = []
    if "time" in chosen:
        runs += [(rate, [{"what": "time", "steps": steps, **case} for case in cases]) for rate in bits]
    if "accuracy" in chosen:
        several = [{**case, "seed": seed + n} for n in range(seeds) for case in cases]
        runs.append((None, [{"what": "accuracy", "steps": trained, **case} for case in several]))
    if runs:
        require()
    lines: list[dict[str, Any]] = []
    with new_progress(study.console) as progress, ExitStack() as at_the_end:
        # An interrupted run shows what it has measured.
        at_the_end.callback(finished, study, hosts, trained, lines)
        total = sum(len(plan) for _, plan in runs) + len(BUCKETS) * ("overhead" in chosen)
        bar = progress.add_task("", total=total)

        def note(line: dict[str, Any], rate: float | None = None) -> None:
            lines.append({**line, "rate": rate})
            named = f": {SYSTEMS[line['system']]}, {line['model']}" if "system" in line else ""
            progress.update(bar, advance=1, description=line["what"] + named)

        if runs:
            with Network(hosts) as network:
                for rate, plan in runs:
                    network.shape(rate)
                    for line in on_hosts(network, plan):
                        note(line, rate)
        if "overhead" in chosen:
            plan = [{"what": "overhead", "values": n, "steps": 3 * steps, **common} for n in BUCKETS]
            for line in on_loopback(plan):
                note(line)


def finished(study: Study, hosts: int, trained: int, lines: list[dict[str, Any]]) -> None:
    """Fill the study with the results in the lines, as far as there are any."""
    study.show(*tables_of(lines, hosts, trained))
    study.figures += figures_of(lines)
    study.rows = [flat(line) for line in lines]
    study.facts |= {"hosts": hosts, "lines": lines}


def on_hosts(network: Network, cases: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Yield rank 0's line for each case, with one process on each host."""
    address = {"MASTER_ADDR": network.hosts[0].address, "MASTER_PORT": str(PORT)}
    starts = [host.popen for host in network.hosts]
    return on(starts, network.folder, {**address, "GLOO_SOCKET_IFNAME": "eth0"}, cases)


def on_loopback(cases: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Yield the same for two processes of this machine."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    address = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    with tempfile.TemporaryDirectory() as folder:
        yield from on([subprocess.Popen] * 2, Path(folder), address, cases)


def on(
    starts: Sequence[Callable[..., subprocess.Popen[str]]],
    folder: Path,
    address: dict[str, str],
    cases: list[dict[str, Any]],
) -> Iterator[dict[str, Any]]:
    """Start ranks with torchrun's environment; yield rank 0's results. ``address``: where they meet."""
    path = folder / "plan.json"
    path.write_text(json.dumps({"timeout": TIMEOUT, "cases": cases}))
    argv = [sys.executable, "-m", RANK, str(path)]
    group = {**one_thread(), **address, "WORLD_SIZE": str(len(starts))}
    with tempfile.TemporaryFile("w+", dir=folder) as said:
        started = [
            start(argv, env={**group, "RANK": str(rank)}, stdout=subprocess.PIPE, stderr=said, text=True)
            for rank, start in enumerate(starts)
        ]
        yield from heard(started, said, PATIENCE)

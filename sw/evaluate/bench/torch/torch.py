# SPDX-License-Identifier: BSD-2-Clause
"""``inceptionn bench torch``: DDP between shaped hosts, with this package's hooks and torch's own."""

import socket
from collections.abc import Generator, Iterator
from contextlib import closing
from typing import Annotated, Literal

import typer

from ....commands import report
from ....commands.study import Study, flat, measurement
from ....netns import Network, require
from ....system.programs import usable_processors
from ...training.data import require_digits, require_torch
from ..common.job import Line, counted, torch_lines_of
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
    require_torch()
    require_digits()
    common = {"bound": 2.0**-bound, "seed": seed, "optimizer": optimizer}
    cases = [{"model": m, "system": s, "batch": MODELS[m], **common} for m in named for s in ways]
    runs: list[tuple[float | None, list[Line]]] = []
    if "time" in chosen:
        runs += [(rate, [{"what": "time", "steps": steps, **case} for case in cases]) for rate in bits]
    if "accuracy" in chosen:
        several = [{**case, "seed": seed + n} for n in range(seeds) for case in cases]
        runs.append((None, [{"what": "accuracy", "steps": trained, **case} for case in several]))
    if runs:
        require()
    buckets = [
        {"what": "overhead", "values": values, "steps": 3 * steps, **common}
        for values in BUCKETS if "overhead" in chosen
    ]  # fmt: skip
    lines: list[Line] = []
    total = sum(len(cases) for _, cases in runs) + len(buckets)
    try:
        with closing(measured(hosts, runs, buckets)) as found:
            for line in counted(study.console, found, total, described):
                lines.append(line)
    finally:  # an interrupted run shows what it has measured
        study.show(*tables_of(lines, hosts, trained))
        study.figures += figures_of(lines, hosts <= usable_processors())
        study.rows = [flat(line) for line in lines]
        study.facts |= {"hosts": hosts, "lines": lines}


def described(line: Line) -> str:
    """Describe what a line measured."""
    system = f": {SYSTEMS[line['system']]}, {line['model']}" if "system" in line else ""
    return line["what"] + system


def measured(
    hosts: int, runs: list[tuple[float | None, list[Line]]], buckets: list[Line]
) -> Generator[Line, None, None]:
    """Yield rank 0's line for each case, with its rate: of the runs between hosts, then of the buckets."""

    def lines_of(network: Network | None, cases: list[Line], port: int) -> Iterator[Line]:
        return torch_lines_of(network, RANK, {"timeout": TIMEOUT, "cases": cases}, port, PATIENCE)

    if runs:
        with Network(hosts) as network:
            for rate, cases in runs:
                network.shape(rate)
                for line in lines_of(network, cases, PORT):
                    yield {**line, "rate": rate}
    if buckets:
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        for line in lines_of(None, buckets, port):
            yield {**line, "rate": None}

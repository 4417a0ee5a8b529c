# SPDX-License-Identifier: BSD-2-Clause
"""``inceptionn bench slow-links``: DDP and local updates on a real text, by loss, bytes and time."""

from collections.abc import Generator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Annotated, Literal

import typer

from .....commands import report
from .....commands.study import Study, flat, measurement
from .....netns import Network, require
from .....netns import seconds as seconds_of
from .....system.options import usage_error
from ....training.data import require_torch
from ...common.job import Line, counted, torch_lines_of
from ...common.rows import Row, where
from .systems import FEW, WORDS, System
from .tables import chart, losses_table, times_tables

TEXT = Path("/usr/share/dictd/gcide.dict.dz")
"""Debian's dict-gcide: 40 MB, the Collaborative International Dictionary of English, GPL 2 or later."""
RANK = f"{__package__}.rank"
PORT, TIMEOUT = 29550, 300.0
"""Where the ranks meet, and the seconds without progress after which one gives up."""
PATIENCE = 400.0
"""Seconds that the ranks may be silent: the raw weights of the large model take 15 at 50 Mbit/s."""
PARTS = ("losses", "times")
SPREAD = 1.4
"""A point of a training's curve has so many times the steps of the point before it, or more."""
BURST = 16 * 1024
"""Bytes that may pass a link at once. `Network` lets a whole compressed exchange of the small model pass."""


class Links(Network):
    """Hosts whose links keep their rate from the first packets on."""

    @property
    def burst(self) -> int:
        """Bytes of the token bucket."""
        return BURST


@measurement("slow-links", plot=True)
def slow_links(
    study: Study,
    hosts: Annotated[int, report.whole(2, 16, "Hosts, one process each.")] = 4,
    rates: Annotated[str, report.listed("Bits per second of the links.")] = "50m,200m,1g",
    delays: Annotated[
        str, report.listed("One way, of each link, such as 5ms: a round trip passes four.")
    ] = "0us",
    systems: Annotated[
        str, report.listed("Of DDP, or of local updates by their steps, such as ddp:fp16 or h16:k5.")
    ] = ",".join(WORDS),
    size: Annotated[Literal["small", "large"], typer.Option(help="0.5 or 11 million parameters.")] = "small",
    steps: Annotated[int, report.whole(8, 100_000, "Inner steps of each training.")] = 512,
    timed: Annotated[int, report.whole(1, 1000, "Timed steps and exchanges of each system and link.")] = 5,
    seed: report.FirstSeed = 0,
    seeds: Annotated[int, report.whole(1, 100, "Trainings of each system.")] = 3,
    text: Annotated[
        Path, typer.Option(metavar="FILE", help="Text to learn, gzip, too. Default: Debian's dict-gcide.")
    ] = TEXT,
    only: Annotated[str, report.listed(", ".join(PARTS))] = ",".join(PARTS),
    quick: Annotated[
        bool, report.quick(rates="50m,1g", steps=64, timed=2, seeds=1, systems=",".join(FEW))
    ] = False,
) -> None:
    """Measure DDP and local updates (DiLoCo) on slow links: what they cost in loss, bytes and time.

    Needs root. Hours on two processors, with --quick about ten minutes.

    A transformer of bytes learns a text by AdamW, in a process on each host. Losses: whole trainings without
    a rate limit, with the bytes that a host's interface counts. Times: steps on each link, of the slowest
    rank; what overlaps with the backward pass does not count as exchange. Losses at equal bytes and time are
    read off the curves. PowerSGD compresses from the third step on. An interrupted run shows what it has
    measured.
    """
    chosen, words = report.choices(only, PARTS, "--only"), report.words(systems, "--systems", "systems")
    waits = report.words(delays, "--delays", "delays")
    with usage_error():
        for word in words:
            System.of(word)
        for wait in waits:
            seconds_of(wait)
    bits = report.rates(rates)
    if not text.is_file():
        raise typer.BadParameter(f"no text at {text}: apt-get install dict-gcide, or --text FILE")
    require_torch()
    require()
    common = {"size": size, "text": str(text.resolve())}
    losses = [
        {"what": "loss", "system": word, "seed": seed + n, "steps": steps, "spread": SPREAD, **common}
        for n in range(seeds)
        for word in words
    ] if "losses" in chosen else []  # fmt: skip
    times = [{"what": "time", "system": word, "seed": seed, "steps": timed, **common} for word in words]
    links = [(rate, wait) for wait in waits for rate in bits] if "times" in chosen else []
    runs = [(None, "0us", losses)] * bool(losses) + [(*link, times) for link in links]
    lines: list[Line] = []
    total = sum(len(cases) for *_, cases in runs)
    try:
        with closing(measured(hosts, runs)) as found:
            for line in counted(study.console, found, total, "{0[what]}: {0[system]}".format):
                lines.append(line)
    finally:  # an interrupted run shows what it has measured
        study.conditions.append(
            f"{hosts} hosts, {size} transformer of bytes, AdamW, {steps} steps, {text.name}"
        )
        study.show(*losses_table(lines), *times_tables(lines, steps))
        study.rows = rows_of(lines)
        study.facts |= {"hosts": hosts, "size": size, "lines": lines}
        if lines:
            study.plot(chart(lines), 12.8, 5.6)


def measured(hosts: int, runs: Sequence[tuple[float | None, str, list[Line]]]) -> Generator[Line, None, None]:
    """Yield rank 0's line for each case, with its link's rate and delay."""
    for rate, delay, cases in runs:
        with Links(hosts, rate, delay=delay) as network:
            plan = {"timeout": TIMEOUT, "cases": cases}
            for line in torch_lines_of(network, RANK, plan, PORT, PATIENCE):
                yield {**line, "rate": rate, "delay": delay}


def rows_of(lines: Sequence[Line]) -> list[Row]:
    """Return a row for each point of the curves, and for each line of times."""
    points = [
        {**{name: line[name] for name in ("what", "system", "seed")}, "steps": at, "loss": loss, "sent": sent}
        for line in where(lines, what="loss")
        for at, loss, sent in line["curve"]
    ]
    return [*points, *map(flat, where(lines, what="time"))]

# SPDX-License-Identifier: BSD-2-Clause
"""``inceptionn bench calls``: what one all-reduce costs by size and ranks, and its parts."""

from collections.abc import Iterator
from functools import partial
from importlib.util import find_spec
from typing import Annotated, Any

from ....commands import report
from ....commands.study import Columns, Figure, Study, flat, measurement
from ....netns import Network, rate_text, require
from ..common.job import Line, counted, lines_of
from . import calls_rank
from .calls_rank import AGREED, CODED, FED, GLOO, PARTS

PATIENCE = 300.0
MOST_WITH_GLOO = 8
"""Hosts up to which torch is measured too: each takes 300 MB."""
FIXED = 4096
"""Values of the call whose cost is nearly all fixed."""
TARGET = 1.3


@measurement("calls")
def calls(
    study: Study,
    hosts: Annotated[str, report.listed("Numbers of hosts, 2 to 64.")] = "2,4,16",
    values: Annotated[
        str, report.listed("Values of a call, at each host.")
    ] = "1024,4096,65536,1000000,6250000",
    rate: Annotated[str, report.listed("Bits per second of every link.")] = "1g",
    bound: report.Bound = 10,
    repeats: Annotated[int, report.whole(1, 1000, "Turns; the median counts.")] = 5,
    seed: report.Seed = 1,
    quick: Annotated[bool, report.quick(hosts="2,4", values="4096,1000000", repeats=3)] = False,
) -> None:
    """Time all-reduces between hosts: compressed, with error feedback, and by gloo. Needs root.

    About five minutes, with --quick one.

    The hosts are network namespaces of this machine, and share its processors. The parts are those of the
    compressed call at rank 0: until all ranks had made it, in the codec, until data had arrived, and handing
    data to the kernel. The rest is Python. "exchange" is an agreement alone. gloo adds float32 values.
    """
    sizes = report.numbers(hosts, 2, 64, "--hosts")
    counts = report.numbers(values, 1, 1 << 28, "--values")
    bits = report.rate(rate)
    require()
    plan = {"values": counts, "repeats": repeats, "bound": 2.0**-bound, "seed": seed}
    lines: list[Line] = []
    for line in counted(study.console, measured(sizes, bits, plan), len(sizes) * len(counts), _text):
        lines.append(line)
    study.conditions.append(f"links of {rate_text(bits)}, planes, error bound 2**-{bound}, one thread each")
    study.table("Milliseconds of a call", COLUMNS, lines, left=0)
    study.figures += [
        Figure(
            f"{line['hosts']} hosts, {FIXED} values: compressed, of gloo",
            line["seconds"][CODED] / line["seconds"][GLOO], TARGET, most=True,
        )
        for line in lines
        if line["values"] == FIXED and GLOO in line["seconds"]
    ]  # fmt: skip
    study.rows = [flat(line) for line in lines]
    study.facts |= {"rate": bits, "error_bound": 2.0**-bound, "lines": lines}


def measured(sizes: list[int], bits: float, plan: dict[str, Any]) -> Iterator[Line]:
    """Yield a line for each number of hosts and values."""
    for hosts in sizes:
        gloo = hosts <= MOST_WITH_GLOO and find_spec("torch") is not None
        with Network(hosts) as network:
            network.shape(bits)
            for line in lines_of(network, calls_rank.main, {**plan, "gloo": gloo}, PATIENCE):
                yield {"hosts": hosts, **line}


def _text(line: Line) -> str:
    return f"{line['hosts']} hosts, {line['values']} values"


def _way(name: str, line: Line) -> str:
    seconds = line["seconds"].get(name)
    return "-" if seconds is None else f"{1e3 * seconds:.2f}"


def _part(name: str, line: Line) -> str:
    return f"{1e3 * line['parts'][name]:.2f}"


COLUMNS: Columns[Line] = {
    "hosts": lambda line: str(line["hosts"]),
    "values": lambda line: str(line["values"]),
    **{name: partial(_way, name) for name in (GLOO, CODED)},
    **{name: partial(_part, name) for name in PARTS},
    "rest": lambda line: f"{1e3 * (line['seconds'][CODED] - sum(line['parts'].values())):.2f}",
    **{name: partial(_way, name) for name in (FED, AGREED)},
}

# SPDX-License-Identifier: BSD-2-Clause
"""``inceptionn bench allreduce``: rings, aggregators and MPI between hosts whose network has a rate."""

from collections.abc import Collection, Iterator
from typing import Annotated, Any

import typer

from .... import converted
from ....commands import report
from ....commands.study import Study, measurement
from ....netns import Network, bits_per_second, rate_text, require
from ....system.extras import pip_install
from ...training.data import require_digits
from ..common import data
from ..common.job import Line, counted, lines_of, with_mpi
from . import allreduce_rank
from . import allreduce_report as tables
from .allreduce_report import Results
from .variants import ALL_REDUCES, HALVES, MEASURED, MPI, OPS, RING_BF16, RING_RAW, VARIANTS

UNSHAPED = "unshaped"
DTYPES = ("float32", "bfloat16")
TYPES = "values: {}. bfloat16: sums and means of rings, with scale auto, against a ring that sends bfloat16."
SLOW, VERY_SLOW = 1.0, 5.0
"""Seconds that the link alone needs from which on three rounds are made at most, or one."""
PATIENCE = 150.0
"""Seconds without a line after which the ranks are given up, and ten times what the link needs."""


@measurement("allreduce", plot=True)
def allreduce(
    study: Study,
    size: Annotated[int, report.whole(1, 1024, "MB of values at each host.")] = 25,
    hosts: Annotated[int, report.whole(2, 16, "Hosts.")] = 4,
    rates: Annotated[
        str, report.listed("Bits per second of every link, such as 100m, or unshaped.")
    ] = "100m,1g,10g",
    kinds: Annotated[str, report.listed("synthetic, real, or both.", "--data")] = "synthetic,real",
    file: report.NpyFile = None,
    dtype: Annotated[str, report.type_of(DTYPES, TYPES)] = DTYPES[0],
    ops: Annotated[
        str, report.listed(f"Of {', '.join(OPS)}; the first two all-reduce.", "--op")
    ] = "sum,mean",
    only: Annotated[str | None, report.listed("Variants whose names contain one of these.")] = None,
    bound: report.Bound = 10,
    repeats: Annotated[int, report.whole(1, 1000, "Rounds; the median counts.")] = 5,
    mtu: Annotated[int, report.whole(576, 9216, "Largest IP packet in bytes.")] = 1500,
    seed: report.Seed = 1,
    quick: Annotated[bool, report.quick(size=8, repeats=3, rates="1g,10g")] = False,
) -> None:
    """Time all-reduces between hosts with rate-limited links: with codec, raw, and by MPI. Needs root.

    About six minutes, with --quick one.

    The hosts are network namespaces of this machine, joined by a bridge; tc limits every link's rate in each
    direction. They share this machine's processors and memory. Everything is removed at the end.
    """
    chosen = report.choices(kinds, (data.SYNTHETIC, data.REAL), "--data")
    chosen_ops = report.choices(ops, OPS, "--op")
    chosen_rates = _rates(rates)
    halves, raw = dtype == "bfloat16", RING_BF16 if dtype == "bfloat16" else RING_RAW
    names = _variants(only, HALVES if halves else MEASURED, raw)
    if halves and not set(chosen_ops) <= set(ALL_REDUCES):
        raise typer.BadParameter(
            f"is measured with {', '.join(ALL_REDUCES)}, not {ops!r}", param_hint="--dtype"
        )
    if file is None and data.REAL in chosen:
        require_digits()
    item = 2 if halves else 4
    count = size * 1_000_000 // item
    given = None if file is None else {file.name: data.of_file(file, count, hosts)}
    require()
    if MPI in names and not with_mpi():
        names.remove(MPI)
        study.console.print(f"{MPI}: mpi4py is not installed: {pip_install('bench')}")
    results = Results(2.0**-bound, hosts, raw)
    with Network(hosts, mtu=mtu) as network:
        with study.console.status("data"):
            arrays = given or {kind: data.arrays(kind, count, seed, hosts) for kind in chosen}
            plan = {
                "bound": 2.0**-bound, "ops": chosen_ops, "scale": "auto" if halves else None,
                "arrays": {
                    kind: data.saved(network.folder, str(n), [converted(values, dtype) for values in each])
                    for n, (kind, each) in enumerate(arrays.items())
                },
            }  # fmt: skip
        rounds = {rate: _rounds(names, rate, item * count, hosts, repeats) for rate in chosen_rates}
        times = [
            turns * sum(VARIANTS[name].does(op) for op in chosen_ops)
            for each in rounds.values()
            for name, turns in each.items()
        ]
        lines = measured(network, plan, rounds, item * count)
        for rate, line in counted(study.console, lines, len(arrays) * sum(times), _text):
            results.add(rate, line)
        described = _described(network)
    study.conditions.append(
        f"{hosts} hosts, {size} MB of {'bf16' if halves else 'fp32'} values each, error bound "
        f"{results.bound:g}, MTU {described['mtu']}, TCP {described['congestion_control']}"
    )
    study.show(*tables.tables_of(results))
    study.figures += tables.figures_of(results)
    study.rows = list(results.rows.values())
    study.facts |= {
        "dtype": dtype, "network": described, "bytes": item * count, "error_bound": 2.0**-bound,
        "rows": study.rows,
    }  # fmt: skip
    study.plot(*tables.chart_of(results))
    study.finish()
    results.verify()


def measured(
    network: Network, plan: dict[str, Any], rounds: dict[float | None, dict[str, int]], size: int
) -> Iterator[tuple[float | None, Line]]:
    """Shape the network and run all rounds at each rate; yield the rate and each line of rank 0.

    ``rounds``: how often each variant is measured, by rate. ``size``: bytes of a rank's values.
    """
    for rate, names in rounds.items():
        network.shape(rate)
        longest = max(_link_seconds(name, rate, size, network.size) for name in names)
        whole = {**plan, "rounds": names}
        for line in lines_of(network, allreduce_rank.main, whole, PATIENCE + 10 * longest):
            yield rate, line


def _text(found: tuple[float | None, Line]) -> str:
    rate, line = found
    return f"{rate_text(rate)}, {line['data']}: {line['variant']}"


def _rates(text: str) -> list[float | None]:
    """Return the rates of a list, None for "unshaped". A usage error names the wrong one."""
    found: list[float | None] = []
    for word in report.words(text, "--rates", "rates"):
        try:
            found.append(None if word == UNSHAPED else bits_per_second(word))
        except ValueError as error:
            raise typer.BadParameter(f"--rates: {error} (or {UNSHAPED!r})") from error
    return list(dict.fromkeys(found))


def _variants(only: str | None, known: Collection[str], raw: str) -> list[str]:
    """Return the known variants, or the requested ones; always with the raw ring, for comparison."""
    if only is None:
        return list(known)
    words = [word.strip() for word in only.split(",")]
    for word in words:
        if not word or not any(word in name for name in known):
            raise typer.BadParameter(f"--only: no variant of {', '.join(known)} contains {word!r}")
    return [name for name in known if name == raw or any(word in name for word in words)]


def _link_seconds(name: str, rate: float | None, size: int, hosts: int) -> float:
    """Return the time that the busiest port alone would take for raw values."""
    return 0.0 if rate is None else 8 * size * VARIANTS[name].volume(hosts) / rate


def _rounds(names: list[str], rate: float | None, size: int, hosts: int, repeats: int) -> dict[str, int]:
    """Return how often each variant is measured."""
    found = {}
    for name in names:
        seconds = _link_seconds(name, rate, size, hosts)
        found[name] = min(repeats, 1 if seconds > VERY_SLOW else 3 if seconds > SLOW else repeats)
    return found


def _described(network: Network) -> dict[str, Any]:
    """Describe the network, for the JSON file."""
    command = ["cat", "/proc/sys/net/ipv4/tcp_congestion_control"]
    control = network.hosts[0].run(command, capture_output=True, text=True, check=True).stdout.strip()
    return {
        "hosts": network.size, "mtu": network.mtu, "queue_seconds": network.queue,
        "shaping": "tbf, both ends of each link", "congestion_control": control,
    }  # fmt: skip

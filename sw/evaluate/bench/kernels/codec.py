# SPDX-License-Identifier: BSD-2-Clause
"""``inceptionn bench codec``: both codecs' paths against memcpy and against what else can be installed."""

from __future__ import annotations

import timeit
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from itertools import product
from pathlib import Path
from typing import Annotated, Any, NamedTuple, get_args

import numpy as np
import typer

from .... import (
    AUTOMATIC,
    BOUNDED,
    DEFAULTS,
    NUMPY,
    STREAM_LANES,
    Codec,
    Variant,
    available_paths,
    operation_paths,
    using_path,
)
from ....commands import report
from ....commands.choice import Choice, choices
from ....commands.console import Console, CsvFile, JsonFile, PlotFile, Table, new_figure, tracked, write_plot
from ....commands.environment import installed
from ....commands.own_codec import OwnCodec, own_codec
from ....commands.speed import MEMCPY, Floats, best_seconds, copying, speed
from ....system.options import one_of
from ....system.text import printable
from ...training.data import require_digits
from ..common import data
from .halves import Dtype, half_figures, half_rows, half_table
from .memory import peak_of
from .peers import PEERS, Peer, Ready
from .sums import sum_figures

SMALL = 1024
"""Values of a small message."""
SAMPLE = 1 << 21
"""Values at most for what both codecs do at several bounds."""
GFNI = "avx512-gfni"
TARGETS = {
    "bounded": (("compress", AUTOMATIC, 1.0), ("compress", "avx2", 0.6), ("decompress", AUTOMATIC, 0.85)),
    "planes": (
        ("compress", AUTOMATIC, 1.3),
        ("decompress", AUTOMATIC, 0.95),
        ("compress", "avx2", 0.6),
        ("decompress", "avx2", 0.8),
    ),
}
"""Shares of memcpy with one thread, by codec or mode; auto: the path that is chosen by measurement."""
SLOW_SECONDS = 3.0
"""Seconds that one row may take beyond its first rounds."""
OWN, PEER, WITH = "inceptionn", "peer", "with"


@dataclass
class Row:
    """One implementation on one array. Rates in GB/s of fp32; bounds and bytes as the names say."""

    data: str
    name: str
    kind: str
    threads: int
    memcpy: float
    compress: float
    decompress: float
    ratio: float
    largest_error: float
    """In error bounds."""
    small_compress: float
    small_decompress: float
    """Seconds per call of 1024 values."""
    memory_compress: float | None
    memory_decompress: float | None
    """Peak, input and output included, in multiples of input and output."""
    variant: str | None = None
    """The codec, or the mode of the paper's; None for other compressors."""


def codec(
    size: Annotated[int, report.whole(1, 4096, "MB of values in an array.")] = 64,
    bound: report.Bound = 10,
    kinds: Annotated[
        str | None, report.listed("synthetic, real, or both. Default: what is installed.", "--data")
    ] = None,
    file: report.NpyFile = None,
    dtype: Annotated[
        Dtype,
        one_of(
            get_args(Dtype),
            "Type of the values: {}. Types of 16 bits have a shorter table: both "
            "codecs, one thread, without other compressors.",
            metavar="TYPE",
        ),
    ] = "float32",
    repeats: Annotated[int, report.whole(1, 1000, "Rounds; the best one counts.")] = 40,
    peers: Annotated[bool, typer.Option(help="Measure other compressors too.")] = True,
    own: OwnCodec = None,
    seed: report.Seed = 1,
    quick: Annotated[bool, report.quick(size=8, repeats=2)] = False,
    json_file: JsonFile = None,
    csv_file: CsvFile = None,
    plot: PlotFile = None,
) -> None:
    """Measure both codecs against memcpy and other compressors, on the same data in the same run.

    Runs every path that this processor supports, with one thread and with two, and names those that
    "auto", the default, takes for each operation; then both codecs at other bounds, on a sample of the
    data, and exact sums of planes against sums of fp32 values. "synthetic": runs of normal and Laplace
    values of standard deviations 1e-3 to 1e-2. "real": gradients of a network during training on
    handwritten digits (scikit-learn). Other compressors get the same error bound; those that are not
    installed are named (the extra `bench` installs all). A codec of your own (--with) has its own bound.
    About three minutes, with --quick half a minute.
    """
    out = report.Report(seed, json_file, csv_file, plot)
    other = own_codec(own)
    chosen, missing = _data(kinds, file)
    if dtype != "float32":
        if plot is not None or own is not None:
            raise typer.BadParameter("--plot and --with need float32 values", param_hint="--dtype")
        _halves(out, _arrays(chosen, file, size * 1_000_000 // 2, seed), dtype, bound, repeats)
        return
    taken = _chosen()
    count = size * 1_000_000 // 4
    arrays = _arrays(chosen, file, count, seed)
    jobs = [*_jobs(peers)]
    if other is not None:  # with its own error bound
        ready = Ready(other.compress, other.decompress)
        jobs.append(Peer(other.name, "", lambda bound: ready))
    rows, absent = _measured(out.console, jobs, arrays, 2.0**-bound, repeats)
    out.show_conditions(f"{size} MB of fp32 values, error bound 2**-{bound}")
    listed = ", ".join(f"{name} {path}" for name, path in taken.items())
    out.console.print(f"auto: {listed}", soft_wrap=True)
    by_bound = {kind: choices(_sample(x), [0]) for kind, x in arrays.items()}
    out.show(_table(kind, [row for row in rows if row.data == kind]) for kind in arrays)
    out.show(_bounds_table(kind, found) for kind, found in by_bound.items())
    out.show([*missing, *(f"{peer.name}: {peer.package} is not installed" for peer in absent)])
    sums = [figure for kind, x in arrays.items() for figure in sum_figures(kind, x, 2.0**-bound, repeats)]
    out.show_figures([*figures_of(rows), *sums])
    facts = {
        "bench": "codec", "bytes": 4 * count, "error_bound": 2.0**-bound, "repeats": repeats,
        "rows": [asdict(row) for row in rows], "paths": taken,
        "by_bound": {kind: [asdict(choice) for choice in found] for kind, found in by_bound.items()},
        "not_installed": sorted({peer.package for peer in absent}),
    }  # fmt: skip
    out.write(facts, [asdict(row) for row in rows], lambda path: _draw(path, rows))


def _halves(out: report.Report, arrays: dict[str, Floats], dtype: Dtype, bound: int, repeats: int) -> None:
    """Measure values of 16 bits: rows, targets and the files."""
    rows = [row for kind, x in arrays.items() for row in half_rows(kind, x, dtype, 2.0**-bound, repeats)]
    size = max((2 * x.size for x in arrays.values()), default=0) / 1e6
    out.show_conditions(f"{size:g} MB of {dtype} values, error bound 2**-{bound}, one thread")
    out.show(half_table(kind, [row for row in rows if row.data == kind]) for kind in arrays)
    out.show_figures(half_figures(rows))
    listed = [asdict(row) for row in rows]
    facts = {"bench": "codec", "dtype": dtype, "error_bound": 2.0**-bound, "repeats": repeats, "rows": listed}
    out.write(facts, listed)


def _data(kinds: str | None, file: Path | None) -> tuple[list[str], list[str]]:
    """Return the kinds of data to measure, and the missing packages of others.

    Raises if a kind that was asked for is missing.
    """
    known = [data.SYNTHETIC, data.REAL]
    chosen = known if kinds is None else report.choices(kinds, known, "--data")
    try:
        if data.REAL in chosen and file is None:
            require_digits()
    except ModuleNotFoundError as error:
        if kinds is not None:
            raise
        return [data.SYNTHETIC], [f"{data.REAL}: {error}"]
    return chosen, []


def _measured(
    console: Console, jobs: list[Job | Peer], arrays: dict[str, Floats], bound: float, repeats: int
) -> tuple[list[Row], list[Peer]]:
    """Measure a row for each job and array; name the compressors that are not installed."""
    rows: list[Row] = []
    absent = [job for job in jobs if isinstance(job, Peer) and job.package and installed(job.package) is None]
    pairs = list(product(arrays, [job for job in jobs if job not in absent]))
    for kind, job in tracked(console, pairs, lambda pair: f"{pair[0]}: {_title(pair[1])}"):
        if isinstance(job, Peer):
            rows.append(_peer(kind, job, arrays[kind], bound, repeats))
        else:
            rows.append(_own(kind, job, arrays[kind], bound, repeats))
    return rows, absent


def _arrays(kinds: list[str], file: Path | None, count: int, seed: int) -> dict[str, Floats]:
    if file is not None:
        return {printable(file.name): data.own(file, count, 1)[0]}
    return {kind: data.arrays(kind, count, seed, 1)[0] for kind in kinds}


class Job(NamedTuple):
    """One of our codecs on one path."""

    variant: Variant
    path: str
    threads: int


def _jobs(peers: bool) -> Iterator[Job | Peer]:
    """Yield our codecs on their paths with their threads, then the others."""
    for variant, path in product(DEFAULTS, _own_paths()):
        if variant == BOUNDED and path == GFNI:
            continue  # the same as without GFNI
        for threads in (1,) if path == NUMPY else (1, 2):
            yield Job(variant, path, threads)
    if peers:
        yield from PEERS


def _chosen() -> dict[str, str]:
    """Return the path of each operation that ``auto`` takes here."""
    with using_path(_own_paths()[0]):
        return operation_paths()


def _own_paths() -> list[str]:
    paths = available_paths()
    return paths if paths == [NUMPY] else [AUTOMATIC, *paths]


def _title(job: Job | Peer) -> str:
    if isinstance(job, Peer):
        return job.name
    return f"{job.variant.name}, {job.path}, {job.threads} thread{'s' * (job.threads > 1)}"


def _sample(x: Floats) -> Floats:
    """Return 2 Mi values at most, in whole blocks from all over the array."""
    if x.size <= SAMPLE:
        return x
    blocks = x[: x.size // STREAM_LANES * STREAM_LANES].reshape(-1, STREAM_LANES)
    return np.ascontiguousarray(blocks[:: -(-x.size // SAMPLE)]).reshape(-1)


def _own(kind: str, job: Job, x: Floats, bound: float, repeats: int) -> Row:
    variant, path, threads = job
    with using_path(path):
        rates = speed(
            threads=threads, repeats=repeats, x=x, error_bound=bound, patience=SLOW_SECONDS, codec=variant
        )
        coder = Codec(bound, *variant, threads=threads)
        small = x[:SMALL].copy()
        stream = coder.compress(small)
        peaks = _memory(coder.compress, coder.decompress, len, x)
        return Row(
            data=kind, name=path, kind=OWN, threads=threads, variant=variant.name,
            **{name: rates[name] for name in (MEMCPY, "compress", "decompress", "ratio")},
            largest_error=float(np.abs(coder.lossy(x) - x).max()) / bound,
            small_compress=_per_call(lambda: coder.compress(small)),
            small_decompress=_per_call(lambda: coder.decompress(stream, SMALL)),
            memory_compress=peaks[0], memory_decompress=peaks[1],
        )  # fmt: skip


def _peer(kind: str, peer: Peer, x: Floats, bound: float, repeats: int) -> Row:
    compress, decompress, size = peer.prepare(bound)
    stream = compress(x)
    back = decompress(stream, x.size)
    if peer.lossless and not np.array_equal(back.view(np.uint32), x.view(np.uint32)):
        raise RuntimeError(f"{peer.name} does not restore its input")
    error = float(np.abs(back - x).max()) / bound
    del back
    calls = {**copying(x), "c": lambda: compress(x), "d": lambda: decompress(stream, x.size)}
    seconds = best_seconds(calls, repeats, SLOW_SECONDS)
    small = x[:SMALL].copy()
    small_stream = compress(small)
    peaks = _memory(compress, decompress, size, x)
    return Row(
        data=kind, name=peer.name, kind=PEER if peer.package else WITH, threads=1,
        memcpy=x.nbytes / seconds[MEMCPY] / 1e9,
        compress=x.nbytes / seconds["c"] / 1e9,
        decompress=x.nbytes / seconds["d"] / 1e9,
        ratio=x.nbytes / size(stream),
        largest_error=error,
        small_compress=_per_call(lambda: compress(small)),
        small_decompress=_per_call(lambda: decompress(small_stream, SMALL)),
        memory_compress=peaks[0], memory_decompress=peaks[1],
    )  # fmt: skip


def _per_call(call: Callable[[], object]) -> float:
    """Measure seconds per call: the best of many short runs."""
    timer = timeit.Timer(call)
    number = max(1, min(1000, int(2e-3 / max(timer.timeit(1), 1e-7))))
    return min(timer.repeat(repeat=40, number=number)) / number


def _memory(
    compress: Callable[[Floats], Any],
    decompress: Callable[[Any, int], Floats],
    size: Callable[[Any], int],
    x: Floats,
) -> tuple[float | None, float | None]:
    """Measure the peaks of one compression and one decompression. The caller gives them no memory."""
    up = peak_of(lambda: compress(x))
    stream = compress(x)
    down = peak_of(lambda: decompress(stream, x.size))
    both = x.nbytes + size(stream)
    return (
        None if up is None else (x.nbytes + up) / both,
        None if down is None else (size(stream) + down) / both,
    )


def figures_of(rows: list[Row]) -> list[report.Figure]:
    """Return the targets of the codec, for each array."""
    figures = []
    for kind in dict.fromkeys(row.data for row in rows):
        for name in (each.name for each in DEFAULTS):
            own = [row for row in rows if row.data == kind and row.variant == name]
            if own:
                figures += _figures_of(f"{kind}: {name}", name, own)
    return figures


def _figures_of(title: str, variant: str, rows: list[Row]) -> list[report.Figure]:
    figures = []
    own = {(row.name, row.threads): row for row in rows}
    best = rows[0]
    for name, path, target in TARGETS[variant]:
        row = own.get((path, 1))
        if row is not None:
            share = getattr(row, name) / row.memcpy
            figures.append(report.Figure(f"{title}: {name}, {row.name}, of memcpy", share, target))
    return [
        *figures,
        *_of_two_threads(title, best, own.get((best.name, 2))),
        report.Figure(f"{title}: compress 1 Ki values", best.small_compress * 1e6, 3, True, "µs"),
        report.Figure(f"{title}: decompress 1 Ki values", best.small_decompress * 1e6, 3, True, "µs"),
        report.Figure(f"{title}: memory, compress", best.memory_compress, 1.1, True),
        report.Figure(f"{title}: memory, decompress", best.memory_decompress, 1.1, True),
        report.Figure(f"{title}: largest error", best.largest_error, 1, True, "bounds"),
    ]


def _of_two_threads(title: str, one: Row, two: Row | None) -> list[report.Figure]:
    """Compare two threads with one, both as shares of memcpy in the same run."""
    if two is None:
        return []
    found = []
    for name in ("compress", "decompress"):
        ratio = getattr(two, name) / two.memcpy / (getattr(one, name) / one.memcpy)
        found.append(report.Figure(f"{title}: {name}, two threads against one", ratio, 1))
    return found


def _table(kind: str, rows: list[Row]) -> Table:
    columns = (
        "threads", "compress\nGB/s (of memcpy)", "decompress\nGB/s (of memcpy)", "ratio",
        "largest error\nin bounds",
        "1 Ki values, µs\ncompress, decompress", "peak\nmemory",
    )  # fmt: skip
    table = Table(kind, "", *columns)
    for row in rows:
        peaks = [peak for peak in (row.memory_compress, row.memory_decompress) if peak is not None]
        table.add_row(
            row.name if row.variant is None else f"{row.variant}, {row.name}",
            str(row.threads),
            f"{row.compress:.2f} ({row.compress / row.memcpy:.2f})",
            f"{row.decompress:.2f} ({row.decompress / row.memcpy:.2f})",
            f"{row.ratio:.2f}",
            f"{row.largest_error:.3f}",
            f"{row.small_compress * 1e6:.1f}, {row.small_decompress * 1e6:.1f}",
            f"{max(peaks):.2f}" if peaks else "-",
            style="dim" if row.kind == PEER else None,
        )  # fmt: skip
    return table


def _bounds_table(kind: str, found: list[Choice]) -> Table:
    """Tabulate ratio and relative L2 error of both codecs, by bound."""
    bounds = list(dict.fromkeys(choice.k for choice in found))
    table = Table(f"{kind}, by bound", "", *(f"2**-{k}" for k in bounds))
    for what, figure, form in (("ratio", "ratio", ".2f"), ("relative L2 error", "relative_error", ".3f")):
        for variant in DEFAULTS:
            cells = {choice.k: getattr(choice, figure) for choice in found if choice.variant == variant}
            table.add_row(f"{what}, {variant.name}", *(f"{cells[k]:{form}}" for k in bounds))
    ratios = {(choice.variant.name, choice.k): choice.ratio for choice in found}
    gains = [ratios["planes", k] / ratios["bounded", k] for k in bounds]
    table.add_row("planes against bounded", *(f"{gain:.2f}" for gain in gains))
    return table


def _draw(path: Path, rows: list[Row]) -> None:
    """Plot throughput of each implementation, compress and decompress, with its ratio.

    There is a panel for each data.
    """
    kinds = list(dict.fromkeys(row.data for row in rows))
    shown = {kind: [row for row in rows if row.data == kind and row.threads == 1] for kind in kinds}
    most = max(map(len, shown.values()))
    figure = new_figure(6.4 * len(kinds), 0.42 * most + 1.4)
    panels = figure.subplots(1, len(kinds), squeeze=False)[0]
    for axes, (kind, lines) in zip(panels, shown.items(), strict=True):
        names = [row.name if row.variant is None else f"{row.variant}, {row.name}" for row in lines]
        for offset, what, colour in ((-0.2, "compress", "C0"), (0.2, "decompress", "C1")):
            places = [place + offset for place in range(len(lines))]
            bars = axes.barh(places, [getattr(row, what) for row in lines], 0.38, label=what, color=colour)
            # On white, where the line of memcpy would cross them.
            box = {"facecolor": "white", "edgecolor": "none", "pad": 0.5}
            axes.bar_label(bars, fmt="{:.2f}", padding=3, fontsize=7, bbox=box)
        axes.axvline(max(row.memcpy for row in lines), color="C3", linestyle=":", label="memcpy")
        labels = [f"{name} ({row.ratio:.2f})" for name, row in zip(names, lines, strict=True)]
        axes.set_yticks(range(len(lines)), labels)
        axes.invert_yaxis()
        axes.set(title=f"{kind}: name (ratio)", xscale="log", xlabel="GB/s of fp32, one thread")
        axes.margins(x=0.15)
    figure.legend(*axes.get_legend_handles_labels(), loc="outside lower center", ncols=3, fontsize=8)
    write_plot(path, figure)

# SPDX-License-Identifier: BSD-2-Clause
"""``inceptionn bench codec``: both codecs' paths against memcpy and against what else can be installed."""

import timeit
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import product
from operator import itemgetter
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, get_args

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
    converted,
    operation_paths,
    using_path,
)
from ....commands import report
from ....commands.choice import Choice, choices
from ....commands.console import Console, tracked
from ....commands.environment import installed
from ....commands.speed import Calls, Floats, best_seconds, copying
from ....commands.study import Columns, Figure, Panel, Study, measurement, panels
from ....commands.user_codec import UserCodec, user_codec
from ....system.text import printable
from ...training.data import require_digits
from ..common import data
from ..common.memory import peak_of
from .peers import PEERS, Peer, Ready
from .sums import sum_figures

Dtype = Literal["float32", "bfloat16", "float16"]
SMALL = 1024
"""Values of a small message."""
SAMPLE = 1 << 21
"""Values at most for what both codecs do at several bounds."""
GFNI = "avx512-gfni"
Targets = Mapping[str, Sequence[tuple[str, str, float]]]
TARGETS: Targets = {
    "bounded": (("compress", AUTOMATIC, 1.0), ("compress", "avx2", 0.6), ("decompress", AUTOMATIC, 0.85)),
    "planes": (("compress", AUTOMATIC, 1.3), ("decompress", AUTOMATIC, 0.95), ("compress", "avx2", 0.6),
               ("decompress", "avx2", 0.8)),
}  # fmt: skip
"""Shares of memcpy with one thread, by codec or mode; auto: the path that is chosen by measurement."""
TARGETS_OF_16_BITS: Targets = {"bounded": (), "planes": (("compress", GFNI, 0.6), ("decompress", GFNI, 0.36))}
"""The same for values of 16 bits."""
SLOW_SECONDS = 3.0
"""Seconds that one row may take beyond its first rounds."""
OURS, PEER, WITH = "inceptionn", "peer", "with"


@dataclass
class Row:
    """One implementation on one array. Rates in GB/s of its values; bounds and bytes as the names say."""

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

    @property
    def title(self) -> str:
        """The name in tables and charts."""
        return self.name if self.variant is None else f"{self.variant}, {self.name}"

    def of_memcpy(self, name: str) -> float:
        """Return a rate as a share of memcpy's in the same run."""
        share: float = getattr(self, name) / self.memcpy
        return share


@measurement("codec", plot=True)
def codec(
    study: Study,
    size: Annotated[int, report.whole(1, 4096, "MB of values in an array.")] = 64,
    bound: report.Bound = 10,
    kinds: Annotated[
        str | None, report.listed("synthetic, real, or both. Default: what is installed.", "--data")
    ] = None,
    file: report.NpyFile = None,
    dtype: Annotated[
        Dtype,
        report.type_of(get_args(Dtype), "values: {}. Other compressors are measured with float32."),
    ] = "float32",
    repeats: Annotated[int, report.whole(1, 1000, "Rounds; the best one counts.")] = 40,
    peers: Annotated[bool, typer.Option(help="Measure other compressors too.")] = True,
    given: UserCodec = None,
    seed: report.Seed = 1,
    quick: Annotated[bool, report.quick(size=8, repeats=2)] = False,
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
    other = user_codec(given)
    chosen, missing = _data(kinds, file)
    wide = dtype == "float32"
    if other is not None and not wide:
        raise typer.BadParameter("--with needs float32 values", param_hint="--dtype")
    with using_path(measured_paths()[0]):
        taken = operation_paths()
    count = size * 1_000_000 // (4 if wide else 2)
    if file is None:
        floats = {kind: data.arrays(kind, count, seed, 1)[0] for kind in chosen}
    else:
        floats = {printable(file.name): data.of_file(file, count, 1)[0]}
    arrays = floats if wide else {kind: converted(x, dtype) for kind, x in floats.items()}
    jobs: list[Job | Peer] = [
        Job(variant, path, threads)
        for variant, path in product(DEFAULTS, measured_paths())
        if (variant, path) != (BOUNDED, GFNI)  # the same as without GFNI
        for threads in ((1,) if path == NUMPY else (1, 2))
    ]
    jobs += PEERS if peers and wide else ()
    if other is not None:  # with its own error bound
        ready = Ready(other.compress, other.decompress)
        jobs.append(Peer(other.name, "", lambda bound: ready))
    rows, absent = _measured(study.console, jobs, arrays, 2.0**-bound, repeats)
    floats = floats if wide else {}
    by_bound = {kind: choices(_sample(x), [0]) for kind, x in floats.items()}
    sums = [figure for kind, x in floats.items() for figure in sum_figures(kind, x, 2.0**-bound, repeats)]
    study.conditions.append(f"{size} MB of {dtype} values, error bound 2**-{bound}")
    study.show("auto: " + ", ".join(f"{name} {path}" for name, path in taken.items()))
    for kind in arrays:
        shown = [row for row in rows if row.data == kind]
        study.table(kind, ROWS, shown, style=lambda row: "dim" if row.kind == PEER else None)
    for kind, found in by_bound.items():
        bounds = {f"2**-{k}": itemgetter(k) for k in dict.fromkeys(choice.k for choice in found)}
        study.table(f"{kind}, by bound", {"": itemgetter(""), **bounds}, _by_bound(found))
    study.show(*missing, *(f"{peer.name}: {peer.package} is not installed" for peer in absent))
    study.figures += [*figures_of(rows, TARGETS if wide else TARGETS_OF_16_BITS), *sums]
    study.rows = [asdict(row) for row in rows]
    study.facts |= {
        "bytes": size * 1_000_000, "dtype": dtype, "error_bound": 2.0**-bound, "repeats": repeats,
        "rows": study.rows, "paths": taken,
        "by_bound": {kind: [asdict(choice) for choice in found] for kind, found in by_bound.items()},
        "not_installed": sorted({peer.package for peer in absent}),
    }  # fmt: skip
    most = max(sum(row.data == kind and row.threads == 1 for row in rows) for kind in arrays)
    study.plot(panels([_panel(rows, kind) for kind in arrays]), 6.4 * len(arrays), 0.42 * most + 1.4)


class Job(NamedTuple):
    """One of our codecs on one path."""

    variant: Variant
    path: str
    threads: int

    @property
    def name(self) -> str:
        """The name while it is measured."""
        return f"{self.variant.name}, {self.path}, {self.threads} thread{'s' * (self.threads > 1)}"


def _data(kinds: str | None, file: Path | None) -> tuple[list[str], list[str]]:
    """Return the kinds of data to measure, and what others miss; raise if one that was asked for does."""
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
    absent = [job for job in jobs if isinstance(job, Peer) and job.package and installed(job.package) is None]
    pairs = list(product(arrays, [job for job in jobs if job not in absent]))
    rows = [
        (row_of_peer if isinstance(job, Peer) else row_of_ours)(kind, job, arrays[kind], bound, repeats)
        for kind, job in tracked(console, pairs, "{0[0]}: {0[1].name}".format)
    ]
    return rows, absent


def measured_paths() -> list[str]:
    """Return the paths to measure, the default one first."""
    paths = available_paths()
    return paths if paths == [NUMPY] else [AUTOMATIC, *paths]


def _sample(x: Floats) -> Floats:
    """Return 2 Mi values at most, in whole blocks from all over the array."""
    if x.size <= SAMPLE:
        return x
    blocks = x[: x.size // STREAM_LANES * STREAM_LANES].reshape(-1, STREAM_LANES)
    return np.ascontiguousarray(blocks[:: -(-x.size // SAMPLE)]).reshape(-1)


def row_of_ours(kind: str, job: Job, x: Any, bound: float, repeats: int) -> Row:
    """Measure one of our codecs on an array."""
    variant, path, threads = job
    told: Any = "bfloat16" if x.dtype == np.uint16 else None
    with using_path(path):
        coder = Codec(bound, *variant, threads=threads)
        ready = Ready(
            lambda values: coder.compress(values, dtype=told),
            lambda stream, count: coder.decompress(stream, count, np.empty(count, x.dtype), dtype=told),
        )
        stream, y = ready.compress(x), np.zeros_like(x)
        room = bytearray(coder.max_compressed_size(x.size))
        calls: Calls = {
            "compress": lambda: coder.compress(x, room, dtype=told),
            "decompress": lambda: coder.decompress(stream, x.size, y, dtype=told),
        }
        about = {"data": kind, "name": path, "kind": OURS, "threads": threads, "variant": variant.name}
        return _row(about, ready, x, bound, repeats, calls)


def row_of_peer(kind: str, peer: Peer, x: Floats, bound: float, repeats: int) -> Row:
    """Measure another compressor on an array."""
    ready = peer.prepare(bound)
    if peer.lossless:
        back = ready.decompress(ready.compress(x), x.size)
        if not np.array_equal(back.view(np.uint32), x.view(np.uint32)):
            raise RuntimeError(f"{peer.name} does not restore its input")
    about = {"data": kind, "name": peer.name, "kind": PEER if peer.package else WITH, "threads": 1}
    return _row(about, ready, x, bound, repeats, {})


def _row(about: dict[str, Any], ready: Ready, x: Any, bound: float, repeats: int, calls: Calls) -> Row:
    """Measure an implementation. ``calls``: those to be timed, if they are not what is ready."""
    compress, decompress, size = ready
    stream = compress(x)
    back = decompress(stream, x.size)
    error = np.abs(converted(back, patterns=True) - converted(x, patterns=True)).max() / bound
    del back
    both: Calls = {"compress": lambda: compress(x), "decompress": lambda: decompress(stream, x.size)}
    seconds = best_seconds({**copying(x), **both, **calls}, repeats, SLOW_SECONDS)
    small = x[:SMALL].copy()
    small_stream = compress(small)
    up, down = _memory(ready, x)
    return Row(
        **about, ratio=x.nbytes / size(stream),
        **{call: x.nbytes / took / 1e9 for call, took in seconds.items()},
        largest_error=float(error),
        small_compress=_per_call(lambda: compress(small)),
        small_decompress=_per_call(lambda: decompress(small_stream, SMALL)),
        memory_compress=up, memory_decompress=down,
    )  # fmt: skip


def _per_call(call: Callable[[], object]) -> float:
    """Measure seconds per call: the best of many short runs."""
    timer = timeit.Timer(call)
    number = max(1, min(1000, int(2e-3 / max(timer.timeit(1), 1e-7))))
    return min(timer.repeat(repeat=40, number=number)) / number


def _memory(ready: Ready, x: Floats) -> tuple[float | None, float | None]:
    """Measure the peaks of one compression and one decompression. The caller gives them no memory."""
    compress, decompress, size = ready
    up = peak_of(lambda: compress(x))
    stream = compress(x)
    down = peak_of(lambda: decompress(stream, x.size))
    both = x.nbytes + size(stream)
    return (
        None if up is None else (x.nbytes + up) / both,
        None if down is None else (size(stream) + down) / both,
    )


def figures_of(rows: list[Row], targets: Targets = TARGETS) -> list[Figure]:
    """Return the targets of the codec, for each array."""
    figures: list[Figure] = []
    for kind, variant in product(dict.fromkeys(row.data for row in rows), DEFAULTS):
        group = [row for row in rows if (row.data, row.variant) == (kind, variant.name)]
        if group:
            figures += _figures_of(f"{kind}: {variant.name}", targets[variant.name], group)
    return figures


def _figures_of(title: str, targets: Sequence[tuple[str, str, float]], rows: list[Row]) -> Iterator[Figure]:
    by_path = {(row.name, row.threads): row for row in rows}
    best = rows[0]
    for name, path, target in targets:
        if (row := by_path.get((path, 1))) is not None:
            yield Figure(f"{title}: {name}, {row.name}, of memcpy", row.of_memcpy(name), target)
    for name, small, memory in (
        ("compress", best.small_compress, best.memory_compress),
        ("decompress", best.small_decompress, best.memory_decompress),
    ):
        if (two := by_path.get((best.name, 2))) is not None:
            ratio = two.of_memcpy(name) / best.of_memcpy(name)
            yield Figure(f"{title}: {name}, two threads against one", ratio, 1)
        yield Figure(f"{title}: {name} 1 Ki values", small * 1e6, 3, True, "µs")
        yield Figure(f"{title}: memory, {name}", memory, 1.1, True)
    yield Figure(f"{title}: largest error", best.largest_error, 1, True, "bounds")


ROWS: Columns[Row] = {
    "": lambda row: row.title,
    "threads": lambda row: str(row.threads),
    "compress\nGB/s (of memcpy)": lambda row: f"{row.compress:.2f} ({row.of_memcpy('compress'):.2f})",
    "decompress\nGB/s (of memcpy)": lambda row: f"{row.decompress:.2f} ({row.of_memcpy('decompress'):.2f})",
    "ratio": lambda row: f"{row.ratio:.2f}",
    "largest error\nin bounds": lambda row: f"{row.largest_error:.3f}",
    "1 Ki values, µs\ncompress, decompress": lambda row: (
        f"{row.small_compress * 1e6:.1f}, {row.small_decompress * 1e6:.1f}"
    ),
    "peak\nmemory": lambda row: (
        "-" if row.memory_compress is None else f"{max(row.memory_compress, row.memory_decompress or 0):.2f}"
    ),
}


def _by_bound(found: list[Choice]) -> Iterator[dict[int | str, str]]:
    """Yield ratios and relative L2 error of both codecs as rows of a table, by bound."""
    kinds = (
        ("ratio", "ratio", ".2f"),
        ("deflated", "deflated", ".2f"),
        ("relative L2 error", "relative_error", ".3f"),
    )
    for what, figure, form in kinds:
        for variant in DEFAULTS:
            group = [choice for choice in found if choice.variant == variant]
            title: dict[int | str, str] = {"": f"{what}, {variant.name}"}
            yield title | {choice.k: f"{getattr(choice, figure):{form}}" for choice in group}
    ratios = {(choice.variant.name, choice.k): choice.ratio for choice in found}
    gains = {k: ratio / ratios["bounded", k] for (name, k), ratio in ratios.items() if name == "planes"}
    yield {"": "planes against bounded", **{k: f"{gain:.2f}" for k, gain in gains.items()}}


def _panel(rows: list[Row], kind: str) -> Panel:
    """Plot throughput of each implementation, compress and decompress, with its ratio."""
    shown = [row for row in rows if row.data == kind and row.threads == 1]
    bars = {
        f"{row.title} ({row.ratio:.2f})": {"compress": row.compress, "decompress": row.decompress}
        for row in shown
    }
    axes = {"title": f"{kind}: name (ratio)", "xscale": "log", "xlabel": "GB/s, one thread"}
    memcpy = max(row.memcpy for row in shown)
    return Panel(bars, axes=axes, text="{:.2f}".format, flat=True, across=(memcpy, "memcpy"))

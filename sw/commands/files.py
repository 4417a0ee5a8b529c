# SPDX-License-Identifier: BSD-2-Clause
"""``inceptionn encode``, ``decode`` and ``inspect``: the codec on ``.npy`` files.

``encode`` writes a message (:mod:`inceptionn.message`) next to the array, by default with suffix ``.inc``;
``decode`` writes the array again; ``inspect`` says what is in a message, or what the codec would make
of an array.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from numpy.typing import NDArray

from .. import message, wire
from ..codec.codec import Codec, scale_exponent
from ..message import Header, Kind
from ..system import atomic_file, npy_file
from .console import Console

SUFFIX = ".inc"
_STANDARD_OUTPUT = ("/dev/stdout", "/dev/fd/1", "/proc/self/fd/1")
BAR = 40
"""Characters of the longest bar of a histogram."""
CHUNK = 1 << 20
"""Values per pass when errors are counted."""
CLASSES = ("00 zero", "01 8 bits", "10 16 bits", "11 raw")

Bound = Annotated[int, typer.Option("--bound", "-k", help="The error bound is 2**-k: k = 1..14.")]
ModeOption = Annotated[str, typer.Option(help="bounded, or literal for the paper's Algorithm 2.")]
Scale = Annotated[
    str, typer.Option(help="Exponent of a power of two that values are multiplied by, or auto.")
]
Force = Annotated[bool, typer.Option("--force", help="Write over a file that is there already.")]


def _codec(k: int, mode: str) -> Codec:
    try:
        wire.parameters(k, mode)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None
    return Codec(2.0**-k, mode)  # type: ignore[arg-type]


def _exponent(scale: str, values: Any) -> int:
    if scale == "auto":
        return scale_exponent(values)
    try:
        return int(scale)
    except ValueError:
        raise typer.BadParameter(f"the scale must be a whole number or auto, not {scale!r}") from None


def encode(
    file: Annotated[Path, typer.Argument(metavar="FILE.npy", exists=True, dir_okay=False)],
    out: Annotated[Path | None, typer.Option(help="The message; default: the file's name and .inc.")] = None,
    bound: Bound = wire.DEFAULT_K,
    mode: ModeOption = wire.DEFAULT_MODE,
    scale: Scale = "0",
    force: Force = False,
) -> None:
    """Compress a float32 array into a message."""
    out = out or file.with_name(file.name + SUFFIX)
    atomic_file.check(out, force)
    values = npy_file.load(file)
    packed = message.pack(values, _codec(bound, mode), _exponent(scale, values))
    atomic_file.write(out, packed)
    ratio = values.nbytes / len(packed)
    _say(out, f"{values.nbytes} bytes in {len(packed)}, 1:{ratio:.2f}")


def decode(
    file: Annotated[Path, typer.Argument(metavar="FILE.inc", exists=True, dir_okay=False)],
    out: Annotated[
        Path | None, typer.Option(help="The array; default: the file with .decoded.npy for its suffixes.")
    ] = None,
    force: Force = False,
) -> None:
    """Write the array of a message."""
    stem = file.name.removesuffix(SUFFIX).removesuffix(".npy")
    out = out or file.with_name(f"{stem}.decoded.npy")
    atomic_file.check(out, force)
    values = message.unpack(file.read_bytes())
    with atomic_file.writing(out) as opened:
        np.save(opened, values, allow_pickle=False)
    _say(out, f"{values.size} values of shape {values.shape}")


def _say(out: Path, text: str) -> None:
    """A line about a file, on standard error if the file is standard output."""
    typer.echo(f"{out}: {text}", err=str(out) in _STANDARD_OUTPUT)


def inspect(
    file: Annotated[Path, typer.Argument(metavar="FILE", exists=True, dir_okay=False)],
    bound: Bound = wire.DEFAULT_K,
    mode: ModeOption = wire.DEFAULT_MODE,
    scale: Scale = "0",
    plot: Annotated[Path | None, typer.Option(help="Draw it into this file too (.png, .svg, .pdf).")] = None,
) -> None:
    """Show what a message holds, or what the codec makes of a .npy array: classes, size and errors."""
    console = Console()
    with file.open("rb") as opened:
        is_message = opened.read(len(message.MAGIC)) == message.MAGIC
    if is_message:
        header = message.parse(file.read_bytes())
        _print_header(console, header)
        if header.kind != Kind.INCEPTIONN:
            return
        counts = _stream_classes(header)
        _print_classes(console, counts)
        errors = None
    else:
        values = npy_file.load(file).reshape(-1)
        codec, exponent = _codec(bound, mode), _exponent(scale, values)
        counts = codec.histogram(values, scale=exponent)
        size = _stream_size(counts)
        console.print(f"{values.size} values, 2**-{bound} {mode}, scale 2**{exponent}")
        if size:
            console.print(f"stream: {size} bytes, 1:{values.nbytes / size:.2f}")
        _print_classes(console, counts)
        errors = Errors(codec, values, exponent)
        errors.show(console)
    if plot is not None:
        _draw(plot, counts, errors, file.name)


def _stream_size(counts: NDArray[np.int64]) -> int:
    return -(-int(counts.sum()) // wire.GROUP_LANES) * wire.TAG_WORD_BYTES + int(
        counts @ np.array(wire.TAG_BYTES)
    )


def _stream_classes(header: Header) -> NDArray[np.int64]:
    """How many lanes of the message's stream have each tag."""
    starts = np.frombuffer(header.codec.index(header.payload, header.count, 1).offsets, "<u8")
    payload = np.frombuffer(header.payload, np.uint8)
    counts = np.zeros(4, np.int64)
    for first, start in zip(range(0, header.count, wire.STREAM_LANES), starts.tolist(), strict=True):
        lanes = min(header.count - first, wire.STREAM_LANES)
        plane = payload[start : start + -(-lanes // wire.GROUP_LANES) * wire.TAG_WORD_BYTES]
        tags = (plane[:, np.newaxis] >> np.array([0, 2, 4, 6], np.uint8)) & 3
        counts += np.bincount(tags.reshape(-1)[:lanes], minlength=4)
    return counts


class Errors:
    """Absolute errors of an array's finite values, counted by powers of two of the bound.

    ``counts[i]`` counts errors in ``[2**(i - BINS), 2**(i - BINS + 1))`` bounds, the first one smaller ones
    too; ``exact`` are those that come back to the bit.
    """

    BINS = 12

    def __init__(self, codec: Codec, values: NDArray[np.float32], scale: int):
        self.bound = math.ldexp(codec.error_bound, -scale)
        self.counts = np.zeros(self.BINS + 8, np.int64)
        self.exact = 0
        self.largest = 0.0
        squares = norm = 0.0
        for first in range(0, len(values), CHUNK):
            part = np.ascontiguousarray(values[first : first + CHUNK])
            x, y = part.astype(np.float64), codec.lossy(part, scale=scale).astype(np.float64)
            finite = np.isfinite(x)
            x, error = x[finite], np.abs(x - y, where=finite, out=np.zeros_like(x))[finite]
            self.exact += int((error == 0).sum())
            error_bits = np.frexp(error[error > 0] / self.bound)[1] - 1 + self.BINS
            self.counts += np.bincount(error_bits.clip(0, len(self.counts) - 1), minlength=len(self.counts))
            self.largest = max(self.largest, float(error.max(initial=0.0)))
            squares += float(error @ error)
            norm += float(x @ x)
        self.relative = math.sqrt(squares / norm) if norm else 0.0

    def rows(self) -> list[tuple[str, int]]:
        """Label and count of every bin from the first to the last one that holds something."""
        used = np.flatnonzero(self.counts)
        rows = [("exact", self.exact)]
        for i in range(int(used[0]), int(used[-1]) + 1) if len(used) else ():
            exponent = i - self.BINS
            label = f"2**{exponent}" if i else f"below 2**{1 - self.BINS}"
            rows.append((label, int(self.counts[i])))
        return rows

    def show(self, console: Console) -> None:
        """Print the histogram and what sums it up."""
        _print_bars(console, "error, in bounds, from", self.rows())
        console.print(
            f"largest error {self.largest:.3g}, {self.largest / self.bound:.3f} of the bound "
            f"{self.bound:.3g}; relative L2 error {self.relative:.3g}"
        )


def _print_header(console: Console, header: Header) -> None:
    console.print(f"message, {header.kind.name.lower()}, {header.count} values of shape {header.shape}")
    if header.parameters is not None:
        e0, t, b = header.parameters.e0, header.parameters.t, header.parameters.b
        k = wire.EXPONENT_BIAS - e0
        names = [f"2**-{k} {mode}" for mode in wire.PAPER_MODES
                 if 1 <= k <= wire.MAX_K and wire.parameters(k, mode) == header.parameters]  # fmt: skip
        name = names[-1] if names else "of no mode"
        console.print(f"{name}: E0 {e0}, T {t}, B {b}; scale 2**{header.scale}")
    size = len(header.payload)
    if size:
        console.print(f"payload: {size} bytes, 1:{header.count * wire.LANE_BYTES / size:.2f}")
    if header.index is not None:
        entries = len(header.index.offsets) // 8
        console.print(f"index: {entries} entries, one for every {header.index.blocks} blocks")


def _print_classes(console: Console, counts: NDArray[np.int64]) -> None:
    _print_bars(console, "class", list(zip(CLASSES, counts.tolist(), strict=True)))


def _print_bars(console: Console, title: str, rows: list[tuple[str, int]]) -> None:
    total, most = sum(count for _, count in rows) or 1, max(count for _, count in rows) or 1
    wide = max(map(len, (title, *(label for label, _ in rows))))
    console.print(f"{title:{wide}} {'values':>12} {'share':>7}")
    for label, count in rows:
        bar = "█" * round(BAR * count / most)
        console.print(f"{label:{wide}} {count:12} {count / total:7.1%} {bar}".rstrip())


def _draw(path: Path, counts: NDArray[np.int64], errors: Errors | None, title: str) -> None:
    from matplotlib.figure import Figure  # the extra `plot`

    figure = Figure(figsize=(9 if errors else 5, 3.6), layout="constrained")
    axes = figure.subplots(1, 2 if errors else 1, squeeze=False)[0]
    axes[0].bar(CLASSES, counts)
    axes[0].set(title=title, ylabel="values", xlabel="tag class")
    if errors:
        rows = errors.rows()
        axes[1].bar([label for label, _ in rows], [count for _, count in rows])
        axes[1].tick_params(axis="x", rotation=60)
        axes[1].set(title="absolute error", ylabel="values", xlabel=f"in bounds of {errors.bound:.3g}, from")
    with atomic_file.writing(path) as file:
        figure.savefig(file, format=path.suffix[1:])

# SPDX-License-Identifier: BSD-2-Clause
"""``inceptionn encode``, ``decode`` and ``inspect``: the codec on ``.npy`` files.

``encode`` writes a message (:mod:`inceptionn.message`) next to the array, by default with suffix ``.inc``;
``decode`` writes the array again; ``inspect`` says what is in a message, or what the codec would make
of an array.
"""

import math
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from numpy.typing import NDArray

from .. import message, wire
from ..codec import Codec, converted, scale_exponent
from ..collectives.values.lost_energy import loss_of
from ..collectives.values.stream_codec import StreamCodec
from ..message import STREAMS, Header
from ..system import atomic_file, npy_file
from ..system.options import one_of, regular, usage_error
from ..system.text import printable
from .choice import (
    MOST_RELATIVE_ERROR,
    RANKS,
    Choice,
    Effect,
    Errors,
    between,
    choices,
    effect_of,
    recommended,
)
from .codec_option import CodecOption, ModeOption, chosen, exponent
from .console import STANDARD_OUTPUT, Console, JsonFile, Output, PlotFile, Table, new_figure, write_plot
from .user_codec import UserCodec, user_codec

SUFFIX = ".inc"
DTYPES = ("float32", "float16", "bfloat16")
_STANDARD_OUTPUT = ("/dev/stdout", "/dev/fd/1", "/proc/self/fd/1")
BAR = 40
"""Characters of the longest bar of a histogram."""
Bound = Annotated[
    int,
    typer.Option("--bound", "-k", parser=exponent, metavar="K", help="The error bound is 2**-k: k = 1..14."),
]
Scale = Annotated[str, typer.Option(help="Exponent of the power of two that multiplies the values, or auto.")]
Force = Annotated[bool, typer.Option("--force", help="Overwrite an existing file.")]


def _codec(k: int, codec: str | None, mode: str | None) -> Codec:
    variant = chosen(codec, mode)
    with usage_error("--bound"):
        wire.planes_parameters(k)
        return Codec(2.0**-k, *variant)


def _scale_of(scale: str, values: Any, codec: Codec, dtype: str | None = None) -> int:
    if scale == "auto":
        return scale_exponent(values, codec.codec, dtype=dtype)
    try:
        return int(scale)
    except ValueError:
        raise typer.BadParameter(f"the scale must be a whole number or auto, not {scale!r}") from None


def encode(
    file: Annotated[Path, typer.Argument(metavar="FILE.npy", exists=True, callback=regular)],
    out: Annotated[
        Path | None, typer.Option(help="The message, or -; default: the file's name with .inc appended.")
    ] = None,
    bound: Bound = wire.DEFAULT_K,
    codec: CodecOption = None,
    mode: ModeOption = None,
    scale: Scale = "0",
    force: Force = False,
) -> None:
    """Compress an array of float32, float16 or bfloat16 into a message, which states its type."""
    coder = _codec(bound, codec, mode)
    out = _out(out or file.with_name(file.name + SUFFIX), force)
    values = npy_file.load(file, halves=True)
    dtype = "bfloat16" if values.dtype == np.uint16 else None
    used = _scale_of(scale, values, coder, dtype)
    packed = message.pack(values, coder, used, dtype=dtype)
    atomic_file.write(out, packed)
    is_stream = message.parse(packed).kind in STREAMS
    if is_stream and (loss := loss_of(coder, values, used)).warned_of:
        remedy = ("" if scale == "auto" else "--scale auto or ") + "a finer --bound, up to 14, keeps more"
        text = loss.text(math.ldexp(coder.error_bound, -used), remedy)
        typer.echo(f"inceptionn: warning: {text}", err=True)
    ratio = values.nbytes / len(packed)
    _say(out, f"{values.nbytes} bytes in {len(packed)}, 1:{ratio:.2f}")


def decode(
    file: Annotated[Path, typer.Argument(metavar="FILE.inc", exists=True, callback=regular)],
    out: Annotated[
        Path | None, typer.Option(help="The array; default: the file's name with .decoded.npy as its suffix.")
    ] = None,
    dtype: Annotated[
        str | None,
        one_of(
            DTYPES,
            "Type of the array: {}. bfloat16 is saved as ml_dtypes saves it.",
            show_default="that of the sender",
            metavar="TYPE",
        ),
    ] = None,
    force: Force = False,
) -> None:
    """Restore the array from a message, in the type that was encoded unless --dtype names another."""
    stem = file.name.removesuffix(SUFFIX).removesuffix(".npy")
    out = _out(out or file.with_name(f"{stem}.decoded.npy"), force)
    packed = file.read_bytes()
    if packed.startswith(npy_file.MAGIC):
        name = printable(file)
        raise ValueError(f"{name} is a .npy array, not a message: inceptionn encode makes one of it")
    try:
        wanted = dtype or message.parse(packed).dtype
        values = message.unpack(packed, wanted)
    except ValueError as error:
        raise ValueError(f"{printable(file)}: {error}") from error
    if wanted == "bfloat16":
        values = values.view("V2")
    with atomic_file.writing(out) as opened:
        np.save(opened, values, allow_pickle=False)
    _say(out, f"{values.size} values of shape {values.shape}, {wanted}")


def _out(path: Path, force: bool) -> Path:
    """Return the checked place of the result: for -, standard output."""
    out = Path(_STANDARD_OUTPUT[0]) if str(path) == STANDARD_OUTPUT else path
    atomic_file.check(out, force)
    return out


def _say(out: Path, text: str) -> None:
    """Print a line about a file, on standard error if the file is standard output."""
    typer.echo(f"{printable(out)}: {text}", err=str(out) in _STANDARD_OUTPUT)


def inspect(
    file: Annotated[Path, typer.Argument(metavar="FILE", exists=True, callback=regular)],
    bound: Bound = wire.DEFAULT_K,
    codec: CodecOption = None,
    mode: ModeOption = None,
    scale: Scale = "0",
    given: UserCodec = None,
    plot: PlotFile = None,
    json_file: JsonFile = None,
) -> None:
    """Show the contents of a message, or the result of compressing a .npy array: classes, size and errors.

    For an array, also compare both codecs at several bounds and recommend one: the highest ratio whose
    relative L2 error is at most 0.1, with --scale auto if that is better. A codec of your own (--with) is
    compared as it is, without a scale.
    """
    out = Output(json_file, plot=plot)
    coder, other = _codec(bound, codec, mode), user_codec(given)
    with file.open("rb") as opened:
        is_message = opened.read(len(message.MAGIC)) == message.MAGIC
    errors = None
    if is_message:
        if other is not None:
            name = printable(file.name)
            raise typer.BadParameter(f"--with compares codecs on a .npy file; {name} is a message")
        try:
            header = message.parse(file.read_bytes())
            counts = _stream_classes(header) if header.kind in STREAMS else None
        except ValueError as error:
            raise ValueError(f"{printable(file)}: {error}") from error
        if plot is not None and counts is None:
            name = printable(file.name)
            raise ValueError(f"--plot draws classes, and {name} holds plain {header.dtype} values")
        _print_header(out.console, header)
        if counts is None:
            out.write(_header_json(header))
            return
        coder = header.codec
        _print_classes(out.console, coder.spec, counts)
        facts = _header_json(header)
    else:
        counts, errors, facts = _inspect_array(out.console, file, coder, bound, scale, other)
    out.write({**facts, "classes": counts.tolist()})
    if plot is not None:
        _draw(plot, coder.spec, counts, errors, file.name)


def _inspect_array(
    console: Console, file: Path, coder: Codec, k: int, scale: str, other: StreamCodec | None
) -> tuple[NDArray[np.int64], Errors, dict[str, Any]]:
    """Compress the array of a .npy file and print what `inspect` does; return classes, errors and facts."""
    array = npy_file.load(file, halves=True)
    if not array.size:
        raise ValueError(f"{printable(file)} holds no values: its shape is {array.shape}")
    values = converted(array.reshape(-1), patterns=True)
    dtype = "bfloat16" if array.dtype == np.uint16 else array.dtype.name
    used = _scale_of(scale, values, coder)
    counts = coder.histogram(values, scale=used)
    size = coder.spec.stream_bytes(counts.tolist())
    console.print(f"{values.size} {dtype} values, 2**-{k} {coder.mode or coder.codec}, scale 2**{used}")
    if size:
        console.print(f"stream: {size} bytes, 1:{array.nbytes / size:.2f}")
    _print_classes(console, coder.spec, counts)
    errors = Errors(coder, values, used)
    _print_errors(console, errors)
    auto_scale = scale_exponent(values, wire.PLANES.codec)
    scales = sorted({0, auto_scale}, key=abs) if scale == "0" else [used]
    table = choices(values, scales, array.itemsize)
    found = [*table, *between(table, values, array.itemsize)]
    best = recommended(found) if np.any(values[np.isfinite(values)]) else None
    effect = None if other is None else effect_of(other, values, item=array.itemsize)
    _print_choices(console, [each for each in table if each.scale == used], best, auto_scale, effect)
    if strange := values.size - int(np.isfinite(values).sum()):
        console.print(
            f"{strange} values are NaN or infinite: they are sent unchanged, count in no error here, and "
            "reach all ranks in a sum"
        )
    facts = {
        "values": values.size, "dtype": dtype, "bytes": size, "codec": coder.codec, "mode": coder.mode,
        "k": k, "scale": used, "largest_error": errors.largest, "relative_error": errors.relative,
        "energy_kept": errors.kept, "choices": [asdict(choice) for choice in found],
        "recommended": best and asdict(best), "with": effect and asdict(effect),
    }  # fmt: skip
    return counts, errors, facts


def _stream_classes(header: Header) -> NDArray[np.int64]:
    """Count the lanes with each tag in the message's stream, or the groups with each code."""
    starts = np.frombuffer(header.codec.index(header.payload, header.count, 1).offsets, "<u8")
    payload = np.frombuffer(header.payload, np.uint8)
    spec = header.codec.spec
    places = np.arange(0, 8, spec.class_bits, dtype=np.uint8)
    counts = np.zeros(len(spec.classes), np.int64)
    for first, start in zip(range(0, header.count, wire.STREAM_LANES), starts.tolist(), strict=True):
        there = spec.units(min(header.count - first, wire.STREAM_LANES))
        table = payload[start : start + -(-there // len(places))]
        found = (table[:, np.newaxis] >> places) & (len(spec.classes) - 1)
        counts += np.bincount(found.reshape(-1)[:there], minlength=len(spec.classes))
    return counts


def _kind(header: Header) -> str:
    """Return the payload's codec, or raw, bfloat16 or float16."""
    return header.codec.codec if header.kind in STREAMS else header.kind.name.lower()


def _header_json(header: Header) -> dict[str, Any]:
    parameters = None if header.parameters is None else asdict(header.parameters)
    return {
        "kind": _kind(header), "shape": list(header.shape), "values": header.count,
        "bytes": len(header.payload), "scale": header.scale, "parameters": parameters, "dtype": header.dtype,
    }  # fmt: skip


def _print_header(console: Console, header: Header) -> None:
    about = f"{header.count} values of shape {header.shape}, {header.dtype}"
    console.print(f"message, {_kind(header)}, {about}")
    if header.parameters is not None:
        k = wire.EXPONENT_BIAS - header.parameters.e0
        bounds = range(wire.MIN_K, wire.MAX_K + 1)
        names = [variant.name for variant in wire.VARIANTS
                 if k in bounds and Codec(2.0**-k, *variant).parameters == header.parameters]  # fmt: skip
        name = f"2**-{k} {names[-1]}" if names else "of no mode"
        numbers = ", ".join(f"{each.upper()} {n}" for each, n in asdict(header.parameters).items())
        several = f"2**{min(header.scaling.scales)} to 2**{max(header.scaling.scales)}, by section"
        console.print(f"{name}: {numbers}; scale {several if header.scale is None else f'2**{header.scale}'}")
    size = len(header.payload)
    if size:
        item = wire.LANE_BYTES if header.dtype == "float32" else 2
        console.print(f"payload: {size} bytes, 1:{header.count * item / size:.2f}")
    if header.index is not None:
        entries = len(header.index.offsets) // 8
        console.print(f"index: {entries} entries, one for every {header.index.blocks} blocks")


def _print_classes(console: Console, spec: wire.CodecSpec, counts: NDArray[np.int64]) -> None:
    rows = [(each.short_label, count) for each, count in zip(spec.classes, counts.tolist(), strict=True)]
    _print_bars(console, *(("class", rows) if spec.counts_lanes else ("code", rows, spec.unit)))


def _print_errors(console: Console, errors: Errors) -> None:
    _print_bars(console, "error over the bound, from", errors.rows())
    console.print(
        f"largest error {errors.largest:.3g}, {errors.largest / errors.bound:.3f} of the bound "
        f"{errors.bound:.3g}; relative L2 error {errors.relative:.3g}"
    )
    console.print(f"energy kept {errors.kept:.1%}; magnitudes {errors.bias:+.2%} on average")


def _print_choices(
    console: Console, found: list[Choice], best: Choice | None, auto: int, peer: Effect | None
) -> None:
    headings = ("ratio", "deflated", "largest\nerror", "relative\nL2 error", "energy\nkept", "magnitudes")
    table = Table(f"codecs at scale 2**{found[0].scale}", "", *headings)
    sections = [peer, *(each for each in found if each.variant != wire.BOUNDED and each.k == found[0].k)]
    for effect in [*found, *([] if peer is None else [peer])]:
        if effect in sections:
            table.add_section()
        table.add_row(
            effect.name,
            f"{effect.ratio:.2f}",
            f"{effect.deflated:.2f}",
            f"{effect.largest_error:.3g}",
            f"{effect.relative_error:.3f}",
            f"{effect.energy_kept:.1%}",
            f"{effect.bias:+.2%}",
        )
    console.print(table)
    if best is None:
        some = f"no relative L2 error is {MOST_RELATIVE_ERROR} or less, or no value is finite and not 0"
        console.print(f"nothing to recommend: {some}")
    else:
        console.print(
            f"recommended: {best.text} (1:{best.ratio:.2f}, relative L2 error {best.relative_error:.3f}, "
            f"energy kept {best.energy_kept:.1%})"
        )
        console.print(f"in training, {RANKS} ranks: CompressState({best.arguments(auto)})")


def _print_bars(console: Console, title: str, rows: list[tuple[str, int]], unit: str = "values") -> None:
    total, most = sum(count for _, count in rows) or 1, max(count for _, count in rows) or 1
    wide = max(map(len, (title, *(label for label, _ in rows))))
    console.print(f"{title:{wide}} {unit:>12} {'share':>7}")
    for label, count in rows:
        bar = "█" * round(BAR * count / most)
        console.print(f"{label:{wide}} {count:12} {count / total:7.1%} {bar}".rstrip())


def _draw(
    path: Path, spec: wire.CodecSpec, counts: NDArray[np.int64], errors: Errors | None, title: str
) -> None:
    figure = new_figure(9 if errors else 5, 3.6)
    axes = figure.subplots(1, 2 if errors else 1, squeeze=False)[0]
    if spec.counts_lanes:
        bars = axes[0].bar([each.short_label for each in spec.classes], counts)
        axes[0].set(ylabel="values", xlabel="tag class")
    else:
        bars = axes[0].bar(range(len(counts)), counts)
        axes[0].set(ylabel="groups", xlabel="code", xticks=range(len(counts)))
    axes[0].set_title(printable(title), parse_math=False)  # a name may have dollars
    total = int(counts.sum()) or 1
    _label(axes[0], bars, [f"{count / total:.1%}" if count else "" for count in counts.tolist()])
    if errors:
        rows = errors.rows()
        bars = axes[1].bar([label for label, _ in rows], [count for _, count in rows])
        _label(axes[1], bars, [f"{count:,}" if count else "" for _, count in rows])
        axes[1].tick_params(axis="x", rotation=90)
        axes[1].set(title="absolute error", ylabel="values", xlabel=f"in bounds of {errors.bound:.3g}, from")
    write_plot(path, figure)


def _label(axes: Any, bars: Any, values: Sequence[str]) -> None:
    """Write each bar's value over it, upright where there are many, with room for them."""
    rotation = 90 if len(values) > 8 else 0
    axes.bar_label(bars, values, rotation=rotation, padding=3, fontsize=7)
    axes.margins(y=0.35 if rotation else 0.1)

# SPDX-License-Identifier: BSD-2-Clause
"""``inceptionn pays``: would compression make this training faster, and by how much?"""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, get_args

import typer

from ...codec import MAX_SCALE, Codec
from ...collectives import Scale
from ...collectives.building import check_scale
from ...commands import report
from ...commands.codec_option import ModeOption, chosen
from ...commands.console import (
    CsvFile,
    JsonFile,
    PlotFile,
    Table,
)
from ...netns import rate_text
from ...wire import BOUNDED, CODECS, PLANES, Variant
from . import chart, measure
from .costs import ENGINE_RATE, Coder, Form, Link, Where
from .ratios import TABLE_III, Ratio, RatioAt, constant, exponent_of, of_file, of_synthetic, published
from .scenario import TOPOLOGIES, Prediction, Scenario, Topology, facts_of, predict
from .simulation import MOST_JITTER, Simulated, simulate

SYNTHETIC = "synthetic"
GRADIENTS = ("float32", "bfloat16")
WHERE = tuple(place for place in get_args(Where) if place != "none")
_SIZE = re.compile(r"([0-9]*\.?[0-9]+)\s*([kMGT]?)B?", re.IGNORECASE)
_TIME = re.compile(r"([0-9]*\.?[0-9]+)\s*(ns|us|µs|ms|s)", re.IGNORECASE)
_PREFIX = {"": 1.0, "k": 1e3, "m": 1e6, "g": 1e9, "t": 1e12}
_SECOND = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0}


def pays(
    model: Annotated[str, typer.Option(metavar="SIZE", help="Bytes of the gradient, such as 98MB.")] = "98MB",
    step_time: Annotated[
        str, typer.Option(metavar="TIME", help="Training step without the exchange, such as 150ms.")
    ] = "150ms",
    nodes: Annotated[int, typer.Option(help="Hosts.")] = 4,
    bandwidth: Annotated[
        str, typer.Option(metavar="RATE", help="Bandwidth of each host's link, such as 10g.")
    ] = "10g",
    latency: Annotated[str, typer.Option(metavar="TIME", help="One-way latency between two hosts.")] = "10us",
    topology: Annotated[str, typer.Option(help=f"{', '.join(TOPOLOGIES)}.")] = "ring",
    where: Annotated[str, typer.Option(help=f"What compresses: {', '.join(WHERE)}.")] = "nic",
    codec: Annotated[
        str | None,
        typer.Option(
            metavar="CODEC",
            help=f"{' or '.join(CODECS)}. Default: planes in software, as the hook; else and for Table III "
            "paper.",
        ),
    ] = None,
    mode: ModeOption = None,
    bound: report.Bound = 10,
    scale: Annotated[
        str | None,
        typer.Option(
            metavar="EXPONENT",
            help="auto, none, or -126..126, as of the collectives. Default: auto in software; else none.",
        ),
    ] = None,
    ratio: Annotated[
        str,
        typer.Option(
            help=f"A number, a .npy file of gradients, {SYNTHETIC}, or {', '.join(TABLE_III)} of Table III."
        ),
    ] = SYNTHETIC,
    gradients: Annotated[str, typer.Option(help=f"{' or '.join(GRADIENTS)}.")] = "float32",
    buckets: Annotated[int, typer.Option(help="Exchanges per step.")] = 1,
    overlap: Annotated[float, typer.Option(help="Share of the step that can overlap with exchanges.")] = 0.0,
    group_size: Annotated[int | None, typer.Option(help="Hosts per group of the hierarchy.")] = None,
    oversubscription: Annotated[
        float, typer.Option(help="Oversubscription of the bandwidth across groups.")
    ] = 1.0,
    down: Annotated[
        bool, typer.Option("--down", help="Also compress the return leg from aggregator or servers.")
    ] = False,
    mtu: Annotated[int, typer.Option(help="Largest IP packet in bytes.")] = 1500,
    codec_rate: Annotated[
        str | None,
        typer.Option(metavar="RATE", help="Software codec rate in bytes/s, such as 5GB; else measured."),
    ] = None,
    tcp_rate: Annotated[
        str | None,
        typer.Option(metavar="RATE", help="Bytes/s that one processor sends and receives; else measured."),
    ] = None,
    engine_rate: Annotated[
        str, typer.Option(metavar="RATE", help="Bits of values per second that a NIC's engines process.")
    ] = f"{ENGINE_RATE / 1e9:g}g",
    box_bandwidth: Annotated[
        str | None, typer.Option(metavar="RATE", help="Bandwidth between host and box; default: the link's.")
    ] = None,
    simulated: Annotated[
        bool, typer.Option("--simulate", help="Also simulate host by host (ring, hierarchical).")
    ] = False,
    jitter: Annotated[
        float, typer.Option(help="Mean random delay of a simulated step, relative to it.")
    ] = 0.1,
    seed: report.Seed = 1,
    json_file: JsonFile = None,
    csv_file: CsvFile = None,
    plot: PlotFile = None,
) -> None:
    """Predict the time of a training step with compression and its speed-up, and say whether it pays.

    The answer may be "no". Rates of the software codec, of sums and of TCP are measured on this host, which
    takes a second. `inceptionn bench pays` compares the model with measured all-reduces.
    """
    out = report.Report(seed, json_file, csv_file, plot)
    (chosen_topology,) = report.choices(topology, TOPOLOGIES, "--topology")
    (chosen_where,) = report.choices(where, WHERE, "--where")
    variant = _variant(codec, mode, chosen_where, ratio)
    scaling = _scale(scale, chosen_where, ratio)
    (dtype,) = report.choices(gradients, GRADIENTS, "--gradients")
    coder = Codec(2.0**-bound, *variant, threads=1)
    stack = None if tcp_rate is None else _bytes_per_second(tcp_rate, "--tcp-rate")
    given = None if codec_rate is None else _bytes_per_second(codec_rate, "--codec-rate")
    if not 0 <= jitter <= MOST_JITTER:
        raise typer.BadParameter(f"--jitter must be 0 to {MOST_JITTER}, not {jitter!r}")
    ratio_at = _ratio(ratio, coder, bound, scaling)
    form = Form(
        where=_where(chosen_where), ratio=_at(ratio_at, nodes),
        engine=report.rate(engine_rate, "--engine-rate"),
        box=None if box_bandwidth is None else report.rate(box_bandwidth, "--box-bandwidth"),
    )  # fmt: skip
    try:
        scene = Scenario(
            size=size_of(model, "--model"), compute=time_of(step_time, "--step-time"), nodes=nodes,
            link=Link(report.rate(bandwidth, "--bandwidth"), time_of(latency, "--latency"), mtu),
            form=form, topology=_topology(chosen_topology),
            gradients="bfloat16" if dtype == "bfloat16" else "float32", buckets=buckets, overlap=overlap,
            group=group_size, oversubscription=oversubscription, down=down,
        )  # fmt: skip
        host = measure.host()
        form = replace(
            form, widen=host.add if dtype == "bfloat16" else None,
            coder=_coder(given, coder, scaling, nodes) if chosen_where == "software" else None,
        )  # fmt: skip
        scene = replace(scene, form=form, host=host if stack is None else replace(host, stack=stack))
        found = predict(scene)
        trial = simulate(scene, jitter, seed) if simulated else None
    except ValueError as error:
        raise typer.BadParameter(str(error)) from error
    title = title_of(scene, variant.name, bound, scaling)
    out.show_conditions(title)
    out.console.print(table_of(found))
    if trial is not None:
        out.console.print(_simulated_text(scene, trial, jitter))
    out.show([f"Does it pay? {found.verdict.capitalize()}.", *(f"- {reason}" for reason in found.reasons())])
    facts = {
        "command": "pays", "title": title, **variant._asdict(), "scale": scaling, **_facts_of(scene, found),
        "host": vars(host),
        "simulated": None if trial is None else trial._asdict(),
        "chart": None if plot is None else chart.points(scene, ratio_at),
    }  # fmt: skip
    out.write(facts, rows_of(found), lambda path: chart.draw(path, scene, ratio_at, title))


def _facts_of(scene: Scenario, found: Prediction) -> dict[str, Any]:
    """Return ratios, prediction and rates, for the JSON."""
    form = scene.form
    return {
        **dict(zip(("ratio", "ratio_of_the_result"), scene.ratios, strict=True)),
        **facts_of(found),
        "coder": None if form.coder is None else vars(form.coder),
    }  # fmt: skip


def rows_of(found: Prediction) -> list[dict[str, Any]]:
    """Return a row for each way: times in seconds, speed-ups, and the limit."""
    return [
        {
            "way": option.name, "exchange_seconds": option.exchange.seconds, "step_seconds": option.step,
            "over_ring_raw": found.raw.step / option.step, "over_ring_bf16": found.bf16.step / option.step,
            "limit": option.exchange.limit,
        }
        for option in found.options
    ]  # fmt: skip


def title_of(scene: Scenario, codec: str, bound: int, scale: Scale) -> str:
    """Describe the scenario in a line."""
    scaled = "" if scale is None else f", scale {scale}"
    gradients, result = (f"{ratio:.2f}" for ratio in scene.ratios)
    ratios = gradients if result == gradients else f"{gradients} of gradients, {result} of the result"
    return (
        f"{scene.size / 1e6:g} MB of {scene.gradients} gradients, {scene.compute * 1e3:g} ms of computation, "
        f"{scene.nodes} nodes, {rate_text(scene.link.bandwidth)}, {scene.topology}, {scene.form.where}, "
        f"{codec} at 2^-{bound}{scaled}, ratio {ratios}"
    )


def table_of(found: Prediction) -> Table:
    """Exchange and step times of every way, and speed-ups."""
    columns = ("exchange, ms", "step, ms", "over ring raw", "over ring bf16", "limited by")
    table = Table("", "", *columns)
    for option in found.options:
        table.add_row(
            option.name, f"{option.exchange.seconds * 1e3:.3f}", f"{option.step * 1e3:.2f}",
            f"{found.raw.step / option.step:.2f}x", f"{found.bf16.step / option.step:.2f}x",
            option.exchange.limit,
        )  # fmt: skip
    return table


def _simulated_text(scene: Scenario, trial: Simulated, jitter: float) -> str:
    return (
        f"Simulated host by host, {scene.nodes} nodes, jitter {jitter:g}: the last host is done after "
        f"{trial.last * 1e3:.3f} ms, the median after {trial.median * 1e3:.3f}; without jitter "
        f"{trial.even * 1e3:.3f} ms ({trial.last / trial.even:.2f} times)"
    )


def size_of(text: str, option: str) -> float:
    """Return the bytes of a text such as "98MB"; a usage error names the option."""
    return _parsed(text, _SIZE, _PREFIX, f"{option} takes bytes such as 98MB or 2.5GB, not {text!r}")


def time_of(text: str, option: str) -> float:
    """Return the seconds of a text such as "150ms"; a usage error names the option."""
    return _parsed(text, _TIME, _SECOND, f"{option} takes a time such as 150ms or 10us, not {text!r}")


def _parsed(text: str, pattern: re.Pattern[str], units: dict[str, float], rule: str) -> float:
    match = pattern.fullmatch(text.strip())
    if match is None:
        raise typer.BadParameter(rule)
    return float(match[1]) * units[match[2].lower()]


def _coder(rate: float | None, codec: Codec, scale: Scale, nodes: int) -> Coder:
    """Return a given rate, the same in all directions, or measured ones.

    Measured are those of synthetic values with their scale.
    """
    if rate is not None:
        return Coder(rate, rate, rate, rate)
    x = measure.sample()
    return measure.coder(codec.scaled(exponent_of(x, codec, scale, nodes)), x)


def _bytes_per_second(text: str, option: str) -> float:
    given = size_of(text, option)
    if not 1e3 <= given <= 1e13:
        raise typer.BadParameter(f"{option} must be 1kB to 10TB per second, not {text!r}")
    return given


def _variant(codec: str | None, mode: str | None, where: str, ratio: str) -> Variant:
    """Return the requested variant, or the default of the hook in software, and of NICs."""
    variant = chosen(codec, mode, PLANES if where == "software" and ratio not in TABLE_III else BOUNDED)
    if variant.codec != BOUNDED.codec and ratio in TABLE_III:
        raise typer.BadParameter(
            f"--ratio {ratio} is of the paper's codec, not of --codec {variant.codec}: "
            "give a number or a .npy file"
        )
    return variant


def _scale(text: str | None, where: str, ratio: str) -> Scale:
    """Return the requested scale.

    The default is that of the hook in software, and none in NICs and for Table III.
    """
    if text is None:
        return "auto" if where == "software" and ratio not in TABLE_III else None
    scale: Scale = None
    try:
        scale = "auto" if text == "auto" else None if text == "none" else check_scale(int(text))
    except ValueError:
        rule = f"auto, none or -{MAX_SCALE}..{MAX_SCALE}"
        raise typer.BadParameter(f"--scale takes {rule}, not {text!r}") from None
    if scale is not None and ratio in TABLE_III:
        raise typer.BadParameter(f"--ratio {ratio} is of values that are not scaled, so --scale must be none")
    return scale


def _at(ratio: RatioAt, nodes: int) -> Ratio:
    """Return the ratio among this number of nodes.

    A wrong number is reported with the other settings.
    """
    try:
        return ratio(max(1, nodes))
    except (ValueError, OverflowError) as error:
        raise typer.BadParameter(f"--scale: {error}") from error


def _ratio(text: str, codec: Codec, bound: int, scale: Scale) -> RatioAt:
    if text == SYNTHETIC:
        return of_synthetic(codec, scale)
    try:
        if text in TABLE_III:
            table = published(text, bound)
            return lambda nodes: table
        try:
            number = constant(float(text))
            return lambda nodes: number
        except ValueError:
            if not text.endswith(".npy"):
                names = ", ".join((SYNTHETIC, *TABLE_III))
                raise ValueError(f"takes a number, a .npy file, or {names}, not {text!r}") from None
        return of_file(Path(text), codec, scale)
    except (ValueError, TypeError) as error:
        raise typer.BadParameter(f"--ratio: {error}") from error
    except OSError as error:
        raise typer.BadParameter(f"--ratio: {error.strerror}: {text!r}") from error


def _topology(text: str) -> Topology:
    return next(name for name in TOPOLOGIES if name == text)


def _where(text: str) -> Where:
    return next(name for name in get_args(Where) if name == text)

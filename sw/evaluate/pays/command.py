# SPDX-License-Identifier: BSD-2-Clause
"""``inceptionn pays``: would compression make this training faster, and by how much?"""

from dataclasses import replace
from typing import Any

import typer

from ... import CODECS, Codec, converted
from ...collectives import Scale
from ...commands import report
from ...commands.codec_option import ModeOption
from ...commands.console import CsvFile, JsonFile, PlotFile, Table
from ...netns import rate_text
from ...system.options import usage_error
from . import chart, measure
from .costs import ENGINE_RATE, Coder, Form, Link
from .options import (
    SYNTHETIC,
    Bandwidth,
    BoxBandwidth,
    Buckets,
    CodecName,
    CodecRate,
    Down,
    EngineRate,
    Gradients,
    GroupSize,
    Jitter,
    Latency,
    Mtu,
    Nodes,
    Overlap,
    Oversubscription,
    Place,
    RatioText,
    ScaleText,
    Simulate,
    Size,
    StepTime,
    TcpRate,
    TopologyName,
    bytes_per_second,
    ratio_of,
    scale_of,
    size_of,
    time_of,
    variant_of,
)
from .ratios import Ratio, RatioAt, agreed_scale
from .scenario import Prediction, Scenario, facts_of, predict
from .simulation import MOST_JITTER, Simulated, simulate


def pays(
    model: Size = "98MB",
    step_time: StepTime = "150ms",
    nodes: Nodes = 4,
    bandwidth: Bandwidth = "10g",
    latency: Latency = "10us",
    topology: TopologyName = "ring",
    where: Place = "nic",
    codec: CodecName = None,
    mode: ModeOption = None,
    bound: report.Bound = 10,
    scale: ScaleText = None,
    ratio: RatioText = SYNTHETIC,
    gradients: Gradients = "float32",
    buckets: Buckets = 1,
    overlap: Overlap = 0.0,
    group_size: GroupSize = None,
    oversubscription: Oversubscription = 1.0,
    down: Down = False,
    mtu: Mtu = 1500,
    codec_rate: CodecRate = None,
    tcp_rate: TcpRate = None,
    engine_rate: EngineRate = f"{ENGINE_RATE / 1e9:g}g",
    box_bandwidth: BoxBandwidth = None,
    simulated: Simulate = False,
    jitter: Jitter = 0.1,
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
    narrow = gradients == "bfloat16"
    variant, scaling = variant_of(codec, mode, where, ratio, narrow), scale_of(scale, where, ratio)
    coder = Codec(2.0**-bound, *variant, threads=1)
    stack = None if tcp_rate is None else bytes_per_second(tcp_rate, "--tcp-rate")
    given = None if codec_rate is None else bytes_per_second(codec_rate, "--codec-rate")
    if not 0 <= jitter <= MOST_JITTER:
        raise typer.BadParameter(f"--jitter must be 0 to {MOST_JITTER}, not {jitter!r}")
    ratio_at = ratio_of(ratio, coder, bound, scaling)
    form = Form(
        where=where, ratio=_at(ratio_at, nodes),
        engine=report.rate(engine_rate, "--engine-rate"),
        box=None if box_bandwidth is None else report.rate(box_bandwidth, "--box-bandwidth"),
    )  # fmt: skip
    with usage_error():
        scene = Scenario(
            size=size_of(model, "--model"), compute=time_of(step_time, "--step-time"), nodes=nodes,
            link=Link(report.rate(bandwidth, "--bandwidth"), time_of(latency, "--latency"), mtu),
            form=form, topology=topology,
            gradients=gradients, buckets=buckets, overlap=overlap,
            group=group_size, oversubscription=oversubscription, down=down,
        )  # fmt: skip
    host = measure.host()
    lanes = CODECS[variant.codec].bf16_lanes
    form = replace(
        form, bf16_lanes=lanes, widen=host.add if narrow and where != "software" and not lanes else None,
        coder=_coder(given, coder, scaling, nodes, narrow) if where == "software" else None,
    )  # fmt: skip
    scene = replace(scene, form=form, host=host if stack is None else replace(host, stack=stack))
    found = predict(scene)
    with usage_error():
        trial = simulate(scene, jitter, seed) if simulated else None
    title = title_of(scene, variant.name, bound, scaling)
    _show(out, title, found, "" if trial is None else _simulated_text(scene, trial, jitter))
    facts = {
        "command": "pays", "title": title, **variant._asdict(), "scale": scaling, **_facts_of(scene, found),
        "host": vars(host),
        "simulated": None if trial is None else trial._asdict(),
        "chart": None if plot is None else chart.points(scene, ratio_at),
    }  # fmt: skip
    out.write(facts, rows_of(found), lambda path: chart.draw(path, scene, ratio_at, title))


def _show(out: report.Report, title: str, found: Prediction, trial: str) -> None:
    """Print the conditions, the table, the simulation's line if there is one, and the answer."""
    out.show_conditions(title)
    out.console.print(table_of(found))
    if trial:
        out.console.print(trial)
    out.show([f"Does it pay? {found.verdict.capitalize()}.", *(f"- {reason}" for reason in found.reasons())])


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
    ratios += " (over bfloat16)" if scene.gradients == "bfloat16" else ""
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


def _coder(rate: float | None, codec: Codec, scale: Scale, nodes: int, narrow: bool) -> Coder:
    """Return a given rate, the same in all directions, or measured ones.

    Measured are those of synthetic values with their scale, as bf16 if ``narrow``.
    """
    if rate is not None:
        return Coder(rate, rate, rate, rate)
    x = measure.sample()
    common = agreed_scale(x, codec, scale, nodes)
    if narrow:
        return measure.coder(codec.scaled(common, "bfloat16"), converted(x, "bfloat16"))
    return measure.coder(codec.scaled(common), x)


def _at(ratio: RatioAt, nodes: int) -> Ratio:
    """Return the ratio among this number of nodes. A wrong number is reported with the other settings."""
    try:
        return ratio(max(1, nodes))
    except (ValueError, OverflowError) as error:
        raise typer.BadParameter(f"--scale: {error}") from error

# SPDX-License-Identifier: BSD-2-Clause
"""``inceptionn pays``: would compression make this training faster, and by how much?"""

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Annotated, Any, get_args

import typer

from ... import BOUNDED, CODECS, MAX_SCALE, PLANES, Codec, Variant, converted
from ...collectives import Deflated, ErrorFeedback, Scale, StreamCodec, check_scale
from ...commands import report
from ...commands.codec_option import MODE_HELP, chosen
from ...commands.codec_option import bound as bound_option
from ...commands.study import Study, measurement
from ...netns import rate_text
from ...system.options import one_of, usage_error
from . import chart, measure, ratios
from .costs import ENGINE_RATE, Coder, Collectives, Form, Link, Where
from .ratios import Ratio, RatioAt
from .scenario import TOPOLOGIES, Dtype, Option, Prediction, Scenario, Topology, compared, predict
from .simulation import MOST_JITTER, Simulated, simulate

(SYNTHETIC, NORMAL), ENGINES = ratios.SAMPLES, f"{ENGINE_RATE / 1e9:g}g"
WHERE = tuple(place for place in get_args(Where) if place != "none")
_QUANTITY = re.compile(r"([0-9]*\.?[0-9]+)\s*([a-zµ]*)", re.IGNORECASE)
_BYTES = {"": 1.0, "k": 1e3, "m": 1e6, "g": 1e9, "t": 1e12}
_BYTES |= {f"{prefix}b": factor for prefix, factor in _BYTES.items()}
_SECONDS = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0}
# The sections of the help.
TRAINING, NETWORK, COMPRESSION = "Training", "Network", "Compression"
RATES, SIMULATION = "Rates of hosts and devices", "Simulation"


def _given(section: str, help: str, metavar: str | None = None, *names: str) -> Any:
    """Make an option in a section of the help, with a name for its value if one is given."""
    return typer.Option(*names, metavar=metavar, help=help, rich_help_panel=section)


_CODEC_HELP = (
    f"{' or '.join(CODECS)}. Default: planes in software and for bfloat16; paper in hardware, and for "
    "the ratios of Table III."
)
_STEP_TIME_HELP = "Training step without the exchange, such as 150ms."
_LOCAL_STEPS_HELP = "Also local updates (DiLoCo), with an exchange every H steps."
_LOCAL_BOUND_HELP = "The same of local updates. Default: DiLoCo's."
_DEFLATED_HELP = "Deflate the software codec's streams, for slow links."
_DOWN_HELP = "Compress what aggregator or servers return."
_CODEC_RATE_HELP = "Bytes/s of a software codec; else measured."
_TCP_RATE_HELP = "Bytes/s of one processor's TCP; else measured."
_SIMULATE_HELP = "Also simulate host by host (ring, hierarchical)."
_SCALE_HELP = "auto, none, or -126..126, as in the collectives. Default: auto in software, else none."
_RATIO_HELP = f"A number, a .npy file, {SYNTHETIC}, {NORMAL}, or {', '.join(ratios.TABLE_III)} of Table III."


@measurement("pays", plot=True)
def pays(
    study: Study,
    model: Annotated[str, _given(TRAINING, "Bytes of the gradient, such as 98MB.", "SIZE")] = "98MB",
    step_time: Annotated[str, _given(TRAINING, _STEP_TIME_HELP, "TIME")] = "150ms",
    gradients: Annotated[Dtype, one_of(get_args(Dtype), "{}.", rich_help_panel=TRAINING)] = "float32",
    buckets: Annotated[int, _given(TRAINING, "Exchanges per step.")] = 1,
    overlap: Annotated[float, _given(TRAINING, "Share of the step that can overlap with exchanges.")] = 0.0,
    local_steps: Annotated[int, _given(TRAINING, _LOCAL_STEPS_HELP, "H")] = 1,
    nodes: Annotated[int, _given(NETWORK, "Hosts.")] = 4,
    bandwidth: Annotated[str, _given(NETWORK, "Bandwidth of each host's link, such as 10g.", "RATE")] = "10g",
    latency: Annotated[str, _given(NETWORK, "One-way latency between two hosts.", "TIME")] = "10us",
    mtu: Annotated[int, _given(NETWORK, "Largest IP packet in bytes.")] = 1500,
    topology: Annotated[Topology, one_of(TOPOLOGIES, "{}.", rich_help_panel=NETWORK)] = "ring",
    group_size: Annotated[int | None, _given(NETWORK, "Hosts per group of the hierarchy.")] = None,
    oversubscription: Annotated[float, _given(NETWORK, "That of the bandwidth across groups.")] = 1.0,
    where: Annotated[Where, one_of(WHERE, "What compresses: {}.", rich_help_panel=COMPRESSION)] = "nic",
    codec: Annotated[str | None, _given(COMPRESSION, _CODEC_HELP, "CODEC")] = None,
    mode: Annotated[str | None, _given(COMPRESSION, MODE_HELP, "MODE")] = None,
    bound: Annotated[int, bound_option("Error bound 2**-k.", rich_help_panel=COMPRESSION)] = 10,
    local_bound: Annotated[int | None, bound_option(_LOCAL_BOUND_HELP, rich_help_panel=COMPRESSION)] = None,
    scale: Annotated[str | None, _given(COMPRESSION, _SCALE_HELP, "EXPONENT")] = None,
    ratio: Annotated[str, _given(COMPRESSION, _RATIO_HELP)] = SYNTHETIC,
    local_ratio: Annotated[str, _given(COMPRESSION, "The same of local updates.")] = NORMAL,
    deflated: Annotated[bool, _given(COMPRESSION, _DEFLATED_HELP, None, "--deflated")] = False,
    down: Annotated[bool, _given(COMPRESSION, _DOWN_HELP, None, "--down")] = False,
    codec_rate: Annotated[str | None, _given(RATES, _CODEC_RATE_HELP, "RATE")] = None,
    tcp_rate: Annotated[str | None, _given(RATES, _TCP_RATE_HELP, "RATE")] = None,
    engine_rate: Annotated[str, _given(RATES, "Bits of values/s of a NIC's engines.", "RATE")] = ENGINES,
    cable: Annotated[str, _given(RATES, "Between a host and its inline device.", "RATE")] = "1g",
    simulated: Annotated[bool, _given(SIMULATION, _SIMULATE_HELP, None, "--simulate")] = False,
    jitter: Annotated[float, _given(SIMULATION, "Mean random delay of a simulated step, over it.")] = 0.1,
    seed: Annotated[int, report.whole(0, 2**32 - 1, "Of the data.", rich_help_panel=SIMULATION)] = 1,
) -> None:
    """Predict the time of a training step with compression and its speed-up, and say whether it pays.

    The answer may be "no". Rates of the software codec, of sums and of TCP are measured on this host, which
    takes a second. `inceptionn bench pays` compares the model with measured all-reduces.
    """
    narrow = gradients == "bfloat16"
    variant, scaling = variant_of(codec, mode, where, ratio, narrow), scale_of(scale, where, ratio)
    _check_options(local_steps, local_bound is not None or local_ratio != NORMAL, deflated, where, ratio)
    local_bound = local_bound or (ErrorFeedback.local_exponent(nodes) if where == "software" else bound)
    coder, coarse = (_codec(k, variant, deflated) for k in (bound, local_bound))
    stack, given = rate_of(tcp_rate, "--tcp-rate"), rate_of(codec_rate, "--codec-rate")
    if not 0 <= jitter <= MOST_JITTER:
        raise typer.BadParameter(f"--jitter must be 0 to {MOST_JITTER}, not {jitter!r}")
    ratio_at = ratio_of(ratio, coder, bound, scaling)
    engine, wire = report.rate(engine_rate, "--engine-rate"), report.rate(cable, "--cable")
    form = Form(where=where, ratio=_at(ratio_at, nodes), engine=engine, cable=wire)
    with usage_error():
        scene = Scenario(
            size=model_of(model), compute=time_of(step_time, "--step-time"), nodes=nodes,
            link=Link(report.rate(bandwidth, "--bandwidth"), time_of(latency, "--latency"), mtu),
            form=form, topology=topology, gradients=gradients, buckets=buckets, overlap=overlap,
            group=group_size, oversubscription=oversubscription, down=down, local_steps=local_steps,
        )  # fmt: skip
    host = measure.host()
    lanes = CODECS[variant.codec].bf16_lanes
    form = replace(
        form, bf16_lanes=lanes, widen=host.add if narrow and where != "software" and not lanes else None,
        coder=_coder(given, coder, scaling, nodes, narrow) if where == "software" else None,
        collectives=_collectives(coder, bound, where, scaling, narrow),
    )  # fmt: skip
    scene = replace(scene, form=form, host=host if stack is None else replace(host, stack=stack))
    local = _local(scene, coarse, local_bound, "auto" if scale is None else scaling, local_ratio)
    scene = replace(scene, local_steps=1)
    found = predict(scene)
    with usage_error():
        trial = simulate(scene, jitter, seed) if simulated else None
    title = title_of(scene, variant.name + ", deflated" * deflated, bound, scaling)
    study.conditions.append(title)
    study.facts = {
        "command": "pays", "title": title, **variant._asdict(), "scale": scaling, "deflated": deflated,
        "host": vars(host), "coder": form.coder and vars(form.coder),
        "simulated": trial and trial._asdict(), "chart": None,
    }  # fmt: skip
    _show(study, found, local, trial, jitter)
    if study.output.plot is not None:
        points = study.facts["chart"] = chart.points(scene, ratio_at)
        study.plot(lambda figure: chart.draw(figure, scene, points, title), 9.6, 4.2)


def _check_options(local_steps: int, local: bool, deflated: bool, where: str, ratio: str) -> None:
    """Refuse options that would do nothing, some of local updates if ``local``."""
    if local and local_steps == 1:
        raise typer.BadParameter("need --local-steps", param_hint="--local-bound, --local-ratio")
    if deflated and (where != "software" or ratio in ratios.TABLE_III):
        raise typer.BadParameter("needs --where software and no ratio of Table III", param_hint="--deflated")


def _show(
    study: Study, found: Prediction, local: Prediction | None, trial: Simulated | None, jitter: float
) -> None:
    """Show all ways and the answers, and keep their rows and facts.

    A row has times in seconds, speed-ups, the limit, and what each resource needs.
    """
    ways = [*found.options, *(local.options if local else ())]
    study.rows = [
        {
            "name": option.name, "exchange_seconds": option.exchange.seconds, "step_seconds": option.step,
            "over_ring_raw": found.raw.step / option.step, "over_ring_bf16": found.bf16.step / option.step,
            "limit": option.exchange.limit, "link_seconds": option.exchange.link,
            "processor_seconds": option.exchange.processor, "device_seconds": option.exchange.device,
            "wire_bytes": option.exchange.wire_bytes,
        }
        for option in ways
    ]  # fmt: skip
    study.table("", {name: partial(text, found) for name, text in WAYS.items()}, ways)
    if trial is not None:
        study.show(f"Simulated host by host, {found.scenario.nodes} nodes, jitter {jitter:g}: {trial}")
    if local is not None:
        known, (sent, returned) = local.scenario.form.collectives, local.scenario.ratios
        bound = "" if known is None or known.bound is None else f"at 2^{math.log2(known.bound):g}, "
        study.show(f"Local updates: {bound}ratio {sent:.2f}, of the result {returned:.2f}")
    study.show(f"Does it pay? {found.verdict.capitalize()}.", *(f"- {reason}" for reason in found.reasons()))
    gradients, result = found.scenario.ratios
    study.facts |= {
        "ratio": gradients, "ratio_of_the_result": result, "options": study.rows[: len(found.options)],
        "speed_up_over_ring_raw": found.over_raw, "speed_up_over_ring_bf16": found.over_bf16,
        "verdict": found.verdict, "reasons": found.reasons(), "local": None,
    }  # fmt: skip
    if local is not None:
        allowed, answer = compared(found, local)
        study.show(answer)
        study.facts["local"] = {"steps_allowed": allowed, "options": study.rows[len(found.options) :]}


def _codec(k: int, variant: Variant, deflated: bool) -> StreamCodec:
    codec = Codec(2.0**-k, *variant, threads=1)
    return Deflated(codec) if deflated else codec


def _local(scene: Scenario, codec: StreamCodec, bound: int, scale: Scale, ratio: str) -> Prediction | None:
    """Predict local updates, whose differences have a ratio and bound of their own; None without them.

    `DiLoCo` is one of this package's collectives over NICs, too.
    """
    if scene.local_steps == 1:
        return None
    where, narrow = scene.form.where, scene.gradients == "bfloat16"
    form = replace(
        scene.form, ratio=_at(ratio_of(ratio, codec, bound, scale, "--local-ratio"), scene.nodes),
        collectives=_collectives(codec, bound, where, scale, narrow) or Collectives(),
    )  # fmt: skip
    return predict(replace(scene, form=form))


def _collectives(
    codec: StreamCodec, bound: int, where: str, scale: Scale, narrow: bool
) -> Collectives | None:
    """Return this package's collectives. Hardware that gets values without a scale gets them from others."""
    if where != "software" and scale is None:
        return None
    exact = where == "software" and codec.sums_exactly and not narrow
    return Collectives(exact, 2.0**-bound if scale == "auto" else None)


def title_of(scene: Scenario, codec: str, bound: int, scale: Scale) -> str:
    """Describe the scenario in a line."""
    scaled = "" if scale is None else f", scale {scale}"
    gradients, result = (f"{ratio:.2f}" for ratio in scene.ratios)
    described = gradients if result == gradients else f"{gradients} of gradients, {result} of the result"
    described += " (over bfloat16)" * (scene.gradients == "bfloat16")
    return (
        f"{scene.size / 1e6:g} MB of {scene.gradients} gradients, {scene.compute * 1e3:g} ms of computation, "
        f"{scene.nodes} nodes, {rate_text(scene.link.bandwidth)}, {scene.topology}, {scene.form.where}, "
        f"{codec} at 2^-{bound}{scaled}, ratio {described}"
    )


WAYS: dict[str, Callable[[Prediction, Option], str]] = {
    "": lambda found, way: way.name,
    "exchange, ms": lambda found, way: f"{way.exchange.seconds * 1e3:.3f}",
    "step, ms": lambda found, way: f"{way.step * 1e3:.2f}",
    "over ring raw": lambda found, way: f"{found.raw.step / way.step:.2f}x",
    "over ring bf16": lambda found, way: f"{found.bf16.step / way.step:.2f}x",
    "limited by": lambda found, way: way.exchange.limit,
}


def _coder(rate: float | None, codec: StreamCodec, scale: Scale, nodes: int, narrow: bool) -> Coder:
    """Return a given rate for all directions, or those measured of synthetic values, bf16 if ``narrow``."""
    if rate is not None:
        return Coder(rate, rate, rate, rate)
    x, dtype = measure.sample(), "bfloat16" if narrow else "float32"
    common = ratios.agreed_scale(x, codec, scale, nodes)
    return measure.coder(codec.scaled(common, dtype), converted(x, dtype))


def _at(ratio: RatioAt, nodes: int) -> Ratio:
    """Return the ratio among this number of nodes. A wrong number is reported with the other settings."""
    try:
        return ratio(max(1, nodes))
    except (ValueError, OverflowError) as error:
        raise typer.BadParameter(f"--scale: {error}") from error


def quantity(text: str, option: str, units: Mapping[str, float], what: str) -> float:
    """Return the value of a number with a unit, in any case; a usage error names the option."""
    match = _QUANTITY.fullmatch(text.strip())
    if match is None or match[2].lower() not in units:
        raise typer.BadParameter(f"{option} takes {what}, not {text!r}")
    return float(match[1]) * units[match[2].lower()]


size_of = partial(quantity, units=_BYTES, what="bytes such as 98MB or 2.5GB")
time_of = partial(quantity, units=_SECONDS, what="a time such as 150ms or 10us")


def model_of(text: str) -> float:
    """Return the bytes of a gradient; a usage error for so few that the unit was forgotten."""
    size = size_of(text, "--model")
    if size < 1e3:
        rule = "--model takes bytes such as 98MB, at least 1kB"
        raise typer.BadParameter(f"{rule}; {text!r} is {size:g} bytes")
    return size


def rate_of(text: str | None, option: str) -> float | None:
    """Return the bytes per second of a text such as "5GB", or None; a usage error names the option."""
    given = None if text is None else size_of(text, option)
    if given is not None and not 1e3 <= given <= 1e13:
        raise typer.BadParameter(f"{option} must be 1kB to 10TB per second, not {text!r}")
    return given


def variant_of(codec: str | None, mode: str | None, where: str, ratio: str, narrow: bool = False) -> Variant:
    """Return the requested variant, or the default of the hook in software, and of NICs.

    ``narrow`` gradients, of 16 bits, have lanes of their own in NICs with planes.
    """
    planes = (where == "software" or narrow) and ratio not in ratios.TABLE_III
    variant = chosen(codec, mode, PLANES if planes else BOUNDED)
    if variant.codec != BOUNDED.codec and ratio in ratios.TABLE_III:
        raise typer.BadParameter(
            f"--ratio {ratio} is of the paper's codec, not of --codec {variant.codec}: "
            "give a number or a .npy file"
        )
    return variant


def scale_of(text: str | None, where: str, ratio: str) -> Scale:
    """Return the requested scale, or the default: the hook's in software, none in NICs and for Table III."""
    if text is None:
        return "auto" if where == "software" and ratio not in ratios.TABLE_III else None
    scale: Scale = None
    try:
        scale = "auto" if text == "auto" else None if text == "none" else check_scale(int(text))
    except ValueError:
        rule = f"auto, none or -{MAX_SCALE}..{MAX_SCALE}"
        raise typer.BadParameter(f"--scale takes {rule}, not {text!r}") from None
    if scale is not None and ratio in ratios.TABLE_III:
        raise typer.BadParameter(f"--ratio {ratio} is of values that are not scaled, so --scale must be none")
    return scale


def _number(text: str) -> Ratio:
    try:
        found = float(text)
    except ValueError:
        names = ", ".join((*ratios.SAMPLES, *ratios.TABLE_III))
        raise ValueError(f"takes a number, a .npy file, or {names}, not {text!r}") from None
    if not 0.5 <= found <= 1000:
        raise ValueError(f"must be 0.5 to 1000, not {text}")
    return ratios.constant(found)


def ratio_of(text: str, codec: StreamCodec, bound: int, scale: Scale, option: str = "--ratio") -> RatioAt:
    """Return the ratio by number of nodes that a text asks for; a usage error names the text."""
    try:
        if text in ratios.SAMPLES or text.endswith(".npy"):
            values = ratios.SAMPLES[text]() if text in ratios.SAMPLES else ratios.file_values(Path(text))
            return partial(ratios.of_values, values, codec, scale)
        found = ratios.published(text, bound) if text in ratios.TABLE_III else _number(text)
        return lambda nodes: found
    except (ValueError, TypeError) as error:
        raise typer.BadParameter(f"{option}: {error}") from error
    except OSError as error:
        raise typer.BadParameter(f"{option}: {error.strerror}: {text!r}") from error

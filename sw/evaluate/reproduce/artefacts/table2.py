# SPDX-License-Identifier: BSD-2-Clause
"""Table II: where the time of a worker-aggregator step goes."""

from itertools import pairwise
from typing import Any

from ....netns import Network
from ...bench.common.job import lines_of
from ...pays.costs import Form, Host, Link
from ...pays.exchange import worker_aggregator
from ..artefact import Artefact, Check, Settings, bars, legend
from ..inputs import imagenet
from ..inputs.digits import DATA
from ..inputs.hosts import unavailable
from ..published import BANDWIDTH, NETWORKS, SIZE_MB, STEPS, TABLE_II, TABLE_II_SHARES, WORKERS

RANK = "inceptionn.evaluate.reproduce.inputs.steps_rank"
PORT, TIMEOUT, PATIENCE = 29580, 60.0, 120.0
RATE = "1g"
_TOTAL, _SHARE, _SIZE = 0.02, 0.35, 0.1
"""Tolerances: seconds of a sum of six; points of a share, beside seconds rounded to 0.005; megabytes."""


def make(settings: Settings) -> Artefact:
    """Measure HDC between five hosts, and compute the ImageNet networks.

    The model gives the exchanges of all.
    """
    found = Artefact(
        "table2", "Table II: a worker-aggregator step of four workers, ms per iteration",
        [f"Communicate, model: inceptionn pays, {BANDWIDTH / 1e9:g} Gbit/s, sizes as printed, gradients and "
         "then weights, no overlap"],
    )  # fmt: skip
    shares: dict[str, dict[str, float]] = {}
    for name in NETWORKS:
        size = SIZE_MB[name] * 1e6
        link = Link(BANDWIDTH)
        exchange = worker_aggregator(
            size, WORKERS, link, Host(), Form(), Form(), separate=True, overlap=False
        )
        found.row(f"{name}: Communicate, model", 10 * TABLE_II[name][4], 1e3 * exchange.link, "ms")
    reason = unavailable(settings.network)
    if reason is None:
        settings.step("five hosts")
        steps = settings.of(60, 15)
        plan = {"port": PORT, "timeout": TIMEOUT, "seed": settings.seed, "batch": 25, "steps": steps}
        with Network(WORKERS + 1, RATE) as network:
            (line,) = lines_of(network, RANK, plan, PATIENCE)
        parts = line["parts"]
        total = sum(parts.values())
        found.conditions.append(
            f"measured: {DATA}; four workers and an aggregator on hosts with links of 1 Gbit/s that share "
            f"this machine's processors, mean of {steps} steps in NumPy (the paper: GPUs, 10 Gbit/s)"
        )
        shares["HDC, here"] = {part: 100 * value / total for part, value in parts.items()}
        for place, part in enumerate(STEPS):
            if part in parts:
                found.row(f"HDC: {part}", 10 * TABLE_II["HDC"][place], 1e3 * parts[part], "ms")
                share = 100 * parts[part] / total
                found.row(f"HDC: {part}, share", TABLE_II_SHARES["HDC"][place], share, "%")
    else:
        found.notes.append(reason)
    _computed(settings, found)
    found.checks = paper_checks()
    for name in NETWORKS:
        shares[f"{name}, paper"] = dict(zip(STEPS, TABLE_II_SHARES[name], strict=True))
    found.data = {"shares": shares}
    return found


def _computed(settings: Settings, found: Artefact) -> None:
    """Forward and backward passes of the ImageNet networks, where torch is."""
    if not settings.torch or imagenet.missing():
        found.notes.append(imagenet.missing() or "the ImageNet networks were left out (--no-torch)")
        return
    for name in imagenet.NETWORKS:
        settings.step(name)
        batch = 2 if name != "ResNet-50" else 4
        sample = imagenet.sample(name, settings.of(6, 2), batch, settings.seed)
        per = 64 if name != "ResNet-50" else 16
        for place, seconds in enumerate((sample.forward, sample.backward)):
            found.row(f"{name}: {STEPS[place]}, batch {per}", 10 * TABLE_II[name][place],
                      1e3 * seconds * per / sample.batch, "ms")  # fmt: skip
        text = f"{name}: passes of batch {batch}, scaled to {per}, on a {sample.device} (the paper: Titan Xp)"
        found.conditions.append(f"{text}, {imagenet.IMAGES}")


def paper_checks() -> list[Check]:
    """Check that the columns add up, and that the link can carry the exchange in the printed time."""
    found = []
    for name in NETWORKS:
        *parts, total = TABLE_II[name]
        text = f"{sum(parts):.2f} s, printed {total} s"
        if name == "VGG-16":
            text += (
                "; 35.25 s of forward pass instead of 32.25 would fit both the total and the printed 4.3 %"
            )
        right = abs(sum(parts) - total) <= _TOTAL
        found.append(Check(f"{name}: parts add up to the total", right, text, f"{_TOTAL} s"))
        wrong = [
            (step, 100 * part / total, share)
            for step, part, share in zip(STEPS, parts, TABLE_II_SHARES[name], strict=True)
            if abs(100 * part / total - share) > _SHARE + 0.5 / total
        ]
        text = (
            ", ".join(f"{step} {value:.1f} %, printed {share} %" for step, value, share in wrong) or "all do"
        )
        tolerance = f"{_SHARE + 0.5 / total:.2f} points"
        found.append(Check(f"{name}: shares follow from the seconds", not wrong, text, tolerance))
    printed, deep, shallow = SIZE_MB["HDC"], *map(_megabytes, (4, 2))
    found.append(Check(
        "HDC: five full layers, each 500, have the printed size", abs(deep - printed) < _SIZE,
        f"{deep:.1f} MB with MNIST's 784 inputs, printed {printed}; two hidden layers have {shallow:.1f} MB",
        f"{_SIZE} MB",
    ))  # fmt: skip
    for name in NETWORKS:
        bits = 8 * 2 * WORKERS * SIZE_MB[name] * 1e6
        seconds = TABLE_II[name][4] / 100
        share = bits / seconds / BANDWIDTH
        found.append(Check(
            f"{name}: the aggregator's 10 Gbit/s link can carry it", share <= 1,
            f"2 x {WORKERS} x {SIZE_MB[name]:g} MB in {seconds * 1e3:.1f} ms are {share * 10:.2f} Gbit/s, "
            "gradients and "
            "weights one after the other" + ("; only with both at once" if share > 1 else ""),
        ))  # fmt: skip
    return found


def _megabytes(hidden: int) -> float:
    """Return the size of float32 parameters in MB.

    They are MNIST's inputs, ``hidden`` layers of 500 units, ten outputs.
    """
    widths = [784, *[500] * hidden, 10]
    return 4e-6 * sum(inputs * outputs + outputs for inputs, outputs in pairwise(widths))


def draw(figure: Any, artefact: Artefact) -> None:
    """Plot shares of a step."""
    axes = figure.subplots()
    shares = artefact.data["shares"]
    groups = list(shares)
    bars(axes, groups, {step: [shares[group].get(step) for group in groups] for step in STEPS}, "{:.1f}")
    axes.set(ylabel="% of a step")
    legend(figure, axes, 6)

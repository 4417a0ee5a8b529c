# SPDX-License-Identifier: BSD-2-Clause
"""SSD-SGD (Xu et al. 2020), Table 2: test accuracy by delay steps."""

from typing import Any

import numpy as np

from ....bench.layers.ssd_sgd import DELAYS, final_accuracy
from ...artefact import Artefact, Check, Settings, bars, legend
from ...published import SSD_SGD_TABLE_2

MODEL = "ResNet-20 (32)"


def make(settings: Settings) -> Artefact:
    """Train on the digits by the function of `inceptionn bench ssd-sgd`."""
    steps, seeds = settings.of(300, 100), settings.of(3, 1)
    found = Artefact(
        "ssd-sgd", "SSD-SGD, Table 2: accuracy by delay steps",
        [f"MLP 64-48-10 on scikit-learn's digits, four workers, GLU, {steps} steps, {settings.seeds(seeds)}, "
         f"beside the paper's {MODEL} on CIFAR-10"],
    )  # fmt: skip
    accuracy = {}
    for k in (0, *DELAYS):
        settings.step(f"{k} delay steps")
        chosen = range(settings.seed, settings.seed + seeds)
        accuracy[k] = 100 * float(np.mean([final_accuracy(k, "glu", steps, seed) for seed in chosen]))
    paper = SSD_SGD_TABLE_2[MODEL]
    found.row("SSGD", paper[0], accuracy[0], "%")
    for k in DELAYS:
        found.row(f"k = {k}, over SSGD", paper[k] - paper[0], accuracy[k] - accuracy[0], "points")
    for name, values in SSD_SGD_TABLE_2.items():
        worst = min(values[1:5]) - values[0]
        text = f"k = 1 to 4: {worst:+.2f} points at worst; k = 5: {values[5] - values[0]:+.2f}"
        claim = f"{name}: similar or better accuracy than SSGD"
        found.checks.append(Check(claim, worst > -0.5, text, "0.5 points"))
    found.data = {"accuracy": accuracy, "paper": dict(zip((0, *DELAYS), paper, strict=True))}
    found.notes.append("times by delay, with the paper's equations beside them: inceptionn bench ssd-sgd")
    return found


def draw(figure: Any, artefact: Artefact) -> None:
    """Plot points over SSGD."""
    axes = figure.subplots()
    series = {}
    for name, values in (
        ("paper, ResNet-20", artefact.data["paper"]),
        ("here, digits", artefact.data["accuracy"]),
    ):
        series[name] = [values[k] - values[0] for k in DELAYS]
    bars(axes, [f"k = {k}" for k in DELAYS], series, "{:+.2f}")
    axes.axhline(0, color="0.4", lw=0.8)
    axes.set(ylabel="accuracy over SSGD, points")
    legend(figure, axes)

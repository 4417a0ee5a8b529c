# SPDX-License-Identifier: BSD-2-Clause
"""GradiVeQ (Yu et al. 2018), Sec. 4: ratio, accuracy, and times as fast an aggregation."""

from statistics import mean, median
from typing import Any

from .....netns import Network
from ....bench.common.job import lines_of
from ....bench.layers import gradiveq as bench
from ...artefact import Artefact, Check, Settings, bars
from ...inputs.hosts import unavailable
from ...published import GRADIVEQ_ACCURACY, GRADIVEQ_FASTER, GRADIVEQ_RATIO

RATE = "100m"
DIMENSION = 99


def make(settings: Settings) -> Artefact:
    """Run the bench's training runs, and all-reduces of ResNet-32's convolutions between shaped hosts."""
    steps, seeds = settings.of(530, 120), settings.of(2, 1)
    found = Artefact(
        "gradiveq", "GradiVeQ, Sec. 4: ratio, accuracy and aggregation time",
        [f"accuracy: a CNN of 32, 64, 64 channels on scikit-learn's digits, four workers, {steps} steps, "
         f"{settings.seeds(seeds)} (the paper: ResNet-32 on CIFAR-100)"],
    )  # fmt: skip
    names = ("raw", "GradiVeQ") if settings.quick else bench.NAMES
    trained: dict[str, list[dict[str, float]]] = {}
    for name in names:
        for seed in range(settings.seed, settings.seed + seeds):
            settings.step(f"{name}, seed {seed}")
            result = bench.training(bench.settings(name, steps), steps, seed)
            trained.setdefault(name, []).append(result)
    accuracy = {name: 100 * mean(run["accuracy"] for run in runs) for name, runs in trained.items()}
    base = GRADIVEQ_ACCURACY["raw"]
    for name in names[1:]:
        paper = 100 * (GRADIVEQ_ACCURACY[name] - base) if name in GRADIVEQ_ACCURACY else None
        found.row(f"{name}: accuracy over raw", paper, accuracy[name] - accuracy["raw"], "points")
        ratio = mean(run["all"] for run in trained[name])
        found.row(f"{name}: fewer bytes, all phases", None, ratio, "x")
    compressed = [run["compressed"] for run in trained["GradiVeQ"] if "compressed" in run]
    found.row(
        "GradiVeQ: ratio of compressed steps", GRADIVEQ_RATIO, mean(compressed) if compressed else None, "x"
    )
    faster: dict[str, float] = {}
    reason = unavailable(settings.network)
    if reason is None:
        settings.step("four hosts")
        plan = {
            "port": bench.PORT, "timeout": bench.TIMEOUT, "repeats": settings.of(9, 3), "ratio": bench.RATIO,
            "dimension": DIMENSION, "bound": 2.0**-bench.BOUND, "seed": settings.seed,
        }  # fmt: skip
        with Network(4, RATE) as network:
            times = {
                line["variant"]: median(line["seconds"]) for line in lines_of(network, bench.RANK, plan, 120)
            }
        titles = {
            name: text.format(ratio=bench.RATIO, dimension=DIMENSION) for name, text in bench.TITLES.items()
        }
        for name, seconds in times.items():
            if name != "raw":
                faster[titles[name]] = times["raw"] / seconds
                paper = GRADIVEQ_FASTER if name == "gradiveq" else None
                found.row(f"{titles[name]}: aggregation over raw", paper, times["raw"] / seconds, "x")
        found.conditions.append(
            "times: convolutions of ResNet-32, four hosts with links of 100 Mbit/s that share this machine's "
            "processors (the paper: six nodes)"
        )
    else:
        found.notes.append(reason)
    found.checks.append(Check(
        "aggregation 5.25 times as fast follows from 850 and 162 s", abs(850 / 162 - GRADIVEQ_FASTER) < 0.01,
        f"850 / 162 = {850 / 162:.2f}, {100 * 850 / 162 / GRADIVEQ_RATIO:.0f} % of the ratio of 8",
        "0.01",
    ))  # fmt: skip
    found.data = {"accuracy": accuracy, "faster": faster}
    return found


def draw(figure: Any, artefact: Artefact) -> None:
    """Plot accuracies and speed-ups."""
    left, right = figure.subplots(1, 2)
    accuracy, faster = artefact.data["accuracy"], artefact.data["faster"]
    bars(left, list(accuracy), {"accuracy here": list(accuracy.values())}, "{:.1f}")
    left.set(ylabel="test accuracy, %", title="digits")
    left.tick_params(axis="x", labelrotation=20)
    if faster:
        bars(right, [name.replace(", ", "\n") for name in faster], {"here": list(faster.values())}, "{:.1f}")
    right.axhline(1, color="0.4", ls=":")
    right.set(ylabel="aggregation, times as fast as raw", title="100 Mbit/s")
    right.tick_params(axis="x", labelrotation=60, labelsize=7)

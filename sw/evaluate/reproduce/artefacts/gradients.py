# SPDX-License-Identifier: BSD-2-Clause
"""Fig. 5 and Table III: the distribution of gradients, of HDC in training and of the ImageNet networks."""

from typing import Any

import numpy as np

from ....commands.study import Panel, panels
from ...pays.ratios import TABLE_III, bits_ratio
from ...training import Floats
from ..artefact import Artefact
from ..inputs.codecs import codecs, ratio
from ..inputs.digits import DATA, baseline
from ..inputs.imagenet import IMAGES, sampled
from ..published import TABLE_KEYS

EDGES = np.linspace(-1, 1, 81)
BOUNDS = (10, 8, 6)
WIDTHS = ("2-bit", "10-bit", "18-bit", "34-bit")


def fig5(made: Artefact) -> None:
    """Collect HDC's gradients at three stages; AlexNet's after the first and last of some steps."""
    epochs, steps = made.of(30, 6), made.of(6, 2)
    made.begin(
        "Fig. 5: distribution of gradient values",
        f"{DATA}; {epochs} epochs, seed {made.seed}; one worker's gradients",
    )
    gradients: dict[str, Floats] = {
        f"HDC, {stage}": x for stage, x in baseline(epochs, made.seed).gradients.items()
    }
    for name, sample in sampled(made, steps, ["AlexNet"]):
        gradients |= {f"{name}, step 1": sample.first, f"{name}, step {steps}": sample.last}
        made.conditions.append(f"{name}: {IMAGES}, batch {sample.batch}, on a {sample.device}")
    for name, x in gradients.items():
        made.row(f"{name}: within (-1, 1)", 100.0, 100 * float((np.abs(x) < 1).mean()), "%")
        made.row(f"{name}: below 2^-10", None, 100 * float((np.abs(x) < 2**-10).mean()), "%")
        made.row(f"{name}: standard deviation", None, f"{float(x.std()):.2e}")
        for mode, codec in codecs(10).items():
            made.row(f"{name}: ratio, {mode}", None, ratio(codec, x), "x")
        made.data[name] = {
            "counts": np.histogram(x, EDGES)[0].tolist(), "edges": EDGES.tolist(),
            "largest": float(np.abs(x).max()),
        }  # fmt: skip
    largest = max(entry["largest"] for entry in made.data.values())
    made.check(
        "all gradient values are between -1 and 1 in all phases", largest < 1,
        f"the largest magnitude here is {largest:.3g}",
    )  # fmt: skip
    made.notes.append("The paper shows AlexNet on ImageNet; its figure has no numbers beside the axis.")
    made.plot(lambda figure: _histograms(figure, made.data))


def _histograms(figure: Any, data: dict[str, Any]) -> None:
    panels = figure.subplots(1, len(data), sharey=True, squeeze=False)[0]
    for axes, (name, entry) in zip(panels, data.items(), strict=True):
        counts = np.array(entry["counts"])
        axes.stairs(100 * counts / counts.sum(), entry["edges"], fill=True)
        axes.set(title=name, yscale="log", xlabel="gradient value", xlim=(-1, 1), ylim=(1e-5, 200))
        axes.title.set_fontsize(9)
    panels[0].set_ylabel("% of values per bin of 1/40")


def table3(made: Artefact) -> None:
    """Compress gradients of HDC in training, and of the ImageNet networks on synthetic images."""
    epochs, steps = made.of(30, 6), made.of(6, 2)
    made.begin(
        "Table III: shares of compressed widths, percent",
        f"{DATA}; {epochs} epochs, seed {made.seed}; gradients of three stages together",
    )
    gradients: dict[str, Floats] = {
        "HDC": np.concatenate(list(baseline(epochs, made.seed).gradients.values()))
    }
    for name, sample in sampled(made, steps):
        gradients[name] = sample.last
        made.conditions.append(f"{name}: gradients after {steps} steps, batch {sample.batch}, {IMAGES}")
    ratios: dict[str, dict[str, float]] = {}
    printed = {f"{name} 2^-{k}": TABLE_III[key][k] for name, key in TABLE_KEYS.items() for k in BOUNDS}
    for case, paper in printed.items():
        name, k = case.split()[0], int(case.rpartition("-")[2])
        shares: list[float] = []
        if name in gradients:
            counts = codecs(k)["literal"].histogram(gradients[name])
            shares = [float(share) for share in 100 * counts / counts.sum()]
            ratios[case] = {mode: ratio(codec, gradients[name]) for mode, codec in codecs(k).items()}
        for place, width in enumerate(WIDTHS):
            made.row(f"{case}, {width}", paper[place], shares[place] if shares else None, "%")
        here = bits_ratio(tuple(shares)) if shares else None
        made.row(f"{case}, ratio by the shares", bits_ratio(paper), here, "x")
        for mode, value in ratios.get(case, {}).items():
            made.row(f"{case}, ratio of {mode}, sizes counted", None, value, "x")
    made.notes += [
        "literal and bounded differ in how 8 bits are scaled, not in which class a value is in: their shares "
        "and sizes are equal. planes has codes per group of eight and no such classes.",
        "`inceptionn pays --ratio alexnet` takes the corrected rows.",
    ]
    made.data = {"ratios": ratios, "paper": {case: bits_ratio(paper) for case, paper in printed.items()}}
    made.plot(ratio_bars(made.data))


def ratio_bars(data: dict[str, Any]) -> Any:
    """Draw ratios: the paper's by its shares, and here by mode, where there is something to compare."""
    groups = {
        case: {"paper, by its shares": data["paper"][case]}
        | {f"here, {mode}": value for mode, value in data["ratios"][case].items()}
        for case in data["paper"]
        if case in data["ratios"]
    }
    axes = {"ylabel": "ratio", "title": "HDC: real training on digits; ImageNet networks: synthetic images"}
    return panels([Panel(groups, axes=axes, text="{:.1f}".format, turned=35)])

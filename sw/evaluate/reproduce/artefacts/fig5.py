# SPDX-License-Identifier: BSD-2-Clause
"""Fig. 5: how gradients are distributed early, in the middle and at the end of a training."""

from typing import Any

import numpy as np

from ...training import Floats
from ..artefact import Artefact, Check, Settings
from ..inputs import imagenet
from ..inputs.codecs import codecs, ratio
from ..inputs.digits import DATA, STAGES, baseline

EDGES = np.linspace(-1, 1, 81)


def make(settings: Settings) -> Artefact:
    """Collect HDC's gradients at three stages; AlexNet's after the first and last of some steps."""
    epochs = settings.of(30, 6)
    gradients: dict[str, Floats] = {
        f"HDC, {stage}": x for stage, x in baseline(epochs, settings.seed).gradients.items()
    }
    lines = [f"{DATA}; {epochs} epochs, seed {settings.seed}; one worker's gradients"]
    if settings.torch and imagenet.missing() is None:
        steps = settings.of(6, 2)
        settings.step("AlexNet")
        sample = imagenet.sample("AlexNet", steps, 2, settings.seed)
        gradients |= {"AlexNet, step 1": sample.first, f"AlexNet, step {steps}": sample.last}
        lines.append(f"AlexNet: {imagenet.IMAGES}, batch 2, on a {sample.device}")
    found = Artefact("fig5", "Fig. 5: distribution of gradient values", lines)
    if len(gradients) == len(STAGES):
        found.notes.append(imagenet.missing() or "AlexNet was left out (--no-torch)")
    for name, x in gradients.items():
        found.row(f"{name}: within (-1, 1)", 100.0, 100 * float((np.abs(x) < 1).mean()), "%")
        found.row(f"{name}: below 2^-10", None, 100 * float((np.abs(x) < 2**-10).mean()), "%")
        found.row(f"{name}: standard deviation", None, f"{float(x.std()):.2e}")
        for mode, codec in codecs(10).items():
            found.row(f"{name}: ratio, {mode}", None, ratio(codec, x), "x")
        found.data[name] = {
            "counts": np.histogram(x, EDGES)[0].tolist(), "edges": EDGES.tolist(),
            "largest": float(np.abs(x).max()),
        }  # fmt: skip
    largest = max(entry["largest"] for entry in found.data.values())
    found.checks.append(Check(
        "all gradient values are between -1 and 1 in all phases", largest < 1,
        f"the largest magnitude here is {largest:.3g}",
    ))  # fmt: skip
    found.notes.append("The paper shows AlexNet on ImageNet; its figure has no numbers beside the axis.")
    return found


def draw(figure: Any, artefact: Artefact) -> None:
    """Plot a histogram each, counts on a logarithmic axis."""
    panels = figure.subplots(1, len(artefact.data), sharey=True, squeeze=False)[0]
    for axes, (name, entry) in zip(panels, artefact.data.items(), strict=True):
        counts = np.array(entry["counts"])
        axes.stairs(100 * counts / counts.sum(), entry["edges"], fill=True)
        axes.set(title=name, yscale="log", xlabel="gradient value", xlim=(-1, 1), ylim=(1e-5, 200))
        axes.title.set_fontsize(9)
    panels[0].set_ylabel("% of values per bin of 1/40")

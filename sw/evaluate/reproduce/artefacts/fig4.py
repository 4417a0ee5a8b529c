# SPDX-License-Identifier: BSD-2-Clause
"""Fig. 4: truncating gradients, weights, or both, and what it does to accuracy; the codec beside it."""

from functools import partial
from typing import Any

from ..artefact import Artefact, Check, Settings, bars
from ..inputs.codecs import codecs, truncated
from ..inputs.digits import DATA, baseline, train

BITS = (16, 22, 24)
WHAT = ("g", "w", "w and g")
BOUNDS = (10, 6)


def make(settings: Settings) -> Artefact:
    """Make ten training runs, and one for each mode and bound of the codec on g."""
    epochs = settings.of(30, 6)
    base = baseline(epochs, settings.seed).final
    found = Artefact(
        "fig4", "Fig. 4: test accuracy after truncation of x LSBs, and by the codec on g",
        [f"{DATA}; {epochs} epochs, seed {settings.seed}; g is the mean of the four workers'"],
    )  # fmt: skip
    found.notes.append(
        "The paper prints no numbers for these bars; its claim is that truncated g costs far less than "
        "truncated w. AlexNet's half needs ImageNet and is not made."
    )
    found.row("Base", None, base, "%")
    accuracy: dict[str, dict[str, float]] = {what: {} for what in WHAT}
    for bits in BITS:
        cut = partial(truncated, bits=bits)
        for what in WHAT:
            settings.step(f"{bits}b-T of {what}")
            result = train(
                epochs, settings.seed, gradient=cut if "g" in what else None,
                weights=cut if "w" in what else None,
            ).final  # fmt: skip
            accuracy[what][f"{bits}b-T"] = result
            found.row(f"{bits}b-T of {what}", None, result, "%")
    coded: dict[str, dict[str, float]] = {}
    for k in BOUNDS:
        for mode, codec in codecs(k).items():
            settings.step(f"{mode}, 2^-{k}")
            result = train(epochs, settings.seed, gradient=codec.lossy).final
            coded.setdefault(mode, {})[f"2^-{k}"] = result
            found.row(f"{mode} 2^-{k} on g", None, result, "%")
    lost = {what: [base - value for value in accuracy[what].values()] for what in ("g", "w")}
    text = "; ".join(
        f"{bits}b-T: g {g:+.1f}, w {w:+.1f}" for bits, g, w in zip(BITS, lost["g"], lost["w"], strict=True)
    )
    found.checks.append(Check(
        "truncation of g affects accuracy less than that of w", sum(lost["g"]) <= sum(lost["w"]) + 0.3,
        f"points lost here: {text}", "0.3 points",
    ))  # fmt: skip
    found.data = {"base": base, "truncated": accuracy, "codec": coded}
    return found


def draw(figure: Any, artefact: Artefact) -> None:
    """Plot the truncations on the left, the codec's bounds on the right."""
    left, right = figure.subplots(1, 2, sharey=True, width_ratios=(3, 4))
    data = artefact.data
    for axes, series in ((left, data["truncated"]), (right, data["codec"])):
        groups = list(next(iter(series.values())))
        bars(
            axes,
            groups,
            {name: [values[group] for group in groups] for name, values in series.items()},
            "{:.1f}",
        )
        axes.axhline(data["base"], color="0.4", ls=":", label="Base")
    left.set(ylabel="test accuracy, %", title="truncated LSBs")
    right.set(title="codec on g, error bound")
    left.legend(loc="upper center", bbox_to_anchor=(0.5, -0.08), ncols=2, fontsize=7)
    right.legend(loc="upper center", bbox_to_anchor=(0.5, -0.08), ncols=4, fontsize=7)
    figure.suptitle("HDC on digits", fontsize=10)

# SPDX-License-Identifier: BSD-2-Clause
"""Fig. 14: ratio and accuracy of truncation and of the codec at three bounds, trained by rings."""

from functools import partial
from typing import Any

import numpy as np

from ...pays.ratios import TABLE_III, bits_ratio
from ..artefact import Artefact, Check, Settings, bars
from ..inputs import imagenet
from ..inputs.codecs import Lossy, codecs, ratio, truncated
from ..inputs.digits import DATA, baseline, ring_of, train
from ..published import BEST_RATIO, DROP_AT_6, TABLE_KEYS, TRUNCATION_RATIO

BITS, BOUNDS = (16, 22, 24), (10, 8, 6)


def make(settings: Settings) -> Artefact:
    """Train HDC on a ring; measure ratios of its gradients and of the ImageNet networks'."""
    epochs, seeds = settings.of(30, 6), settings.of(3, 1)
    chosen = range(settings.seed, settings.seed + seeds)
    found = Artefact(
        "fig14", "Fig. 14: compression ratio, and accuracy after as many epochs",
        [f"{DATA}; four workers, a ring that compresses every transfer; {epochs} epochs, "
         f"{settings.seeds(seeds)}; absolute bounds, not scaled"],
    )  # fmt: skip
    base = float(np.mean([baseline(epochs, seed).final for seed in chosen]))
    found.row("HDC: Base, accuracy", None, base, "%")
    x = np.concatenate(list(baseline(epochs, settings.seed).gradients.values()))
    accuracy, ratios = {"Base": base}, {"Base": 1.0}
    forms: dict[str, Lossy] = {f"{bits}b-T": partial(truncated, bits=bits) for bits in BITS}
    papers = {f"{bits}b-T": TRUNCATION_RATIO[bits] for bits in BITS}
    papers |= {f"literal 2^-{k}": bits_ratio(TABLE_III["hdc"][k]) for k in BOUNDS}
    ratios |= {f"{bits}b-T": 32 / (32 - bits) for bits in BITS}
    for k in BOUNDS:
        for mode, codec in codecs(k).items():
            forms[f"{mode} 2^-{k}"] = codec.lossy
            ratios[f"{mode} 2^-{k}"] = ratio(codec, x)
    own = settings.codec
    if own is not None:
        forms[own.name], ratios[own.name] = own.lossy, ratio(own, x)
    for name, lossy in forms.items():
        settings.step(name)
        accuracy[name] = float(np.mean([train(epochs, seed, ring_of(lossy)).final for seed in chosen]))
        found.row(f"HDC: {name}, ratio", papers.get(name), ratios[name], "x")
        found.row(f"HDC: {name}, accuracy less Base", None, accuracy[name] - base, "points")
    if settings.torch and imagenet.missing() is None:
        for network in imagenet.NETWORKS:
            settings.step(network)
            sample = imagenet.sample(
                network, settings.of(6, 2), 4 if network == "ResNet-50" else 2, settings.seed
            )
            for k in BOUNDS:
                for mode, codec in codecs(k).items():
                    paper = bits_ratio(TABLE_III[TABLE_KEYS[network]][k]) if mode == "literal" else None
                    found.row(f"{network}: {mode} 2^-{k}, ratio", paper, ratio(codec, sample.last), "x")
            if own is not None:
                found.row(f"{network}: {own.name}, ratio", None, ratio(own, sample.last), "x")
        found.conditions.append(f"ImageNet networks: {imagenet.IMAGES}; ratios only")
    else:
        found.notes.append(imagenet.missing() or "the ImageNet networks were left out (--no-torch)")
    drop = base - accuracy["literal 2^-6"]
    found.checks.append(Check(
        f"at 2^-6 less than {DROP_AT_6:g} points are lost", drop < DROP_AT_6,
        f"HDC here loses {drop:.1f} points"
    ))  # fmt: skip
    found.checks.append(Check(
        f"ratios reach {BEST_RATIO}",
        max(bits_ratio(TABLE_III[key][6]) for key in TABLE_KEYS.values()) > 14.8,
        "the rows of Table III at 2^-6 give "
        + ", ".join(f"{bits_ratio(TABLE_III[key][6]):.1f}" for key in TABLE_KEYS.values()),
        "0.1",
    ))  # fmt: skip
    found.data = {"accuracy": accuracy, "ratio": ratios}
    return found


def draw(figure: Any, artefact: Artefact) -> None:
    """Plot ratios above, accuracies below."""
    upper, lower = figure.subplots(2, 1, sharex=True)
    data = artefact.data
    names = list(data["ratio"])
    bars(upper, names, {"ratio": list(data["ratio"].values())}, "{:.1f}")
    bars(lower, names, {"accuracy": [data["accuracy"][name] for name in names]}, "{:.1f}")
    upper.set(ylabel="ratio", title="HDC on digits, ring of four workers")
    lower.set(ylabel="accuracy, %")
    lower.tick_params(axis="x", labelrotation=35)

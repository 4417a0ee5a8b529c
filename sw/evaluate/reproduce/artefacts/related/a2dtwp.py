# SPDX-License-Identifier: BSD-2-Clause
"""A2DTWP (Zhuang et al. 2020), Table II: the parts of a batch with 32-bit weights and with packed ones."""

import time
from typing import Any

import numpy as np

from .....commands.speed import best_seconds
from .....layers.a2dtwp import host_to_device
from ....bench.common.cache import cache_text, timed_bytes
from ....bench.common.data import one_thread
from ....bench.layers.a2dtwp import rates_of
from ...artefact import Artefact, Check, Settings, bars, legend
from ...published import A2DTWP_TABLE_II

WEIGHTS = 132_863_336 - 800 * 4097
"""Of VGG configuration A for ImageNet200, the paper's network in this table."""
COPY, PACK, UNPACK, NORM = (
    "Data transfer CPU to GPU", "ADT (Bitpack)", "ADT (Bitunpack)", "AWP (l2-norm)",
)  # fmt: skip
KEPT = (1, 2, 3)


def make(settings: Settings) -> Artefact:
    """Compute packing, unpacking and norms of the paper's number of weights.

    The rates are those of this machine's kernels on one thread.
    """
    count = timed_bytes(4 * WEIGHTS, settings.quick) // 4
    settings.step("kernels")
    rates = rates_of(count, settings.of(20, 5), time.perf_counter)
    x = np.random.default_rng(settings.seed).standard_normal(count, np.float32)
    with one_thread():
        norm = best_seconds({"norm": lambda: np.dot(x, x)}, settings.of(20, 5))["norm"] * WEIGHTS / count
    before, after = A2DTWP_TABLE_II[COPY]
    found = Artefact(
        "a2dtwp", "A2DTWP, Table II: VGG, batch 64, ms per batch",
        [f"{WEIGHTS / 1e6:.1f} M weights of VGG-A; one thread here, {cache_text(4 * count)} (the paper: "
         "OpenMP on two Xeons, unpacking on four GPUs)"],
    )  # fmt: skip
    size = 4 * WEIGHTS
    here: dict[str, float] = {}
    for keep in KEPT:
        for name, way in ((PACK, "pack"), (UNPACK, "unpack")):
            milliseconds = 1e3 * size / (rates[f"{way}{keep}"] * 1e9)
            here[f"{name}, {keep} byte"] = milliseconds
            found.row(
                f"{name}, {keep} byte{'s' * (keep > 1)} kept", A2DTWP_TABLE_II[name][1], milliseconds, "ms"
            )
    here[NORM] = 1e3 * norm
    found.row(NORM, A2DTWP_TABLE_II[NORM][1], 1e3 * norm, "ms")
    found.row("transfer to GPU: bytes per weight, by the times", 4 * after / before, None)
    found.row("transfer to GPU: raw / packed", before / after, None, "x")
    if (lack := host_to_device.missing()) is None:
        device = host_to_device.speed(count, 5)
        for name, row in device["ways"].items():
            found.row(f"{device['device']}, {name}, all", None, 1e3 * row["all"] * WEIGHTS / count, "ms")
    else:
        found.notes.append(f"no transfer was measured: {lack}")
    whole, packed = (sum(row[place] for row in A2DTWP_TABLE_II.values()) for place in (0, 1))
    awp, adt = A2DTWP_TABLE_II[NORM][1], A2DTWP_TABLE_II[PACK][1] + A2DTWP_TABLE_II[UNPACK][1]
    found.checks += [
        Check("AWP and ADT take 1.05 and 6.60 % of a batch",
              abs(100 * awp / packed - 1.05) < 0.02 and abs(100 * adt / packed - 6.60) < 0.02,
              f"{100 * awp / packed:.2f} and {100 * adt / packed:.2f} % of {packed:.2f} ms", "0.02 points"),
        Check("a batch of this profile gains the average of 6.18 %",
              abs(100 * (1 - packed / whole) - 6.18) < 1,
              f"{whole:.2f} to {packed:.2f} ms are {100 * (1 - packed / whole):.1f} % less: averages include "
              "models and phases with more bits", "1 point"),
    ]  # fmt: skip
    paper = {name: list(row) for name, row in A2DTWP_TABLE_II.items()}
    found.data = {"paper": paper, "here": here, "bytes": 4 * count}
    return found


def draw(figure: Any, artefact: Artefact) -> None:
    """Plot the paper's parts, and the kernels here."""
    left, right = figure.subplots(1, 2, width_ratios=(3, 2))
    paper = artefact.data["paper"]
    groups = [name.replace(" ", "\n", 1) for name in paper]
    series = {
        title: [row[place] for row in paper.values()] for place, title in enumerate(("32-bit", "A2DTWP"))
    }
    bars(left, groups, series, "{:.0f}")
    left.tick_params(axis="x", labelrotation=60, labelsize=7)
    left.set(ylabel="ms per batch", title="paper, x86")
    here = artefact.data["here"]
    bars(right, [name.replace(", ", "\n") for name in here], {"here": list(here.values())}, "{:.0f}")
    right.tick_params(axis="x", labelrotation=60, labelsize=7)
    right.set(title="kernels here, one thread")
    legend(figure, left)

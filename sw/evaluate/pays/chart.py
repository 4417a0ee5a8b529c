# SPDX-License-Identifier: BSD-2-Clause
"""Speed-up of a training step over bandwidth and over nodes."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from ...commands.console import new_figure, write_plot
from .ratios import RatioAt
from .scenario import Scenario, predict

BANDWIDTHS = tuple(float(rate) for rate in np.geomspace(1e8, 4e11, 37))
NODES = (2, 4, 8, 16, 32, 64, 128, 256, 512, 1024)


def points(scene: Scenario, ratio: RatioAt) -> dict[str, Any]:
    """Compute speed-ups over ring raw and ring bf16, by bandwidth and by nodes.

    All else is as in the scenario. ``ratio``: for each number of nodes, since a scale that ranks agree on
    depends on it.
    """
    rates = [predict(replace(scene, link=replace(scene.link, bandwidth=rate))) for rate in BANDWIDTHS]
    # The group size is that of the scenario's number of nodes and not valid for others.
    sizes = [
        predict(replace(scene, nodes=nodes, group=None, form=replace(scene.form, ratio=ratio(nodes))))
        for nodes in NODES
    ]
    return {
        "bandwidth": {"bits_per_second": list(BANDWIDTHS), "over_raw": [p.over_raw for p in rates],
                      "over_bf16": [p.over_bf16 for p in rates]},
        "nodes": {"nodes": list(NODES), "over_raw": [p.over_raw for p in sizes],
                  "over_bf16": [p.over_bf16 for p in sizes]},
    }  # fmt: skip


def draw(path: Path, scene: Scenario, ratio: RatioAt, title: str) -> None:
    """Plot two panels, with the scenario itself marked."""
    found, here = points(scene, ratio), predict(scene)
    figure = new_figure(9.6, 4.2)
    left, right = figure.subplots(1, 2, sharey=True)
    panels = (
        (left, found["bandwidth"], "bits_per_second", scene.link.bandwidth, "bandwidth of a host's link"),
        (right, found["nodes"], "nodes", scene.nodes, "nodes"),
    )
    for axes, data, key, own, label in panels:
        axes.plot(data[key], data["over_raw"], "C0", label="against ring raw")
        axes.plot(data[key], data["over_bf16"], "C1", label="against ring bf16")
        axes.plot([own, own], [here.over_raw, here.over_bf16], "ko", label="this scenario", ls="none")
        axes.axhline(1, color="0.6", lw=0.8, ls=":")
        axes.set(xscale="log", xlabel=label)
        axes.grid(alpha=0.25)
    left.set_ylabel("speed-up of a step")
    left.set_ylim(bottom=0)
    left.set_xticks([1e8, 1e9, 1e10, 1e11], ["100 Mbit/s", "1 Gbit/s", "10 Gbit/s", "100 Gbit/s"])
    right.set_xticks(NODES[::2], list(map(str, NODES[::2])))
    right.minorticks_off()
    figure.suptitle(title, fontsize=10)
    figure.legend(*left.get_legend_handles_labels(), loc="outside lower center", ncols=3, fontsize=9)
    write_plot(path, figure)

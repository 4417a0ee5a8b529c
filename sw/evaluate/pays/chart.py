# SPDX-License-Identifier: BSD-2-Clause
"""Speed-up of a training step over bandwidth and over nodes."""

from dataclasses import replace
from typing import Any

import numpy as np

from ...commands.study import Curve, Panel, panels
from ...netns import rate_text
from .ratios import RatioAt
from .scenario import Scenario, predict

BANDWIDTHS = tuple(float(rate) for rate in np.geomspace(1e8, 4e11, 37))
NODES = (2, 4, 8, 16, 32, 64, 128, 256, 512, 1024)


def points(scene: Scenario, ratio: RatioAt) -> dict[str, Any]:
    """Compute speed-ups over rings raw and bf16, by bandwidth and by nodes, all else as in the scenario."""
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


def draw(figure: Any, scene: Scenario, found: dict[str, Any], title: str) -> None:
    """Plot two panels, with the scenario itself marked."""
    here = predict(scene)
    rates = {rate: rate_text(rate) for rate in (1e8, 1e9, 1e10, 1e11)}
    nodes = {float(count): str(count) for count in NODES[::2]}
    sides = (
        ("bandwidth", "bits_per_second", scene.link.bandwidth, "bandwidth of a host's link", rates),
        ("nodes", "nodes", scene.nodes, "nodes", nodes),
    )
    sketches = []
    for side, key, mark, label, ticks in sides:
        data = found[side]
        curves = [
            Curve("against ring raw", data[key], data["over_raw"], "C0"),
            Curve("against ring bf16", data[key], data["over_bf16"], "C1"),
            Curve("this scenario", [mark, mark], [here.over_raw, here.over_bf16], "ko"),
        ]
        axes = {"xscale": "log", "xlabel": label, "ylim": (0, None)}
        sketches.append(Panel(curves=curves, axes=axes, ticks=ticks, across=(1, "")))
    panels(sketches, sharey=True)(figure)
    figure.axes[0].set_ylabel("speed-up of a step")
    figure.suptitle(title, fontsize=10)

# SPDX-License-Identifier: BSD-2-Clause
"""Parallax (Kim et al. 2019), Table 4: throughput of hybrid training against all-reduce alone."""

from typing import Any

from .....netns import Network
from ....bench.common.job import lines_of
from ....bench.layers import parallax as bench
from ...artefact import Artefact, Check, Settings, bars, legend
from ...inputs.hosts import unavailable
from ...published import PARALLAX_TABLE_4

RATE = "1g"
CLAIMS = (("LM", 2.2, 2.5, 1.1), ("NMT", 1.5, 1.1, 1.8))
"""Models, with the gains that the text names: of NaivePS over AR, of OptPS over that, of HYB over that."""


def make(settings: Settings) -> Artefact:
    """Run the bench's own groups between shaped hosts.

    They are a model with a large embedding, and a dense one.
    """
    found = Artefact("parallax", "Parallax, Table 4: times as fast as all-reduce of everything", [])
    reason = unavailable(settings.network)
    measured: dict[str, float] = {}
    if reason is None:
        measured = _measure(settings, found)
    else:
        found.notes.append(reason)
    ratios = {}
    for model, (reduced, naive, optimised, hybrid) in PARALLAX_TABLE_4.items():
        ratios[model] = {"NaivePS": naive / reduced, "OptPS": optimised / reduced, "HYB": hybrid / reduced}
        found.row(
            f"{model}: HYB over AR (all-gather of sparse)", hybrid / reduced, measured.get("all-gather"), "x"
        )
        found.row(f"{model}: OptPS over AR", optimised / reduced, None, "x")
        found.row(f"{model}: NaivePS over AR", naive / reduced, None, "x")
    found.row("sparse made dense: HYB over AR", None, measured.get("made dense"), "x")
    found.row("a dense model: HYB over AR", 1.0, measured.get("dense model"), "x")
    for model, *claimed in CLAIMS:
        reduced, naive, optimised, hybrid = PARALLAX_TABLE_4[model]
        gains = (naive / reduced, optimised / naive, hybrid / optimised)
        found.checks.append(Check(
            f"{model}: the text's gains {', '.join(map(str, claimed))} are those of Table 4",
            all(abs(a - b) < 0.06 for a, b in zip(gains, claimed, strict=True)),
            ", ".join(f"{gain:.2f}" for gain in gains),
            "0.06",
        ))  # fmt: skip
    found.data |= {"paper": ratios, "here": measured}
    return found


def _measure(settings: Settings, found: Artefact) -> dict[str, float]:
    """Train the groups; return how much faster the hybrid is than each alternative."""
    hosts = settings.of(8, 4)
    settings.step("hosts")
    groups = bench.plan_of(settings.of(200, 100), 2, settings.of(3, 1), True, settings.seed)
    for group in groups:
        grid = group.get("grid", bench.GRID)
        group["grid"] = grid[:1] if settings.quick else grid
    results = {}
    with Network(hosts, RATE) as network:
        plan = {"port": bench.PORT, "timeout": bench.TIMEOUT, "groups": groups}
        for line in lines_of(network, bench.RANK, plan, bench.PATIENCE):
            results[line["name"]] = line
            settings.step(line["name"])
    sparse, dense = results[bench.SPARSE], results[bench.DENSE_MODEL]
    alpha = sparse["variants"][bench.HYBRID]["alpha"]
    found.conditions.append(
        f"an embedding of {sum(sparse['variable_bytes'].values()) / 1e6:.0f} MB on made-up documents, "
        f"alpha {alpha:.3f}, {hosts} hosts with links of 1 Gbit/s on this machine (the paper: LM and "
        "NMT, 48 GPUs, 100 Gbit/s)"
    )
    seconds = {name: bench.step_seconds(sparse, name) for name in sparse["variants"]}
    found.data["step_seconds"] = seconds
    return {
        "all-gather": seconds[bench.ALL_GATHER] / seconds[bench.HYBRID],
        "made dense": seconds[bench.DENSE] / seconds[bench.HYBRID],
        "dense model": bench.step_seconds(dense, bench.ALL_REDUCE) / bench.step_seconds(dense, bench.HYBRID),
    }


def draw(figure: Any, artefact: Artefact) -> None:
    """Plot the paper's on the left, ours on the right, over all-reduce."""
    left, right = figure.subplots(1, 2)
    paper = artefact.data["paper"]
    names = list(next(iter(paper.values())))
    bars(left, list(paper), {name: [paper[model][name] for model in paper] for name in names}, "{:.1f}")
    left.set(ylabel="throughput over all-reduce", title="paper, Table 4")
    here = artefact.data["here"]
    if here:
        bars(right, list(here), {"Parallax over": list(here.values())}, "{:.2f}")
    else:
        right.text(0.5, 0.5, "not measured", ha="center", transform=right.transAxes)
    right.set(title="here, 1 Gbit/s")
    legend(figure, left)

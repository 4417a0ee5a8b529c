# SPDX-License-Identifier: BSD-2-Clause
"""One table or figure of each of the four papers whose layers are built here.

SSD-SGD: Xu et al. 2020; A2DTWP: Zhuang et al. 2020; Parallax: Kim et al. 2019; GradiVeQ: Yu et al. 2018.
"""

from statistics import mean, median

import numpy as np

from ....commands.speed import best_seconds
from ....commands.study import Panel, panels
from ....layers.a2dtwp import host_to_device
from ....netns import Network
from ...bench.common.cache import cache_text, timed_bytes
from ...bench.common.data import one_thread
from ...bench.common.job import lines_of
from ...bench.layers import gradiveq as gradiveq_bench
from ...bench.layers import parallax as parallax_bench
from ...bench.layers.a2dtwp import rates_of
from ...bench.layers.layers import final_accuracy
from .. import published
from ..artefact import Artefact, seeds_text
from ..inputs.hosts import available

MODEL = "ResNet-20 (32)"
WEIGHTS = 132_863_336 - 800 * 4097
"""Of VGG configuration A for ImageNet200, the network of A2DTWP's table."""
DELAYS = (1, 2, 3, 4, 5)
COPY, NORM = "Data transfer CPU to GPU", "AWP (l2-norm)"
PACKING = {"ADT (Bitpack)": "pack", "ADT (Bitunpack)": "unpack"}
DIMENSION = 99


def ssd_sgd(made: Artefact) -> None:
    """Train on the digits."""
    steps, seeds = made.of(300, 100), made.seeds(made.of(3, 1))
    made.begin(
        "SSD-SGD, Table 2: accuracy by delay steps",
        f"MLP 64-48-10 on scikit-learn's digits, four workers, GLU, {steps} steps, {seeds_text(seeds)}, "
        f"beside the paper's {MODEL} on CIFAR-10",
    )
    accuracy = {}
    for k in (0, *DELAYS):
        made.step(f"{k} delay steps")
        accuracy[k] = 100 * mean(final_accuracy(k, steps, seed) for seed in seeds)
    paper = published.SSD_SGD_TABLE_2[MODEL]
    made.row("SSGD", paper[0], accuracy[0], "%")
    over = {}
    for k in DELAYS:
        printed, here = paper[k] - paper[0], accuracy[k] - accuracy[0]
        made.row(f"k = {k}, over SSGD", printed, here, "points")
        over[f"k = {k}"] = {"paper, ResNet-20": printed, "here, digits": here}
    made.data = {"accuracy": accuracy, "paper": dict(zip((0, *DELAYS), paper, strict=True))}
    made.notes.append("times: inceptionn bench layers")
    axes = {"ylabel": "accuracy over SSGD, points"}
    made.plot(panels([Panel(over, axes=axes, text="{:+.2f}".format, across=(0, "SSGD"))]))


def a2dtwp(made: Artefact) -> None:
    """Compute packing, unpacking and norms of the paper's number of weights.

    The rates are those of this machine's kernels on one thread.
    """
    count = timed_bytes(4 * WEIGHTS, made.quick) // 4
    made.step("kernels")
    rates = rates_of(count, made.of(20, 5))
    x = np.random.default_rng(made.seed).standard_normal(count, np.float32)
    with one_thread():
        norm = best_seconds({"norm": lambda: np.dot(x, x)}, made.of(20, 5))["norm"] * WEIGHTS / count
    made.begin(
        "A2DTWP, Table II: VGG, batch 64, ms per batch",
        f"{WEIGHTS / 1e6:.1f} M weights of VGG-A; one thread here, {cache_text(4 * count)} (the paper: "
        "OpenMP on two Xeons, unpacking on four GPUs)",
    )
    printed, here = published.A2DTWP_TABLE_II, dict[str, float]()
    for keep in (1, 2, 3):
        for name, way in PACKING.items():
            here[f"{name}, {keep} byte"] = ms = 1e3 * 4 * WEIGHTS / (rates[f"{way}{keep}"] * 1e9)
            made.row(f"{name}, {keep} byte{'s' * (keep > 1)} kept", printed[name][1], ms, "ms")
    here[NORM] = 1e3 * norm
    made.row(NORM, printed[NORM][1], 1e3 * norm, "ms")
    before, after = printed[COPY]
    made.row("transfer to GPU: bytes per weight, by the times", 4 * after / before, None)
    made.row("transfer to GPU: raw / packed", before / after, None, "x")
    if (lack := host_to_device.missing()) is None:
        device = host_to_device.speed(count, 5)
        for name, row in device["ways"].items():
            made.row(f"{device['device']}, {name}, all", None, 1e3 * row["all"] * WEIGHTS / count, "ms")
    else:
        made.notes.append(f"no transfer was measured: {lack}")
    paper = {name: list(row) for name, row in printed.items()}
    made.data = {"paper": paper, "here": here, "bytes": 4 * count}
    groups = {
        name.replace(" ", "\n", 1): {"32-bit": raw, "A2DTWP": ours} for name, (raw, ours) in paper.items()
    }
    kernels = {name.replace(", ", "\n"): {"here": ms} for name, ms in here.items()}
    made.plot(panels(
        [Panel(bars, axes=axes, text="{:.0f}".format, turned=60) for bars, axes in (
            (groups, {"ylabel": "ms per batch", "title": "paper, x86"}),
            (kernels, {"title": "kernels here, one thread"}),
        )], width_ratios=(3, 2),
    ))  # fmt: skip


def parallax(made: Artefact) -> None:
    """Run the bench's own groups between shaped hosts.

    They are a model with a large embedding, and a dense one.
    """
    made.title = "Parallax, Table 4: times as fast as all-reduce of everything"
    measured = _groups_of_parallax(made) if available(made) else {}
    ratios = {}
    for model, (reduced, naive, optimised, hybrid) in published.PARALLAX_TABLE_4.items():
        ratios[model] = {"NaivePS": naive / reduced, "OptPS": optimised / reduced, "HYB": hybrid / reduced}
        of_sparse = measured.get("all-gather")
        made.row(f"{model}: HYB over AR (all-gather of sparse)", hybrid / reduced, of_sparse, "x")
        made.row(f"{model}: OptPS over AR", optimised / reduced, None, "x")
        made.row(f"{model}: NaivePS over AR", naive / reduced, None, "x")
    made.row("sparse made dense: HYB over AR", None, measured.get("made dense"), "x")
    made.row("a dense model: HYB over AR", 1.0, measured.get("dense model"), "x")
    made.data |= {"paper": ratios, "here": measured}
    left = {"ylabel": "throughput over all-reduce", "title": "paper, Table 4"}
    here = {name: {"Parallax over": value} for name, value in measured.items()}
    made.plot(panels(
        [Panel(ratios, axes=left, text="{:.1f}".format),
         Panel(here, axes={"title": "here, 1 Gbit/s"}, text="{:.2f}".format)]
    ))  # fmt: skip


def _groups_of_parallax(made: Artefact) -> dict[str, float]:
    """Train the groups; return how much faster the hybrid is than each alternative."""
    bench, hosts = parallax_bench, made.of(8, 4)
    made.step("hosts")
    groups = bench.plan_of(made.of(200, 100), 2, made.of(3, 1), True, made.seed)
    for group in groups:
        grid = group.get("grid", bench.GRID)
        group["grid"] = grid[:1] if made.quick else grid
    results = {}
    with Network(hosts, "1g") as network:
        for line in lines_of(network, bench.RANK, {"groups": groups}):
            results[line["name"]] = line
            made.step(line["name"])
    sparse, dense = results[bench.SPARSE], results[bench.DENSE_MODEL]
    alpha = sparse["variants"][bench.HYBRID]["alpha"]
    made.conditions.append(
        f"an embedding of {sum(sparse['variable_bytes'].values()) / 1e6:.0f} MB on made-up documents, "
        f"alpha {alpha:.3f}, {hosts} hosts with links of 1 Gbit/s on this machine (the paper: LM and "
        "NMT, 48 GPUs, 100 Gbit/s)"
    )
    seconds = {name: bench.step_seconds(sparse, name) for name in sparse["variants"]}
    made.data["step_seconds"] = seconds
    return {
        "all-gather": seconds[bench.ALL_GATHER] / seconds[bench.HYBRID],
        "made dense": seconds[bench.DENSE] / seconds[bench.HYBRID],
        "dense model": bench.step_seconds(dense, bench.ALL_REDUCE) / bench.step_seconds(dense, bench.HYBRID),
    }


def gradiveq(made: Artefact) -> None:
    """Run the bench's training runs, and all-reduces of ResNet-32's convolutions between shaped hosts."""
    bench, steps, seeds = gradiveq_bench, made.of(530, 120), made.seeds(made.of(2, 1))
    made.begin(
        "GradiVeQ, Sec. 4: ratio, accuracy and aggregation time",
        f"accuracy: a CNN of 32, 64, 64 channels on scikit-learn's digits, four workers, {steps} steps, "
        f"{seeds_text(seeds)} (the paper: ResNet-32 on CIFAR-100)",
    )
    trained: dict[str, list[dict[str, float]]] = {}
    for name in ("raw", "GradiVeQ") if made.quick else bench.NAMES:
        for seed in seeds:
            made.step(f"{name}, seed {seed}")
            result = bench.training(bench.settings(name, steps), steps, seed)
            trained.setdefault(name, []).append(result)
    accuracy = {name: 100 * mean(run["accuracy"] for run in runs) for name, runs in trained.items()}
    theirs = published.GRADIVEQ_ACCURACY
    printed = {name: 100 * (value - theirs["raw"]) for name, value in theirs.items()}
    for name, runs in trained.items():
        if name != "raw":
            change = accuracy[name] - accuracy["raw"]
            made.row(f"{name}: accuracy over raw", printed.get(name), change, "points")
            made.row(f"{name}: fewer bytes, all phases", None, mean(run["all"] for run in runs), "x")
    coded = [run["compressed"] for run in trained["GradiVeQ"] if "compressed" in run]
    ratio = mean(coded) if coded else None
    made.row("GradiVeQ: ratio of compressed steps", published.GRADIVEQ_RATIO, ratio, "x")
    faster = _aggregations(made) if available(made) else {}
    made.data = {"accuracy": accuracy, "faster": faster}
    left = {name: {"accuracy here": value} for name, value in accuracy.items()}
    right = {name.replace(", ", "\n"): {"here": value} for name, value in faster.items()}
    ylabel = "aggregation, times as fast as raw"
    made.plot(panels(
        [Panel(left, axes={"ylabel": "test accuracy, %", "title": "digits"}, text="{:.1f}".format, turned=20),
         Panel(right, axes={"ylabel": ylabel, "title": "100 Mbit/s"}, text="{:.1f}".format, turned=60,
               across=(1, "raw"))], legend=False,
    ))  # fmt: skip


def _aggregations(made: Artefact) -> dict[str, float]:
    """Measure all-reduces between four hosts; return by title how many times as fast as raw they are."""
    bench = gradiveq_bench
    made.step("four hosts")
    plan = {
        "repeats": made.of(9, 3), "ratio": bench.RATIO, "dimension": DIMENSION,
        "bound": 2.0**-bench.BOUND, "seed": made.seed,
    }  # fmt: skip
    with Network(4, "100m") as network:
        lines = list(lines_of(network, bench.RANK, plan, 120))
    times = {line["variant"]: median(line["seconds"]) for line in lines}
    faster = {}
    for name, seconds in times.items():
        if name != "raw":
            title = bench.TITLES[name].format(ratio=bench.RATIO, dimension=DIMENSION)
            faster[title] = times["raw"] / seconds
            paper = published.GRADIVEQ_FASTER if name == "gradiveq" else None
            made.row(f"{title}: aggregation over raw", paper, faster[title], "x")
    made.conditions.append(
        "times: convolutions of ResNet-32, four hosts with links of 100 Mbit/s that share this machine's "
        "processors (the paper: six nodes)"
    )
    return faster

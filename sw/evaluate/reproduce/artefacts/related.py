# SPDX-License-Identifier: BSD-2-Clause
"""One table or figure of each of the four papers whose layers are built here.

SSD-SGD: Xu et al. 2020; A2DTWP: Zhuang et al. 2020; Parallax: Kim et al. 2019; GradiVeQ: Yu et al. 2018.
"""

from itertools import product
from statistics import mean

import numpy as np

from ....commands.speed import best_seconds
from ....layers.a2dtwp import host_to_device
from ....netns import Network
from ...bench.common.data import one_thread
from ...bench.common.memory import cache_text, timed_bytes
from ...bench.layers import gradiveq as gradiveq_bench
from ...bench.layers import parallax as parallax_bench
from ...bench.layers.a2dtwp import rates_of
from ...bench.layers.layers import final_accuracy
from .. import published
from ..artefact import Artefact, available, seeds_text

MODEL = "ResNet-20 (32)"
WEIGHTS = 132_863_336 - 800 * 4097
"""Of VGG configuration A for ImageNet200, the network of A2DTWP's table."""
COPY, NORM = "Data transfer CPU to GPU", "AWP (l2-norm)"
PACKING = {"ADT (Bitpack)": "pack", "ADT (Bitunpack)": "unpack"}


def ssd_sgd(made: Artefact) -> None:
    """Train on the digits."""
    steps, seeds, paper = made.of(300, 100), made.seeds(made.of(3, 1)), published.SSD_SGD_TABLE_2[MODEL]
    made.begin(
        "SSD-SGD, Table 2: accuracy by delay steps",
        f"MLP 64-48-10 on scikit-learn's digits, four workers, GLU, {steps} steps, {seeds_text(seeds)}, "
        f"beside the paper's {MODEL} on CIFAR-10",
    )
    here: list[float] = []
    for k, printed in enumerate(paper):
        made.step(f"{k} delay steps")
        here.append(100 * mean(final_accuracy(k, steps, seed) for seed in seeds))
        if k:
            made.row(f"k = {k}, over SSGD", printed - paper[0], here[k] - here[0], "points")
        else:
            made.row("SSGD", printed, here[0], "%")
    made.notes.append("times: inceptionn bench layers")


def a2dtwp(made: Artefact) -> None:
    """Compute packing, unpacking and norms of the paper's number of weights, on one thread here."""
    count, repeats = timed_bytes(4 * WEIGHTS, made.quick) // 4, made.of(20, 5)
    made.data = {"bytes": 4 * count}
    made.begin(
        "A2DTWP, Table II: VGG, batch 64, ms per batch",
        f"{WEIGHTS / 1e6:.1f} M weights of VGG-A; one thread here, {cache_text(4 * count)} (the paper: "
        "OpenMP on two Xeons, unpacking on four GPUs)",
    )
    made.step("kernels")
    rates, printed = rates_of(count, repeats), published.A2DTWP_TABLE_II
    for keep, (name, way) in product((1, 2, 3), PACKING.items()):
        here = 4e-6 * WEIGHTS / rates[f"{way}{keep}"]
        made.row(f"{name}, {keep} byte{'s' * (keep > 1)} kept", printed[name][1], here, "ms")
    x = np.random.default_rng(made.seed).standard_normal(count, np.float32)
    with one_thread():
        seconds = best_seconds({NORM: lambda: np.dot(x, x)}, repeats)
    made.row(NORM, printed[NORM][1], 1e3 * seconds[NORM] * WEIGHTS / count, "ms")
    before, after = printed[COPY]
    made.row("transfer to GPU: bytes per weight, by the times", 4 * after / before, None)
    made.row("transfer to GPU: raw / packed", before / after, None, "x")
    if (lack := host_to_device.missing()) is not None:
        made.notes.append(f"no transfer was measured: {lack}")
        return
    device = host_to_device.speed(count, 5)
    for name, row in device["ways"].items():
        made.row(f"{device['device']}, {name}, all", None, 1e3 * row["all"] * WEIGHTS / count, "ms")


def parallax(made: Artefact) -> None:
    """Run the bench's groups between shaped hosts: a model with a large embedding, and a dense one."""
    made.begin("Parallax, Table 4: times as fast as all-reduce of everything")
    bench, hosts = parallax_bench, made.of(8, 4)
    gather = as_dense = dense = None
    if available(made):
        made.step("hosts")
        groups = bench.plan_of(made.of(200, 100), 2, made.of(3, 1), (), made.seed)
        with Network(hosts, "1g") as network:
            results = {line["name"]: line for line in bench.trained(network, groups)}
        sparse = results[bench.SPARSE]
        gather, as_dense = (bench.gain(sparse, name) for name in (bench.ALL_GATHER, bench.DENSE))
        dense = bench.gain(results[bench.DENSE_MODEL], bench.ALL_REDUCE)
        made.conditions.append(
            f"an embedding of {sum(sparse['variable_bytes'].values()) / 1e6:.0f} MB on made-up documents, "
            f"alpha {sparse['variants'][bench.HYBRID]['alpha']:.3f}, {hosts} hosts with links of 1 Gbit/s on "
            "this machine (the paper: LM and NMT, 48 GPUs, 100 Gbit/s)"
        )
    for model, (reduced, naive, optimised, hybrid) in published.PARALLAX_TABLE_4.items():
        made.row(f"{model}: HYB over AR (all-gather of sparse)", hybrid / reduced, gather, "x")
        made.row(f"{model}: OptPS over AR", optimised / reduced, None, "x")
        made.row(f"{model}: NaivePS over AR", naive / reduced, None, "x")
    made.row("sparse made dense: HYB over AR", None, as_dense, "x")
    made.row("a dense model: HYB over AR", 1.0, dense, "x")


def gradiveq(made: Artefact) -> None:
    """Run the bench's training runs, and all-reduces of ResNet-32's convolutions between shaped hosts."""
    bench, steps, seeds = gradiveq_bench, made.of(530, 120), made.seeds(made.of(2, 1))
    made.begin(
        "GradiVeQ, Sec. 4: ratio, accuracy and aggregation time",
        f"accuracy: a CNN of 32, 64, 64 channels on scikit-learn's digits, four workers, {steps} steps, "
        f"{seeds_text(seeds)} (the paper: ResNet-32 on CIFAR-100)",
    )
    accuracy, printed = dict[str, float](), published.GRADIVEQ_ACCURACY
    settings = bench.settings(steps)
    for name in ("raw", "GradiVeQ") if made.quick else settings:
        made.step(name)
        runs = [bench.training(settings[name], steps, seed) for seed in seeds]
        accuracy[name] = 100 * mean(run["accuracy"] for run in runs)
        if name == "raw":
            continue
        paper = 100 * (printed[name] - printed["raw"]) if name in printed else None
        made.row(f"{name}: accuracy over raw", paper, accuracy[name] - accuracy["raw"], "points")
        made.row(f"{name}: fewer bytes, all phases", None, mean(run["all"] for run in runs), "x")
        if name == "GradiVeQ":
            coded = [run["compressed"] for run in runs if "compressed" in run]
            ratio = mean(coded) if coded else None
            made.row("GradiVeQ: ratio of compressed steps", published.GRADIVEQ_RATIO, ratio, "x")
    if not available(made):
        return
    made.step("four hosts")
    plan = bench.plan_of(made.of(9, 3), 99, made.seed)
    with Network(4, "100m") as network:
        times = {name: line["seconds"] for name, line in bench.timed(network, plan).items()}
    raw = times.pop("raw")
    for name, seconds in times.items():
        paper = published.GRADIVEQ_FASTER if name == "gradiveq" else None
        made.row(f"{bench.TITLES[name].format(**plan)}: aggregation over raw", paper, raw / seconds, "x")
    made.conditions.append(
        "times: convolutions of ResNet-32, four hosts with links of 100 Mbit/s that share this machine's "
        "processors (the paper: six nodes)"
    )

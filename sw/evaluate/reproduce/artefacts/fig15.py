# SPDX-License-Identifier: BSD-2-Clause
"""Fig. 15: exchange time over the number of nodes: measured from 4 to 8 here, by the models to 1,024."""

import math
from typing import Any

import numpy as np

from ....commands.speed import synthetic
from ...bench.collective.variants import PAPERS, RING_RAW
from ...pays.costs import Form, Host, Link
from ...pays.exchange import ring, worker_aggregator
from ...pays.ratios import of_values
from ..artefact import Artefact, Check, Settings
from ..inputs.codecs import codecs
from ..inputs.hosts import times, unavailable
from ..published import BANDWIDTH, SIZE_MB

MEASURED = (4, 6, 8)
MODELLED = (4, 8, 16, 32, 64, 128, 256, 512, 1024)
RATE, AGGREGATOR = 2e8, f"{PAPERS} raw"
"""Slow enough that links and not the shared processors are the limit."""
_RISE_RING, _RISE_WA = 1.35, 1.6
"""From 4 to 8 nodes: the most that counts as "almost constant", the least that counts as "almost linear"."""
ALPHA, GAMMA = 10e-6, 1 / 5e9
HOST = Host(add=1 / GAMMA, stack=3e9, message=20e-6)
"""The rate of TCP is assumed; it decides INC+C where hosts are the limit."""


def paper_wa(p: int, n: float, beta: float) -> float:
    """Return the paper's time of WA.

    Sec. VIII-D: (1 + log p) alpha + (p + log p) n beta + (p - 1) n gamma.
    """
    return (1 + math.log2(p)) * ALPHA + (p + math.log2(p)) * n * beta + (p - 1) * n * GAMMA


def paper_inc(p: int, n: float, beta: float) -> float:
    """Return the paper's time of INC.

    Sec. VIII-D: 2 (p - 1) alpha + 2 (p - 1)/p n beta + (p - 1)/p n gamma.
    """
    return 2 * (p - 1) * ALPHA + (p - 1) / p * n * (2 * beta + GAMMA)


def make(settings: Settings) -> Artefact:
    """Relate everything to the four-node worker-aggregator, as in the paper."""
    megabytes = settings.of(8, 4)
    n, beta = SIZE_MB["ResNet-50"] * 1e6, 8 / BANDWIDTH
    found = Artefact(
        "fig15", "Fig. 15: exchange time over that of a four-node worker-aggregator",
        ["paper: the formulas of Sec. VIII-D, ResNet-50, 10 Gbit/s, alpha 10 us, 1/gamma 5 GB/s"],
    )  # fmt: skip
    first = paper_wa(4, n, beta)
    link = Link(BANDWIDTH, ALPHA)
    nics = {mode: Form("nic", of_values(synthetic(1 << 18, 1), codec)) for mode, codec in codecs(10).items()}
    own: dict[str, dict[int, float]] = {"WA": {}, "INC": {}, **{f"INC+C {mode}": {} for mode in nics}}
    limited = set()
    for p in MODELLED:
        aggregator = worker_aggregator(n, p, link, HOST, Form(), Form(), separate=True, overlap=False)
        own["WA"][p] = aggregator.seconds
        own["INC"][p] = ring(n, p, link, HOST, Form()).seconds
        for mode, form in nics.items():
            both = ring(n, p, link, HOST, form)
            own[f"INC+C {mode}"][p] = both.seconds
            limited |= {mode} if both.limit == "processor" else set()
    base = own["WA"][4]
    curves = {name: {p: value / base for p, value in line.items()} for name, line in own.items()}
    found.conditions.append(
        "model: inceptionn pays with the same numbers, NICs, synthetic values at 2^-10; results go down "
        f"after all gradients have come up, as in the formula; hosts' TCP of "
        f"{HOST.stack / 1e9:g} GB/s (assumed)"
    )
    if limited:
        modes = ", ".join(sorted(limited))
        found.notes.append(f"with {modes} the assumed TCP of the hosts is the limit of INC+C")
    for p in MODELLED:
        found.row(f"model: WA, {p} nodes", paper_wa(p, n, beta) / first, curves["WA"][p])
        found.row(f"model: INC, {p} nodes", paper_inc(p, n, beta) / first, curves["INC"][p])
        for mode in nics:
            found.row(f"model: INC+C {mode}, {p} nodes", None, curves[f"INC+C {mode}"][p])
    measured = _measure(found, settings, megabytes)
    found.data = {"model": curves, "measured_seconds": measured, "formula": {
        "WA": {p: paper_wa(p, n, beta) / first for p in MODELLED},
        "INC": {p: paper_inc(p, n, beta) / first for p in MODELLED},
    }}  # fmt: skip
    return found


def _measure(found: Artefact, settings: Settings, megabytes: int) -> dict[str, dict[int, float]]:
    """Measure the exchanges between hosts into ``found``; return the seconds of each by name and nodes."""
    measured: dict[str, dict[int, float]] = {}
    if (reason := unavailable(settings.network)) is not None:
        found.notes.append(reason)
        return measured
    wanted = [AGGREGATOR, RING_RAW, *(f"ring {mode}" for mode in codecs(10))]
    for p in MEASURED:
        settings.step(f"{p} hosts")
        arrays = [synthetic(megabytes * 250_000, settings.seed + rank) for rank in range(p)]
        for name, seconds in times(arrays, RATE, wanted, settings.of(5, 3)).items():
            measured.setdefault(name, {})[p] = seconds
    start = measured[AGGREGATOR][4]
    for name, line in measured.items():
        for p, seconds in line.items():
            paper = None
            if name in (AGGREGATOR, RING_RAW):
                formula = paper_wa if name == AGGREGATOR else paper_inc
                size, beta_here = megabytes * 1e6, 8 / RATE
                paper = formula(p, size, beta_here) / paper_wa(4, size, beta_here)
            found.row(f"measured: {name}, {p} nodes", paper, seconds / start)
    found.conditions.append(
        f"measured: {megabytes} MB of synthetic values, links of {RATE / 1e6:g} Mbit/s, hosts share this "
        "machine's processors; WA's aggregator is one more host, and sends when it has received all"
    )
    rise = measured[RING_RAW][8] / measured[RING_RAW][4]
    found.checks.append(Check(
        "INC stays almost constant", rise < _RISE_RING,
        f"from 4 to 8 nodes the raw ring takes {rise:.2f} times as long here; the bytes grow by 7/6",
        f"up to {_RISE_RING} times",
    ))  # fmt: skip
    rise = measured[AGGREGATOR][8] / measured[AGGREGATOR][4]
    found.checks.append(Check(
        "WA grows almost linearly", rise > _RISE_WA,
        f"from 4 to 8 nodes {rise:.2f} times as long here; twice the bytes", f"from {_RISE_WA} times",
    ))  # fmt: skip
    return measured


def draw(figure: Any, artefact: Artefact) -> None:
    """Plot measurements on the left, the models on the right."""
    left, right = figure.subplots(1, 2)
    measured = artefact.data["measured_seconds"]
    start = measured.get(AGGREGATOR, {}).get(4, 1.0)
    for name, line in measured.items():
        left.plot(list(line), np.array(list(line.values())) / start, "o-", label=name)
    left.set(
        xlabel="nodes",
        ylabel="exchange / four-node WA",
        title=f"measured here, {RATE / 1e6:g} Mbit/s",
        ylim=(0, None),
    )
    if measured:
        left.set_xticks(MEASURED)
        left.legend(fontsize=7)
    else:
        left.text(0.5, 0.5, "not measured", ha="center", transform=left.transAxes)
    for style, (name, line) in zip(("-", "-", "-", "--", ":"), artefact.data["model"].items(), strict=False):
        right.plot(list(line), list(line.values()), style, label=name)
    for style, (name, line) in zip(("k^:", "ks-."), artefact.data["formula"].items(), strict=True):
        label = f"paper's formula, {name}"
        right.plot(list(line), list(line.values()), style, lw=1, ms=5, mfc="none", label=label)
    right.set(xscale="log", yscale="log", xlabel="nodes", title="models, ResNet-50, 10 Gbit/s")
    right.set_xticks(MODELLED[::2], list(map(str, MODELLED[::2])))
    right.minorticks_off()
    right.legend(fontsize=7)

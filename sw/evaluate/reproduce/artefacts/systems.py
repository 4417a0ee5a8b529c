# SPDX-License-Identifier: BSD-2-Clause
"""Table II and Figs. 12 and 15: steps and exchanges of whole systems, by the model and between hosts.

The aggregator's legs follow each other, as in the paper's formula (Sec. VIII-D) and in Table II: its link is
busy for 4 n of gradients, and then for 4 n of weights. The measurements assume the same.
"""

import math
from collections.abc import Mapping, Sequence

import numpy as np

from ....commands.speed import synthetic
from ....commands.study import Curve, Panel, panels
from ....netns import Network
from ...bench.collective.pays import measured as rounds
from ...bench.collective.variants import PAPERS, RING_BF16, RING_RAW
from ...bench.common.data import saved
from ...bench.common.job import lines_of
from ...pays.costs import Form, Host, Link
from ...pays.exchange import Exchange, ring, worker_aggregator
from ...pays.ratios import TABLE_III, bits_ratio, constant, of_values
from ...training import Floats
from .. import published
from ..artefact import Artefact, available
from ..inputs.codecs import codecs, ratio
from ..inputs.digits import DATA, STAGES, baseline
from ..inputs.imagenet import IMAGES, sampled
from ..inputs.steps_rank import main

PORT, TIMEOUT, PATIENCE = 29580, 60.0, 120.0
AGGREGATOR = f"{PAPERS} raw"
RATE = 2e8
"""Slow enough that links and not the shared processors are the limit."""
FREE = Host(add=math.inf, stack=math.inf, message=0.0)
HOST = Host(add=math.inf, stack=3e9, message=20e-6)
"""A server's TCP; sums are Table II's. It decides every exchange that is faster than it, so both are printed:
the time with links and engines alone, and with these hosts."""

MEASURED = (4, 6, 8)
MODELLED = (4, 8, 16, 32, 64, 128, 256, 512, 1024)
ALPHA, GAMMA = 10e-6, 1 / 5e9
SUMMING_HOST = Host(add=1 / GAMMA, stack=3e9, message=20e-6)
"""The rate of TCP is assumed; it decides INC+C where hosts are the limit."""
_RISE_RING, _RISE_WA = 1.35, 1.6
"""From 4 to 8 nodes: the most that counts as "almost constant", the least that counts as "almost linear"."""


def aggregated(size: float, ranks: int, host: Host, up: Form, latency: float = 10e-6) -> Exchange:
    """Model the paper's aggregator, which sends raw weights when it has all gradients."""
    link = Link(published.BANDWIDTH, latency)
    return worker_aggregator(size, ranks, link, host, up, Form(), separate=True, overlap=False)


def table2(made: Artefact) -> None:
    """Measure HDC between five hosts, compute the ImageNet networks, and model all exchanges."""
    made.begin(
        "Table II: a worker-aggregator step of four workers, ms per iteration",
        f"Communicate, model: inceptionn pays, {published.BANDWIDTH / 1e9:g} Gbit/s, sizes as printed, "
        "gradients and then weights, no overlap",
    )
    for name in published.NETWORKS:
        exchange = aggregated(published.SIZE_MB[name] * 1e6, published.WORKERS, Host(), Form())
        made.row(f"{name}: Communicate, model", 10 * published.TABLE_II[name][4], 1e3 * exchange.link, "ms")
    if available(made):
        made.step("five hosts")
        steps = made.of(60, 15)
        plan = {"port": PORT, "timeout": TIMEOUT, "seed": made.seed, "batch": 25, "steps": steps}
        with Network(published.WORKERS + 1, "1g") as network:
            (line,) = lines_of(network, main, plan, PATIENCE)
        parts = line["parts"]
        made.conditions.append(
            f"measured: {DATA}; four workers and an aggregator on hosts with links of 1 Gbit/s that share "
            f"this machine's processors, mean of {steps} steps in NumPy (the paper: GPUs, 10 Gbit/s)"
        )
        for place, part in enumerate(published.STEPS):
            if part in parts:
                share = 100 * parts[part] / sum(parts.values())
                made.row(f"HDC: {part}", 10 * published.TABLE_II["HDC"][place], 1e3 * parts[part], "ms")
                made.row(f"HDC: {part}, share", published.TABLE_II_SHARES["HDC"][place], share, "%")
    for name, sample in sampled(made, made.of(6, 2)):
        per = 64 if name != "ResNet-50" else 16
        for place, seconds in enumerate((sample.forward, sample.backward)):
            passes = 1e3 * seconds * per / sample.batch
            paper = 10 * published.TABLE_II[name][place]
            made.row(f"{name}: {published.STEPS[place]}, batch {per}", paper, passes, "ms")
        made.conditions.append(
            f"{name}: passes of batch {sample.batch}, scaled to {per}, on a {sample.device} (the paper: "
            f"Titan Xp), {IMAGES}"
        )


def modelled(network: str, ratios: dict[str, float], host: Host = FREE) -> dict[str, dict[str, float]]:
    """Model seconds of "exchange" and "step" by system, at 10 Gbit/s with NICs, by default of these alone."""
    size, link = published.SIZE_MB[network] * 1e6, Link(published.BANDWIDTH)
    *parts, total = published.TABLE_II[network]
    adding, exchange = parts[3] / 100, parts[4] / 100
    compute = total / 100 - adding - exchange
    found = {}
    forms = {"": Form()} | {f"+C {mode}": Form("nic", constant(value)) for mode, value in ratios.items()}
    for name, form in forms.items():
        wa = aggregated(size, published.WORKERS, host, form).seconds
        inc = ring(size, published.WORKERS, link, host, form).seconds
        found[f"WA{name}"] = {"exchange": wa, "step": compute + adding + wa}
        found[f"INC{name}"] = {"exchange": inc, "step": compute + adding / published.WORKERS + inc}
    return found


def less(before: Mapping[str, float], after: Mapping[str, float], what: str) -> float:
    """Return the percentage by which one of the seconds shrank."""
    return 100 * (1 - after[what] / before[what])


WA_C, OF_INC = f"~{published.WA_C_LESS} %", f"~{published.INC_C_LESS_THAN_INC} %"
OF_WA = "{} to {} %".format(*published.ABSTRACT_LESS)
SPEED = "{} to {} x".format(*published.ABSTRACT_SPEEDUP)
"""As the paper's text says it."""


def fig12(made: Artefact) -> None:
    """Model all networks, then measure exchanges of HDC's gradient between hosts."""
    gradients = baseline(made.of(30, 6), made.seed).gradients
    x = np.concatenate([gradients[stage] for stage in STAGES])
    ours = {mode: ratio(codec, x) for mode, codec in codecs(10).items()}
    made.begin(
        "Fig. 12: less time by systems without and with compression, error bound 2^-10",
        "model: inceptionn pays, 10 Gbit/s, NICs of 64 Gbit/s per engine pair, Table II's other times, "
        "ratios of Table III (as printed); planes: that times planes / literal of HDC here",
        "one aggregator beside four workers, its legs one after the other; WA+C compresses the way up only",
        'without "hosts": links and engines alone; "with hosts": the slowest of links, engines and hosts '
        f"that move {HOST.stack / 1e9:g} GB/s through TCP, raw (assumed)",
    )
    chart: dict[str, dict[str, float]] = {}
    for network in published.NETWORKS:
        printed = bits_ratio(TABLE_III[published.TABLE_KEYS[network]][10])
        ratios = {mode: printed * value / ours["literal"] for mode, value in ours.items()}
        result = modelled(network, ratios)
        wa, inc = result["WA"], result["INC"]
        chart[network] = {name: value["step"] / wa["step"] for name, value in result.items()}
        exchange, step = published.FIG_12_EXCHANGE_LESS[network], published.FIG_12_TOTAL_LESS[network]
        made.row(f"{network}: INC, exchange less than WA", exchange, less(wa, inc, "exchange"), "%")
        made.row(f"{network}: INC, step less than WA", step, less(wa, inc, "step"), "%")
        hosts = modelled(network, ratios, HOST)
        for mode in ours:
            up, both, hosted = result[f"WA+C {mode}"], result[f"INC+C {mode}"], hosts[f"INC+C {mode}"]
            for what, paper, here, unit in (
                ("WA+C {}, exchange less than WA", WA_C, less(wa, up, "exchange"), "%"),
                ("INC+C {}, exchange less than WA", OF_WA, less(wa, both, "exchange"), "%"),
                ("INC+C {}, exchange less than INC", OF_INC, less(inc, both, "exchange"), "%"),
                ("INC+C {}, with hosts, exchange less than INC", OF_INC,
                 less(hosts["INC"], hosted, "exchange"), "%"),
                ("INC+C {}, times as fast as WA", SPEED, wa["step"] / both["step"], "x"),
                ("INC+C {}, with hosts, times as fast as WA", SPEED,
                 hosts["WA"]["step"] / hosted["step"], "x"),
            ):  # fmt: skip
                made.row(f"{network}: {what.format(mode)}", paper if mode == "literal" else None, here, unit)
    made.notes.append(
        "with hosts, INC+C takes what their TCP takes for raw values: the assumed rate decides it, and a "
        "better ratio gains nothing, as Sec. VIII-C says of the network stack"
    )
    made.data["steps"] = chart
    axes = {"ylabel": "step time / WA",
            "title": "model: links of 10 Gbit/s and NICs alone, 2^-10, Tables II, III"}  # fmt: skip
    made.plot(panels([Panel(chart, axes=axes, text="{:.2f}".format)]))
    if available(made):
        _measured_exchanges(made)


def _measured_exchanges(made: Artefact) -> None:
    """Measure exchanges of Fig. 12 between four hosts and the aggregator."""
    made.step("four hosts")
    gradient = baseline(made.of(30, 6), made.seed).gradients[STAGES[1]]
    modes = list(codecs(10))
    names = [AGGREGATOR, RING_RAW, RING_BF16]
    names += [name for mode in modes for name in (f"{PAPERS} {mode}, up", f"ring {mode}")]
    seconds = all_reduce_seconds([gradient] * published.WORKERS, RATE, names, made.of(9, 3))
    made.conditions.append(
        f"measured: one gradient at all hosts, {gradient.nbytes / 1e6:.2f} MB of {DATA}; four hosts, links "
        f"of {RATE / 1e6:g} Mbit/s on this machine, software codec; the aggregator is a fifth host, which "
        "sends when it has received everything"
    )
    pairs = [(AGGREGATOR, name) for name in seconds if name != AGGREGATOR]
    for base, name in pairs + [(RING_RAW, f"ring {mode}") for mode in modes]:
        shrunk = 100 * (1 - seconds[name] / seconds[base])
        made.row(f"measured: {name}, exchange less than {base}", None, shrunk, "%")
    made.data["measured_seconds"] = seconds


def all_reduce_seconds(
    gradients: Sequence[Floats], rate: float, variants: Sequence[str], repeats: int
) -> dict[str, float]:
    """Measure median seconds of all-reduces by variant, a host per gradient; PAPERS has one more."""
    found: dict[str, float] = {}
    for apart in (False, True):
        names = tuple(name for name in variants if name.startswith(PAPERS) == apart)
        held = [gradients[0], *gradients] if apart else gradients
        with Network(len(held), rate) as network:
            files = {("gradient", 0): saved(network.folder, "gradient", held)}
            seconds = rounds(network, files, 2.0**-10, repeats, names)
            found |= {variant: median for (_, _, variant), median in seconds.items()}
    return found


def paper_wa(p: int, n: float, beta: float) -> float:
    """Return WA's time by Sec. VIII-D: (1 + log p) alpha + (p + log p) n beta + (p - 1) n gamma."""
    return (1 + math.log2(p)) * ALPHA + (p + math.log2(p)) * n * beta + (p - 1) * n * GAMMA


def paper_inc(p: int, n: float, beta: float) -> float:
    """Return INC's time by Sec. VIII-D: 2 (p - 1) alpha + 2 (p - 1)/p n beta + (p - 1)/p n gamma."""
    return 2 * (p - 1) * ALPHA + (p - 1) / p * n * (2 * beta + GAMMA)


def fig15(made: Artefact) -> None:
    """Relate everything to the four-node worker-aggregator, as in the paper."""
    n = published.SIZE_MB["ResNet-50"] * 1e6
    beta, link = 8 / published.BANDWIDTH, Link(published.BANDWIDTH, ALPHA)
    made.begin(
        "Fig. 15: exchange time over that of a four-node worker-aggregator",
        "paper: the formulas of Sec. VIII-D, ResNet-50, 10 Gbit/s, alpha 10 us, 1/gamma 5 GB/s",
        "model: inceptionn pays with the same numbers, NICs, synthetic values at 2^-10; results go down "
        "after all gradients have come up, as in the formula; hosts' TCP of "
        f"{SUMMING_HOST.stack / 1e9:g} GB/s (assumed)",
    )
    values = synthetic(1 << 18, 1)
    forms = {"INC": Form()} | {
        f"INC+C {mode}": Form("nic", of_values(values, codec)) for mode, codec in codecs(10).items()
    }
    found = {"WA": {p: aggregated(n, p, SUMMING_HOST, Form(), ALPHA) for p in MODELLED}} | {
        name: {p: ring(n, p, link, SUMMING_HOST, form) for p in MODELLED} for name, form in forms.items()
    }
    base, first = found["WA"][4].seconds, paper_wa(4, n, beta)
    curves = {name: {p: each.seconds / base for p, each in line.items()} for name, line in found.items()}
    formula = {
        name: {p: time(p, n, beta) / first for p in MODELLED}
        for name, time in (("WA", paper_wa), ("INC", paper_inc))
    }
    limited = [name for name in forms if any(each.limit == "processor" for each in found[name].values())]
    if limited:
        made.notes.append(f"the assumed TCP of the hosts is the limit of {', '.join(limited)}")
    for p in MODELLED:
        for name, line in curves.items():
            made.row(f"model: {name}, {p} nodes", formula.get(name, {}).get(p), line[p])
    measured = _measured_nodes(made, made.of(8, 4)) if available(made) else {}
    made.data = {"model": curves, "measured": measured, "formula": formula}
    lines = curves | {f"paper's formula, {name}": line for name, line in formula.items()}
    styles = ("-", "-", "-", "--", ":", "k^:", "ks-.")
    here = [Curve(name, list(line), list(line.values()), "o-") for name, line in measured.items()]
    models = [
        Curve(name, list(line), list(line.values()), style)
        for style, (name, line) in zip(styles, lines.items(), strict=True)
    ]
    left = {"ylabel": "exchange / four-node WA", "ylim": (0, None), "xlabel": "nodes"}
    left["title"] = f"measured here, {RATE / 1e6:g} Mbit/s"
    right = {"xlabel": "nodes", "xscale": "log", "yscale": "log", "title": "models, ResNet-50, 10 Gbit/s"}
    named = [{float(p): str(p) for p in places} for places in (MEASURED if measured else (), MODELLED[::2])]
    made.plot(panels([Panel(curves=here, axes=left, ticks=named[0]),
                      Panel(curves=models, axes=right, ticks=named[1])]))  # fmt: skip


def _measured_nodes(made: Artefact, megabytes: int) -> dict[str, dict[int, float]]:
    """Measure exchanges between hosts; return each one's time over a four-node WA's by name and nodes."""
    measured: dict[str, dict[int, float]] = {}
    wanted = [AGGREGATOR, RING_RAW, *(f"ring {mode}" for mode in codecs(10))]
    for p in MEASURED:
        made.step(f"{p} hosts")
        arrays = [synthetic(megabytes * 250_000, made.seed + rank) for rank in range(p)]
        for name, seconds in all_reduce_seconds(arrays, RATE, wanted, made.of(5, 3)).items():
            measured.setdefault(name, {})[p] = seconds
    start, formulas = measured[AGGREGATOR][4], {AGGREGATOR: paper_wa, RING_RAW: paper_inc}
    size, beta = megabytes * 1e6, 8 / RATE
    measured = {name: {p: seconds / start for p, seconds in line.items()} for name, line in measured.items()}
    for name, line in measured.items():
        for p, here in line.items():
            formula = formulas.get(name)
            paper = formula and formula(p, size, beta) / paper_wa(4, size, beta)
            made.row(f"measured: {name}, {p} nodes", paper, here)
    made.conditions.append(
        f"measured: {megabytes} MB of synthetic values, links of {RATE / 1e6:g} Mbit/s, hosts share this "
        "machine's processors; WA's aggregator is one more host, and sends when it has received all"
    )
    ring_rise, rise = (measured[name][8] / measured[name][4] for name in (RING_RAW, AGGREGATOR))
    made.check(
        "INC stays almost constant", ring_rise < _RISE_RING,
        f"from 4 to 8 nodes the raw ring takes {ring_rise:.2f} times as long here; the bytes grow by 7/6",
        f"up to {_RISE_RING} times",
    )  # fmt: skip
    made.check(
        "WA grows almost linearly", rise > _RISE_WA,
        f"from 4 to 8 nodes {rise:.2f} times as long here; twice the bytes", f"from {_RISE_WA} times",
    )  # fmt: skip
    return measured

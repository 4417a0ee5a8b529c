# SPDX-License-Identifier: BSD-2-Clause
"""The tables of ``inceptionn bench torch``, and their targets."""

from collections.abc import Sequence
from functools import partial
from statistics import mean, median
from typing import Any

from ....commands.console import Table
from ....commands.study import Columns, Figure, tabulated
from ....netns import rate_text
from ..common.rows import Row, groups, where

SYSTEMS = {
    "plain": "DDP", "fp16": "torch's fp16 hook", "bf16": "torch's bf16 hook", "powersgd": "PowerSGD, rank 2",
    "hook": "compress_hook", "no-feedback": "the same, no error feedback",
    "tensor": "the same, tensors scaled", "bounded": "the same, paper's codec", "backend": "compressed group",
}  # fmt: skip
OURS = ("hook", "no-feedback", "tensor", "bounded", "backend")
THEIRS = ("fp16", "bf16", "powersgd")
LESS = {"mlp": 3.0, "cnn": 2.5, "transformer": 1.5}
"""Asked: times less communication than plain DDP, with a processor for each host."""
GAPS = {
    "accuracy": ("accuracy below DDP's", 0.5, "points"), "loss": ("loss above DDP's", 1.0, "%"),
}  # fmt: skip
"""The most that is asked of a training's gap, by what counts at its end."""

Lines = Sequence[Row]


def tables_of(lines: Lines, hosts: int, trained: int) -> list[Table]:
    """Return a table for each part that has lines."""
    rates = dict.fromkeys(line["rate"] for line in where(lines, what="time"))
    found = [times_table(lines, rate, hosts) for rate in rates]
    found += [accuracy_table(lines, trained)] if where(lines, what="accuracy") else []
    found += [overhead_table(where(lines, what="overhead"))] if where(lines, what="overhead") else []
    return found


def step_and_communication(line: Row) -> tuple[float, float]:
    """Return median seconds of a step, and of its communication. The latter is no less than 10 us."""
    step, computation = (median(line["seconds"][kind]) for kind in ("step", "computation"))
    return step, max(step - computation, 1e-5)


def _timed(lines: Lines, rate: float) -> dict[tuple[Any, ...], Row]:
    found = groups(where(lines, what="time", rate=rate), "model", "system")
    return {case: several[0] for case, several in found.items()}


def gaps(plain: Lines, ours: Lines) -> list[float]:
    """Return each run's gap to plain DDP with the same seed, in points or in percent of the loss."""
    scores = {line["seed"]: line["score"] for line in plain}
    pairs = [(scores[line["seed"]], line["score"]) for line in ours if line["seed"] in scores]
    if ours[0]["final"] == "loss":
        return [100 * (score / base - 1) for base, score in pairs]
    return [base - score for base, score in pairs]


def times_table(lines: Lines, rate: float, hosts: int) -> Table:
    """Tabulate time per step and of communication, by model and system, at one rate."""
    columns = ("", "model", "ms/step", "vs DDP", "communication, ms", "vs DDP", "MB sent")
    table = Table(f"{rate_text(rate)}, {hosts} hosts", *columns, left=2)
    found = _timed(lines, rate)
    for (model, system), line in found.items():
        step, communication = step_and_communication(line)
        ratios = ["-", "-"]
        if (model, "plain") in found:
            plain, raw = step_and_communication(found[model, "plain"])
            ratios = [f"{plain / step:.2f}x", f"{raw / communication:.2f}x"]
        size = f"{model}, {4e-6 * line['values']:.1f} MB"
        sent = f"{1e-6 * line['sent']:.2f}"
        cells = (f"{1e3 * step:.1f}", ratios[0], f"{1e3 * communication:.1f}", ratios[1], sent)
        table.add_row(SYSTEMS[system], size, *cells, style="bold" if system in OURS else None)
    return table


def accuracy_table(lines: Lines, steps: int) -> Table:
    """Tabulate results of the training runs over all seeds: mean, extremes, gap to plain DDP, ratio."""
    found = groups(where(lines, what="accuracy"), "model", "system")
    columns = ("", "model", "accuracy or loss", "least", "most", "gap to DDP", "ratio", "same bits", "seeds")
    table = Table(f"After {steps} steps", *columns, left=2)
    for (model, system), several in found.items():
        text, unit = ("{:.1f} %", "points") if several[0]["final"] == "accuracy" else ("{:.4f}", "%")
        scores = [line["score"] for line in several]
        less = gaps(found.get((model, "plain"), ()), several)
        ratios = [line["ratio"] for line in several if line.get("ratio")]
        table.add_row(
            SYSTEMS[system], model, *(text.format(of(scores)) for of in (mean, min, max)),
            f"{mean(less):+.2f} {unit}" if less and system != "plain" else "-",
            f"{mean(ratios):.2f}" if ratios else "-",
            "yes" if all(line["same_bits"] for line in several) else "no", str(len(scores)),
        )  # fmt: skip
    return table


def _milliseconds(name: str, line: Row) -> str:
    return f"{1e3 * median(line['seconds'][name]):.2f}"


def overhead_table(lines: Lines) -> Table:
    """Tabulate time per bucket on loopback."""
    columns: Columns[Row] = {
        "values": lambda line: f"{line['values']:,}",
        **{name: partial(_milliseconds, name) for name in lines[0]["seconds"]},
    }
    return tabulated("One bucket on loopback, 2 processes, ms", columns, lines)


def figures_of(lines: Lines, apart: bool) -> list[Figure]:
    """Return the targets at 1 Gbit/s and for accuracy, for each of this package's systems.

    ``apart``: whether each host has a processor. Else there is no target for the communication, which then
    includes waiting for the other hosts' computation.
    """
    figures = []
    found = _timed(lines, 1e9)
    for (model, system), line in found.items():
        if system not in OURS or (model, "plain") not in found:
            continue
        name = f"{model}, {SYSTEMS[system]}"
        step, communication = step_and_communication(line)
        raw = step_and_communication(found[model, "plain"])[1]
        ratio = raw / communication
        if apart:
            figures.append(Figure(f"{name}: communication at 1 Gbit/s, DDP / it", ratio, LESS[model]))
        theirs = [step_and_communication(found[model, each])[0] for each in THEIRS if (model, each) in found]
        if theirs:
            figures.append(Figure(f"{name}: step, torch's fastest hook / it", min(theirs) / step, 1.0))
    trained = groups(where(lines, what="accuracy"), "model", "system")
    for (model, system), several in trained.items():
        less = gaps(trained.get((model, "plain"), ()), several)
        if system not in OURS or not less:
            continue
        what, most, unit = GAPS[several[0]["final"]]
        figures.append(Figure(f"{model}, {SYSTEMS[system]}: {what}", max(0.0, mean(less)), most, True, unit))
    return figures

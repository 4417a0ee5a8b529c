# SPDX-License-Identifier: BSD-2-Clause
"""The tables of ``inceptionn bench torch``, and their targets."""

from collections.abc import Sequence
from statistics import mean, median
from typing import Any

from ....commands.console import Table
from ....commands.study import Figure
from ....netns import rate_text
from ..common.rows import Row, groups, where

SYSTEMS = {
    "plain": "DDP", "fp16": "torch's fp16 hook", "bf16": "torch's bf16 hook", "powersgd": "PowerSGD, rank 2",
    "hook": "compress_hook", "no-feedback": "the same, no error feedback",
    "tensor": "the same, tensors scaled", "bounded": "the same, paper's codec", "backend": "compressed group",
}  # fmt: skip
OURS = ("hook", "no-feedback", "tensor", "bounded", "backend")
THEIRS = ("fp16", "bf16", "powersgd")
POINTS, PERCENT, LESS = 0.5, 1.0, 3.0
"""Asked: points of accuracy below plain DDP, percent of its loss above, times less communication."""

Lines = Sequence[Row]


def tables_of(lines: Lines, hosts: int, trained: int) -> list[Table]:
    """Return a table for each part that has lines."""
    rates = dict.fromkeys(line["rate"] for line in where(lines, what="time"))
    found = [times_table(lines, rate, hosts) for rate in rates]
    found += [accuracy_table(lines, trained)] if where(lines, what="accuracy") else []
    found += [overhead_table(lines)] if where(lines, what="overhead") else []
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
        base = found.get((model, "plain"))
        ratios = ["-", "-"]
        if base is not None:
            ratios = [
                f"{theirs / ours:.2f}x"
                for theirs, ours in zip(step_and_communication(base), (step, communication), strict=True)
            ]
        size = f"{model}, {4e-6 * line['values']:.1f} MB"
        sent = f"{1e-6 * line['sent']:.2f}"
        cells = (f"{1e3 * step:.1f}", ratios[0], f"{1e3 * communication:.1f}", ratios[1], sent)
        table.add_row(SYSTEMS[system], size, *cells, style="bold" if system in OURS else None)
    return table


def accuracy_table(lines: Lines, steps: int) -> Table:
    """Tabulate results of the training runs over all seeds: mean, extremes, gap to plain DDP, ratio."""
    columns = ("", "model", "accuracy or loss", "least", "most", "gap to DDP", "ratio", "same bits", "seeds")
    table = Table(f"After {steps} steps", *columns, left=2)
    found = groups(where(lines, what="accuracy"), "model", "system")
    for (model, system), several in found.items():
        scores = [line["score"] for line in several]
        text = "{:.1f} %" if several[0]["final"] == "accuracy" else "{:.4f}"
        less = gaps(found.get((model, "plain"), ()), several)
        unit = "points" if several[0]["final"] == "accuracy" else "%"
        far = f"{mean(less):+.2f} {unit}" if less and system != "plain" else "-"
        same = "yes" if all(line["same_bits"] for line in several) else "no"
        numbers = [text.format(value) for value in (mean(scores), min(scores), max(scores))]
        ratios = [line["ratio"] for line in several if line.get("ratio")]
        ratio = f"{mean(ratios):.2f}" if ratios else "-"
        table.add_row(SYSTEMS[system], model, *numbers, far, ratio, same, str(len(scores)))
    return table


def overhead_table(lines: Lines) -> Table:
    """Tabulate time per bucket on loopback."""
    found = where(lines, what="overhead")
    names = list(found[0]["seconds"])
    table = Table("One bucket on loopback, 2 processes, ms", "values", *names)
    for line in found:
        times = (f"{1e3 * median(line['seconds'][name]):.2f}" for name in names)
        table.add_row(f"{line['values']:,}", *times)
    return table


def figures_of(lines: Lines) -> list[Figure]:
    """Return the targets at 1 Gbit/s and for accuracy, for each of this package's systems."""
    figures = []
    found = _timed(lines, 1e9)
    for (model, system), line in found.items():
        if system not in OURS or (model, "plain") not in found:
            continue
        step, communication = step_and_communication(line)
        raw = step_and_communication(found[model, "plain"])[1]
        name = f"{model}, {SYSTEMS[system]}"
        figures.append(Figure(f"{name}: communication at 1 Gbit/s, DDP / it", raw / communication, LESS))
        theirs = [found[model, other] for other in THEIRS if (model, other) in found]
        if theirs:
            best = min(step_and_communication(other)[0] for other in theirs)
            figures.append(Figure(f"{name}: step, torch's fastest hook / it", best / step, 1.0))
    trained = groups(where(lines, what="accuracy"), "model", "system")
    for (model, system), several in trained.items():
        less = gaps(trained.get((model, "plain"), ()), several)
        if system not in OURS or not less:
            continue
        name, far = f"{model}, {SYSTEMS[system]}", max(0.0, mean(less))
        if several[0]["final"] == "accuracy":
            figures.append(Figure(f"{name}: accuracy below DDP's", far, POINTS, True, "points"))
        else:
            figures.append(Figure(f"{name}: loss above DDP's", far, PERCENT, True, "%"))
    return figures

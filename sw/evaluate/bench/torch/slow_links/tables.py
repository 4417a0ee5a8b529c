# SPDX-License-Identifier: BSD-2-Clause
"""The tables and the chart of ``inceptionn bench slow-links``."""

from collections.abc import Mapping, Sequence
from statistics import mean, median
from typing import Literal, NamedTuple

import numpy as np

from .....commands.console import Table
from .....commands.study import Curve, Draw, Panel, panels
from .....netns import rate_text
from .....netns import seconds as seconds_of
from ...common.rows import Row, groups, where
from .systems import System

REFERENCE = "h16:raw"
"""The system whose bytes and time the others get, if it was measured; else the first."""
SHOWN = 2.0
"""The chart begins at so many times the least of the final losses."""


class Trained(NamedTuple):
    """Means over the seeds at each point, with the bytes that a rank has sent; and each seed's final loss."""

    steps: Sequence[float]
    losses: Sequence[float]
    sent: Sequence[float]
    finals: Sequence[float]

    def after(self, at: float, what: Literal["steps", "sent"] = "steps") -> str:
        """Return the loss after so many steps, or bytes that a rank has sent, as a table shows it.

        It is read off the curve, over the logarithm of the place; "-" before its first exchange.
        """
        places = getattr(self, what)
        if at < places[1]:
            return "-"
        loss = np.interp(np.log(at), np.log(places[1:]), self.losses[1:])
        return f"{loss:.4f}" + (" (all steps)" if at >= places[-1] else "")


def trained(lines: Sequence[Row]) -> dict[str, Trained]:
    """Return the trainings by system, of those seeds that all systems have."""
    found = groups(where(lines, what="loss"), "system")
    seeds = [{line["seed"] for line in several} for several in found.values()]
    shared = set.intersection(*seeds) if seeds else set()
    means = {}
    for (system,), several in found.items():
        curves = [line["curve"] for line in several if line["seed"] in shared]
        if curves:
            steps, losses, sent = np.mean(curves, axis=0).T.tolist()
            means[system] = Trained(steps, losses, sent, [curve[-1][1] for curve in curves])
    return means


def reference(systems: Sequence[str]) -> str:
    """Return the system with which the others are compared."""
    return REFERENCE if REFERENCE in systems else systems[0]


def losses_table(lines: Sequence[Row]) -> list[Table]:
    """Tabulate losses after all steps, and after the reference's bytes; nothing if none are known."""
    found = trained(lines)
    if not found:
        return []
    against = reference(list(found))
    budget, most = found[against].sent[-1], max(each.sent[-1] for each in found.values())
    title = f"Loss of the test set, nats per byte; means of {len(found[against].finals)} seed(s)"
    names = ("", "after all steps", "least, most", "MB sent by a rank", "ratio to the most")
    table = Table(title, *names, f"after {budget / 1e6:.1f} MB")
    for system, each in found.items():
        sent = each.sent[-1]
        table.add_row(
            System.of(system).name, f"{mean(each.finals):.4f}",
            f"{min(each.finals):.4f}, {max(each.finals):.4f}", f"{sent / 1e6:.2f}", f"{most / sent:.1f}",
            each.after(budget, "sent"),
        )  # fmt: skip
    return [table]


def seconds(line: Row) -> tuple[float, float]:
    """Return the seconds of a step's computation, and of the exchange as a step's part of it."""
    times = {name: median(values) for name, values in line["seconds"].items()}
    computation = times["computation"]
    if "step" in times:
        return computation, max(0.0, times["step"] - computation)
    return computation, times["exchange"] / System.of(line["system"]).every


def by_link(lines: Sequence[Row]) -> dict[str, list[Row]]:
    """Return the lines of times by the name of their link."""
    found = groups(where(lines, what="time"), "rate", "delay")
    return {
        rate_text(rate) + (f", {delay} a link" if seconds_of(delay) else ""): several
        for (rate, delay), several in found.items()
    }


def times_tables(lines: Sequence[Row], steps: int) -> list[Table]:
    """Tabulate, for each link, the time of a step, utilisation, and the loss at equal time."""
    found, tables = trained(lines), []
    for link, several in by_link(lines).items():
        times = {line["system"]: seconds(line) for line in several}
        against = reference(list(times))
        budget = steps * sum(times[against])
        table = Table(
            f"{link}: a step of the training, and the loss after {budget:.0f} s",
            "", "computation, ms", "exchange, ms", "utilisation, %", f"{steps} steps, s", "loss",
        )  # fmt: skip
        for system, (computation, exchange) in times.items():
            step = computation + exchange
            cell = found[system].after(budget / step) if system in found else "-"
            table.add_row(
                System.of(system).name, f"{1e3 * computation:.1f}", f"{1e3 * exchange:.1f}",
                f"{100 * computation / step:.0f}", f"{steps * step:.0f}", cell,
            )  # fmt: skip
        tables.append(table)
    return tables


def chart(lines: Sequence[Row]) -> Draw:
    """Loss over bytes, and over time on each link, from where it is `SHOWN` times the least one."""
    found = trained(lines)
    most = SHOWN * min((each.losses[-1] for each in found.values()), default=0)

    def panel(label: str, costs: Mapping[str, Sequence[float]]) -> Panel:
        """Draw the losses of systems over the cost of each point: bytes or time until then."""
        curves = []
        for system, cost in costs.items():
            losses = found[system].losses
            at = next((n for n, loss in enumerate(losses) if loss <= most), len(losses) - 1)
            curves.append(Curve(System.of(system).name, cost[at:], losses[at:]))
        axes = {"xscale": "log", "xlabel": label, "ylabel": "loss, nats per byte"}
        return Panel(curves=curves, axes=axes, ticks=_ticks([x for curve in curves for x in curve.x]))

    sent = {system: [bytes_ / 1e6 for bytes_ in each.sent] for system, each in found.items()}
    every = [panel("MB sent by a rank", sent)]
    for link, several in by_link(lines).items():
        steps = {line["system"]: sum(seconds(line)) for line in several if line["system"] in found}
        times = {system: [n * step for n in found[system].steps] for system, step in steps.items()}
        every.append(panel(f"seconds at {link}", times))
    return panels(every, columns=4)


def _ticks(values: Sequence[float]) -> dict[float, str]:
    """Return 1, 3, 10, 30 and so on, as far as these values reach."""
    places = [digit * 10.0**power for power in range(-6, 9) for digit in (1, 3)]
    return {at: f"{at:g}" for at in places if values and min(values) <= at <= max(values)}

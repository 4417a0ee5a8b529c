# SPDX-License-Identifier: BSD-2-Clause
"""Rings of thousands of hosts, host by host: the effect of stragglers, for which there is no closed form.

In a step of a ring a host sends on what it received in the step before. It starts when it is free and its
predecessor's block has arrived: ``ready[i] = max(ready[i], ready[i - 1]) + time[i]``, computed for all hosts
at once. In an agreement, and in a sum of one step, each waits for all. O(hosts x steps); 10,000 hosts in one
ring take seconds, in groups of 100 milliseconds.
"""

from typing import NamedTuple

import numpy as np

from .exchange import Exchange, agreement
from .scenario import Scenario, exchange_of, takes_one_step

MOST_JITTER = 100
"""Most mean delay, in steps."""
MOST_STEPS = 5_000_000_000
"""Most steps of all hosts together: two minutes of work."""


class Simulated(NamedTuple):
    """Seconds until hosts have the result (the first, the median and the last), and without any jitter."""

    first: float
    median: float
    last: float
    even: float

    def __str__(self) -> str:
        return (
            f"the last host is done after {self.last * 1e3:.3f} ms, the median after "
            f"{self.median * 1e3:.3f}; without jitter {self.even * 1e3:.3f} ms "
            f"({self.last / self.even:.2f} times)"
        )


def simulate(scene: Scenario, jitter: float = 0.0, seed: int = 1) -> Simulated:
    """Simulate an exchange of a step, host by host; each step may take some ``jitter`` longer.

    ``jitter``: mean of the exponentially distributed delay, as a share of a step. Raises ``ValueError`` for
    another topology than ring and hierarchical, a group that does not divide the nodes, or more than
    `MOST_STEPS` steps of all hosts together.
    """
    if scene.topology not in ("ring", "hierarchical"):
        raise ValueError(f"the simulation knows ring and hierarchical, not {scene.topology!r}")
    if not 0 <= jitter <= MOST_JITTER:
        raise ValueError(f"jitter must be 0 to {MOST_JITTER}, not {jitter!r}")
    size, form = scene.coded
    bucket = size / scene.buckets
    found = exchange_of(scene, bucket, form, scene.topology)
    group = scene.nodes if scene.topology == "ring" else scene.groups_of
    if scene.nodes % group:
        raise ValueError(f"a simulated group must divide the {scene.nodes} nodes, not {group}")
    # Axis (0: across groups; None: all hosts), the exchange, and its steps, in the order in which they run.
    one_step = scene.topology == "ring" and takes_one_step(scene, bucket, form)
    rings: list[tuple[int | None, Exchange, int]]
    rings = [(None, found, 1)] if one_step else [(1, found, 2 * (group - 1))]
    if scene.topology == "hierarchical":
        steps = (group - 1, 2 * (scene.nodes // group - 1), group - 1)
        rings = list(zip((1, 0, 1), found.parts, steps, strict=True))
    rings.insert(0, (None, agreement(scene.link, form), int(form.collectives is not None)))
    levels = [(axis, part.seconds / count, count) for axis, part, count in rings if count]
    work = scene.nodes * scene.buckets * sum(count for *_, count in levels)
    if work > MOST_STEPS:
        raise ValueError(
            f"a simulation takes at most {MOST_STEPS:.0e} steps of all hosts "
            f"(nodes x buckets x steps of a host), not {work:.0e}: take fewer nodes or "
            f"buckets, or --topology hierarchical with small groups"
        )
    random = np.random.default_rng(seed)
    ready = np.zeros((scene.nodes // group, group))
    for axis, each, count in levels * scene.buckets:
        for _ in range(count):
            np.maximum(ready, ready.max() if axis is None else np.roll(ready, 1, axis), out=ready)
            ready += each
            if jitter:
                ready += jitter * each * random.standard_exponential(ready.shape)
    even = scene.buckets * sum(each * count for _, each, count in levels)
    return Simulated(float(ready.min()), float(np.median(ready)), float(ready.max()), even)

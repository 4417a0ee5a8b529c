# SPDX-License-Identifier: BSD-2-Clause
"""The time of one all-reduce: link, processor and device work in parallel, sub-blocks overlap.

A vector of *n* bytes crosses the busiest link 2 (p-1)/p times in a ring and 2 (p-1) times at an aggregator
(Thakur et al. 2005; Sec. VIII-D of the paper). Each resource needs its own time for that. With many
sub-blocks in flight the slowest resource decides; with few, every step waits for the previous one.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from ...collectives import SUB_BLOCK
from .costs import Form, Host, Link

_KEPT = 64
"""Steps of a ring's first half that are computed one by one; longer rings are sampled at as many steps."""
_UNHIDDEN = 4
"""Messages of the first block whose cost nothing hides, in the all-reduces that the model was fitted to."""
_ADDED = ("link", "processor", "device", "chain", "latency", "wire_bytes")


@dataclass
class Exchange:
    """Seconds of an exchange, and what each resource contributes.

    ``link``: the busiest link. ``processor``: the busiest host, or all hosts' share of common processors.
    ``device``: a NIC's engines or an inline device's cable. ``chain``: steps that wait for each other, with
    latencies. ``wire_bytes``: of values and headers, through the busiest link in one direction.
    """

    link: float = 0.0
    processor: float = 0.0
    device: float = 0.0
    chain: float = 0.0
    latency: float = 0.0
    wire_bytes: float = 0.0
    parts: list[Exchange] = field(default_factory=list)

    @property
    def seconds(self) -> float:
        """The whole exchange; parts follow each other."""
        if self.parts:
            return sum(part.seconds for part in self.parts)
        return max(self.link, self.processor, self.device, self.chain)

    @property
    def limit(self) -> str:
        """The limit: "link", "processor", "device" or "latency"."""
        names = {"link": self.link, "processor": self.processor, "device": self.device}
        slowest = max(names, key=lambda name: names[name])
        return "latency" if self.chain > 1.05 * names[slowest] and self.latency > self.chain / 2 else slowest

    @classmethod
    def of(cls, *parts: Exchange) -> Exchange:
        """Put parts one after the other."""
        return cls(**{name: sum(getattr(part, name) for part in parts) for name in _ADDED}, parts=list(parts))

    def times(self, count: int) -> Exchange:
        """Repeat it one after the other."""
        times = {name: count * getattr(self, name) for name in _ADDED}
        return Exchange(**times, parts=[part.times(count) for part in self.parts])


def ring(
    size: float, ranks: int, link: Link, host: Host, form: Form, *,
    first: bool = True, second: bool = True, unit: int = 1, all_hosts: int | None = None,
) -> Exchange:  # fmt: skip
    """Model a ring all-reduce of ``size`` bytes among ``ranks``.

    ``first``, ``second``: which of its halves run. ``unit``: ranks whose values are summed already before it
    starts. ``all_hosts``: that share processors, ``ranks`` by default. O(1) in the number of ranks.
    """
    if ranks == 1 or size == 0:
        return Exchange()
    block = size / ranks
    subs = max(1, round(block / (form.bytes_per_value * SUB_BLOCK)))
    sub = block / subs
    coder, widen = form.coder, sub / form.widen if form.widen else 0.0
    # Steps for one sub-block: how many values the arriving sum has, a host's seconds for codec and sums, and
    # how many steps are alike.
    steps: list[tuple[float, float, float]] = []
    if first:  # the reduce-scatter: in step j a sum of j + 1 arrives and is added
        computed = min(_KEPT, ranks - 1)
        alike = (ranks - 1) / computed
        code = sub / coder.compress + sub / coder.decompress_add if coder else sub / host.add
        sums = [unit * (1 + (place + 0.5) * alike - 0.5) for place in range(computed)]
        steps += [(summed, code + 2 * widen, alike) for summed in sums]
    if second:  # the all-gather: blocks are compressed once, relayed, and decompressed by everyone
        once = sub / coder.compress + sub / coder.lossy if coder else 0.0
        each = (sub / coder.decompress if coder else 0.0) + widen
        steps.append((unit * ranks, once + each, 1))
        if ranks > 2:
            steps.append((unit * ranks, each, ranks - 2))
    ranks_in_sum, codes, weights = np.transpose(steps)
    share, device = _share(host, all_hosts or ranks), form.device(link, sub)
    wire = np.array([form.wire(link, sub, summed) for summed in ranks_in_sum])
    # A host sends one message and receives another.
    stack = np.array([form.stack_bytes(sub, summed) for summed in ranks_in_sum]) / host.stack + host.message
    # One sub-block through a step, from the sender's memory to the receiver's: TCP, wire and engines work on
    # a message at once. And how long the slowest resource holds up the next one.
    alone = codes + np.maximum(np.maximum(wire, stack), device) + link.latency
    held = max(wire[-1], share * (codes + stack)[-1], device)
    fill = alone[0] + min(subs, _UNHIDDEN) * host.message
    on_wire, processor, count = subs * weights @ wire, subs * weights @ (codes + stack), weights.sum()
    found = {
        "link": fill + max(0.0, on_wire - 8 * link.burst / link.bandwidth),
        "processor": share * processor + fill, "device": subs * count * device + fill,
        "chain": weights @ alone + (subs - 1) * held, "latency": count * (link.latency + host.message),
        "wire_bytes": on_wire * link.bandwidth / 8,
    }  # fmt: skip
    return Exchange(**{name: float(value) for name, value in found.items()}, parts=[])  # JSON knows no NumPy


def one_step(size: float, ranks: int, link: Link, host: Host, form: Form) -> Exchange:
    """Model an all-reduce in which ``ranks`` send all ``size`` bytes to each other and add what arrives."""
    others, coder = ranks - 1, form.coder
    code = size / coder.compress + ranks * size / coder.decompress_add if coder else others * size / host.add
    stack = others * (form.stack_bytes(size, 1) / host.stack + host.message)
    wire = others * form.wire(link, size, 1)
    return Exchange(
        link=max(0.0, wire - 8 * link.burst / link.bandwidth), processor=_share(host, ranks) * (code + stack),
        chain=code + max(wire, stack) + link.latency, latency=link.latency + others * host.message,
        wire_bytes=wire * link.bandwidth / 8,
    )  # fmt: skip


def agreement(link: Link, form: Form) -> Exchange:
    """Model the agreement of this package's collectives: to rank 0, and back."""
    seconds = 2 * link.latency if form.collectives else 0.0
    return Exchange(chain=seconds, latency=seconds)


def _share(host: Host, hosts: int) -> float:
    """Return the seconds of the exchange per second of one host's processor time."""
    return 1.0 if host.shared is None else max(1.0, hosts / host.shared)


def hierarchical(
    size: float, ranks: int, link: Link, host: Host, form: Form, group: int, upper: Link | None = None
) -> Exchange:
    """Model Fig. 1c: reduce-scatters and all-gathers in groups of ``group``, and rings across groups between.

    ``upper``: the link across groups, where it differs (oversubscribed: less bandwidth per host).
    """
    groups = -(-ranks // group)
    inside, upper = min(group, ranks), upper or link
    return Exchange.of(
        ring(size, inside, link, host, form, second=False, all_hosts=ranks),
        ring(size / inside, groups, upper, host, form, unit=group, all_hosts=ranks),
        ring(size, inside, link, host, form, first=False, unit=groups, all_hosts=ranks),
    )


def worker_aggregator(
    size: float, ranks: int, link: Link, host: Host, up: Form, down: Form, *,
    separate: bool = False, overlap: bool = True,
) -> Exchange:  # fmt: skip
    """Model gradients that go to one aggregator, and the result back to all (Fig. 2).

    ``separate``: the aggregator is a host of its own, as in the paper, and not one of the ranks. ``overlap``:
    the result's first part goes down while gradients still come up, as in this project's collectives; in the
    paper's framework, weights follow after all gradients.
    """
    workers = ranks if separate else ranks - 1
    if workers == 0 or size == 0:
        return Exchange()
    hosts = ranks + separate
    way_up, way_down = workers * up.wire(link, size, 1), workers * down.wire(link, size, ranks)
    subs = max(1, round(size / (4 * SUB_BLOCK)))
    messages = 2 * workers * subs * host.message
    moved = workers * (up.stack_bytes(size, 1) + down.stack_bytes(size, ranks)) / host.stack
    adding = workers * size / (up.coder.decompress_add if up.coder else host.add)
    sending = size / down.coder.compress + size / down.coder.lossy if down.coder else 0.0
    aggregator = messages / 2 + moved / 2 + adding + sending
    worker = (moved / 2 + messages / 2) / workers
    worker += size / up.coder.compress if up.coder else 0.0
    worker += size / down.coder.decompress if down.coder else 0.0
    processor = max(aggregator, worker)
    if host.shared is not None:
        processor = max(processor, (aggregator + workers * worker) / min(host.shared, hosts))
    burst = 8 * link.burst / link.bandwidth
    fill = 2 * link.latency + 2 * host.message + workers * up.wire(link, size, 1) / subs
    wire = max(way_up, way_down) + fill if overlap else way_up + way_down
    device = workers * max(up.device(link, size), down.device(link, size))
    return Exchange(
        link=max(0.0, wire - burst), processor=processor + fill, device=device,
        chain=0.0, latency=2 * link.latency + messages,
        wire_bytes=(way_up + way_down) * link.bandwidth / 8,
    )  # fmt: skip


def parameter_server(size: float, ranks: int, link: Link, host: Host, push: Form, pull: Form) -> Exchange:
    """Model hosts that each serve 1/p of the weights: gradients are pushed there, weights pulled from there.

    Pulled weights are taken to spread as the mean of the gradients.
    """
    if ranks == 1 or size == 0:
        return Exchange()
    moved = size * (ranks - 1) / ranks
    share = _share(host, ranks)
    pushing = (
        moved / coder.compress + moved / coder.decompress_add if (coder := push.coder) else moved / host.add
    )
    pulling = size / ranks / coder.compress + moved / coder.decompress if (coder := pull.coder) else 0.0
    parts = []
    for form, summed, code in ((push, 1.0, pushing), (pull, 1 / ranks, pulling)):
        work = code + form.stack_bytes(moved, summed) / host.stack + (ranks - 1) * host.message
        wire = form.wire(link, moved, summed)
        alone = link.latency + host.message
        parts.append(Exchange(
            link=wire + alone, processor=share * work + alone, device=form.device(link, moved) + alone,
            latency=alone, wire_bytes=wire * link.bandwidth / 8,
        ))  # fmt: skip
    return Exchange.of(*parts)

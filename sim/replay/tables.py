# SPDX-License-Identifier: BSD-2-Clause
"""The tables that ``inceptionn replay`` prints."""

from collections.abc import Iterable, Sequence
from pathlib import Path

from inceptionn.commands.console import Console, Table

from ..nic_codec import NIC_CODECS
from .performance import Performance, Rate
from .ratios import BF16, Ratio
from .totals import Totals


def traffic(pcap: Path, totals: Totals) -> Table:
    """Tabulate frames, bytes, lanes, errors, checksums."""
    table = Table(f"{pcap.name} through both engines, codec {totals.codec}", "", "")
    codec, counted = NIC_CODECS[totals.codec], sum(totals.classes.values())
    rows = [
        ("frames, compressed and restored", f"{totals.frames:,}, {totals.compressed_frames:,}"),
        ("bytes at the hosts, on the wire", f"{totals.host_bytes:,}, {totals.wire_bytes:,}"),
        ("ratio of all bytes", f"{totals.ratio:.2f}"),
        ("ratio of the compressed payloads, shims included", f"{totals.payload_ratio:.2f}"),
    ]
    if totals.bf16:
        frames = f"{totals.bf16_frames:,}, {totals.bf16_ratio:.2f}"
        rows += [
            ("values of fp32, bf16", f"{totals.lanes:,}, {totals.bf16_lanes:,}"),
            ("compressed frames with bf16, ratio of their payloads", frames),
        ]
    for each, count in zip(codec.spec.classes, totals.classes.values(), strict=True):
        label = each.label.partition(" (")[0] if totals.bf16 else each.label  # the sizes are fp32's
        rows.append((f"{codec.spec.unit} with {label}", f"{count / counted if counted else 0:.1%}"))
    rows += [
        ("largest error, bound", f"{totals.largest_error:.3e}, {totals.bound:.3e}"),
        (
            "TCP flows: grid from their SYN, from a segment",
            f"{totals.flows}, {totals.assumed_flows}",
        ),
        *((f"checksums verified: {name}", f"{count:,}") for name, count in totals.checksums.items()),
        ("hardware counters reconciled", f"{totals.counters}"),
        ("cycles, cycles per second", f"{totals.cycles:,}, {totals.cycles / totals.seconds:,.0f}"),
    ]
    for row in rows:
        table.add_row(*row)
    return table


def verdicts(totals: Totals) -> Table:
    """Tabulate frames by verdict and engine."""
    table = Table("Verdicts", "", "transmit", "receive")
    for name in {**totals.transmit, **totals.receive}:
        counts = (totals.transmit.get(name, 0), totals.receive.get(name, 0))
        table.add_row(name.lower().replace("_", " "), *(f"{count:,}" if count else "" for count in counts))
    return table


def _rows(rates: Iterable[Rate]) -> dict[tuple[str, str], list[Rate]]:
    """Group rates by direction and kind."""
    rows: dict[tuple[str, str], list[Rate]] = {}
    for rate in rates:
        rows.setdefault((rate.direction, rate.kind), []).append(rate)
    return rows


def throughput(figures: Performance) -> Table:
    """Tabulate beats per cycle: the worst of both payload offsets, by MTU."""
    mtus = sorted({rate.mtu for rate in figures.rates})
    heads = [f"MTU {mtu}" for mtu in mtus]
    table = Table(f"Beats per cycle, sustained (at least {figures.limits.rate})", "", "ratio", *heads)
    for (direction, kind), rates in _rows(figures.rates).items():
        side = {"bypass": "in and out", "raw fallback": "in"}.get(
            kind, "in" if direction == "transmit" else "out"
        )
        cells = [f"{min(rate.figure for rate in rates if rate.mtu == mtu):.3f}" for mtu in mtus]
        table.add_row(f"{direction}, {kind}, {side}", f"{rates[-1].ratio:.2f}", *cells)
    return table


def latency(figures: Performance) -> Table:
    """Tabulate idle cycles and latencies."""
    table = Table("Cycles", "", "measured", "at most")
    for idle in figures.idle:
        name = f"idle cycles per 64-byte frame, {idle.direction}, {idle.kind}"
        table.add_row(name, f"{idle.cycles:.2f}", f"{figures.limits.idle:.0f}")
    if figures.lanes == 1:
        beyond = dict.fromkeys(figures.limits.latency, ", beyond the stored frame")
        beyond["transmit"] += " and its compression"
    else:
        beyond = {"receive restored": ", beyond the tag or code table", "transmit": ", beyond the frame"}
    for kind, most in figures.limits.latency.items():
        worst = max(x.figure for x in figures.latencies if x.kind == kind)
        table.add_row(f"latency, {kind}{beyond.get(kind, '')}", f"{worst}", f"{most}")
    return table


def codecs(compared: Sequence[Ratio]) -> Table:
    """Tabulate ratios by codec and bound."""
    bounds = list(dict.fromkeys(each.k for each in compared))
    table = Table(
        "Ratio of the tagged payloads by codec, shims included", "bound", *NIC_CODECS, "planes / paper",
        *([BF16] if any(each.codec == BF16 for each in compared) else []),
    )  # fmt: skip
    for k in bounds:
        found = {each.codec: each.ratio for each in compared if each.k == k}
        gain = found["planes"] / found["paper"]
        bf16 = [f"{found[BF16]:.2f}"] if BF16 in found else []
        table.add_row(f"2^-{k}", *(f"{found[name]:.2f}" for name in NIC_CODECS), f"{gain:.2f}", *bf16)
    return table


def print_tables(
    console: Console,
    pcap: Path,
    totals: Totals,
    figures: Performance | None,
    compared: Sequence[Ratio],
) -> None:
    """Print all tables of a replay; ``figures`` may be None where nothing was measured."""
    tables = [traffic(pcap, totals), verdicts(totals), codecs(compared)]
    if figures is not None:
        tables += [throughput(figures), latency(figures)]
    for table in tables:
        console.print(table)
    if totals.unknown_flows:
        console.print(
            f"no SYN in the capture: {totals.unknown_flows} tagged TCP flows, which passed raw, since "
            "only a SYN tells where values begin. --learn-phases believes their first segments."
        )

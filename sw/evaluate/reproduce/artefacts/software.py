# SPDX-License-Identifier: BSD-2-Clause
"""Fig. 7: what compression in software costs a training step: Snappy, SZ, truncation, this codec."""

from functools import partial
from typing import Any

import numpy as np

from .... import BOUNDED, VARIANTS, Codec
from ....commands.environment import installed
from ....commands.speed import Floats
from ....commands.study import Panel, panels
from ...bench.common.memory import cache_text, timed_bytes
from ...bench.kernels.codec import Job, Row, measured_paths, row_of_ours, row_of_peer
from ...bench.kernels.peers import PEERS, Peer, Ready
from ..artefact import Artefact
from ..inputs.digits import DATA, STAGES, baseline
from ..published import FIG_7_SLOWDOWN, SIZE_MB, SNAPPY_RATIO, SNAPPY_TIME, TABLE_II, WORKERS

BITS = (16, 24)
NETWORKS = ("AlexNet", "HDC")
BOUND = 2.0**-10


def truncated(bits: int, bound: float) -> Ready:
    """Make a compressor that keeps the most significant one or two bytes of each value, by NumPy."""
    keep = (32 - bits) // 8
    unit, kept = {1: np.uint8, 2: np.uint16}[keep], slice(4 // keep - 1, None, 4 // keep)

    def decompress(packed: Any, count: int) -> Floats:
        back = np.zeros(count, np.float32)
        back.view(unit)[kept] = packed
        return back

    return Ready(lambda x: x.view(unit)[kept].copy(), decompress, lambda packed: int(packed.nbytes))


def costs(x: Floats, repeats: int) -> tuple[dict[str, Row], list[str]]:
    """Measure every compressor on one thread, as in ``bench codec``; return also what is not installed."""
    coder = Codec(BOUND, *BOUNDED, threads=1)
    peers = [
        *(peer for peer in PEERS if peer.name in ("snappy", "SZ3")),
        Peer("codec, bounded, new memory", "", lambda bound: Ready(coder.compress, coder.decompress)),
        *(Peer(f"{bits}b-T, NumPy", "", partial(truncated, bits)) for bits in BITS),
    ]
    absent = [peer.package for peer in peers if peer.package and installed(peer.package) is None]
    rows = {
        peer.name: row_of_peer("", peer, x, BOUND, repeats) for peer in peers if peer.package not in absent
    }
    jobs = {f"codec, {variant.name}": Job(variant, measured_paths()[0], 1) for variant in VARIANTS}
    return rows | {name: row_of_ours("", job, x, BOUND, repeats) for name, job in jobs.items()}, absent


def fig7(made: Artefact) -> None:
    """Measure rates on HDC's gradients here, and put them into the step of Table II."""
    gradients = baseline(made.of(30, 6), made.seed).gradients
    count = timed_bytes(1e6 * max(SIZE_MB[network] for network in NETWORKS), made.quick) // 4
    x = np.ascontiguousarray(np.resize(np.concatenate([gradients[stage] for stage in STAGES]), count))
    made.step("compressors")
    found, absent = costs(x, made.of(20, 5))
    made.begin(
        "Fig. 7: training time with compression in software, times that without",
        f"rates: one thread here on {cache_text(4 * count)} of gradients of {DATA}, error bound 2^-10; "
        'this codec into memory that exists, all others and "new memory" into memory that calls allocate',
        "step: Table II's times; each worker compresses g, the aggregator decompresses those of four workers "
        "in turn; the way up shrinks by the ratio, the way down is raw (the paper's legs)",
    )
    slower = "{:g} to {:g} x".format(*FIG_7_SLOWDOWN)
    slow: dict[str, dict[str, float]] = {network: {} for network in NETWORKS}
    for network in NETWORKS:
        total, exchange = TABLE_II[network][-1] / 100, TABLE_II[network][4] / 100
        size = SIZE_MB[network] * 1e6
        made.row(f"{network}: Base", 1.0, 1.0, "x")
        for name, cost in found.items():
            code = 1e-9 * size * (1 / cost.compress + WORKERS / cost.decompress)
            step = total - exchange + exchange * (1 + 1 / cost.ratio) / 2 + code
            slow[network][name] = step / total
            paper = slower if name in ("snappy", "SZ3") else "below 1 x" if "b-T" in name else None
            made.row(f"{network}: {name}", paper, step / total, "x")
    for name, cost in found.items():
        made.row(f"{name}: ratio", SNAPPY_RATIO if name == "snappy" else None, cost.ratio, "x")
        made.row(f"{name}: compress, decompress, GB/s", None, f"{cost.compress:.2f}, {cost.decompress:.2f}")
    if "snappy" in found:
        worst = max(slow[network]["snappy"] for network in NETWORKS)
        made.check(
            f"Snappy makes training {SNAPPY_TIME:g} times as long (Sec. III-A)", worst >= SNAPPY_TIME,
            f"{worst:.2f} times at most with this machine's rates",
        )  # fmt: skip
    worst = max(slow[network]["codec, bounded"] for network in NETWORKS)
    made.check(
        "compression needs hardware: in software it makes steps longer (Sec. VI)", worst > 1,
        f"the codec of this project on one thread makes them {worst:.2f} times as long",
    )  # fmt: skip
    if absent:
        made.notes.append(f"not installed, left out: {', '.join(absent)}")
    rates = {name: vars(cost) for name, cost in found.items()}
    made.data = {"slowdown": slow, "costs": rates, "bytes": 4 * count}
    axes = {"ylabel": "training time / Base",
            "title": "software compression, rates of this machine, Table II's step"}  # fmt: skip
    made.plot(panels([Panel(slow, axes=axes, text="{:.2f}".format, across=(1, "Base"))]))

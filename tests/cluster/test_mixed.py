# SPDX-License-Identifier: BSD-2-Clause
"""Networks whose NICs differ in codec or bound: no wrong value, and the host library uses software."""

from pathlib import Path

import numpy as np
import pytest
from cluster_hosts import BOUND, MakeCluster, assert_stalled, result, start, total, wait_for_line
from host_programs import gradients

from inceptionn.sim.cluster.nics import set_bound

COUNT, PORT = 60_000, 6000
SUM_COUNT = 40_000


def sums(cluster, folder: Path) -> list[dict[str, object]]:
    """Run an all-reduce that asks the NICs, and return what the ranks say.

    Check that every rank has the same sum, within the bound of each addition.
    """
    ranks = [start(cluster, rank, "allreduce", SUM_COUNT, "auto", folder) for rank in range(cluster.size)]
    answers = [result(rank) for rank in ranks]
    found = [np.load(folder / f"{rank}.npy") for rank in range(cluster.size)]
    assert len({each.tobytes() for each in found}) == 1
    exact = np.sum([gradients(rank, SUM_COUNT).astype(float) for rank in range(cluster.size)], axis=0)
    assert np.abs(found[0] - exact).max() <= cluster.size * BOUND
    return answers


def test_floats_between_two_codecs_never_arrive_wrong(make_cluster: MakeCluster, tmp_path: Path) -> None:
    """A program that does not ask: its connection stalls until the engines are switched off."""
    cluster = make_cluster(2, "golden", codecs=["planes", "paper"], congestion="reno")
    sink = start(cluster, 1, "receive", tmp_path, PORT)
    wait_for_line(sink)
    source = start(cluster, 0, "send", "host1", PORT, 1, COUNT)
    assert_stalled(cluster, "RX_BAD_SHIM")
    path = tmp_path / f"received-{PORT}"
    assert path.read_bytes() == b""
    cluster.nics[0].write("CONTROL", 2)
    result(source)
    result(sink)
    assert path.read_bytes() == gradients(1, COUNT).tobytes()


@pytest.mark.parametrize(
    ("nics", "codecs", "bounds"),
    [
        (["golden", "golden"], ["paper", "planes"], [10, 10]),
        (["golden", "golden", "golden"], ["planes", "paper", "planes"], [10, 10, 10]),
        (["golden", "none"], ["planes", "planes"], [10, 10]),
        (["golden", "golden"], ["planes", "planes"], [10, 8]),
        (["golden", "golden"], ["paper", "paper"], [10, 8]),
    ],
    ids=["two codecs", "two codecs, three hosts", "planes, none", "planes, two bounds", "paper, two bounds"],
)
def test_the_host_library_falls_back_to_software(
    make_cluster: MakeCluster, tmp_path: Path, nics: list[str], codecs: list[str], bounds: list[int]
) -> None:
    cluster = make_cluster(len(nics), nics, codecs=codecs)
    for nic, k in zip(cluster.nics, bounds, strict=True):
        set_bound(nic, k)
    assert sums(cluster, tmp_path) == [{"nic": False, "bound": None, "mode": None, "bf16": False}] * len(nics)


@pytest.mark.parametrize(
    ("k", "codecs"),
    [(10, ["planes"] * 3), (7, ["planes-bf16"] * 3), (14, ["planes-bf16", "planes", "planes-bf16"])],
    ids=["fp32", "bf16", "one without bf16"],
)
def test_the_host_library_learns_codec_bound_and_lanes(
    make_cluster: MakeCluster, tmp_path: Path, k: int, codecs: list[str]
) -> None:
    cluster = make_cluster(3, "golden", codecs=codecs, k=k)
    ranks = [start(cluster, rank, "allreduce", SUM_COUNT, "nic", tmp_path) for rank in range(3)]
    assert [result(rank) for rank in ranks] == [
        {"nic": True, "bound": 2.0**-k, "mode": "planes", "bf16": set(codecs) == {"planes-bf16"}}
    ] * 3
    found = [np.load(tmp_path / f"{rank}.npy") for rank in range(3)]
    assert len({each.tobytes() for each in found}) == 1
    exact = np.sum([gradients(rank, SUM_COUNT).astype(float) for rank in range(3)], axis=0)
    assert np.abs(found[0] - exact).max() <= 3 * 2.0**-k
    reports = cluster.host_reports()
    sent, came = (
        total(reports, name) - total(reports, f"{name}_BF16") for name in ("TX_COMPRESSED", "RX_RESTORED")
    )
    assert sent == came > 50, "where one NIC has no bf16, the probe's packets are lost"
    assert total(reports, "RX_BAD_SHIM") == 0

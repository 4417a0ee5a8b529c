# SPDX-License-Identifier: BSD-2-Clause
"""`compress_hook` on hosts of the virtual cluster: the NICs compress, or software where one has none."""

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
import torch.distributed as dist
from torch_ranks import trained

from inceptionn.netns import require
from inceptionn.netns.tap import available
from inceptionn.sim.cluster import Cluster
from inceptionn.sim.cluster.program import environment
from inceptionn.sim.nic_verilog import nic_verilog
from inceptionn.torch import CompressState
from inceptionn.torch.link import link_of

VALUES, STEPS = 37_896, 6


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    require()
    available()
    with ExitStack() as stack:
        yield stack


def answers(cluster: Cluster) -> list[dict[str, Any]]:
    """Return what this file as a program said on each host."""
    started = [
        host.popen(
            [sys.executable, __file__],
            env={**environment(cluster.hosts, host.index), "OMP_NUM_THREADS": "1"},
            stdout=subprocess.PIPE, text=True,
        )
        for host in cluster.hosts
    ]  # fmt: skip
    said = [process.communicate(timeout=300)[0] for process in started]
    assert not any(process.returncode for process in started)
    return [json.loads(text.splitlines()[-1]) for text in said]


def restored(cluster: Cluster) -> list[int]:
    """Tagged frames that each host's NIC has decompressed."""
    return [host.registers.get("RX_RESTORED", 0) for host in cluster.host_reports()]


@pytest.mark.parametrize(
    ("kind", "codec"), [("golden", "planes"), pytest.param("rtl", "paper", marks=pytest.mark.slow)]
)
def test_the_nics_compress(stack: ExitStack, tmp_path: Path, kind: str, codec: str) -> None:
    options: dict[str, Any] = {"codecs": codec}
    if kind == "rtl":
        options["verilog"] = {codec: nic_verilog(None, tmp_path, lambda text: None, codec)}
    cluster = stack.enter_context(Cluster(2, kind, **options))
    found = answers(cluster)
    for rank in found:
        assert (rank["nic"], rank["mode"]) == (True, "planes" if codec == "planes" else "bounded")
        assert rank["compressed"] == STEPS
        assert rank["hook"]["weights"] != rank["plain"]["weights"]
        assert rank["hook"]["loss"] == pytest.approx(rank["plain"]["loss"], rel=0.05)
    assert len({rank["hook"]["weights"] for rank in found}) == 1
    # A ring of two hosts sends each host the whole vector in each step, in frames of 1,460 bytes at most.
    assert min(restored(cluster)) > 0.8 * STEPS * 4 * VALUES / 1460
    cluster.check()


@pytest.mark.slow
def test_one_host_without_a_nic_is_software(stack: ExitStack) -> None:
    cluster = stack.enter_context(Cluster(2, ["golden", "none"], codecs="planes"))
    found = answers(cluster)
    assert [rank["nic"] for rank in found] == [False, False]
    assert found[0]["compressed"] == STEPS
    assert len({rank["hook"]["weights"] for rank in found}) == 1
    assert found[0]["hook"]["weights"] != found[0]["plain"]["weights"]
    assert max(restored(cluster)) < 10  # the probe's frames


def main() -> None:
    """Train with the hook, which looks for NICs, and without it; print what was found."""
    dist.init_process_group("gloo")
    plain, state = trained(which=range(STEPS)), CompressState()
    found = trained(state, which=range(STEPS))
    transport = link_of(None).transport
    codec = transport.nic_codec
    print(json.dumps({
        "nic": transport.nic, "mode": codec and (codec.mode or codec.codec), "compressed": state.compressed,
        "plain": plain, "hook": found,
    }))  # fmt: skip
    dist.destroy_process_group()


if __name__ == "__main__":
    main()

# SPDX-License-Identifier: BSD-2-Clause
"""Clusters for tests."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from inceptionn.netns import require
from inceptionn.sim.cluster import Cluster
from inceptionn.sim.cluster.tap import available

sys.path.insert(0, str(Path(__file__).parent))  # for cluster_hosts


@pytest.fixture(scope="session")
def nic_verilog(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The real ``inceptionn_nic``, or the file that ``INCEPTIONN_NIC_VERILOG`` names in its place."""
    if given := os.environ.get("INCEPTIONN_NIC_VERILOG"):
        return Path(given)
    from inceptionn.hdl.tops import TOPS
    from inceptionn.sim.runner import emit

    path = tmp_path_factory.mktemp("nic") / "inceptionn_nic.v"
    path.write_text(emit(TOPS["inceptionn_nic"], "inceptionn_nic"))
    return path


@pytest.fixture
def make_cluster(request: pytest.FixtureRequest) -> Iterator[Callable[..., Cluster]]:
    """``make_cluster(hosts, **arguments of Cluster)``: an entered cluster, removed after the test.

    The test fails if one of its NICs did.
    """
    require()
    available()
    with ExitStack() as stack:
        made: list[Cluster] = []

        def make(hosts: int, nics: Any = "rtl", **options: Any) -> Cluster:
            if "rtl" in nics:
                options["verilog"] = request.getfixturevalue("nic_verilog")
            made.append(stack.enter_context(Cluster(hosts, nics, **options)))
            return made[-1]

        yield make
        for cluster in made:
            cluster.check()

# SPDX-License-Identifier: BSD-2-Clause
"""Clusters for tests."""

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from inceptionn.netns import require
from inceptionn.netns.tap import available
from inceptionn.sim.cluster import Cluster
from inceptionn.sim.nic_codec import NIC_VARIANTS
from inceptionn.sim.nic_verilog import nic_verilog


@pytest.fixture(scope="session")
def verilog_of(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Return a function that writes the real ``inceptionn_nic`` for a key of `NIC_VARIANTS`.

    ``INCEPTIONN_NIC_VERILOG`` names a file to take for paper.
    """
    folder = tmp_path_factory.mktemp("nic")

    @cache
    def write(codec: str) -> Path:
        given = os.environ.get("INCEPTIONN_NIC_VERILOG")
        if given and codec == "paper":
            return Path(given)
        chosen = NIC_VARIANTS[codec]
        return nic_verilog(None, folder, lambda text: None, chosen.name, chosen.bf16)

    return write


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
                codecs = options.get("codecs") or "paper"
                verilog_of = request.getfixturevalue("verilog_of")
                needed = {codecs} if isinstance(codecs, str) else set(codecs)
                options["verilog"] = {codec: verilog_of(codec) for codec in needed}
            made.append(stack.enter_context(Cluster(hosts, nics, **options)))
            return made[-1]

        yield make
        for cluster in made:
            cluster.check()

# SPDX-License-Identifier: BSD-2-Clause
"""A host that vanishes, with no packet that says so, is noticed long before the time-out."""

import subprocess
import sys
from contextlib import ExitStack

import pytest

from inceptionn.netns import Network

RANK = """
import sys, time
from inceptionn.transport import connect
rank = int(sys.argv[1])
transport = connect(rank, 3, sys.argv[2], nic=False)
print("formed", flush=True)
time.sleep(600) if rank == 2 else transport.barrier()
"""


@pytest.mark.slow
def test_a_host_without_a_link_is_lost() -> None:
    with Network(3) as network, ExitStack() as ranks:
        where = f"{network.hosts[0].address}:29520"
        first, second, third = [
            ranks.enter_context(
                host.popen(
                    [sys.executable, "-c", RANK, str(host.index), where],
                    stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                )
            )
            for host in network.hosts
        ]  # fmt: skip
        ranks.callback(third.kill)
        assert third.stdout is not None
        assert third.stdout.readline() == "formed\n"
        network.hosts[2].run(["ip", "link", "set", "eth0", "down"], check=True)
        for rank in (first, second):
            assert "PeerLost: rank 2 is lost" in rank.communicate(timeout=120)[1]

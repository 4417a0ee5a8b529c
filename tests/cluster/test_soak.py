# SPDX-License-Identifier: BSD-2-Clause
"""Mixed traffic, and all counters agree: ten minutes in ``make soak``, seconds in ``make test``.

``SOAK_CODEC``: of the NICs, by default paper and planes-bf16, which has traffic of both types of lanes.
"""

import json
import os

import pytest
from cluster_hosts import MakeCluster, no_checksum_errors, start, total

from inceptionn.hdl.control.registers import VERDICTS
from inceptionn.sim.cluster import HostReport

SECONDS = float(os.environ.get("SOAK_SECONDS", "4"))
CODECS = os.environ.get("SOAK_CODEC", "").split(",")
if CODECS == [""]:
    CODECS = ["paper", pytest.param("planes-bf16", marks=pytest.mark.slow)]
RANKS = 4
_RAW = ("SHORT", "LONG", "ALIGNMENT", "UNKNOWN_FLOW", "PHASE", "EXPANDED", "AMBIGUOUS")
_ANSWERS = ("UNTAGGED", "SYN")  # classes that both engines count, and that are never flooded


@pytest.mark.parametrize("codec", CODECS)
def test_every_frame_and_byte_is_accounted_for(make_cluster: MakeCluster, codec: str) -> None:
    cluster = make_cluster(RANKS, codecs=codec)
    processes = [start(cluster, rank, "soak", SECONDS, int(codec == "planes-bf16")) for rank in range(RANKS)]
    answers = []
    for process in processes:
        output, _ = process.communicate(timeout=SECONDS + 120)
        assert process.returncode == 0
        answers.append(json.loads(output.splitlines()[-1]))
    assert len({answer["digest"] for answer in answers}) == 1, "ranks hold different sums"
    assert answers[0]["sums"] > 0
    assert cluster.drain()
    reports = cluster.host_reports()
    assert no_checksum_errors(reports)
    for host in reports:
        balance_one(host)
    balance_all(reports)
    assert {host.codec.variant for host in reports} == {codec}
    bf16 = total(reports, "TX_COMPRESSED_BF16")
    assert bf16 == total(reports, "RX_RESTORED_BF16") < total(reports, "TX_COMPRESSED")
    assert (bf16 > 100) == (codec == "planes-bf16")
    assert total(reports, "TX_COMPRESSED") > 100
    assert total(reports, "TX_UNTAGGED") > 100
    print(
        f"{answers[0]['sums']} sums, {total(reports, 'TX_FRAMES_IN'):,} frames, "
        f"{total(reports, 'TX_BYTES_IN'):,} bytes in, {total(reports, 'TX_BYTES_OUT'):,} on the wire, "
        f"{total(reports, 'TX_COMPRESSED'):,} frames compressed, {bf16:,} of them bf16"
    )


def balance_one(host: HostReport) -> None:
    """Check that the counters of one host agree: TAP, engines, MAC and switch port."""
    registers, mac = host.registers, host.mac
    for direction in ("tx", "rx"):
        name = direction.upper()
        verdicts = sum(registers[f"{name}_{verdict.name}"] for verdict in VERDICTS[direction])  # type: ignore[index]
        assert registers[f"{name}_FRAMES_IN"] == registers[f"{name}_FRAMES_OUT"] == verdicts
    assert mac["tx_frames"] == registers["TX_FRAMES_IN"]
    assert mac["tx_bytes"] == registers["TX_BYTES_IN"]
    assert mac["wire_frames"] == registers["TX_FRAMES_OUT"]
    assert mac["wire_bytes"] == registers["TX_BYTES_OUT"] + mac["padding"]
    assert host.switch["frames"] == registers["RX_FRAMES_IN"]
    assert host.switch["bytes"] == registers["RX_BYTES_IN"]
    assert mac["rx_frames"] == registers["RX_FRAMES_OUT"]
    assert mac["rx_bytes"] == registers["RX_BYTES_OUT"]
    assert not host.malformed
    assert not mac.get("bad")
    assert not mac.get("refused")


def balance_all(reports: list[HostReport]) -> None:
    """Check that the counters of all hosts agree: each class of frames that engines send, others receive."""
    assert total(reports, "TX_COMPRESSED") == total(reports, "RX_RESTORED")
    for name in _ANSWERS:
        assert total(reports, f"TX_{name}") == total(reports, f"RX_{name}")
    assert sum(total(reports, f"TX_{name}") for name in _RAW) == total(reports, "RX_NO_SHIM")

    def mac(name: str) -> int:
        return sum(host.mac.get(name, 0) for host in reports)

    assert mac("wire_frames") + mac("flooded") == total(reports, "RX_FRAMES_IN")
    assert mac("wire_bytes") + mac("flooded_bytes") == total(reports, "RX_BYTES_IN")
    # What the hosts get is what the hosts sent, with the padding of short frames and copies of broadcasts.
    sent = total(reports, "TX_BYTES_IN") + mac("padding") + mac("flooded_bytes")
    assert total(reports, "RX_BYTES_OUT") == sent

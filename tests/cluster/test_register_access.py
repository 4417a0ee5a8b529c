# SPDX-License-Identifier: BSD-2-Clause
"""``inceptionn regs --cluster``: the registers of a running cluster's NICs, from another program."""

import json
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from inceptionn.boards.access import cluster as access
from inceptionn.cli import main
from inceptionn.hdl.control.map_formats import bound_word
from inceptionn.sim.cluster import Cluster
from inceptionn.sim.cluster.nics import GoldenNic
from inceptionn.sim.cluster.register_server import SOCKET, answer
from inceptionn.sim.golden.packets import OPENING, tcp
from inceptionn.wire import DEFAULT_BF16_TOS, DEFAULT_TOS, DEFAULT_TOS_MASK


@pytest.mark.parametrize("kind", ["golden", "rtl"])
def test_registers_of_a_running_cluster(
    kind: str, make_cluster: Callable[..., Cluster], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster = make_cluster(2, [kind, "none"])
    where = ["--cluster", "host0", "--socket", str(cluster.folder / SOCKET)]
    cluster.nics[0].exchange([bytes(60)] * 3, [])
    assert main(["regs", "bound", "8", *where]) == 0
    assert cluster.nics[0].read("PARAMETERS") == bound_word(8)
    assert main(["regs", "counters", *where, "--json", str(tmp_path / "counters.json")]) == 0
    found = json.loads((tmp_path / "counters.json").read_text())
    assert found == cluster.registers()["host0"]
    assert found["TX_FRAMES_IN"] >= 3
    assert main(["regs", "set", "COMMAND.CLEAR_COUNTERS", "1", *where]) == 0
    capsys.readouterr()
    assert main(["regs", "get", "PARAMETERS", *where]) == 0
    assert capsys.readouterr().out == f"{bound_word(8):#010x}\n"
    for host, text in (("1", "host1 has no NIC with registers"), ("2", "host must be host0..host1, not")):
        assert main(["regs", "dump", "--cluster", host, *where[2:]]) == 1
        assert text in capsys.readouterr().err


def test_registers_of_bf16_lanes(make_cluster: Callable[..., Cluster], tmp_path: Path) -> None:
    """Counters by type of lane, and the switch for those of bf16."""
    cluster = make_cluster(1, "golden", codecs="planes-bf16")
    where = ["--cluster", "host0", "--socket", str(cluster.folder / SOCKET)]
    nic, frame = cluster.nics[0], tcp(bytes(400), tos=DEFAULT_BF16_TOS)
    nic.exchange([OPENING, frame, tcp(bytes(400))], [])
    assert main(["regs", "set", "TOS.BF16", "0", *where]) == 0
    assert nic.read("TOS") == DEFAULT_TOS_MASK << 8 | DEFAULT_TOS
    assert nic.exchange([frame], [])[0] == [frame]
    assert main(["regs", "counters", *where, "--json", str(tmp_path / "counters.json")]) == 0
    found = json.loads((tmp_path / "counters.json").read_text())
    wanted = {"TX_COMPRESSED": 2, "TX_COMPRESSED_BF16": 1, "TX_LANES": 100, "TX_LANES_BF16": 200}
    assert {name: found[name] for name in wanted} == wanted
    assert found["RX_RESTORED_BF16"] == 0


def test_the_socket_is_found_and_is_its_owners_alone(
    make_cluster: Callable[..., Cluster], capsys: pytest.CaptureFixture[str]
) -> None:
    cluster = make_cluster(1, "golden")
    path = cluster.folder / SOCKET
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert path in [folder / SOCKET for folder in access.folders()]
    cluster.close()
    assert not path.exists()
    assert main(["regs", "dump", "--cluster", "0", "--socket", str(path)]) == 2
    assert "no socket of a virtual cluster: " in capsys.readouterr().err


def test_one_cluster_is_chosen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(access, "folders", lambda: [])
    assert main(["regs", "dump", "--cluster", "0"]) == 1
    assert "no virtual cluster runs: start one with inceptionn cluster run" in capsys.readouterr().err
    for name in "ab":
        (tmp_path / name).mkdir()
        (tmp_path / name / SOCKET).touch()
    monkeypatch.setattr(access, "folders", lambda: [tmp_path / name for name in "ab"])
    assert main(["regs", "dump", "--cluster", "0"]) == 1
    assert "2 virtual clusters run: choose one by --socket, of" in capsys.readouterr().err


def test_both_sides_name_the_same_socket() -> None:
    assert access.SOCKET == SOCKET


@pytest.mark.parametrize(
    "request_line",
    ["", "host0", "host0 read", "x read 0", "host0 read here", "host0 erase 0", "host0 write 8"],
)
def test_requests_that_cannot_be(request_line: str) -> None:
    assert answer(request_line, [GoldenNic()]).startswith("error ")

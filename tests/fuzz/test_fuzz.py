# SPDX-License-Identifier: BSD-2-Clause
"""The command that fuzzes: a short run of its readers, and what it does with a finding."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from runpy import run_path
from typing import Any

import pytest
from programs import ended

from inceptionn import message
from inceptionn.sim.capture import read_pcap
from inceptionn.system import npy_file
from inceptionn.transport.tcp.line import checked, decoded
from inceptionn.transport.tcp.rendezvous import HELLO

COMMAND = Path(__file__).with_name("fuzz.py")
CORPUS = json.loads(COMMAND.with_name("corpus.json").read_text())
READERS: dict[str, Callable[[Path], Any]] = {
    "npy": lambda path: npy_file.load(path, halves=True),
    "capture": read_pcap,
    "message": lambda path: message.unpack(path.read_bytes()),
    "line": lambda path: checked(decoded(path.read_bytes(), stranger=True), HELLO),
}


def fuzz(*arguments: str, before: str = "") -> subprocess.CompletedProcess[str]:
    code = f"import fuzz, sys\n{before}\nsys.exit(fuzz.main())"
    return ended(sys.executable, "-c", code, *arguments, timeout=120, PYTHONPATH=str(COMMAND.parent))


def test_readers_refuse_what_is_spoilt() -> None:
    done = fuzz("message", "npy", "capture", "line", "agreement", "checkpoint", "--seconds", "0.1")
    assert done.returncode == 0, done.stderr
    assert done.stdout.endswith("no finding\n")


def test_members_and_servers_end() -> None:
    done = fuzz("member", "server", "--seconds", "0.1")
    assert done.returncode == 0, done.stderr


def test_without_a_liar_all_is_taken() -> None:
    """So what is refused is refused for what the liar sent."""
    honest = "fuzz.spoilt = fuzz.replaced = lambda source, value: value"
    done = fuzz("member", "--seconds", "0.1", before=honest)
    assert done.stderr.startswith("member: 200 inputs taken, 0 refused; there must be both")


def test_the_codec_has_all_its_sources() -> None:
    """Those with which its tests build the same program under sanitizers."""
    tests = run_path(str(COMMAND.parents[1] / "codec" / "test_native_programs.py"))
    assert sorted(tests["SOURCES"]) == run_path(str(COMMAND))["SOURCES"]


def test_a_finding_is_shown() -> None:
    broken = "fuzz.message.unpack = lambda data: {}[len(data)]"
    done = fuzz("message", "--seconds", "0.1", before=broken)
    assert done.returncode == 1
    assert "message, seed 1, run 0: KeyError: " in done.stderr
    assert "input: b" in done.stderr


@pytest.mark.parametrize("case", CORPUS, ids=lambda case: f"{case['target']}, {case['error']}")
def test_an_input_of_the_corpus_is_refused(case: dict[str, str], tmp_path: Path) -> None:
    """What the fuzz found and no other test gives: each reaches another check, or another error of Python's.

    Other findings stand with their readers: headers of `.npy` in `codec/test_files.py`; messages in
    `codec/test_message.py`; captures in `sim/test_replay.py`; checkpoints in `layers/test_checkpoint.py` and
    `layers/parameter_server`; members in `collectives/test_agreement.py`, `layers/test_exchanges.py` and
    `layers/parameter_server/test_errors.py`; lines of strangers in `transport/tcp/test_strangers.py`.
    """
    file = tmp_path / "input"
    file.write_bytes(bytes.fromhex(case["input"]))
    with pytest.raises((ValueError, TypeError)) as raised:
        READERS[case["target"]](file)
    assert case["error"] in str(raised.value)
    assert "\n" not in str(raised.value)

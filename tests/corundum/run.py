# SPDX-License-Identifier: BSD-2-Clause
"""``make corundum``: the application block inside Corundum, under Corundum's own bench.

For each stream width: Corundum's bench on its own template (the baseline), the same bench on the block, then
`bench_in_corundum` on both. Corundum is cloned, never changed, and its bench has an environment of its own,
since it needs cocotb 1. Everything is kept under ``build/corundum``.
"""

import argparse
import hashlib
import json
import os
import random
import shutil
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from inceptionn.boards.corundum.target import APP_ID
from inceptionn.commands.console import Output, Table
from inceptionn.hdl.control.registers import REGISTERS
from inceptionn.sim.golden import EngineConfig, FlowTable, Result, checksum, receive, transmit
from inceptionn.sim.golden.packets import DESTINATION, SOURCE, SYN, tcp, udp
from inceptionn.sim.golden.values import payload
from inceptionn.wire import DEFAULT_TOS, PROTOCOL_TCP

HERE = Path(__file__).resolve().parent
URL = "https://github.com/corundum/corundum.git"
COMMIT = "1ca0151b97af85aa5dd306d74b6bcec65904d2ce"
BENCH = "fpga/app/template/tb/mqnic_core_pcie_us"
WIDTHS = {64: (256, 64, 64), 128: (256, 64, 128), 512: (512, 512, 512)}
"""`sync` stream width to the widths of PCIe, Ethernet and `sync`, as Corundum's bench combines them."""
SOURCES = ("mqnic_app_block.v", "inceptionn_corundum.v", "inceptionn_nic.v")
PARAMETERS = {"APP_ID": APP_ID, "APP_CTRL_ENABLE": 1, "APP_AXIS_SYNC_ENABLE": 1} | {
    f"APP_{name}_ENABLE": 0 for name in ("DMA", "AXIS_DIRECT", "AXIS_IF", "STAT")
}
"""The build's parameters, as the README of the block asks for them."""
LANES = (15, 16, 17, 90, 359, 362, 2000)
"""Values of the frames' payloads: at a group's edges, at those of an MTU of 1,500 bytes, and a jumbo one."""
LINE_RATE = ((60, 64), (64, 64), (65, 64), (1514, 24), (9014, 16))
"""Size of untagged frames in bytes, and how many follow each other."""
_HELD = ("CONTROL", "TOS")
"""Registers of which every bit that exists keeps what is written."""
_IP, _L4 = 14, 34
"""Offsets in the frames, which have neither a VLAN tag nor IP options."""
LONGEST = 3600
"""Seconds that one simulation may take."""


class Unavailable(Exception):
    """The run cannot get what it needs; the text is the reason."""


def _frames(source: random.Random, port: int) -> list[bytes]:
    """Tagged and untagged ones, TCP and UDP, with gradients and with other values; a flow from ``port``."""
    sequence = 4 * source.getrandbits(20)
    frames = [tcp(b"", sequence=sequence - 1, flags=SYN, source_port=port)]
    for count in LANES:
        for kind in ("gradients", "fractions", "noise"):
            data = payload(kind, count, source.getrandbits(20))
            frames.append(tcp(data, sequence=sequence, source_port=port))
            sequence += len(data)
        frames.append(udp(data, source_port=port, tos=DEFAULT_TOS))
        frames.append(udp(data, source_port=port, tos=0))
    return frames


def _left_to_the_nic(frame: bytes) -> tuple[bytes, tuple[int, int]]:
    """Return a frame whose checksum the NIC is to insert, as Linux sends it (``CHECKSUM_PARTIAL``).

    The field holds the sum of the pseudo header. What comes second says where the NIC inserts: the TCP or
    UDP header's offset in the frame, from where it adds up all bytes, and the field's offset in that header.
    """
    protocol, length = frame[_IP + 9], len(frame) - _L4
    at = _L4 + (field := 16 if protocol == PROTOCOL_TCP else 6)
    seed = checksum.fold(checksum.pseudo_header_sum(SOURCE, DESTINATION, protocol, length))
    return frame[:at] + seed.to_bytes(2, "big") + frame[at + 2 :], (_L4, field)


def _step(sent: bytes, result: Result, **more: Any) -> dict[str, Any]:
    sure = len(result.frame) if result.unspecified_from is None else result.unspecified_from
    return {"sent": sent.hex(), "frame": result.frame.hex(), "sure": sure, **more}


def _traffic(frames: list[bytes], offload: bool) -> dict[str, Any]:
    """Both directions of ``frames``, and by how much the counters rise; the NIC inserts if ``offload``."""
    config, flows, counted = EngineConfig(), FlowTable(), Counter[str]()
    tx, rx = [], []
    for frame in frames:
        out = transmit(frame, config, flows)
        back = receive(out.frame, config)
        counted[f"TX_{out.verdict.name}"] += 1
        counted[f"RX_{back.verdict.name}"] += 1
        sent, insert = _left_to_the_nic(frame) if offload else (frame, ())
        tx.append(_step(sent, out, insert=insert))
        rx.append(_step(out.frame, back, sum=checksum.fold(checksum.word_sum(back.frame[_IP:]))))
    for way in ("TX", "RX"):
        counted |= {f"{way}_FRAMES_IN": len(tx), f"{way}_FRAMES_OUT": len(tx)}
    counters = {name: (REGISTERS[name].offset, number) for name, number in sorted(counted.items())}
    return {"tx": tx, "rx": rx, "counters": counters}


def plan(seed: int = 1) -> dict[str, Any]:
    """Work out what the bench sends and expects: the golden model's answers, as JSON values.

    Its keys are ``registers``, ``tagged`` and ``offloads``, each the traffic of a stage, and ``line_rate``.
    """
    source = random.Random(seed)
    registers = [
        {"name": r.name, "offset": r.offset, "reset": r.reset, "mask": r.mask, "held": r.name in _HELD}
        for r in REGISTERS
    ]
    return {
        "registers": registers,
        "tagged": _traffic(_frames(source, 40000), offload=False),
        "offloads": _traffic(_frames(source, 40001), offload=True),
        "line_rate": LINE_RATE,
    }


def _call(command: Sequence[str | Path], what: str, limit: float = 600) -> None:
    """Run a program; `Unavailable` with its last line if it fails or takes longer than ``limit`` seconds."""
    environment = {**os.environ, "GIT_TERMINAL_PROMPT": "0"}
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=limit, env=environment)
    except subprocess.TimeoutExpired:
        raise Unavailable(f"{what}: no answer within {limit:g} s") from None
    except FileNotFoundError as error:
        raise Unavailable(f"{what}: {error.filename} is not installed") from None
    if done.returncode:
        raise Unavailable(f"{what}: {(done.stderr or done.stdout).strip().splitlines()[-1]}")


def checkout(source: str, build: Path) -> Path:
    """Corundum at `COMMIT`, cloned from a URL, a clone or a bare repository unless it is there already."""
    folder = build / "source"
    if (folder / BENCH).is_dir():
        return folder
    shutil.rmtree(folder, ignore_errors=True)
    _call(["git", "clone", "--quiet", "--no-checkout", source, folder], f"git clone {source}")
    _call(
        ["git", "-C", folder, "checkout", "--quiet", "--detach", COMMIT], f"commit {COMMIT[:8]} of {source}"
    )
    return folder


def environment(build: Path) -> Path:
    """Return the interpreter of the bench's own environment.

    The environment is made anew if ``requirements.txt`` has changed.
    """
    wanted = HERE / "requirements.txt"
    digest = hashlib.sha256(wanted.read_bytes()).hexdigest()[:16]
    folder = build / f"venv-{digest}"
    if not folder.exists():
        partial = build / f"venv-{digest}.partial"  # not renamed: programs of an environment hold its path
        shutil.rmtree(partial, ignore_errors=True)
        _call([sys.executable, "-m", "venv", partial], "python -m venv")
        pip = [partial / "bin" / "python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        _call([*pip, "--requirement", wanted], "packages of Corundum's bench")
        folder.symlink_to(partial.name)
    return folder / "bin" / "python"


def _simulate(python: Path, job: dict[str, Any]) -> str:
    """Run one job; empty, or why it failed."""
    folder = Path(job["build"])
    folder.mkdir(parents=True, exist_ok=True)
    name = job["module"]
    settings, log = folder / f"{name}.json", folder / f"{name}.log"
    job |= {"results": str(folder / f"{name}.xml"), "found": str(folder / f"{name}.found.json")}
    Path(job["results"]).unlink(missing_ok=True)
    Path(job["found"]).unlink(missing_ok=True)
    settings.write_text(json.dumps(job))
    with log.open("w") as output:
        command = [python, HERE / "launch.py", settings]
        with subprocess.Popen(command, stdout=output, stderr=output, cwd=folder) as simulation:
            try:
                simulation.wait(LONGEST)
            except subprocess.TimeoutExpired:
                simulation.terminate()  # cocotb-test ends the simulator then
                return f"not done within {LONGEST} s; log: {log}"
    results = Path(job["results"])
    cases = list(ElementTree.parse(results).iter("testcase")) if results.exists() else []
    failed = any(case.find("failure") is not None or case.find("error") is not None for case in cases)
    return f"{'failed' if cases else 'no test ran'}; log: {log}" if failed or not cases else ""


def configuration(
    source: Path, python: Path, build: Path, width: int, block: Path | None
) -> list[dict[str, Any]]:
    """Corundum's bench and ours, on the block of the folder ``block`` or on the template: a row for each."""
    subject = "template" if block is None else "block"
    folder = build / f"{subject}-{width}"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    stages = ["line_rate"] if block is None else ["registers", "tagged", "offloads", "line_rate"]
    expected = folder / "plan.json"
    expected.write_text(json.dumps(plan()))
    job = {
        "bench": str(source / BENCH), "widths": WIDTHS[width], "build": str(folder), "plan": str(expected),
        "sources": [] if block is None else [str(block / name) for name in SOURCES],
        "parameters": {} if block is None else PARAMETERS, "stages": stages,
    }  # fmt: skip

    def row(test: str, error: str, seconds: float, figures: dict[str, Any]) -> dict[str, Any]:
        return {"width": width, "subject": subject, "test": test, "passed": not error, "error": error,
                "seconds": round(seconds), **figures}  # fmt: skip

    start = time.monotonic()
    error = _simulate(python, job | {"module": "test_mqnic_core_pcie_us"})
    rows = [row("Corundum's own", error, time.monotonic() - start, {})]
    start = time.monotonic()
    error = _simulate(python, job | {"module": "bench_in_corundum"})
    seconds = time.monotonic() - start
    path = folder / "bench_in_corundum.found.json"
    found = json.loads(path.read_text()) if path.exists() else {}
    for stage in stages:
        result = found.get(stage, {"passed": False, "error": error or "did not run"})
        figures = {name: value for name, value in result.items() if name not in ("passed", "error")}
        rows.append(row(stage.replace("_", " "), result.get("error", ""), seconds, figures))
    return rows


def judge(rows: list[dict[str, Any]]) -> None:
    """Fail a block that loses frames at line rate that the template would not lose.

    A template that brings nothing of a size is no baseline, and fails.
    """
    arrived = {
        (row["subject"], row["width"]): row.get("arrived") for row in rows if row["test"] == "line rate"
    }
    for row in rows:
        if row["test"] == "line rate" and row["passed"] and row["subject"] == "template":
            none = [size for size, (came, _) in row["arrived"].items() if not came]
            if none:
                row |= {"passed": False, "error": f"none came: frames of {', '.join(none)} bytes"}
        base = arrived.get(("template", row["width"]))
        if row["test"] == "line rate" and row["passed"] and row["subject"] == "block" and base:
            worse = [size for size, (came, _) in row["arrived"].items() if came < base[size][0]]
            if worse:
                row |= {"passed": False, "error": f"lost: frames of {', '.join(worse)} bytes"}


def run(
    source: str, build: Path, widths: Sequence[int], arguments: Sequence[str] = ()
) -> list[dict[str, Any]]:
    """Everything; a row for each test. ``arguments`` go to ``inceptionn generate``. Raises `Unavailable`."""
    if shutil.which("iverilog") is None:
        raise Unavailable("Icarus Verilog is not installed (Debian: apt install iverilog)")
    build = build.resolve()
    build.mkdir(parents=True, exist_ok=True)
    corundum, python = checkout(source, build), environment(build)
    subjects: list[tuple[int, Path | None]] = []
    for width in widths:
        folder = build / f"generated-{width}"
        command = ["generate", "--board", "corundum", "--width", str(width), "--out", str(folder), "--force"]
        subprocess.run(
            [sys.executable, "-m", "inceptionn.cli", *command, *arguments],
            check=True,
            stdout=subprocess.DEVNULL,
        )
        subjects += [(width, None), (width, folder)]
    with ThreadPoolExecutor(int(os.environ.get("INCEPTIONN_JOBS", 2))) as pool:
        futures = [pool.submit(configuration, corundum, python, build, *subject) for subject in subjects]
        rows = [row for future in futures for row in future.result()]
    judge(rows)
    return rows


def _figures(row: dict[str, Any]) -> str:
    if "arrived" in row:
        return ", ".join(f"{came}/{count} of {size} B" for size, (came, count) in row["arrived"].items())
    counts = {"registers": "registers", "tx": "frames to the wire", "rx": "to the host"}
    return ", ".join(f"{row[name]} {text}" for name, text in counts.items() if name in row)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--corundum", default=URL, help="URL, clone or bare repository [GitHub]")
    parser.add_argument("--width", type=int, choices=WIDTHS, action="append", help="stream width [512]")
    parser.add_argument("--lanes", help="lanes of the engines [the board's default]")
    parser.add_argument("--build", type=Path, default=Path("build/corundum"))
    parser.add_argument("--json", type=Path, metavar="FILE", help="write JSON to FILE; - is standard output")
    given = parser.parse_args()
    output = Output(given.json)
    lanes = [] if given.lanes is None else ["--lanes", given.lanes]
    try:
        rows = run(given.corundum or URL, given.build, given.width or [512], lanes)
    except Unavailable as reason:
        fetched = given.corundum in ("", URL)
        print(f"{'skipped' if fetched else 'corundum'}: {reason}", file=sys.stderr)
        return 0 if fetched else 1
    except subprocess.CalledProcessError:
        return 1  # `inceptionn generate` has said why
    headings = ("bits", "application", "test", "result", "figures")
    table = Table(f"inside Corundum {COMMIT[:8]}, Icarus Verilog", *headings, left=5, wrap=4)
    for row in rows:
        result = "passed" if row["passed"] else f"failed: {row['error']}"
        table.add_row(str(row["width"]), row["subject"], row["test"], result, _figures(row))
    output.console.print(table)
    output.write(rows)
    return 0 if all(row["passed"] for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())

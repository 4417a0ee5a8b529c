# SPDX-License-Identifier: BSD-2-Clause
"""A component's area on a Virtex-7 and its longest path in cells of logic: Yosys, no placement."""

import hashlib
import json
import re
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from amaranth.lib import wiring

from inceptionn.hdl.verilog import convert
from inceptionn.hdl.yosys import yosys_path
from inceptionn.system.atomic_file import write

from .place_and_route import Area, ToolError, _run, _version, count_area

_COMBINATIONAL = "t:LUT* t:INV t:CARRY4 t:MUXF* w:*"
"""Cells of the longest path: neither flip-flops nor memories, which Yosys would treat as wires."""


@dataclass(frozen=True)
class Mapping:
    """A component on series 7: its :class:`Area`, and cells on its longest path between registers or ports.

    Memories of look-up tables end a path like block RAMs; a carry chain counts four bits as one cell.
    """

    area: Area
    levels: int


def parse_longest_path(text: str) -> int:
    """Return the length from the report of Yosys's ``ltp``.

    ``ToolError`` if it found a loop or reports none.
    """
    if "Detected loop" in text:
        raise ToolError("yosys ltp: a combinational loop")
    found = re.search(r"Longest topological path in \S+ \(length=(\d+)\)", text)
    if found is None:
        raise ToolError(f"yosys ltp: no path in its report: {text[-200:]!r}")
    return int(found[1])


def map_series7(component: wiring.Component, cache_dir: Path, name: str) -> Mapping:
    """Map ``component``, flattened and without pads, or take the result of an equal one from ``cache_dir``.

    ``name`` makes the cache's folder readable. ``ToolError`` if Yosys is missing or fails.
    """
    verilog = convert(component, "top")
    digest = hashlib.sha256(Path(__file__).read_bytes())
    for text in (verilog, _version(yosys_path())):
        digest.update(text.encode())
    folder = cache_dir / f"{name}-series7-{digest.hexdigest()[:16]}"
    kept = folder / "mapping.json"
    if kept.exists():
        result: dict[str, Any] = json.loads(kept.read_text())
        return Mapping(Area(**result["area"]), result["levels"])
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "top.v").write_text(verilog)
    commands = (
        "read_verilog top.v; synth_xilinx -family xc7 -flatten -noiopad -noclkbuf -top top; "
        f"tee -q -o area.json stat -json; tee -q -o path.txt ltp -noff {_COMBINATIONAL}"
    )
    _run([yosys_path(), "-q", "-p", commands], folder)
    text = (folder / "area.json").read_text()
    cells = json.loads(text[text.index("{") :])["design"]["num_cells_by_type"]
    found = Mapping(count_area(cells.items()), parse_longest_path((folder / "path.txt").read_text()))
    write(kept, json.dumps(asdict(found)))
    return found

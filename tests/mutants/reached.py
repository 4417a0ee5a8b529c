# SPDX-License-Identifier: BSD-2-Clause
"""Coverage of the Verilog by each component's own bench: ``python tests/mutants/reached.py [COMPONENT ...]``.

Verilator counts, in the component's usual size, how often each line of the emitted Verilog ran and each bit
of each signal rose and fell. A *line* is a branch of the Verilog; a *toggle* is one direction of one bit.
Bits that are constant, or that no legal input can move, count as not reached; so do those of a bus that a
small bench does not fill. The figures say where a bench does not look, not what it would notice there.
"""

import argparse
import re
import sys
import tempfile
from pathlib import Path
from typing import Any

from mutants import BENCHES, records

from inceptionn.hdl.catalogue import CATALOGUE
from inceptionn.hdl.yosys import YosysMissing
from inceptionn.sim.runner import run_bench


def counts(text: str) -> dict[str, tuple[int, int]]:
    """Points reached and all points of each kind, ``line`` and ``toggle``, of Verilator's file."""
    found: dict[str, list[bool]] = {"line": [], "toggle": []}
    for point, count in re.findall(r"^C '(.*)' (\d+)$", text, re.MULTILINE):
        fields = dict(part.split("\x02", 1) for part in point.split("\x01") if "\x02" in part)
        kind = fields["page"].partition("/")[0].removeprefix("v_")
        found["toggle" if kind == "toggle" else "line"].append(int(count) > 0)
    return {kind: (sum(points), len(points)) for kind, points in found.items()}


def measure(name: str) -> dict[str, Any]:
    """Measure what the record keeps of a component."""
    entry = CATALOGUE[name]
    (bench,) = BENCHES.rglob(f"bench_{entry.bench}.py")
    with tempfile.TemporaryDirectory(prefix="coverage-") as folder:
        path = Path(folder) / "coverage.dat"
        run_bench(entry.make(), name, bench, parameters=entry.parameters(), coverage=path)
        found = counts(path.read_text(errors="replace"))
    return {"name": name, **found, "circuit": records.circuit(name), "commit": records.commit()}


def share(points: tuple[int, int]) -> str:
    """In percent; a component without a branch has no lines."""
    return f"{100 * points[0] / points[1]:.1f} %" if points[1] else "-"


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    judged = [entry.name for entry in CATALOGUE.values() if entry.bench]
    parser.add_argument("components", nargs="*", help="names of the catalogue (all with a bench)")
    parser.add_argument("--record", action="store_true", help="put the results into docs/assurance*")
    arguments = parser.parse_args()
    if unknown := sorted(set(arguments.components) - set(judged)):
        parser.error(f"{unknown[0]} must be a component with a bench: {', '.join(judged)}")
    for name in arguments.components or judged:
        row = measure(name)
        lines, toggles = (share(row[kind]) for kind in ("line", "toggle"))
        print(f"{name:32}lines {lines:>8}  toggles {toggles:>8}", flush=True)
        if arguments.record:
            records.put("coverage", [row], CATALOGUE)
    if arguments.record:
        records.write_page()
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except YosysMissing as missing:
        sys.exit(str(missing))
    except KeyboardInterrupt:
        sys.exit("interrupted")

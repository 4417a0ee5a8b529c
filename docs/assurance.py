# SPDX-License-Identifier: BSD-2-Clause
"""Tables of what the assurance commands recorded in assurance*.json.

conf.py puts them where assurance-records.md says ``@assurance NAME``. `summary` is the block between
``<!-- records -->`` and ``<!-- end -->`` of assurance.md, which the commands write with ``--record``.
"""

import json
import re
import textwrap
from collections.abc import Iterable, Sequence
from itertools import takewhile
from pathlib import Path
from typing import Any

DOCS = Path(__file__).parent
BLOCK = re.compile(r"(?<=<!-- records -->\n).*?(?=^<!-- end -->$)", re.DOTALL | re.MULTILINE)
COUNTS = ("mutants", "equivalent", "killed")

Rows = list[dict[str, Any]]


def load(name: str) -> Rows:
    """Return the rows of a record; ``proofs`` are in assurance.json."""
    path = DOCS / ("assurance.json" if name == "proofs" else f"assurance-{name}.json")
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else []


def table(columns: str, rows: Iterable[Sequence[object]]) -> str:
    """Return a table in Markdown; the columns' names are separated by commas."""
    names = columns.split(", ")
    lines = [names, ["---"] * len(names), *([str(cell).replace("|", "\\|") for cell in row] for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def score(row: dict[str, Any], killed: str = "killed") -> str:
    """Return what part of the mutants that are not equivalent was killed."""
    real = row["mutants"] - row["equivalent"]
    return f"{100 * row[killed] / real:.1f} %" if real else ""


def total(rows: Rows, *keys: str) -> dict[str, int]:
    """Return the sum of each of these columns."""
    return {key: sum(row[key] for row in rows) for key in keys}


def share(points: Sequence[int], decimals: int = 0) -> str:
    """Return how much of these points was reached."""
    return f"{100 * points[0] / points[1]:.{decimals}f} %" if points[1] else ""


def claims(result: dict[str, Any]) -> list[str]:
    """Return what a harness proves."""
    return [*result["claims"], *result["invariants"]]


def components() -> str:
    """Return all components with a proof, mutants or coverage."""
    proved: dict[str, Rows] = {}
    for result in load("proofs"):
        proved.setdefault(result["name"].partition(",")[0], []).append(result)
    covered, rows = {row["name"]: row for row in load("coverage")}, []
    for name in dict.fromkeys([*proved, *covered]):
        results, cover = proved.get(name, []), covered.get(name)
        depth = dict.fromkeys("bounded" if result["bounded"] else "all cycles" for result in results)
        cells = [name, len({text for result in results for text in claims(result)}) or "", ", ".join(depth)]
        cells.append(f"{sum(result['cpu_s'] for result in results):.0f}" if results else "")
        cells += [share(cover[kind]) if cover else "" for kind in ("line", "toggle")]
        commits = dict.fromkeys(one["commit"] for one in [*results, *([cover] if cover else [])])
        rows.append([*cells, ", ".join(commits)])
    return table("component, claims, depth, CPU s, lines, toggles, RTL", rows)


def mutants() -> str:
    """Return the samples of mutants of the RTL."""
    rows = []
    for row in load("mutants"):
        at_first = (row["first"], score(row, "first")) if "first" in row else ("", "")
        cells = (
            row["name"],
            row["seed"],
            *(row[key] for key in COUNTS),
            score(row),
            *at_first,
            row["commit"],
        )
        rows.append(cells)
    return table("component, seed, mutants, equivalent, killed, score, at first, score, RTL", rows)


def reasons() -> str:
    """Return every survivor, and every mutant that is equivalent for a reason."""
    rows = [
        (row["name"], f"`{one['change']}`", f"`{one['source']}`",
         "survives: " * (one in row["survivors"]) + one.get("reason", "no reason is known"))
        for row in load("mutants")
        for one in [*row["survivors"], *row["reasons"]]
    ]  # fmt: skip
    return table("component, change, line of the RTL, why it is equivalent", rows)


def software() -> str:
    """Return every survivor of the host library, and what is equivalent for a reason."""
    rows = []
    for row in load("software"):
        rows += [(f"`{one['source']}`", f"`{one['change']}`", "survives") for one in row["survivors"]]
        for file, reasons in row["reasons"].items():
            rows += [(f"`sw/{file}`", f"`{place}`", reason) for place, reason in reasons.items()]
    return table("file, change, why it is equivalent", rows)


def proofs() -> str:
    """Return all harnesses, then what each proves, assumes and reaches, and its faults."""
    results, rows = load("proofs"), []
    for one in results:
        depth = f"{'bounded' if one['bounded'] else 'induction'}, {one['depth']}"
        counts = (len(claims(one)), depth, len(one["covers"]), len(one["faults"]), f"{one['cpu_s']:.0f}")
        rows.append((one["name"], *counts, one["commit"]))
    lines = [table("harness, claims and invariants, depth, covers, faults found, CPU s, RTL", rows), ""]
    for one in results:
        lines += [f"### {one['name']}", ""]
        parts = {"claims": "Proved", "assumptions": "Assumed", "covers": "Reached"}
        for key, heading in (parts | {"faults": "Seeded faults, and what refutes them"}).items():
            lines += [f"{heading}:", "", *(f"- {text}" for text in one[key]), ""] if one[key] else []
    return "\n".join(lines)


def frames() -> str:
    """Return the soaks of engines."""
    columns = "codec, direction, lanes, frames, cpu_s, seed, commit"
    rows = ({"lanes": 8, **row} for row in load("frames"))
    return table(columns, ([row[key] for key in columns.split(", ")] for row in rows))


def fuzz() -> str:
    """Return what each target of the fuzz took."""
    columns = "name, done, seconds, seed, commit"
    return table(columns, ([row[key] for key in columns.split(", ")] for row in load("fuzz")))


def steadiness() -> str:
    """Return the runs of the suite beside a load."""
    columns = "commit, processors, passed, skipped, load, minutes, failed"
    rows = ([row[key] for key in columns.split(", ")[:-1]] + [row["failed"]] for row in load("steadiness"))
    return table(columns, ([*row[:-1], ", ".join(f"`{name}`" for name in row[-1])] for row in rows))


TABLES = {
    one.__name__: one for one in (components, mutants, reasons, software, proofs, frames, fuzz, steadiness)
}


def _scored(rows: Rows, of: str) -> str:
    numbers = total(rows, *COUNTS)
    left = numbers["mutants"] - numbers["equivalent"] - numbers["killed"]
    ends = f"{numbers['killed']:,} killed, {numbers['equivalent']} equivalent, {left} left"
    return f"**{score(numbers)}** of {numbers['mutants']:,} mutants {of}: {ends}"


def summary(changed: dict[str, list[str]]) -> str:
    """Return the block of the page; ``changed``: by file, records whose circuit is another one today."""
    proved, drawn, covered = map(load, ("proofs", "mutants", "coverage"))
    fitted, other = ([row for row in drawn if ("first" in row) == late] for late in (False, True))
    texts = {(one["name"].partition(",")[0], text) for one in proved for text in claims(one)}
    faults = sum(len(one["faults"]) for one in proved)
    names, bounded = {name for name, _ in texts}, sum(one["bounded"] for one in proved)
    rows = [
        ("proofs", f"{len(texts)} claims about {len(names)} components in {len(proved)} harnesses, "
         f"{bounded} of them bounded; {faults} seeded faults, all found"),
        ("mutants of the RTL, fitted sample", _scored(fitted, f"of {len(fitted)} components")),
    ]  # fmt: skip
    if other:
        first = score(total(other, "mutants", "equivalent", "first"), "first")
        rows.append(
            ("held-out sample", f"{_scored(other, f'of {len(other)} components')}; **{first}** at first")
        )
    points = {kind: [sum(row[kind][at] for row in covered) for at in (0, 1)] for kind in ("line", "toggle")}
    reached = f"{share(points['line'], 2)} of lines, {share(points['toggle'], 1)} of toggles"
    rows.append(("coverage by the benches", f"{reached}, in {len(covered)} components"))
    rows += [(f"mutants of the host library, {row['name']}", _scored([row], f"at {row['commit']}"))
             for row in load("software")]  # fmt: skip
    sent, fuzzed, runs = map(load, ("frames", "fuzz", "steadiness"))
    number = f"{sum(row['frames'] for row in sent):,}"
    rows.append(("random frames through the NIC", f"{number}, none lost, all as the golden model says"))
    seconds = sum(row["seconds"] for row in fuzzed)
    rows.append(("fuzz", f"{len(fuzzed)} targets, {seconds / 60:.0f} minutes without a finding"))
    clean = sum(1 for _ in takewhile(lambda row: not row["failed"], reversed(runs)))
    rows.append(("steadiness", f"no failure in the last {clean} runs of the suite beside a load"))
    notes = ["Records of a circuit that has changed since:", ""]
    alike: dict[str, list[str]] = {}
    for file, others in changed.items():
        alike.setdefault("; ".join(others) or "none", []).append(file)
    for listed, files in alike.items():
        note = f"- {' and '.join(files)}: {listed}"
        notes.append(textwrap.fill(note, 110, subsequent_indent="  ", break_on_hyphens=False))
    return "\n".join([table("what, result", rows), "", *notes]) + "\n"


def page_of(text: str, changed: dict[str, list[str]]) -> str:
    """Return the page's text with today's summary."""
    return BLOCK.sub(lambda _: summary(changed), text)

# SPDX-License-Identifier: BSD-2-Clause
"""Writes docs/assurance.md from what the commands recorded: ``python tests/prove/page.py``."""

import textwrap
from collections import Counter
from collections.abc import Iterable
from itertools import takewhile
from typing import Any

import records

from inceptionn.system import atomic_file

_HEAD = """\
# Assurance

What is proved about the RTL, what its benches are worth, and what neither covers. Commands write their
results into `docs/assurance*.json`, and this page from these. *RTL* is the last commit that had changed the
RTL when it was examined. With `+` the record is not about today's circuit: the component has changed since.

| command | what it does | record with |
|---|---|---|
| `make prove` | proves claims about components | `PROVE_ARGS=--record` |
| `make mutants` | changes bits of the RTL; each component's bench must notice | `MUTANTS_ARGS=--record` |
| `make coverage` | lines and toggles of the Verilog that a bench reaches | `COVERAGE_ARGS=--record` |
| `make software-mutants` | changes the host library; its tests must notice | `SOFTWARE_ARGS=--record` |
| `make soak-frames` | frames through the NIC | `FRAMES_ARGS="--json docs/assurance-frames.json"` |
| `make steadiness` | the quick tests, again and again beside a load | `STEADINESS_ARGS=--record` |
| `make fuzz` | spoilt input to the C kernels under sanitizers, and to all readers | `FUZZ_ARGS=--record` |
| `python tests/prove/page.py` | writes this page | |

## Components

*Score* is the part of the mutants that are not equivalent that the bench killed. *Lines* are branches of the
emitted Verilog that the bench reached, *toggles* the directions of single bits that moved; constant bits, and
those that no legal input moves, count as not reached. What a proof assumes stands with the proof, below. A
component without a row has neither proof nor mutants of its own; it is tested inside others. *Claims* are
those of the proofs, with the invariants that they need; the RTL is that of proofs, mutants and coverage.
"""

_MUTANTS = """\
## Mutants

Yosys inverts a bit of a cell, fixes it at 0 or 1, or inverts it if another bit of the cell is 0 or 1; the
sample is spread over modules, cells, wires and lines, and that of the NIC over what joins its parts. The
component's own cocotb bench then runs, in its usual size. A mutant is *killed* if a test fails, or if the
simulation takes ten times the processor time that it takes without a mutant. It is *equivalent* if Yosys
proves by induction that both agree in the next cycle if they agreed in all before (the bench has shown that
they agree at first), or if no legal input shows it, for the reason below. The others *survive*: each is a
missing test until a proof shows otherwise, which may not have been tried, or take too long.

Benches were extended until they killed the mutants of this very sample, and reasons were found by reading. So
the scores say less about mutants that were not drawn.
"""

_HELD_OUT = """\
## Mutants of another seed

Mutants of another seed, drawn when the benches had been extended for the first sample and not looked at
before. *At first* is what those benches killed; this score is the better estimate of what a bench is worth.
*Now* is after the benches were extended for what it showed. Where no proof of equivalence was tried, in the
larger components, the score is too low.

| component | mutants | equivalent | killed at first | score at first | killed now | score now | seed | RTL |
|---|---|---|---|---|---|---|---|---|
"""

_PROOFS = """\
## Proofs

Each harness joins a component with claims written in Amaranth. Yosys turns it into SMT-LIB, and the solver
Yices decides it through yosys-smtbmc. Harnesses and command are in `tests/prove`.

- *Induction, k*: the claims hold in the first k cycles after power-up, and in any cycle if they held in the k
  before. So they hold in every cycle, with a reset at any moment.
- *Bounded, n*: the claims hold in the first n cycles after power-up. Nothing is known of later ones.
- A *cover* is a situation that must be reachable. It shows that claims do not hold vacuously.
- A *seeded fault* is one changed place in the RTL's source. With it, a run from power-up must refute a claim.
- An *invariant* is a claim about registers inside the component. The induction needs it, and proves it too.
"""

_SOFTWARE = """\
## Mutants of the host library

Operators, numbers and statements of the C codec (its `.c` files), `sw/collectives` and `sw/transport`, each
changed one at a time, at random; then those of the group's own tests run that reach the line, without the
slow ones and those that start other processes. A mutant is killed if a test fails or takes 40 s. *Asked* is
the size of the sample: changes of types and what no compiler takes do not run. On a loaded machine a test may
fail for want of time, so a killed mutant of `transport` is less sure than one of the codec. A survivor
without a reason is a missing test, or only a slow test or one of other processes sees it. Tests were extended
for these very samples; of that of `transport` they killed 66 of 95 mutants at first. The codec was
judged on a processor with AVX-512. What decides whether a processor can run a kernel survives on one that can
run all.

| group | asked | ran | killed | equivalent | score | seed | commit |
|---|---|---|---|---|---|---|---|
"""

_FRAMES = """\
## Random frames

Frames of every kind, good, spoilt and noise, through one engine of the verilated NIC, in chunks of 4,000
with four settings each, valid or not. All frames and all counters were as the golden model says; none was
lost and nothing hung. Continuous integration runs the first 100,000 of each direction with the codec
`paper`, and 20,000 with `planes`.

| codec | direction | frames | CPU s | seed | RTL |
|---|---|---|---|---|---|
"""

_FUZZ = """\
## Fuzz

Spoilt and random input, for as long as the table says, without a finding. The first four run the C kernels
under AddressSanitizer and UndefinedBehaviorSanitizer, or with threads under ThreadSanitizer, and compare the
kernels with each other. The others must take an input or refuse it with the error that is meant for it;
*member* and *server* have a rank that lies.

| target | done | seconds | seed | `sw` |
|---|---|---|---|---|
"""

_STEADINESS = """\
## Steadiness

Runs of all tests but the slow ones, each with a load beside it: other runs of the suite at the same time, or
processes that count. *Load* is the mean number of processes that ran or could have run on the machine.

| commit | processors | runs | without a failure | tests in each | load | minutes | failed, in how many runs |
|---|---|---|---|---|---|---|---|
"""

_STAGES = """\
## Stages

After the sign-off of OpenTitan's blocks: *D* is for design, *V* for verification.

| stage | what it asks | state |
|---|---|---|
| D1, D2 | function complete, interfaces and registers fixed for the version | reached |
| D3 | no known fault; area and clock as specified | reached in this flow; no vendor's timing |
| V1 | each component in a bench, its own or of what contains it; a golden model; all in CI | reached |
| V2 | all verdicts and settings met, random tests, proofs of the critical parts | reached |
| V3 | every component measured by mutants and coverage, no survivor without a reason; silicon | not reached |
"""

_NOT_PROVED = """\
## What is not proved

- Components without a proof above. Their cocotb benches and the soaks test them.
- `AsyncQueue` with clocks of any order: that a hold ends, and when (with both clocks in step it is proved);
  how many edges a reset takes to reach the other side, and what is accepted meanwhile. Registers that sample
  the other clock in one step all get what was there before, or all what is new: no word of old and new bits.
  It has 8 places, without resets 16, too.
- `FrameQueue` of other sizes than 8 beats of two bytes, 8 places for lengths and a word; how many short
  frames fit, which its bench counts.
- The register bank: what is read beside a write that is not answered yet; offsets, resets and masks, which
  come from the RTL's own table. Of `registers`, the wires of `clear`, of reads of counters and of settings
  are proved for `paper`; that the counters answer and clear is left to their bench.
- The AXI4-Lite decoder for other than two slaves and four pages.
- `OnesComplementSum` with 16 lanes for more than 16 carries, and for sums of 2^29 and more, which take more
  than 16 KiB.
- Fields of the headers but verdict, settings and payload of a frame that is refused.
- Engines and the NIC as a whole. Monitors hold the rules of AXI4-Stream at their ports (`tvalid` and
  payload stay until accepted, `tkeep` without gaps, whole before `tlast`): in each replay and soak of the
  verilated NIC, in the engines' benches, and at every output of a shell's bench. Of the latter, a test
  breaks each rule and sees it reported.
- `AlignmentUnit` after a reset of fewer cycles than `CompressionUnit` has stages, with data of a vector
  that the reset has cut off; `EventCounters` in a reset.
- A unit of several lanes as one function: each output is tied to lanes, groups and joins that have proofs
  of their own.
- That Verilog from this RTLIL, and what other tools make of it, does the same; timing.
- The mutants are a sample, of the components that have a number in the table; those of the host library are
  a smaller one. Components without a figure of coverage were not measured.
"""


def _item(text: str) -> str:
    return textwrap.fill(
        text, 118, initial_indent="- ", subsequent_indent="  ", break_long_words=False, break_on_hyphens=False
    )


def _items(heading: str, texts: Iterable[str]) -> list[str]:
    lines = [_item(text) for text in texts]
    return [f"{heading}:", "", *lines, ""] if lines else []


def _row(result: dict[str, Any]) -> str:
    claims, faults = len(result["claims"]) + len(result["invariants"]), len(result["faults"])
    depth = f"bounded, {result['depth']}" if result["bounded"] else f"induction, {result['depth']}"
    columns = (result["name"], claims, depth, len(result["covers"]), faults, f"{result['cpu_s']:.0f}")
    return f"| {' | '.join(map(str, columns))} | {_rtl(result)} |"


def _rtl(row: dict[str, Any] | None) -> str:
    return "" if row is None else row["commit"].rstrip("+") + "+" * row["stale"]


Rows = records.Rows


def _reached(points: list[int]) -> str:
    return f"{100 * points[0] / points[1]:.0f} %" if points[1] else ""


def _components(proofs: Rows, mutants: Rows, coverage: Rows) -> list[str]:
    """Return the table of all components with a proof, mutants or coverage."""
    covered = {row["name"]: row for row in coverage}
    scored = {row["name"]: row for row in mutants}
    proved: dict[str, list[dict[str, Any]]] = {}
    for result in proofs:
        proved.setdefault(result["name"].partition(",")[0], []).append(result)
    head = "component, claims, depth, CPU s, mutants, killed, equivalent, survived, score, lines, toggles"
    lines = ["| " + head.replace(",", " |") + " | seed | RTL |", "|---" * 13 + "|"]
    total = dict.fromkeys(("mutants", "killed", "equivalent"), 0)
    for name in dict.fromkeys([*proved, *scored, *covered]):
        results, row = proved.get(name, []), scored.get(name)
        claims = {text for result in results for text in [*result["claims"], *result["invariants"]]}
        kinds = ["bounded" if result["bounded"] else "all cycles" for result in results]
        cells = [name, len(claims) or "", ", ".join(dict.fromkeys(kinds))]
        cells.append(f"{sum(result['cpu_s'] for result in results):.0f}" if results else "")
        cells += _scored(row) if row else [""] * 5
        cover = covered.get(name)
        cells += [_reached(cover[kind]) if cover else "" for kind in ("line", "toggle")]
        examined = (", ".join(dict.fromkeys(map(_rtl, results))), _rtl(row), _rtl(cover))
        cells += [row["seed"] if row else "", " / ".join(one or "-" for one in examined)]
        lines.append(f"| {' | '.join(map(str, cells))} |")
        for key in total:
            total[key] += row[key] if row else 0
    cells = ["all", "", "", f"{sum(result['cpu_s'] for result in proofs):.0f}", *_scored(total), *[""] * 4]
    return [*lines, f"| {' | '.join(map(str, cells))} |", ""]


def _scored(row: dict[str, Any]) -> list[Any]:
    """Mutants, killed, equivalent, survived, score."""
    real = row["mutants"] - row["equivalent"]
    score = f"{100 * row['killed'] / real:.1f} %" if real else ""
    return [row["mutants"], row["killed"], row["equivalent"], real - row["killed"], score]


def _survivors(mutants: list[dict[str, Any]]) -> list[str]:
    """Every survivor with its place in the RTL, and what is equivalent for a reason."""
    if not mutants:
        return []
    lines = ["| component | change | line of the RTL | equivalent, because |", "|---|---|---|---|"]
    for row in mutants:
        for one in [*row["survivors"], *row.get("reasons", [])]:
            place = f"| {row['name']} | `{one['change']}` | `{one['source']}` |"
            survives = "survives: " * (one in row["survivors"])
            lines.append(f"{place} {survives}{one.get('reason', 'no reason is known')} |")
    return [*lines, ""]


def _held_out(rows: Rows) -> list[str]:
    """Table of the other sample."""
    if not rows:
        return []
    total = {key: sum(row[key] for row in rows) for key in ("mutants", "equivalent", "killed", "first")}
    lines = [_HELD_OUT.rstrip()]
    for row in [*rows, {"name": "all", "seed": "", "commit": "", "stale": False, **total}]:
        first = _scored(row | {"killed": row["first"]})
        cells = [row["name"], row["mutants"], row["equivalent"], row["first"], first[-1]]
        cells += [row["killed"], _scored(row)[-1], row["seed"], _rtl(row)]
        lines.append(f"| {' | '.join(map(str, cells))} |")
    return [*lines, ""]


def _software(groups: Rows) -> list[str]:
    """Scores of the host library, and every survivor."""
    lines = [_SOFTWARE.rstrip()] if groups else []
    for row in groups:
        ran, killed, equivalent, _, score = _scored(row)
        cells = (row["name"], row["asked"], ran, killed, equivalent, score, row["seed"], row["commit"])
        lines.append(f"| {' | '.join(map(str, cells))} |")
    lines += ["", "| survivor | change | equivalent, because |", "|---|---|---|"] if groups else []
    for row in groups:
        for one in row["survivors"]:
            change = one["change"].replace("|", "\\|").replace("`", "")
            lines.append(f"| `{one['source']}` | `{change}` | {one.get('reason', '')} |")
    return [*lines, ""] if groups else []


def _steadiness(rows: Rows) -> list[str]:
    """Return the runs beside a load, a line for each commit."""
    lines = [_STEADINESS.rstrip()] if rows else []
    for commit, processors in dict.fromkeys((row["commit"], row["processors"]) for row in rows):
        here = [row for row in rows if (row["commit"], row["processors"]) == (commit, processors)]
        failed = Counter(name for row in here for name in row["failed"])
        cells = [commit, processors, len(here), sum(not row["failed"] for row in here)]
        for key in ("passed", "load", "minutes"):
            values = sorted(row[key] for row in here)
            cells.append(" to ".join(dict.fromkeys(f"{one:,.0f}" for one in (values[0], values[-1]))))
        cells.append(", ".join(f"`{name}` {count}" for name, count in failed.items()))
        lines.append(f"| {' | '.join(map(str, cells))} |")
    clean = sum(1 for _ in takewhile(lambda row: not row["failed"], reversed(rows)))
    lines += ["", f"None of the last {clean} runs had a failure."]
    return [*lines, ""] if rows else []


def page_of(known: dict[str, Rows], today: dict[str, str]) -> str:
    """Return the page's text; ``today``: hashes of the circuits as they are."""
    for name in ("proofs", "mutants", "held-out", "coverage"):
        for row in known[name]:
            one = f"proof {row['name']}" if name == "proofs" else row["name"]
            row["stale"] = row.get("circuit") != today.get(one, "")
    proofs, mutants, frames = (known[name] for name in ("proofs", "mutants", "frames"))
    lines = [_HEAD, *_components(proofs, mutants, known["coverage"]), _MUTANTS, *_survivors(mutants)]
    lines += [*_held_out(known["held-out"]), *_survivors(known["held-out"])]
    lines += _software(known["software"])
    lines += [
        _PROOFS,
        f"{len(proofs)} harnesses, with covers and seeded faults. All faults were found.",
        "",
        "| harness | claims and invariants | depth | covers | faults found | CPU s | RTL |",
        "|---|---|---|---|---|---|---|",
        *map(_row, proofs),
        "",
    ]
    for result in proofs:
        lines += [f"### {result['name']}", ""]
        lines += _items("Proved", result["claims"])
        lines += _items("Assumed", result["assumptions"])
        lines += _items("Reached", result["covers"])
        lines += _items("Seeded faults, and what refutes them", result["faults"])
    lines += [_FRAMES.rstrip()] if frames else []
    lines += [
        f"| {row['codec']} | {row['direction']} | {row['frames']:,} | {row['cpu_s']:.0f} | {row['seed']} "
        f"| {row['commit']} |"
        for row in frames
    ]
    lines += ["", _FUZZ.rstrip()] if known["fuzz"] else []
    lines += [
        f"| {row['name']} | {row['done']} | {row['seconds']:.0f} | {row['seed']} | {row['commit']} |"
        for row in known["fuzz"]
    ]
    return "\n".join([*lines, "", *_steadiness(known["steadiness"]), _NOT_PROVED, _STAGES])


def main() -> None:
    """Write the page from the records."""
    text = page_of({name: records.load(name) for name in records.FILES}, records.today())
    atomic_file.write(records.DOCS / "assurance.md", text)


if __name__ == "__main__":
    main()

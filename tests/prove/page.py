# SPDX-License-Identifier: BSD-2-Clause
"""Writes docs/assurance.md from the results in docs/assurance.json."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Sequence
from typing import Any

_HEAD = """\
# Assurance: what is proved

`make prove` proves properties of the RTL. Each harness joins a component with claims written in Amaranth.
Yosys turns it into SMT-LIB, and the solver Yices decides it through yosys-smtbmc. Harnesses and command are
in `tests/prove`. `make prove PROVE_ARGS=--record` writes this page, from the results that it keeps in
`docs/assurance.json`.

- *Induction, k*: the claims hold in the first k cycles after power-up, and in any cycle if they held in the k
  before. So they hold in every cycle, with a reset at any moment.
- *Bounded, n*: the claims hold in the first n cycles after power-up. Nothing is known of later ones.
- A *cover* is a situation that must be reachable. It shows that claims do not hold vacuously.
- A *seeded fault* is one changed place in the RTL's source. With it, a run from power-up must refute a claim.
- An *invariant* is a claim about registers inside the component. The induction needs it, and proves it too.
"""

_NOT_PROVED = """\
## What is not proved

- Components without a section above, `ReceiveLayout` and `AlignmentUnit` among them. Their cocotb benches and
  the soaks test them; no proof covers them.
- `AsyncQueue` under resets, `FrameQueue` and the AXI4-Lite decoder beyond the depths of the table; in so few
  cycles a frame of `FrameQueue` has a few beats. A register that samples a bit of the other clock while it
  changes is taken to get the old or the new value.
- Engines and the NIC as a whole, and AXI4-Stream at their ports.
- A unit of several lanes as a whole: the proofs are about its lanes, its joins, and what each reads.
- That Verilog from this RTLIL, and what other tools make of it, does the same; timing.
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
    return f"| {' | '.join(map(str, columns))} | {result['commit']} |"


def page_of(results: Sequence[dict[str, Any]]) -> str:
    """The page's text."""
    total = sum(result["cpu_s"] for result in results)
    lines = [
        _HEAD,
        f"{len(results)} harnesses take {total:.0f} s of processor time, with covers and seeded faults.",
        "All faults were found. The commit is that of the RTL, with `+` if it has changed since.",
        "",
        "| harness | claims and invariants | depth | covers | faults found | CPU s | RTL |",
        "|---|---|---|---|---|---|---|",
        *map(_row, results),
        "",
    ]
    for result in results:
        lines += [f"## {result['name']}", ""]
        lines += _items("Proved", result["claims"])
        lines += _items("Assumed", result["assumptions"])
        lines += _items("Reached", result["covers"])
        lines += _items("Seeded faults, and what refutes them", result["faults"])
    return "\n".join([*lines, _NOT_PROVED])

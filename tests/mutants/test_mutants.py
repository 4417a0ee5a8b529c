# SPDX-License-Identifier: BSD-2-Clause
"""The command that scores the benches: a small component, its refusals, and the proof of equivalence."""

import ast
import json
import subprocess
import sys
from pathlib import Path

import pytest
from programs import ended

COMMAND = Path(__file__).with_name("mutants.py")

GATES = """
module \\gates
  wire input 1 \\a
  wire input 2 \\b
  wire output 3 \\y
  cell $or $again
    parameter \\A_SIGNED 0
    parameter \\B_SIGNED 0
    parameter \\A_WIDTH 1
    parameter \\B_WIDTH 1
    parameter \\Y_WIDTH 1
    connect \\A \\a
    connect \\B \\a
    connect \\Y \\y
  end
end
"""
"""``y = a | a``: without one of the two it is the same, with one inverted it is not."""


def run(code: str, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    program = [code] if code.endswith(".py") else ["-c", code]
    return ended(sys.executable, *program, *arguments, cwd=COMMAND.parent, **environment)


@pytest.mark.parametrize(("mode", "proved"), [("const0", True), ("inv", False)])
def test_a_proof_of_equivalence(mode: str, proved: bool) -> None:
    change = f"mutate -mode {mode} -module gates -cell $again -port B -portbit 0"
    done = run(f"from equivalent import equivalent; print(equivalent({GATES!r}, {change!r}, 'gates'))")
    assert done.stdout.strip() == str(proved), done.stderr


NINE = """
from amaranth.hdl import Module
from amaranth.lib.wiring import Component, In, Out
from inceptionn.hdl.parts.memory import BlockRam
from inceptionn.hdl.verilog import to_rtlil
from equivalent import equivalent, yosys

class Nine(Component):
    word: In(9)
    out: Out(8)

    def elaborate(self, platform):
        m = Module()
        m.submodules.ram = ram = BlockRam(9, 4)
        m.d.comb += [ram.write.eq(1), ram.write_data.eq(self.word), self.out.eq(ram.read_data)]
        return m

text = to_rtlil(Nine(), "nine")
text = yosys(f"read_rtlil <<text\\n{text}\\ntext", "proc; opt; memory_collect; opt_clean", "write_rtlil")
"""


@pytest.mark.parametrize(("bit", "proved"), [(7, False), (8, True)])
def test_a_proof_beside_a_memory(bit: int, proved: bool) -> None:
    """Of the nine bits that a memory returns, eight leave."""
    change = f"mutate -mode inv -module nine.core.ram -cell memory -port RD_DATA -portbit {bit}"
    done = run(f"{NINE}\nprint(equivalent(text, {change!r}, 'nine'))")
    assert done.stdout.strip() == str(proved), done.stderr


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (("flux_capacitor",), "flux_capacitor must be a component with a bench: compression_block, "),
        (("tos_matcher", "--count", "0"), "--count must be from 1 to 65535, not 0"),
        (("tos_matcher", "--jobs", "0"), "--jobs must be at least 1, not 0"),
        (("tos_matcher", "--count", "4", "--record"), "tos_matcher has a record of 40 mutants of seed 1; "),
        (("tos_matcher", "--touched"), "--touched chooses the components; leave out tos_matcher"),
    ],
)
def test_a_refusal(arguments: tuple[str, ...], error: str) -> None:
    done = run(str(COMMAND), *arguments)
    assert done.returncode == 2
    assert error in done.stderr


@pytest.mark.parametrize(
    ("circuit", "change", "said"),
    [
        ("1", "inv", "{'inv': 'why'}"),
        ("2", "inv", "{}"),
        ("1", "const0", "a has a reason where no mutant is: inv"),
    ],
)
def test_a_reason_is_about_a_mutant_of_this_circuit(circuit: str, change: str, said: str) -> None:
    row = {
        "name": "a",
        "circuit": "1",
        "seed": 1,
        "mutants": 1,
        "reasons": [{"change": "inv", "reason": "why"}],
    }
    code = f"""from mutants import *
records.load, records.circuit = lambda name: [{row!r}], lambda name: {circuit!r}
print(reasons_of("a", [Mutant(1, {change!r}, "", "")], 1, "reasons"))
"""
    done = run(code)
    assert said in done.stdout + done.stderr


def test_components_that_a_change_touches() -> None:
    """Those that import the file, and how far away it is."""
    code = "from mutants import *; print(dict(distances({'hdl/parts/elastic_register.py'})))"
    found = ast.literal_eval(run(code).stdout)
    assert (found["elastic_register"], found["queue"]) == (0, 1)
    assert found["compression_engine"] > 1
    assert "compression_block" not in found


def test_a_simulation_that_is_killed_judges_nothing(tmp_path: Path) -> None:
    """Else a mutant that needs too much memory would count as killed for ever; too much time does kill."""
    code = f"""import os, signal, sys
from pathlib import Path
from in_simulation import end_of
folder = Path({str(tmp_path)!r})
for number, ending in enumerate((signal.SIGKILL, signal.SIGXCPU, signal.SIGABRT)):
    (folder / f"{{number}}.part").touch()
    if (child := os.fork()) == 0:
        os.kill(os.getpid(), ending)
    end_of({{child: number}}, folder)
print({{path.name: path.read_text() for path in sorted(folder.iterdir())}})
"""
    assert ast.literal_eval(run(code).stdout) == {"1.xml": "time", "2.xml": "status -6"}


def test_mutants_of_software(tmp_path: Path) -> None:
    """Every mutant is one change, at its line and place, outside comments, texts and types."""
    python, c = tmp_path / "a.py", tmp_path / "a.c"
    python.write_text(
        'A = 1\n\n\nclass B:\n    def f(self, x: int | None = 3):\n        """1 + 1"""\n        note(x)\n'
        "        return x < 3 < 4\n"
    )
    c.write_text("/* 1 + 1 */\nint f(int x)\n{\n    return x < 3; // 2 - 1\n}\n")
    code = "from software import *; print([(m.line, m.place, m.text) for m in mutants(Path(sys.argv[1]))])"
    of_python, of_c = (ast.literal_eval(run(code, str(file)).stdout) for file in (python, c))
    assert sorted(one[:2] for one in of_python) == [
        (1, "A: 1 -> 2"),
        (5, "B.f: 3 -> 4"),
        (7, "B.f: without note()"),
        (8, "B.f: 3 -> 4 (2)"),
        (8, "B.f: 4 -> 5"),
        (8, "B.f: Lt -> LtE"),
        (8, "B.f: Lt -> LtE (2)"),
    ]
    texts = [text for _, _, text in of_python]
    assert len(set(texts)) == 7
    assert [text for text in texts if "note(x)" not in text][0].count("pass") == 1
    assert of_c == [
        (4, "f: < -> <=", c.read_text().replace("x < 3", "x <= 3")),
        (4, "f: 3 -> 4", c.read_text().replace("x < 3", "x < 4")),
    ]


def test_coverage_of_a_file() -> None:
    points = [("v_line/m", 4), ("v_branch/m", 0), ("v_toggle/m", 7), ("v_toggle/m", 0), ("v_toggle/m", 1)]
    text = "\n".join(f"C '\x01f\x02m.v\x01page\x02{page}\x01o\x02x' {count}" for page, count in points)
    assert run(f"from reached import *; print(counts({text!r}))").stdout.strip() == str(
        {"line": (1, 2), "toggle": (2, 3)}
    )


@pytest.mark.slow
def test_reasons_are_about_mutants() -> None:
    """Of the host library as it is today."""
    code = "from software import *; print(*(lost_reasons(every_mutant(group), group) for group in GROUPS))"
    assert run(code).stdout.strip() == "[] [] []"


@pytest.mark.slow
def test_mutants_of_a_small_component(tmp_path: Path) -> None:
    arguments = (str(COMMAND), "tos_matcher", "--count", "12", "--at-least", "90")
    done = run(*arguments, INCEPTIONN_BUILD=str(tmp_path))
    assert done.returncode == 0, done.stdout + done.stderr
    (kept,) = tmp_path.glob("mutants/*/mutants.json")
    mutants = json.loads(kept.read_text())
    assert len(mutants) == 12
    killed = [one for one in mutants if one["verdict"] == "killed"]
    assert all(one["by"] and one["source"].startswith("hdl/") for one in killed)
    assert len(killed) >= 9
    # The second run takes all from the folder.
    assert run(*arguments, INCEPTIONN_BUILD=str(tmp_path), CXX="/none").stdout == done.stdout

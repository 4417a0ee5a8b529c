# SPDX-License-Identifier: BSD-2-Clause
"""`docs/figures.py --stale` finds the records whose command reaches code that changed, and no others."""

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import reach
from programs import ended

DOCS = Path(__file__).parents[2] / "docs"

CLI = """
class Command(NamedTuple):
    module: str
    function: str
    commands: dict | None = None
BENCHES = {"sum": Command("inceptionn.bench", "sum_"), "old": Command("gone", "x")}
PAPER = {name: Command("inceptionn.paper", name) for name in ("fig-1", "fig-2", "everything")}
COMMANDS = {"bench": Command("", "", BENCHES), "paper": Command("", "", PAPER)}
"""
FILES = {
    "pyproject.toml": '[[tool.setuptools.ext-modules]]\nname = "inceptionn.native"\nsources = ["sw/add.c"]\n'
    'extra-compile-args = ["-O3"]\n',
    "sw/add.c": 'int add(void) { return 1; } /* ones */ char *s = "// no comment";\n',
    "sw/cli.py": CLI,
    "sw/__init__.py": "from .work import *\n",
    "sw/bench.py": (
        "from . import total, native\nfrom .tables import made\nRANK = 'inceptionn.rank'\n"
        "def sum_(n: Annotated[int, option(1, 'How many.')] = 3) -> int:\n"
        "    '''Sum.'''\n    made(n, RANK)\n    return total(n, native)\n"
        "def another():\n    return 2\n"
    ),
    "sw/rank.py": "from .work import step\nif __name__ == '__main__':\n    step()\n",
    "sw/tables.py": (
        "from importlib import import_module\nROWS = (Entry('a', 'parts.a:A'), Entry('b', 'parts.b:B'))\n"
        "def made(n):\n    return ROWS, import_module(f'.kinds.{n}', __package__)\n"
    ),
    "sw/parts/a.py": "class A(External):\n    def elaborate(self):\n        return 1\n",
    "sw/parts/b.py": "class B: pass\n",
    "sw/kinds/__init__.py": "",
    "sw/kinds/one.py": "def unused():\n    return 1\n",
    "sw/paper.py": (
        "SOURCES = (Source('fig-1', 'drawn'), Source('fig-2', 'drawn'))\n"
        "def everything():\n    return SOURCES, made('x')\n"
        "def __getattr__(name):\n    return SOURCES, made(name)\n"
        "def made(name):\n    return import_module(f'.figures.{name}', __package__)\n"
    ),
    "sw/figures/drawn.py": "def fig_1():\n    return 10\ndef fig_2():\n    return 20\n",
    "sw/work.py": (
        "class Sum:\n    def add(self):\n        return self.size\n"
        "    def report(self):\n        return 'x'\n"
        "    @property\n    def size(self, n=1):\n"
        "        if n > 9:\n            raise ValueError('not a size')\n"
        "        if not waited(n):\n            raise ValueError(refused())\n"
        "        try:\n            return n\n        except KeyError:\n            raise\n"
        "def total(n, native):\n    # The first.\n    return Sum().add() + native.add()\n"
        "def step():\n    return 1\n"
    ),
}


def _changed(command: str = "inceptionn bench sum", /, **edits: tuple[str, str]) -> list[str]:
    """Return what differs after edits of files (by the names of modules), as old and new text."""
    files = dict(FILES)
    for name, (old, new) in edits.items():
        path = next(path for path in files if Path(path).stem == name)
        assert old in files[path]
        files[path] = files[path].replace(old, new)
    return reach.changed(reach.Code(FILES).reached(command), reach.Code(files).reached(command))


@pytest.mark.parametrize(
    ("name", "old", "new"),
    [
        ("work", "# The first.", "# The second."),
        ("work", "not a size", "no size"),
        ("work", "n > 9", "n > 8 or len(str(n)) > 2"),
        ("work", "raise ValueError(refused())", "raise TypeError(other())"),
        ("work", "except KeyError:", "except (KeyError, IndexError):"),
        ("work", "return 'x'", "return 'y'"),
        ("work", "return Sum().add()", "return (Sum()\n        .add())"),
        ("bench", "'''Sum.'''", "'''Add.'''"),
        ("bench", "-> int", "-> float"),
        ("bench", "'How many.'", "'How often.'"),
        ("bench", "return 2", "return 3"),
        ("one", "return 1", "return 2"),
        ("add", "/* ones */", "// 1\n"),
    ],
)
def test_prose_and_code_that_is_not_reached_make_nothing_stale(name: str, old: str, new: str) -> None:
    assert not _changed(**{name: (old, new)})


@pytest.mark.parametrize(
    ("name", "old", "new", "found"),
    [
        ("work", "self.size", "self.size + 1", "inceptionn.work:Sum.add"),
        ("work", "return n", "return 2 * n", "inceptionn.work:Sum.size"),
        ("work", "waited(n)", "waited(2 * n)", "inceptionn.work:Sum.size"),
        ("work", "    return 1", "    return 2", "inceptionn.work:step"),
        ("bench", "= 3", "= 4", "inceptionn.bench:sum_"),
        ("bench", "option(1", "option(2", "inceptionn.bench:sum_"),
        ("rank", "step()", "step() + 1", "inceptionn.rank:(main)"),
        ("a", "return 1", "return 2", "inceptionn.parts.a:A.elaborate"),
        ("add", "return 1", "return 2", "sw/add.c"),
        ("add", "// no", "// a", "sw/add.c"),
        ("pyproject", "-O3", "-O2", "inceptionn.native:(compiler)"),
    ],
)
def test_code_that_is_reached_counts(name: str, old: str, new: str, found: str) -> None:
    assert _changed(**{name: (old, new)}) == [found]


def test_place_does_not_count() -> None:
    step = "def step():\n    return 1\n"
    moved = {"rank": ("from .work import step\n", step), "work": (step, "")}
    assert not _changed(**moved)


def test_command_that_names_parts_reaches_those_alone() -> None:
    assert not _changed("inceptionn bench sum a", b=("pass", "x = 1"))
    assert _changed("inceptionn bench sum b", b=("pass", "x = 1")) == ["inceptionn.parts.b:B"]


def test_row_whose_name_has_a_dash_reaches_the_function_of_that_name() -> None:
    edit = {"drawn": ("return 10", "return 11")}
    for command in ("fig-1", "everything"):
        assert _changed(f"inceptionn paper {command}", **edit) == ["inceptionn.figures.drawn:fig_1"]
    assert not _changed("inceptionn paper fig-2", **edit)


@pytest.mark.parametrize("command", ["inceptionn bench", "inceptionn bench old", "inceptionn x", "x.py"])
def test_unknown_commands_are_refused(command: str) -> None:
    with pytest.raises(reach.Unreachable, match="no command"):
        reach.Code(FILES).reached(command)


def _records() -> list[dict[str, Any]]:
    lines = (DOCS / "figures.jsonl").read_text(encoding="utf-8").splitlines()
    return [record for record in map(json.loads, lines) if "command" in record]


def test_every_record_has_a_command_of_the_project() -> None:
    code = reach.Code.here()
    for record in _records():
        code.begun(record["command"])


def test_every_record_has_a_commit_that_stays() -> None:
    def git(*words: str) -> str:
        done = subprocess.run(["git", "-C", DOCS, *words], capture_output=True, text=True, check=False)
        if done.returncode:
            pytest.skip(f"git {words[0]}: {done.stderr}")
        return done.stdout

    if git("rev-parse", "--is-shallow-repository").strip() == "true":
        pytest.skip("the clone is shallow")
    known = git("rev-list", "HEAD").split()
    for record in _records():
        commit = record["state"].replace(",", " ").split()[0]
        assert any(each.startswith(commit) for each in known), record["name"]


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """Make a repository with one record and one page."""
    record = {"name": "one", "columns": ["", "a"], "rows": [["r", 1]], "command": "inceptionn bench sum"}
    record |= {"unit": "s", "conditions": "None.", "state": "0000000, 2026-01-01"}
    page = "One is <!-- figure: one > r > a -->2<!-- end -->.\n"
    texts = {"docs/figures.jsonl": json.dumps(record) + "\n", "docs/page.md": page}
    texts |= dict.fromkeys(("README.md", "boards/vc709/readme.md.j2"), "")
    for path, text in (FILES | texts).items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)
    for name in ("figures.py", "reach.py"):
        shutil.copy(DOCS / name, tmp_path / "docs")
    subprocess.run(["git", "init", "-q", "-b", "main", str(tmp_path)], check=True)
    _commit(tmp_path)
    return tmp_path


def _commit(project: Path) -> None:
    git = ["git", "-C", str(project), "-c", "user.name=a", "-c", "user.email=a@b"]
    subprocess.run([*git, "add", "-A"], check=True)
    subprocess.run([*git, "commit", "-q", "-m", "x"], check=True)


def _said(project: Path, *words: str) -> tuple[int, str]:
    done = ended(sys.executable, project / "docs/figures.py", *words)
    return done.returncode, done.stdout + done.stderr


def test_record_is_stale_until_it_is_recorded(project: Path) -> None:
    assert _said(project, "--stale") == (1, _Has("commit 0000000 does not exist"))
    assert _said(project, "--recorded", "one")[0] == 0
    assert _said(project, "--stale") == (0, "")
    work = project / "sw/work.py"
    work.write_text(work.read_text().replace("return self.size", "return 2 * self.size"))
    assert _said(project, "--stale") == (1, _Has("inceptionn.work:Sum.add"))
    assert _said(project, "--recorded", "one") == (1, _Has("land what was measured in main first"))
    _commit(project)
    assert _said(project, "--recorded", "one")[0] == 0
    assert _said(project, "--stale", "one") == (0, "")


def test_comparison_of_the_past_stays(project: Path) -> None:
    path = project / "docs/figures.jsonl"
    path.write_text(path.read_text().replace('"name"', '"past": true, "name"'))
    assert _said(project, "--stale") == (0, "")


@pytest.mark.parametrize(
    ("words", "status", "text"),
    [
        (["--help"], 0, "usage"),
        (["--helpp"], 2, "unrecognized"),
        (["--stale", "nobody"], 2, "no record 'nobody'"),
        (["--recorded"], 2, "expected at least one"),
        (["--check"], 1, "page.md"),
    ],
)
def test_only_the_plain_command_writes(project: Path, words: list[str], status: int, text: str) -> None:
    page = project / "docs/page.md"
    before = page.read_text()
    assert _said(project, *words) == (status, _Has(text))
    assert page.read_text() == before


def test_plain_command_writes_the_pages(project: Path) -> None:
    assert _said(project) == (0, _Has("page.md"))
    assert "-->1<!--" in (project / "docs/page.md").read_text()
    assert _said(project, "--check") == (0, "")


class _Has(str):
    """Equal to texts that contain it."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, str) and str.__contains__(other, self)

    __hash__ = str.__hash__

# SPDX-License-Identifier: BSD-2-Clause
"""Rules of CONTRIBUTING.md for sources and commits: docstrings, licences, short functions, subjects."""

import ast
import re
import subprocess
from collections.abc import Iterator

import pytest
from checkout import PACKAGES, ROOT

FILES = sorted(path for folder in PACKAGES for path in (ROOT / folder).rglob("*.py"))
FIXED = {"elaborate"}
"""Methods whose meaning Python or Amaranth fixes."""
MOST_LINES = 80
"""Lines of a function, with its signature and docstring: it fits on a screen or two."""
SINCE = "2026-11-25T21:30:00Z"
"""Earlier commits were not checked."""
SUBJECT = re.compile(r"(hdl|sim|sw|boards|tests|docs|examples|ci|Merge|Revert)\b[^;]*")


def undocumented(body: list[ast.stmt], prefix: str = "") -> Iterator[str]:
    """Names of public definitions without a docstring, with those inside classes.

    A method that overrides or implements something (its class has a base) may rely on the base's.
    """
    for node in body:
        if not isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        if node.name.startswith("_") or node.name in FIXED:
            continue
        overloaded = any(ast.unparse(decorator).endswith("overload") for decorator in node.decorator_list)
        if ast.get_docstring(node) is None and not overloaded:
            yield f"{node.lineno}: {prefix}{node.name}"
        if isinstance(node, ast.ClassDef) and not node.bases:
            yield from undocumented(node.body, f"{node.name}.")


def test_public_definitions_have_docstrings() -> None:
    missing = []
    for path in FILES:
        tree = ast.parse(path.read_text(encoding="utf-8"))
        missing += [f"{path}:{place}" for place in undocumented(tree.body)]
        if tree.body and path.name != "__init__.py" and ast.get_docstring(tree) is None:
            missing.append(f"{path}:1: the module")
    assert not missing, "\n".join(missing)


def test_licence_line() -> None:
    line = "# SPDX-License-Identifier: BSD-2-Clause\n"
    assert [path for path in FILES if not path.read_text(encoding="utf-8").startswith(line)] == []


def long_functions(source: str, most: int = MOST_LINES) -> set[str]:
    """Names of the functions and methods of more than ``most`` lines."""
    return {
        node.name
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and node.end_lineno is not None
        and node.end_lineno - node.lineno >= most
    }


def test_functions_are_short() -> None:
    sources = [*FILES, *sorted((ROOT / "examples").rglob("*.py"))]
    assert len(sources) > 200
    found = {path.relative_to(ROOT).as_posix(): long_functions(path.read_text("utf-8")) for path in sources}
    assert {path: names for path, names in found.items() if names} == {}


def test_the_checks_find_what_is_wrong() -> None:
    tree = ast.parse("class A:\n    def b(self): pass\n    def _c(self): pass\ndef d():\n    '''Text.'''\n")
    assert list(undocumented(tree.body)) == ["1: A", "2: A.b"]
    sample = "class A:\n    async def a(self):\n        def b():\n            pass\n\n        return b\n"
    assert long_functions(sample, 5) == set()
    assert long_functions(sample, 4) == {"a"}
    assert long_functions(sample, 1) == {"a", "b"}


def test_subjects() -> None:
    """At most 72 characters, with the package first, and one idea."""
    if not (ROOT / ".git").exists():
        pytest.skip("not a clone")
    command = ["git", "log", f"--since={SINCE}", "--format=%h %s"]
    log = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    commits = [line.partition(" ") for line in log.splitlines()]
    assert [(h, s) for h, _, s in commits if len(s) > 72 or not SUBJECT.fullmatch(s)] == []

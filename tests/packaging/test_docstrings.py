# SPDX-License-Identifier: BSD-2-Clause
"""Every public module, class and function says what it is."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FOLDERS = ("sw", "hdl", "sim", "boards", "constraints")
FILES = sorted(path for folder in FOLDERS for path in (ROOT / folder).rglob("*.py"))

# Methods whose meaning Python or Amaranth fixes.
FIXED = {"elaborate"}


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


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_public_definitions_have_docstrings(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    tree = ast.parse(text)
    missing = list(undocumented(tree.body))
    if tree.body and path.name != "__init__.py" and ast.get_docstring(tree) is None:
        missing.insert(0, "1: the module")
    assert not missing, "\n".join(missing)


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_licence_line(path: Path) -> None:
    first = path.read_text(encoding="utf-8").partition("\n")[0]
    assert first == "# SPDX-License-Identifier: BSD-2-Clause"


def test_the_check_finds_what_is_missing() -> None:
    tree = ast.parse("class A:\n    def b(self): pass\n    def _c(self): pass\ndef d():\n    '''Text.'''\n")
    assert list(undocumented(tree.body)) == ["1: A", "2: A.b"]

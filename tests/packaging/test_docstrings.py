# SPDX-License-Identifier: BSD-2-Clause
"""Every public module, class and function says what it is."""

import ast
from collections.abc import Iterator
from pathlib import Path

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


def test_the_check_finds_what_is_missing() -> None:
    tree = ast.parse("class A:\n    def b(self): pass\n    def _c(self): pass\ndef d():\n    '''Text.'''\n")
    assert list(undocumented(tree.body)) == ["1: A", "2: A.b"]

# SPDX-License-Identifier: BSD-2-Clause
"""A function fits on a screen or two, so that each can be read as a whole."""

import ast
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGES = ("boards", "constraints", "examples", "hdl", "sim", "sw")
MOST_LINES = 80
"""Lines of a function, with its signature and docstring."""


def long_functions(source: str, most: int = MOST_LINES) -> set[str]:
    """Names of the functions and methods of more than ``most`` lines."""
    return {
        node.name
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and node.end_lineno is not None
        and node.end_lineno - node.lineno >= most
    }


def test_a_long_function_is_found() -> None:
    sample = "class A:\n    async def a(self):\n        def b():\n            pass\n\n        return b\n"
    assert long_functions(sample, 5) == set()
    assert long_functions(sample, 4) == {"a"}
    assert long_functions(sample, 1) == {"a", "b"}


def test_functions_are_short() -> None:
    sources = [path for package in PACKAGES for path in sorted((ROOT / package).rglob("*.py"))]
    assert len(sources) > 200
    found = {path.relative_to(ROOT).as_posix(): long_functions(path.read_text("utf-8")) for path in sources}
    assert {path: names for path, names in found.items() if names} == {}

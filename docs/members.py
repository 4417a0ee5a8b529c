# SPDX-License-Identifier: BSD-2-Clause
"""The texts of a class's members: each has a comment ``#:`` where it is declared.

The comment ends the declaration's line, or has lines of its own before it::

    class Adder(wiring.Component):
        a: In(8)  #: First summand.
        #: Second summand. It may change
        #: in any cycle.
        b: In(8)

Likewise in the dictionary that ``__init__`` makes a signature of. The documentation's sections "Members" are
made from these comments (docs/conf.py); ``tests/hdl/test_members.py`` checks that every component has them.
"""

import ast
import inspect
import re
import textwrap
from collections.abc import Iterator
from functools import cache
from itertools import takewhile
from typing import NamedTuple

from amaranth.lib import data, wiring

_KINDS = (wiring.Component, wiring.Signature, data.Struct)


class MemberText(NamedTuple):
    """A member as its class declares it."""

    name: str
    """A part that a parameter determines is in braces, as in ``s_axis{n}``."""
    declaration: str
    """As in the source, with ``__init__``'s local names replaced by the calls that they stand for."""
    sentence: str
    """Empty without a comment."""


class _Resolved(ast.NodeTransformer):
    """Replaces local names by the calls that they were assigned from, and drops ``self``."""

    def __init__(self, calls: dict[str, ast.Call]):
        self.calls = calls

    def visit_Name(self, node: ast.Name) -> ast.AST:
        others = {name: call for name, call in self.calls.items() if name != node.id}
        return _Resolved(others).visit(self.calls[node.id]) if node.id in self.calls else node

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        if isinstance(node.value, ast.Name) and node.value.id == "self":
            return ast.Name(node.attr)
        return ast.Attribute(self.visit(node.value), node.attr)


def _declared(cls: ast.ClassDef) -> Iterator[tuple[ast.expr, ast.expr]]:
    """Yield names and declarations: annotations of the class, and names declared in ``__init__``."""
    for node in cls.body:
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            yield ast.copy_location(ast.Constant(node.target.id), node.target), node.annotation
    for node in _inside_init(cls):
        match node:
            case ast.Dict(keys, values):
                yield from ((key, value) for key, value in zip(keys, values, strict=True) if key)
            case ast.DictComp(key, value) | ast.Assign([ast.Subscript(slice=key)], value):
                yield key, value


def _inside_init(cls: ast.ClassDef) -> Iterator[ast.AST]:
    for node in cls.body:
        if isinstance(node, ast.FunctionDef) and node.name == "__init__":
            yield from ast.walk(node)


def _comment(lines: list[str], first: int, last: int) -> str:
    """Return the comment at the end of line ``last``, else above ``first``; both count from 0."""
    if at_end := re.search(r"  #: (.*)", lines[last]):
        return at_end[1]
    above = takewhile(lambda line: line.startswith("#:"), (line.lstrip() for line in reversed(lines[:first])))
    return " ".join(line[2:].strip() for line in reversed(list(above)))


@cache
def _own_members(cls: type) -> tuple[MemberText, ...]:
    """Return the members that ``cls`` itself declares, in the source's order."""
    source = textwrap.dedent(inspect.getsource(cls))
    lines = source.splitlines()
    tree = ast.parse(source).body[0]
    assert isinstance(tree, ast.ClassDef)
    calls = {}
    for node in _inside_init(tree):
        match node:
            case ast.Assign([ast.Name(name)], ast.Call() as call):
                calls[name] = call
    found = []
    for key, value in sorted(_declared(tree), key=lambda pair: (pair[0].lineno, pair[0].col_offset)):
        if isinstance(key, ast.Name):
            continue
        name = key.value if isinstance(key, ast.Constant) else ast.unparse(key)[2:-1]
        sentence = _comment(lines, key.lineno - 1, (value.end_lineno or value.lineno) - 1)
        declaration = ast.unparse(_Resolved(calls).visit(value))
        if sentence or declaration.startswith(("In(", "Out(")):
            found.append(MemberText(name, declaration, sentence))
    return tuple(found)


def member_texts(cls: type) -> list[MemberText]:
    """Return the members that a component, signature or structure and its bases declare, a base's first."""
    bases = [base for base in reversed(cls.__mro__) if issubclass(base, _KINDS) and base not in _KINDS]
    return [member for base in bases for member in _own_members(base)]

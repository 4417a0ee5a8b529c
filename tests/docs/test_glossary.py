# SPDX-License-Identifier: BSD-2-Clause
"""Words that the glossary keeps for some folders name nothing in the others."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
KEPT = re.compile(r"^\| (\w+)\b.*\bIn code only of (.*) \|$", re.MULTILINE)


def defined(path: Path) -> Iterator[str]:
    """Yield the names that a module defines, and its own."""
    yield path.stem
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                yield name
            case ast.arg(arg=name) | ast.Name(id=name, ctx=ast.Store()):
                yield name
            case ast.Attribute(attr=name, ctx=ast.Store()):
                yield name


def test_words_stay_in_their_folders() -> None:
    kept = KEPT.findall((ROOT / "docs" / "glossary.md").read_text(encoding="utf-8"))
    paths = [path for top in ("hdl", "sim", "boards", "sw") for path in (ROOT / top).rglob("*.py")]
    names = [
        (path, name, re.sub("([a-z0-9])([A-Z])", r"\1_\2", name)) for path in paths for name in defined(path)
    ]
    assert kept
    for word, text in kept:
        homes = [ROOT / folder for folder in re.findall(r"`(.+?)`", text)]
        assert all(home.is_dir() for home in homes), text
        form = re.compile(rf"(?<![a-z])({word}d?|{word[:-1]}ing)(?![a-z])", re.IGNORECASE)
        found = [(path, name) for path, name, words in names if form.search(words)]
        assert not [each for each in found if not any(map(each[0].is_relative_to, homes))]

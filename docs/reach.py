# SPDX-License-Identifier: BSD-2-Clause
"""The code that a command of the project reaches, found without running it.

A command leads to a function, that to the definitions whose names it uses, in whatever module they stand,
and so on. A definition is a function, a class without its methods, a method, an assignment of a module, or a
file in another language: all files of the native codec, and what a string names, such as a simulation's C++.

- A name counts where it is used. So a module's other definitions do not, nor what a package merely exports.
- Objects are not followed. A method counts if its class does and its name is used as an attribute, or stands
  in a string, anywhere in what is reached. Methods that Python calls (``__add__``) always count, and all of a
  class with a base outside the project. A module that is passed around is such an object, too.
- Strings name code: ``inceptionn.x.y``, ``x.y:Z``, and f-strings that begin like a module. If the command
  names some of the modules or components in question, the others are left out.

What is compared of a definition is its syntax tree without comments, docstrings, types of arguments, texts
of options, and what only refuses (``if ...: raise ...``): a command that gave figures was not refused. Of C,
it is the text without comments and spaces. Where a definition stands does not matter. Other packages, their
versions and data sets are not seen, nor is what only prints or draws (``_ASIDE``, and charts of a `Study`).
"""

import ast
import builtins
import hashlib
import io
import re
import shlex
import subprocess
import tarfile
import tomllib
from collections.abc import Mapping
from fnmatch import fnmatchcase
from functools import cache, cached_property
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
FOLDERS = {"sw": "inceptionn"} | {
    name: f"inceptionn.{name}" for name in ("hdl", "sim", "boards", "constraints")
}
"""As setup.py has them."""
SUPPORT = "tests/support"
"""The folder whose modules the tests import by their names."""
SUFFIXES = {".py", ".c", ".h", ".cpp", ".j2", ".tcl", ".toml"}

_INERT = {"ABC", "Enum", "Exception", "Generic", "IntEnum", "NamedTuple", "Protocol", "StrEnum", "TypedDict"}
"""Bases outside the project that call no method of a class by its name."""
_ASIDE = {
    f"inceptionn.{name}"
    for name in (
        "commands.console", "commands.environment", "commands.report", "commands.study", "system.atomic_file",
        "system.extras", "system.options", "system.text",
    )
}  # fmt: skip
"""What reads options, prints tables and describes the machine: no figure depends on it."""
_ROW = re.compile(r"""\b[A-Z]\w*\(\s*["']([^"']*)["'],\s*["'](?:[\w.]+:)?\w+["']""")
"""A row of a table that stands for code: ``Entry("name", "module:Class")`` or ``Entry("name", "module")``."""
_C_COMMENT = re.compile(r'//[^\n]*|/\*.*?\*/|("(?:\\.|[^"\\])*")', re.DOTALL)


class Unreachable(ValueError):
    """The command leads to nothing that the project has."""


@cache
def _module(name: str, package: str, text: str) -> "_Module":
    """Return a module, the same one for all commits that have its text."""
    return _Module(name, package, text)


class _Module:
    """A module's names: definitions, imports, and statements that run when it is imported."""

    def __init__(self, name: str, package: str, text: str) -> None:
        self.name, self.package = name, package
        self.defined: dict[str, list[ast.stmt]] = {}
        self.imported: dict[str, tuple[str, str | None]] = {}
        self.stars: list[str] = []
        self.effects: list[ast.stmt] = []
        self.main: list[ast.stmt] = []
        self.rows = {row.replace("-", "_") for row in _ROW.findall(text)}
        self.said: dict[tuple[str, frozenset[str]], tuple[str, list[Any]]] = {}
        """By definition, and by the rows that a command names: its hash, and the names that it uses."""
        self._add(ast.parse(text).body)

    def _add(self, body: list[ast.stmt]) -> None:
        for node in body:
            if isinstance(node, ast.Import | ast.ImportFrom):
                self.imported |= self.imports(node)
            elif isinstance(node, ast.FunctionDef | ast.ClassDef):
                self.defined.setdefault(node.name, []).append(node)
            elif isinstance(node, ast.Assign | ast.AnnAssign | ast.AugAssign):
                targets = node.targets if isinstance(node, ast.Assign) else [node.target]
                within = [each for target in targets for each in ast.walk(target)]
                for name in {each.id for each in within if isinstance(each, ast.Name)}:
                    self.defined.setdefault(name, []).append(node)
            elif isinstance(node, ast.Try):
                handled = [each for handler in node.handlers for each in handler.body]
                self._add([*node.body, *handled, *node.orelse])
            elif isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
                self._add(node.orelse)
            elif isinstance(node, ast.If) and "__main__" in ast.unparse(node.test):
                self.main.append(node)
            elif not (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)):
                self.effects.append(node)

    def imports(self, node: ast.Import | ast.ImportFrom) -> dict[str, tuple[str, str | None]]:
        """Return what the statement binds: a module, and the name in it or None."""
        if isinstance(node, ast.Import):
            pairs = [(each.asname or each.name.partition(".")[0], each) for each in node.names]
            return {name: (each.name if each.asname else name, None) for name, each in pairs}
        module = self.absolute("." * node.level + (node.module or ""))
        self.stars += [module for each in node.names if each.name == "*"]
        return {each.asname or each.name: (module, each.name) for each in node.names if each.name != "*"}

    def absolute(self, name: str) -> str:
        """Return the name of a module that is named from this one, perhaps with dots before it."""
        level = len(name) - len(name.lstrip("."))
        above = self.package.split(".")[: len(self.package.split(".")) - level + 1] if level else []
        return ".".join([*above, *filter(None, [name[level:]])])


class Code:
    """The project's sources by path: those of the working tree, or of a commit."""

    def __init__(self, files: Mapping[str, str]) -> None:
        self.files = files
        self.paths: dict[str, str] = {}
        for path in files:
            parts = list(Path(path).with_suffix("").parts)
            if path.endswith(".py"):
                head = FOLDERS.get(parts[0])
                name = ".".join(([head] if head else []) + parts[bool(head) :]).removesuffix(".__init__")
                self.paths[name] = path
                if path.startswith(SUPPORT):
                    self.paths[Path(path).stem] = path
        self._modules: dict[str, _Module] = {}

    @classmethod
    def here(cls, root: Path = ROOT) -> "Code":
        """Return the working tree's."""
        found = (path for top in (*FOLDERS, "tests") for path in (root / top).rglob("*"))
        files = [root / "pyproject.toml", *(path for path in found if path.suffix in SUFFIXES)]
        return cls({str(path.relative_to(root)): path.read_text(encoding="utf-8") for path in files})

    @classmethod
    def at(cls, commit: str, root: Path = ROOT) -> "Code":
        """Return those of a commit; a `ValueError` if it does not exist."""
        command = ["git", "archive", "--format=tar", commit]
        done = subprocess.run(command, cwd=root, capture_output=True, check=False)
        if done.returncode:
            raise ValueError(f"commit {commit} does not exist")
        files = {}
        with tarfile.open(fileobj=io.BytesIO(done.stdout)) as archive:
            for each in archive:
                top = each.name.partition("/")[0]
                wanted = each.name == "pyproject.toml" or top in (*FOLDERS, "tests")
                if wanted and Path(each.name).suffix in SUFFIXES and (file := archive.extractfile(each)):
                    files[each.name] = file.read().decode()
        return cls(files)

    def module(self, name: str) -> _Module | None:
        """Return a module of the project; None if it has none of this name."""
        if name not in self._modules and (path := self.paths.get(name)):
            package = name if path.endswith("__init__.py") else name.rpartition(".")[0]
            self._modules[name] = _module(name, package, self.files[path])
        return self._modules.get(name)

    @cached_property
    def native(self) -> dict[str, dict[str, Any]]:
        """How each module in C is built, by name."""
        tables = tomllib.loads(self.files["pyproject.toml"])["tool"]["setuptools"].get("ext-modules", [])
        return {table["name"]: table for table in tables}

    @cached_property
    def commands(self) -> Mapping[str, Any]:
        """The command line's table."""
        module = self.module("inceptionn.cli")
        if module is None or "COMMANDS" not in module.defined:
            raise Unreachable("there is no inceptionn.cli with COMMANDS")
        last = module.defined["COMMANDS"][0].lineno
        body = sorted(
            {node for nodes in module.defined.values() for node in nodes if node.lineno <= last},
            key=lambda node: node.lineno,
        )
        future = ast.parse("from __future__ import annotations\nfrom typing import NamedTuple").body
        space: dict[str, Any] = {"__name__": "commands"}
        exec(compile(ast.Module([*future, *body], []), "cli.py", "exec"), space)
        found: Mapping[str, Any] = space["COMMANDS"]
        return found

    def reached(self, command: str) -> dict[str, str]:
        """Return the definitions that a command reaches, by name, each with the hash of what it says.

        Raises `Unreachable` if the project has no such command.
        """
        return self.begun(command).finished()

    def begun(self, command: str) -> "_Walk":
        """Return the walk at the command's first definition."""
        words = shlex.split(command)
        if words[:1] == ["inceptionn"]:
            table, words = self.commands, words[1:]
            while words and words[0] in table:
                found, words = table[words[0]], words[1:]
                table = found.commands or {}
                if not table:
                    # A module makes its commands of a table, or has a function of each.
                    for name, own in ((found.function, []), ("__getattr__", [found.function])):
                        walk = _Walk(self, _named([*own, *words]))
                        walk.name(found.module, name)
                        if walk.todo:
                            return walk
        for path in [word for word in words if word in self.files]:
            walk = _Walk(self, [])
            walk.whole(path)
            return walk
        raise Unreachable(f"{command!r} is no command of the project")


def changed(old: Mapping[str, str], new: Mapping[str, str]) -> list[str]:
    """Return the names of what differs, or is reached in one state alone."""
    before, after = set(old.values()), set(new.values())
    names = {name for name, text in new.items() if text not in before}
    names |= {name for name, text in old.items() if text not in after}
    return sorted({name.partition("@")[0] for name in names})


class _Walk:
    """One command's way through the code."""

    def __init__(self, code: Code, words: list[str]) -> None:
        self.code, self.words = code, words
        self.found: dict[str, str] = {}
        self.attributes: set[str] = set()
        self.waiting: dict[str, list[tuple[_Module, str, Any]]] = {}
        """By the attribute's name: methods, and the names of modules that are objects."""
        self.todo: list[tuple[_Module, str, Any]] = []

    def finished(self) -> dict[str, str]:
        """Follow all that is to be followed, and return what was found."""
        while self.todo:
            module, label, nodes = self.todo.pop()
            if label in self.found:
                continue
            key = label, frozenset(module.rows & set(self.words))
            if key not in module.said:
                uses = _Uses(module, key[1])
                module.said[key] = _hash(";".join(map(uses.said, nodes))), list(dict.fromkeys(uses.names))
            self.found[label], names = module.said[key]
            for follow, *what in names:
                follow(self, module, *what)
            if module.effects:
                self.todo.append((module, f"{module.name}:(import)", module.effects))
        return self.found

    def name(self, module_name: str, name: str) -> None:
        """Reach the definition of a name that a module has, or imports."""
        for module, found in self.resolved(module_name, name):
            if found is None:
                self.module(module)
            elif module not in _ASIDE and (own := self.code.module(module)) is not None:
                nodes = own.defined[found]
                for node in nodes:
                    if isinstance(node, ast.ClassDef):
                        self._methods(own, node)
                self.todo.append((own, f"{module}:{found}", nodes))

    def resolved(self, module_name: str, name: str) -> list[tuple[str, str | None]]:
        """Return where a module's name is defined: its module and name there, or a module alone.

        More than one if it depends on what is installed; none if it is not the project's.
        """
        module = self.code.module(module_name)
        below = f"{module_name}.{name}"
        if module is not None and name in module.defined:
            imported = self.target(module.imported[name]) if name in module.imported else []
            return [(module_name, name), *imported]
        if module is not None and name in module.imported and module.imported[name] != (module_name, name):
            return self.target(module.imported[name])
        if self.code.module(below) is not None or below in self.code.native:
            return [(below, None)]
        return [each for star in (module.stars if module else []) for each in self.resolved(star, name)]

    def target(self, imported: tuple[str, str | None]) -> list[tuple[str, str | None]]:
        """Return what an import brings."""
        module, name = imported
        if not self.knows(module):
            return []
        return [(module, None)] if name is None else self.resolved(module, name)

    def knows(self, module: str) -> bool:
        """Tell whether the project has the module."""
        return module in self.code.native or self.code.module(module) is not None

    def module(self, name: str) -> None:
        """Reach a module as an object: the names that are used as attributes somewhere."""
        if built := self.code.native.get(name):
            self.found[f"{name}:(compiler)"] = _hash(str(built.get("extra-compile-args")))
            for path in (*built["sources"], *built.get("depends", ())):
                self.file(path)
        if name not in _ASIDE and (module := self.code.module(name)) is not None:
            if module.main:
                self.todo.append((module, f"{name}:(main)", module.main))
            for each in module.defined:
                self.wait(each, module, f"{name}:{each}", each)

    def whole(self, path: str) -> None:
        """Reach all definitions of a file."""
        name = next(name for name, own in self.code.paths.items() if own == path)
        module = self.code.module(name)
        assert module is not None
        self.todo += [(module, f"{path}:{each}", nodes) for each, nodes in module.defined.items()]
        for each in module.defined:
            self.name(name, each)

    def file(self, path: str) -> None:
        """Reach a file that is not Python."""
        text = self.code.files.get(path, "")
        if Path(path).suffix in (".c", ".h", ".cpp"):
            text = _C_COMMENT.sub(lambda match: match[1] or " ", text)
        self.found[path] = _hash(" ".join(text.split()))

    def wait(self, attribute: str, module: _Module, label: str, what: Any) -> None:
        """Reach a method or a module's name once its attribute is used."""
        if attribute in self.attributes:
            self._arrive(module, label, what)
        else:
            self.waiting.setdefault(attribute, []).append((module, label, what))

    def attribute(self, name: str) -> None:
        """Say that the name is used as an attribute."""
        if name not in self.attributes:
            self.attributes.add(name)
            for each in self.waiting.pop(name, ()):
                self._arrive(*each)

    def _arrive(self, module: _Module, label: str, what: Any) -> None:
        if isinstance(what, str):
            self.name(module.name, what)
        else:
            self.todo.append((module, label, [what]))

    def _methods(self, module: _Module, node: ast.ClassDef) -> None:
        label = f"{module.name}:{node.name}"
        if label not in self.found:
            called = self.called_from_outside(module, node)
            for each in node.body:
                if isinstance(each, ast.FunctionDef):
                    own = f"{label}.{each.name}@{each.lineno}"  # a property has two of a name
                    if called or each.name.startswith("__"):
                        self.todo.append((module, own, [each]))
                    else:
                        self.wait(each.name, module, own, each)

    def called_from_outside(self, module: _Module, node: ast.ClassDef) -> bool:
        """Tell whether a class has a base outside the project, which may call any method."""
        for base in node.bases:
            root = base.value if isinstance(base, ast.Subscript) else base
            *above, last = ast.unparse(root).split(".")
            if last in _INERT or last.endswith("Error"):
                continue
            places = self.resolved(module.name, above[0] if above else last)
            if above:
                modules = [place for place, name in places if name is None]
                places = [each for place in modules for each in self.resolved(place, last)]
            if not places:
                return True
            for place, name in places:
                own = self.code.module(place)
                for up in own.defined[name] if own and name else ():
                    if own and isinstance(up, ast.ClassDef) and self.called_from_outside(own, up):
                        return True
        return False


class _Uses:
    """What a definition says, and how a walk follows each name that it uses."""

    def __init__(self, module: _Module, rows: frozenset[str]) -> None:
        self.own, self.rows = module, rows
        self.local: dict[str, tuple[str, str | None]] = {}
        self.names: list[Any] = []
        self.prose = False

    def said(self, node: Any) -> str:
        """Return the syntax tree as text, and follow its names."""
        if isinstance(node, list):
            return "[" + ",".join(text for each in node if (text := self.said(each))) + "]"
        if not isinstance(node, ast.AST):
            return repr(node)
        match node:
            case ast.Import() | ast.ImportFrom():
                self.local |= self.own.imports(node)
                return ""
            case ast.Expr(value=ast.Constant()) | ast.Raise():
                return ""
            case ast.If() if _only_refuses(node.body) and not node.orelse and _is_plain(node.test):
                return ""
            case ast.Try() if all(_only_refuses(each.body) for each in node.handlers):
                parts = [*node.body, *node.orelse, *node.finalbody]
                return ",".join(text for each in parts if (text := self.said(each)))
            case ast.Name():
                self._named([node.id])
            case ast.Attribute():
                self.names.append((_attribute, node.attr))
                if chain := _chain(node):
                    self._named(chain)
                    return ".".join(chain)
            case ast.Constant(value=str(text)):
                if self.prose:
                    return ""
                self.names.append((_string, text))
            case ast.JoinedStr() if not self.prose:
                self.names.append((_pattern, node))
            case ast.Call() if (row := _row(node)) and not self._follows(row):
                return ""
            case ast.Expr(value=ast.Call(func=ast.Attribute(ast.Name("study" | "made"), "plot" | "show"))):
                return ""
        inner, self.prose = self.prose, self.prose or _is_prose(node)
        fields = []
        for name, value in ast.iter_fields(node):
            if value in (None, []) or name in ("ctx", "kind", "type_comment"):
                continue
            if isinstance(node, ast.arg) and name == "annotation" and not self._is_option(value):
                continue
            if isinstance(node, ast.FunctionDef) and name == "returns":
                continue
            if isinstance(node, ast.ClassDef) and name == "body":
                value = [each for each in value if not isinstance(each, ast.FunctionDef)]
            fields.append(f"{name}={self.said(value)}")
        self.prose = inner
        return f"{type(node).__name__}({','.join(fields)})"

    def _is_option(self, annotation: ast.AST) -> bool:
        """Tell whether an argument's type sets an option of a command."""
        return any(isinstance(each, ast.Call) for each in ast.walk(annotation))

    def _named(self, chain: list[str]) -> None:
        self.names.append((_resolve, tuple(chain), self.local.get(chain[0])))

    def _follows(self, row: str) -> bool:
        return not self.rows or row.replace("-", "_") in self.rows


def _attribute(walk: _Walk, own: _Module, name: str) -> None:
    walk.attribute(name)


def _resolve(walk: _Walk, own: _Module, chain: tuple[str, ...], local: tuple[str, str | None] | None) -> None:
    """Reach what a name, with its attributes, stands for."""
    first, *rest = chain
    if local is not None:
        places = walk.target(local)
    else:
        places = walk.resolved(own.name, first)
        if not places and first in own.imported:
            return
    for place, name in places:
        while name is None and rest and (inner := walk.resolved(place, rest[0])):
            (place, name), rest = inner[0], rest[1:]
        if name is None:
            walk.module(place)
        else:
            walk.name(place, name)


def _string(walk: _Walk, own: _Module, text: str) -> None:
    """Reach what a string names: an attribute (dashes or not), a module, a name of a module, or a file."""
    if (name := text.replace("-", "_")).isidentifier():
        walk.attribute(name)
    if re.fullmatch(r"\.?[A-Za-z_][\w.]*(:\w+)?", text) and re.search("[.:]", text):
        module, _, name = text.partition(":")
        for each in (own.absolute(module), f"{own.package}.{module}"):
            if walk.knows(each):
                walk.name(each, name) if name else walk.module(each)
    if Path(text).suffix in SUFFIXES and not set("*[? ") & set(text):
        _files(walk, own, text)


def _pattern(walk: _Walk, own: _Module, node: ast.JoinedStr) -> None:
    """Reach the modules or files that an f-string can name; if the command names some, those alone."""
    text = "".join(str(each.value) if isinstance(each, ast.Constant) else "*" for each in node.values)
    if not re.fullmatch(r"\.*[\w.*/]*[.][\w.*]*", text) or text.startswith("*"):
        return
    if Path(text).suffix in SUFFIXES:
        _files(walk, own, text)
        return
    pattern = own.absolute(text)
    if not pattern.startswith("inceptionn"):
        return
    names = [name for name in walk.code.paths if fnmatchcase(name, pattern)]
    named = [name for name in names if name.rpartition(".")[2] in walk.words]
    for name in named or names:
        walk.module(name)


def _files(walk: _Walk, own: _Module, pattern: str) -> None:
    home = walk.code.paths[own.name].split("/")[0]
    for path in walk.code.files:
        if path.startswith(f"{home}/") and fnmatchcase(f"/{path}", f"*/{pattern}"):
            walk.whole(path) if path.endswith(".py") else walk.file(path)


def _named(words: list[str]) -> list[str]:
    """Return what a command's arguments name, as Python would spell it; none of them, options."""
    parts = [part for word in words if not word.startswith("-") for part in re.split(r"[\s,/]+", word)]
    return [part.replace("-", "_") for part in parts]


def _chain(node: ast.AST) -> list[str]:
    """Return the names of ``a.b.c``; nothing if it begins with anything but a name."""
    if isinstance(node, ast.Name):
        return [node.id]
    if isinstance(node, ast.Attribute) and (above := _chain(node.value)):
        return [*above, node.attr]
    return []


def _row(node: ast.Call) -> str:
    """Return the name of a row that stands for code, as `_ROW` finds it in a text; else nothing."""
    match node:
        case ast.Call(ast.Name(id=row), [ast.Constant(value=str(name)), ast.Constant(value=str(path)), *_]):
            return name if row[0].isupper() and re.fullmatch(r"([\w.]+:)?\w+", path) else ""
    return ""


def _is_prose(node: ast.AST) -> bool:
    """Tell whether strings in it are texts for people alone."""
    if isinstance(node, ast.keyword):
        return node.arg == "help"
    return isinstance(node, ast.Subscript) and ast.unparse(node.value).endswith("Annotated")


def _only_refuses(body: list[ast.stmt]) -> bool:
    return all(isinstance(each, ast.Raise) for each in body)


def _is_plain(test: ast.expr) -> bool:
    """Tell whether a condition changes nothing: it binds no name, and calls Python's own functions alone."""
    for each in ast.walk(test):
        if isinstance(each, ast.NamedExpr | ast.Await | ast.Yield):
            return False
        if isinstance(each, ast.Call) and not hasattr(builtins, ast.unparse(each.func)):
            return False
    return True


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]

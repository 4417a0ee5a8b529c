# SPDX-License-Identifier: BSD-2-Clause
"""Which change continuous integration sees, and that it tells when circuits may depend on it."""

from pathlib import Path

import pytest
from change import APART, CIRCUITS, base, changed, reach_circuits
from programs import said_by

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(
    "name",
    [
        *("hdl/nic.py", "sim/runner.py", "sw/wire/frames.py", "sw/codec/coder.py", "sw/native/sum.c"),
        *("tests/hdl/test_nic.py", "tests/support/change.py", "tests/conftest.py", "tests/vectors/a.json"),
        *("docs/assurance.md", "docs/assurance-mutants.json", "pyproject.toml", "Makefile", "new.md"),
    ],
)
def test_what_circuits_may_depend_on(name: str) -> None:
    assert reach_circuits(["README.md", name])


def test_what_they_do_not_depend_on() -> None:
    names = ["sw/torch/hook.py", "tests/netns/test_networks.py", "docs/figures.jsonl", "CHANGELOG.md"]
    assert not reach_circuits(names)
    assert not reach_circuits([])
    assert reach_circuits(None)


def test_the_folders_are_there() -> None:
    assert all((ROOT / name).exists() for name in (*APART, *(f"tests/{name}" for name in CIRCUITS)))


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a repository with four commits on main: after 0, 10, 30 and 40 hours."""
    monkeypatch.delenv("BASE", raising=False)
    git(tmp_path, "init", "-q", "-b", "main")
    for hours in (0, 10, 30, 40):
        commit(tmp_path, f"{hours}.md", hours)
    return tmp_path


def git(root: Path, *words: str, **environment: str) -> str:
    settings = ("-c", "user.name=a", "-c", "user.email=a@b")
    return said_by("git", "-C", root, *settings, *words, **environment).strip()


def commit(root: Path, name: str, hours: int) -> None:
    (root / name).write_text("")
    git(root, "add", name)
    git(root, "commit", "-q", "-m", name, GIT_COMMITTER_DATE=f"{10**9 + 3600 * hours} +0000")


def test_a_change_of_main_is_a_day_long(repository: Path) -> None:
    assert base(repository) == git(repository, "rev-parse", "HEAD~2")
    (repository / "new.md").write_text("")
    assert changed(repository) == {"30.md", "40.md", "new.md"}


def test_a_branch_begins_where_it_left_main(repository: Path) -> None:
    git(repository, "checkout", "-q", "-b", "other")
    commit(repository, "other.md", 40)
    assert changed(repository) == {"other.md"}
    git(repository, "mv", "0.md", "moved.md")
    assert changed(repository) == {"other.md", "0.md", "moved.md"}


def test_continuous_integration_says_what_a_push_replaced(
    repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BASE", "HEAD~1")
    assert changed(repository) == {"40.md"}
    monkeypatch.setenv("BASE", "0" * 40)  # a new tag
    assert changed(repository) is None


def test_a_change_that_git_cannot_tell(tmp_path: Path, repository: Path) -> None:
    """In a shallow clone of main and where git knows nothing, all tests run."""
    shallow = tmp_path / "shallow"
    git(repository, "clone", "-q", "--depth", "1", f"file://{repository}", str(shallow))
    assert changed(shallow) is None
    assert changed(tmp_path / "none") is None

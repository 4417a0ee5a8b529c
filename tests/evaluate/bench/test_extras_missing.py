# SPDX-License-Identifier: BSD-2-Clause
"""Without the packages of the extras, benches and examples run, or say in one line what to install."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from programs import ended

from inceptionn.netns import require
from inceptionn.system.extras import pip_install

EXAMPLE = Path(__file__).parents[3] / "examples" / "train.py"
BASE = """
import sys
MISSING = ("sklearn", "threadpoolctl", "matplotlib", "mpi4py", "amaranth")
from importlib.abc import MetaPathFinder
class Base(MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in MISSING:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
sys.meta_path.insert(0, Base())
import importlib.util
found = importlib.util.find_spec
importlib.util.find_spec = lambda name, package=None: None if name in MISSING else found(name, package)
"""


def run(program: str, base: str = BASE) -> subprocess.CompletedProcess[str]:
    return ended(sys.executable, "-c", base + program)


def command(*arguments: str) -> subprocess.CompletedProcess[str]:
    return run(f"from inceptionn.cli import main\nsys.exit(main({arguments!r}))")


def test_bench_codec_measures_what_it_can() -> None:
    done = command("bench", "codec", "--quick", "--size", "1", "--repeats", "1", "--no-peers", "--json", "-")
    assert done.returncode == 0, done.stderr
    assert {row["data"] for row in json.loads(done.stdout)["rows"]} == {"synthetic"}
    assert f"real: scikit-learn is not installed: {pip_install('train')}\n" in done.stderr


@pytest.mark.parametrize(
    "arguments",
    [
        ("codec", "--data", "real"),
        ("layers",),
        ("allreduce",),
    ],
    ids=lambda arguments: arguments[0],
)
def test_other_benches_say_in_one_line_what_to_install(arguments: tuple[str, ...]) -> None:
    done = command("bench", *arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == f"inceptionn: scikit-learn is not installed: {pip_install('bench')}\n"


@pytest.mark.parametrize("arguments", [("equal-error",), ("trainings", "--optimizers", "adam")])
def test_trainings_by_torch_say_in_one_line_what_to_install(arguments: tuple[str, ...]) -> None:
    pytest.importorskip("sklearn")
    without = BASE.replace('MISSING = ("sklearn", ', 'MISSING = ("torch", ').replace('"matplotlib", ', "")
    done = run(f"from inceptionn.cli import main\nsys.exit(main(['bench', *{arguments!r}]))", without)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == f"inceptionn: torch is not installed: {pip_install('torch')}\n"


def test_the_example_says_in_one_line_what_to_install() -> None:
    settings = {"INCEPTIONN_RANK": "0", "INCEPTIONN_SIZE": "1", "INCEPTIONN_RENDEZVOUS": "127.0.0.1:1"}
    path = str(EXAMPLE)
    done = run(
        f"import os, runpy\nos.environ.update({settings!r})\nsys.argv = [{path!r}]\n"
        f"runpy.run_path({path!r}, run_name='__main__')"
    )
    said = f"train.py: scikit-learn is not installed: {pip_install('train')}\n"
    assert (done.returncode, done.stderr) == (1, said)


def test_quick_changes_defaults_only(tmp_path: Path) -> None:
    require()
    facts = tmp_path / "facts.json"
    done = command(
        "bench", "allreduce", "--quick", "--rates", "200m", "--size", "1", "--repeats", "1", "--hosts", "2",
        "--data", "synthetic", "--op", "sum", "--only", "bf16", "--json", str(facts),
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    found = json.loads(facts.read_text())
    assert {row["rate"] for row in found["rows"]} == {2e8}
    assert {len(row["seconds"]) for row in found["rows"]} == {1}

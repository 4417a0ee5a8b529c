# SPDX-License-Identifier: BSD-2-Clause
"""``inceptionn bench torch``: a small run between real hosts, and its figures."""

import json
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from inceptionn import Codec
from inceptionn.cli import main
from inceptionn.evaluate.bench.common import job
from inceptionn.evaluate.bench.torch import tables
from inceptionn.evaluate.bench.torch import torch as bench
from inceptionn.evaluate.bench.torch.rank import HOOKS, state_of
from inceptionn.netns import NetworkError
from inceptionn.torch import CompressState


@pytest.mark.slow
def test_a_small_run(monkeypatch: pytest.MonkeyPatch, made_by: Callable[..., Any]) -> None:
    monkeypatch.setattr(bench, "BUCKETS", (5000,))
    command = "bench torch --hosts 2 --rates 1g --models mlp --systems plain,hook,tensor"
    made = made_by(f"{command} --steps 2 --trained 10 --seeds 1 --optimizer adam")
    assert "1 Gbit/s, 2 hosts" in made.text
    lines = made.facts["lines"]
    whats = [(line["what"], line.get("system")) for line in lines]
    systems = ("plain", "hook", "tensor")
    assert whats == [(what, name) for what in ("time", "accuracy") for name in systems] + [("overhead", None)]
    trained = [line for line in lines if line["what"] == "accuracy"]
    assert all(line["same_bits"] for line in trained)
    assert trained[0]["ratio"] is None
    assert trained[1]["ratio"] > trained[2]["ratio"] > 1
    assert set(lines[-1]["seconds"]) == {"gloo", "backend", "plain DDP", "DDP with hook"}


def test_the_hook_is_measured_by_its_defaults() -> None:
    assert repr(state_of("hook", 2**-10)) == repr(CompressState(codec=Codec(2**-10, "planes")))
    fed = {system: state_of(system, 2**-10).residuals is not None for system in HOOKS}
    assert fed == {"hook": True, "no-feedback": False, "tensor": True, "bounded": True}
    assert state_of("bounded", 2**-10).feeds_back_by_default  # which it does with planes alone


def test_figures_are_ratios_of_medians() -> None:
    def timed(system: str, step: float, computation: float) -> dict[str, Any]:
        seconds = {"step": [step, step, 9.0], "computation": [computation]}
        return {"what": "time", "model": "mlp", "system": system, "rate": 1e9, "seconds": seconds}

    def trained(system: str, score: float, final: str = "accuracy", seed: int = 0) -> dict[str, Any]:
        model = "mlp" if final == "accuracy" else "transformer"
        line = {"what": "accuracy", "model": model, "system": system, "final": final}
        return {**line, "score": score, "seed": seed, "same_bits": True}

    lines = [timed("plain", 5.0, 1.0), timed("fp16", 3.0, 1.0), timed("hook", 2.0, 1.0)]
    lines += [trained("plain", 97.0), trained("hook", 96.9), trained("plain", 95.0, seed=1)]
    lines += [trained("hook", 94.7, seed=1), trained("hook", 10.0, seed=2)]  # seed 2: interrupted
    lines += [trained("plain", 2.0, "loss"), trained("hook", 2.1, "loss")]
    figures = tables.figures_of(lines, True)
    assert [figure.measured for figure in figures] == pytest.approx([4.0, 1.5, 0.2, 5.0])
    assert tables.figures_of(lines, False) == figures[1:]
    assert [figure.reached for figure in figures] == [True, True, True, False]


def test_an_interrupted_run_shows_what_it_measured(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(network: None, module: str, plan: dict[str, Any], *_: Any) -> Iterator[dict[str, Any]]:
        yield {**plan["cases"][0], "seconds": {"gloo": [0.25]}}
        raise KeyboardInterrupt

    monkeypatch.setattr(bench, "torch_lines_of", interrupted)
    found = tmp_path / "t.json"
    assert main(["bench", "torch", "--only", "overhead", "--json", str(found)]) == 130
    assert "250.00" in capsys.readouterr().out
    assert len(json.loads(found.read_text())["lines"]) == 1


def test_a_rank_that_fails_is_noticed_while_others_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(job, "_LAST_WORDS", 0.5)
    program = "import sys, time; print('ready', flush=True); time.sleep(60 * (sys.argv[1] == '0')); boom"
    with tempfile.TemporaryFile("w+") as said:
        ranks = [
            subprocess.Popen(
                [sys.executable, "-c", program, str(rank)], stdout=subprocess.PIPE, stderr=said, text=True
            )
            for rank in range(2)
        ]
        with pytest.raises(NetworkError, match="a rank failed: NameError: name 'boom' is not defined"):
            list(job.heard(ranks, said, 50))
    assert all(rank.poll() is not None for rank in ranks)

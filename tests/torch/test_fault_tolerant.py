# SPDX-License-Identifier: BSD-2-Clause
"""torchft: the example, in which a replica is killed in mid-step, and local updates with its commits."""

import re
import sys
from copy import deepcopy
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
import torch.distributed as dist
from programs import said_by
from test_diloco import digest, steps
from torch_ranks import Ranks, model, said, same

pytest.importorskip("torchft", reason="no torchft here: pip install 'torchft==0.2.*'")

from inceptionn.torch.torchft import CompressedGroup, FaultTolerantDiLoCo

EXAMPLE = Path(__file__).parents[2] / "examples" / "fault_tolerant.py"
STEPS, LOST_IN = 24, 14


@pytest.mark.slow
@pytest.mark.parametrize("every", [0, 4], ids=["gradients", "local updates"])
def test_the_others_go_on(every: int) -> None:
    lost = ["--fail-replica", "1", "--fail-step", str(LOST_IN)]
    arguments = ["--steps", STEPS, "--every", every, *lost]
    said = said_by(sys.executable, EXAMPLE, *arguments, timeout=300, OMP_NUM_THREADS="1")
    for replica in (0, 2):
        assert f"replica {replica}: {LOST_IN} of 3" in said
        assert f"replica {replica}: {STEPS} of 2" in said
    assert f"replica 1: {LOST_IN + 1} " not in said
    weights = re.findall(r"weights ([0-9a-f]+)", said)
    assert len(weights) == 2
    assert len(set(weights)) == 1
    assert re.search(r"^all +software ", said, re.MULTILINE)


class Commits:
    """What local updates need of a manager. ``answers`` are those to `should_commit` where all went well."""

    _use_async_quorum = False

    def __init__(self, *answers: bool) -> None:
        self.answers, self.errors = list(answers), list[str]()
        self.loads: dict[str, Any] = {}
        self.failed = False

    def register_state_dict_fn(self, key: str, load: Any, save: Any) -> None:
        self.loads[key] = load

    def start_quorum(self) -> None:
        self.failed = False

    def report_error(self, error: Exception) -> None:
        self.failed = True
        self.errors.append(f"{type(error).__name__}: {error}")

    def should_commit(self) -> bool:
        return not self.failed and self.answers.pop(0)


def commits() -> tuple[list[Any], list[str], list[str]]:
    """Have outer steps that are committed, refused and erroneous; return digests of weights, and errors."""
    module, manager = model(), Commits(True, False, True, True, True)
    optimizer = torch.optim.AdamW(module.parameters(), lr=3e-3)
    replicas = SimpleNamespace(parent=dist.new_group())
    diloco = FaultTolerantDiLoCo(manager, replicas, module, optimizer, 2)
    of, found = (module, optimizer, diloco), []

    def outer(which: int) -> None:
        steps(of, range(2 * which, 2 * which + 2))
        found.append(digest(module))

    outer(0)
    before = diloco.state_dict()["fragments"]
    outer(1)  # refused
    assert same(diloco.state_dict()["fragments"], before)
    outer(2)
    kept = deepcopy([part.state_dict() for part in of[:2]])
    if dist.get_rank():
        module[0].weight.data[0, 0] = float("nan")
    outer(3)  # an error
    for part, state in zip(of, kept, strict=False):
        part.load_state_dict(state)
    replicas.parent = dist.new_group()
    outer(4)
    if dist.get_rank():
        for load in manager.loads.values():  # torchft heals it
            load({})
    before = diloco.state_dict()["fragments"]
    replicas.parent = dist.new_group()
    outer(5)
    assert diloco.state_dict()["fragments"][0]["outer"] == 4
    wrong = [
        said(lambda: FaultTolerantDiLoCo(manager, replicas, module, optimizer, delay=1)),
        said(lambda: CompressedGroup(codec="plane")),
        said(lambda: CompressedGroup(warm_up=3)),
        said(lambda: CompressedGroup(scale="tensor")),
    ]
    return found, manager.errors, wrong


def test_a_step_counts_if_it_is_committed(gloo: Ranks) -> None:
    (one, errors, wrong), (other, own_errors, _) = gloo(commits)
    assert [step for step in range(6) if one[step] == other[step]] == [0, 2, 4, 5]
    (text,), (own,) = errors, own_errors
    assert own == "ValueError: fragment 0, 38504 values: weights or their changes are not finite"
    assert text == f"MismatchError: rank 1 cannot take part: {own}"
    assert wrong[0] == "TypeError: FaultTolerantDiLoCo takes no delay"
    assert wrong[1].startswith("ValueError: ")
    assert wrong[2] == "TypeError: CompressedGroup() got an unexpected keyword argument 'warm_up'"
    assert wrong[3].startswith("ValueError: scale 'tensor' needs compress_hook")

# SPDX-License-Identifier: BSD-2-Clause
"""Trains with DDP and `compress_hook`, and goes on from a checkpoint after a rank was lost.

    export TORCH_DISABLE_SHARE_RDZV_TCP_STORE=1
    torchrun --standalone --nproc-per-node 3 --max-restarts 3 examples/elastic.py --folder checkpoints

Without the variable, torchrun's store keeps the addresses of the processes that have ended.

Each rank saves what is its own: weights, optimizer, and the state of the hook with its step (and so warm-up
and schedule) and residuals. After a restart the ranks agree on the newest step that all of them can read: a
file that is cut is passed over, one of another program or job is an error.
``--fail-rank 1 --fail-step 12`` kills a rank in the middle of a backward pass, the first time. The weights at
the end are those of a run without a loss, bit for bit.
"""

import argparse
import os
import re
import signal
import sys
from datetime import timedelta
from hashlib import sha256
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from inceptionn import Codec
from inceptionn.torch import CompressState, compress_hook

INPUTS, HIDDEN, CLASSES, BATCH = 32, 192, 8, 16
KEPT = 2
"""Checkpoints that each rank keeps: a loss may come while only some ranks have saved the newest one."""


def schedule(step: int) -> Codec:
    """Begin with a coarse bound, and go on with a finer one."""
    return Codec(2**-8 if step < 8 else 2**-10, "planes")


def batch(step: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Return this rank's samples of a step. They follow from its number, so a resumed run gets the same."""
    random = torch.Generator().manual_seed(step * dist.get_world_size() + dist.get_rank())
    inputs = torch.randn(BATCH, INPUTS, generator=random)
    return inputs, inputs[:, :CLASSES].argmax(dim=1)


class Checkpoints:
    """This rank's checkpoints in a folder that all ranks can see, or in one of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.rank, self.ranks = folder, dist.get_rank(), dist.get_world_size()
        folder.mkdir(parents=True, exist_ok=True)

    def _path(self, step: int) -> Path:
        return self.folder / f"rank-{self.rank}-step-{step:06d}.pt"

    def _about(self, step: int) -> dict[str, Any]:
        """Return what tells a checkpoint of this program, rank and step from any other file."""
        return {"program": Path(__file__).name, "rank": self.rank, "ranks": self.ranks, "step": step}

    def _steps(self) -> list[int]:
        name = re.compile(rf"rank-{self.rank}-step-(\d{{6,}})\.pt")
        return sorted(int(found[1]) for path in self.folder.iterdir() if (found := name.fullmatch(path.name)))

    def save(self, step: int, parts: dict[str, Any]) -> None:
        """Save a checkpoint; whole or not at all, since a rank or its host may be lost at any time."""
        path = self._path(step)
        partial = path.with_suffix(".partial")
        with partial.open("wb") as file:
            states = {name: part.state_dict() for name, part in parts.items()}
            torch.save({"about": self._about(step), **states}, file)
            file.flush()
            os.fsync(file.fileno())  # or the name may reach the disk before the content
        partial.replace(path)
        for old in [saved for saved in self._steps() if saved <= step][:-KEPT]:
            self._path(old).unlink()

    def _read(self, step: int) -> dict[str, Any] | None:
        """Read a checkpoint; None if it is cut. Raise ``ValueError`` if it is another program's or job's."""
        path = self._path(step)
        try:
            saved = torch.load(path, weights_only=True)
        except Exception as error:  # torch raises various kinds
            said = (str(error) or type(error).__name__).splitlines()[0]
            print(f"rank {self.rank}: {path} is passed over: {said}", flush=True)
            return None
        about = saved.pop("about", None) if isinstance(saved, dict) else None
        if about != self._about(step):
            raise ValueError(f"{path} is no checkpoint of {self._about(step)} but of {about}: remove it")
        return saved

    def load(self, parts: dict[str, Any]) -> int:
        """Resume from the newest step that all ranks can read, and return it; 0 if there is none."""
        saved: dict[int, dict[str, Any]] = {}
        problem = None
        try:
            saved = {step: state for step in self._steps() if (state := self._read(step)) is not None}
        except ValueError as error:
            problem = str(error)
        every: list[Any] = [None] * self.ranks
        dist.all_gather_object(every, (set(saved), problem))
        if problems := [text for _, text in every if text is not None]:
            raise ValueError(problems[0])  # at all ranks: none waits for another
        step: int = max(set.intersection(*(steps for steps, _ in every)), default=0)
        for name, part in parts.items() if step else ():
            part.load_state_dict(saved[step][name])
        return step


def kill_in_backward(parameter: torch.Tensor) -> None:
    """Let this process die, without a word, once the parameter's gradient is there."""
    parameter.register_post_accumulate_grad_hook(lambda _: os.kill(os.getpid(), signal.SIGKILL))


def main() -> None:
    """Train, from a checkpoint where there is one."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--folder", type=Path, required=True, help="of the checkpoints")
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--every", type=int, default=5, help="steps between two checkpoints")
    parser.add_argument("--fail-rank", type=int, help="this rank dies ...")
    parser.add_argument("--fail-step", type=int, default=12, help="... in this step, the first time")
    arguments = parser.parse_args()

    # The limit of each wait: a rank that is silent, not dead, is an error after it.
    dist.init_process_group("gloo", timeout=timedelta(seconds=60))
    torch.manual_seed(0)
    module = torch.nn.Sequential(
        torch.nn.Linear(INPUTS, HIDDEN), torch.nn.ReLU(), torch.nn.Linear(HIDDEN, CLASSES)
    )
    optimizer = torch.optim.SGD(module.parameters(), lr=0.05, momentum=0.9)
    state = CompressState(codec=schedule, error_feedback=True, warm_up=3)
    checkpoints = Checkpoints(arguments.folder)
    parts = {"module": module, "optimizer": optimizer, "hook": state}
    try:
        begin = checkpoints.load(parts)
    except ValueError as error:
        sys.exit(f"rank {dist.get_rank()}: {error}")
    ddp = DistributedDataParallel(module)  # after the weights are there
    ddp.register_comm_hook(state, compress_hook)

    restart = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")
    doomed = arguments.fail_rank == dist.get_rank() and restart == "0"
    print(f"rank {dist.get_rank()}, restart {restart}: begins at step {begin}", flush=True)
    for step in range(begin, arguments.steps):
        if doomed and step == arguments.fail_step:
            kill_in_backward(module[0].bias)
        inputs, labels = batch(step)
        optimizer.zero_grad()
        try:
            torch.nn.functional.cross_entropy(ddp(inputs), labels).backward()
        except RuntimeError as error:
            # Another rank is lost. This one ends as well, and torchrun starts all of them again.
            sys.exit(f"rank {dist.get_rank()}, step {step}: {str(error).splitlines()[0]}")
        optimizer.step()
        if (step + 1) % arguments.every == 0 or step + 1 == arguments.steps:
            checkpoints.save(step + 1, parts)
    weights = b"".join(p.detach().numpy().tobytes() for p in module.parameters())
    print(f"rank {dist.get_rank()}: weights {sha256(weights).hexdigest()[:16]}", flush=True)
    if dist.get_rank() == 0:
        print(state, flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()

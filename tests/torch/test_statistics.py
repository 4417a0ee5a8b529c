# SPDX-License-Identifier: BSD-2-Clause
"""What a state tells of its training, in processes of torch."""

import gc
import json
import logging
import sys
import time
from typing import Any

import numpy as np
import pytest
import torch
import torch.distributed as dist
from torch_ranks import Ranks, digest, hooked, model, said, sgd, steps

from inceptionn import Codec
from inceptionn.collectives import statistics
from inceptionn.torch import CompressState, compress_hook, compressed, fsdp_hook
from inceptionn.torch.link import link_of

STEPS, WARM_UP, VALUES = 20, 4, 38_504
CODEC = Codec(2**-10, "planes")


class Lines(logging.Handler):
    """Keeps the lines of a logger."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(record.getMessage())


class Curves:
    """A writer of scalars: tag, value, step."""

    def __init__(self) -> None:
        self.scalars: list[tuple[str, float, int]] = []

    def add_scalar(self, tag: str, scalar_value: float, global_step: int) -> None:
        self.scalars.append((tag, scalar_value, global_step))


def train(state: CompressState, module: torch.nn.Module, count: int = STEPS) -> str:
    ddp = hooked(module, state, bucket_cap_mb=0.1)
    steps(ddp, sgd(ddp), range(count))
    return digest(module)


def of_the_hook() -> dict[str, Any]:
    logger, lines, curves = logging.getLogger("inceptionn.torch"), Lines(), Curves()
    logger.addHandler(lines)
    logger.setLevel(logging.INFO)
    transport = link_of(None).transport
    before, calls = transport.bytes_sent, statistics(transport).calls
    state = CompressState(codec=CODEC, warm_up=WARM_UP, log_every=5, tensorboard=curves)
    train(state, model())
    assert statistics(transport).calls == calls  # they count in the state's
    found = {"statistics": state.statistics().as_dict(), "text": str(state)}
    assert json.loads(state.statistics().to_json()) == found["statistics"]
    found["sent"] = transport.bytes_sent - before
    del state  # DDP is gone; the thread that ended the last bucket may hold it a moment longer
    deadline = time.monotonic() + 30
    while dist.get_rank() == 0 and len(lines.lines) <= STEPS // 5 and time.monotonic() < deadline:
        gc.collect()
        time.sleep(0.01)
    logger.removeHandler(lines)
    return {**found, "lines": lines.lines, "scalars": curves.scalars}


@pytest.fixture(scope="module")
def ranks(gloo: Ranks) -> list[dict[str, Any]]:
    return gloo(of_the_hook)


def test_counts_every_byte_and_value(ranks: list[dict[str, Any]]) -> None:
    for rank in ranks:
        found = rank["statistics"]
        assert found["values"] == STEPS * VALUES
        assert found["raw_steps"] == WARM_UP
        # A ring of two ranks sends each value once in each half: 4 bytes, but for the compressed calls.
        assert found["bytes_before"] == STEPS * VALUES * 4
        torchs = sum(part["bytes_sent"] for part in found["parts"] if part["path"] == "torch")
        assert found["torch_calls"] > WARM_UP
        assert found["bytes_sent"] >= rank["sent"] + torchs
        compressed = [part for part in found["parts"] if "software" in part["path"]]
        assert sum(part["bytes_sent"] for part in compressed) >= rank["sent"]
        assert found["ratio"] == found["bytes_before"] / found["bytes_sent"]


def test_parts_are_buckets_and_times_add_up(ranks: list[dict[str, Any]]) -> None:
    found = ranks[0]["statistics"]
    assert len(found["parts"]) > 1
    for name in ("calls", "values", "bytes_sent", "seconds", "samples"):
        assert found[name] == pytest.approx(sum(part[name] for part in found["parts"]))
    for part in found["parts"]:
        assert part["name"].startswith("bucket ")
        parts = [part[name] for name in ("codec", "waiting", "sending", "agreeing")]
        assert sum(parts) <= part["seconds"]
        if part["calls"] > part["torch_calls"]:
            assert all(time > 0 for time in parts)
            assert part["messages"] >= part["calls"] - part["torch_calls"]
            assert not part["samples"] or 0 < part["dropped"] < 0.1


def test_lines_and_curves_of_rank_0(ranks: list[dict[str, Any]]) -> None:
    lines, scalars = ranks[0]["lines"], ranks[0]["scalars"]
    assert [line.partition(":")[0] for line in lines] == ["step 5", "step 10", "step 15", "step 20", "in all"]
    assert "1 steps raw" not in lines[1]
    assert f"{WARM_UP} steps raw" in lines[0]
    assert f"{WARM_UP} steps raw" in lines[-1]
    assert "by software; ms of a call" in lines[2]
    ratios = [(step, value) for tag, value, step in scalars if tag == "inceptionn/ratio"]
    assert [step for step, _ in ratios] == [5, 10, 15, 20]
    assert ratios[0][1] < ratios[1][1]  # the warm-up's bytes are not counted twice
    assert any(tag.startswith("inceptionn/bucket ") and tag.endswith("/codec_ms") for tag, _, _ in scalars)
    assert ranks[1]["lines"] == ranks[1]["scalars"] == []


def test_print_shows_settings_and_a_table(ranks: list[dict[str, Any]]) -> None:
    lines = ranks[0]["text"].splitlines()
    assert max(map(len, lines)) <= 120
    settings, _, head, *rows = lines
    assert settings.startswith(f"<CompressState step {STEPS}, codec ")
    assert head.split()[:4] == ["path", "calls", "before", "MB"]
    assert rows[-2].startswith("all ")
    assert rows[-1] == f"{WARM_UP} steps raw"


def left_out() -> str:
    """Send a layer's matrix and all biases raw: their mean is that of plain DDP, to the bit."""
    module, plain = model(), model()
    state = CompressState(codec=Codec(2**-8, "planes"), module=module, leave_out=("0", "*.bias"),
                          error_feedback=True)  # fmt: skip
    weights = train(state, module, 1)
    train(CompressState(smallest=1 << 30), plain, 1)
    pairs = zip(module.named_parameters(), plain.parameters(), strict=True)
    same = [name for (name, one), other in pairs if torch.equal(one, other)]
    assert same == ["0.weight", "0.bias", "2.bias", "4.bias"]
    kept = state.state_dict()["residuals"]
    assert sorted(values.numel() for values in kept.values()) == [8 * 160, 160 * 192]
    parts = state.statistics().parts
    assert {part.path for part in parts if part.name.endswith(", left out")} == {"off"}
    return weights


def test_what_is_left_out_travels_raw(gloo: Ranks) -> None:
    assert len(set(gloo(left_out))) == 1


def slowed(state: CompressState, bucket: dist.GradBucket) -> torch.futures.Future[torch.Tensor]:
    """Let every bucket wait for the connections."""
    link_of(None).submit(lambda: time.sleep(0.05))
    return compress_hook(state, bucket)


def raw_last_bucket() -> tuple[list[float], list[str]]:
    """Bytes by step, where compressed buckets still wait for the connections as the last one leaves raw."""
    curves, link = Curves(), link_of(None)
    state = CompressState(codec=CODEC, smallest=7_000, tensorboard=curves)
    ddp = hooked(model(), state, slowed, bucket_cap_mb=0.12)
    steps(ddp, sgd(ddp), range(4))
    link.run_until(link.submit(lambda: None))
    bytes_by_step = [value for tag, value, _ in curves.scalars if tag == "inceptionn/bytes_before"]
    return bytes_by_step, sorted(part.path for part in state.statistics().parts)


def test_a_raw_last_bucket_is_reported_with_its_step(gloo: Ranks) -> None:
    assert gloo(raw_last_bucket)[0] == ([4 * VALUES] * 4, ["software", "software", "torch"])


def refusals() -> dict[str, str]:
    """Return what is said of wrong settings, by what must be in it."""
    module, ones = model(), torch.zeros(8192)
    calls = {
        "leave_out pattern 'no.such*' matches no parameter or module; there are 0.weight": lambda: (
            CompressState(module=module, leave_out=("no.such*",))
        ),
        "TypeError: leave_out needs module=": lambda: CompressState(leave_out=("0",)),
        "must be a sequence of patterns": lambda: CompressState(module=module, leave_out="0"),
        "ValueError: log_every must be at least 0, not -1": lambda: CompressState(log_every=-1),
        "TypeError: tensorboard must be a folder or have add_scalar, not 3": lambda: CompressState(
            tensorboard=3
        ),
        "leave_out needs DDP's hook": lambda: fsdp_hook(CompressState(module=module, leave_out=("0",)), ones),
        "ValueError: scale 'tensor' needs DDP's hook": lambda: fsdp_hook(CompressState(scale="tensor"), ones),
        "ValueError: scale 'tensor' needs compress_hook": lambda: compressed(
            dist.new_group(backend="inceptionn"), CODEC, scale="tensor"
        ),
        "ValueError: scale 'rms' is for sums: leave out all_gather": lambda: compressed(
            dist.new_group(backend="inceptionn"), CODEC, scale="rms", all_gather=True
        ),
        "leave_out differs: rank 0 has ['0'], rank 1 has ['2']": lambda: train(
            CompressState(module=module, leave_out=(str(2 * dist.get_rank()),)), module
        ),
    }
    return {text: said(call) for text, call in calls.items()}


def test_wrong_settings_are_named(gloo: Ranks) -> None:
    for found in gloo(refusals):
        for text, heard in found.items():
            assert text in heard


def test_a_folder_without_tensorboard_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", None)
    with pytest.raises(ModuleNotFoundError, match="'runs' needs TensorBoard: pip install tensorboard"):
        CompressState(tensorboard="runs")


def group() -> list[tuple[str, str, int]]:
    made = dist.new_group(backend="inceptionn")
    state = compressed(made, CODEC)
    for _ in range(3):
        dist.all_reduce(torch.from_numpy(np.linspace(-1, 1, 40_000, dtype=np.float32)), group=made)
        dist.all_reduce(torch.ones(8), group=made)
    return [(part.name, part.path, part.calls) for part in state.statistics().parts]


def test_a_compressed_group_has_statistics(gloo: Ranks) -> None:
    parts = [("all-reduce, 40000 values", "software", 3), ("8 values", "torch", 3)]
    assert gloo(group) == [parts, parts]

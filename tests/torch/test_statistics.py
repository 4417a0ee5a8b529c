# SPDX-License-Identifier: BSD-2-Clause
"""What a state tells of its training, in processes of torch."""

import sys
from collections.abc import Callable
from typing import Any

import pytest

RANKS, STEPS, WARM_UP, VALUES = 2, 20, 4, 38_504


@pytest.fixture(scope="module")
def ranks(ranks_of: Callable[..., list[dict[str, Any]]]) -> list[dict[str, Any]]:
    return ranks_of("statistics_ranks.py", RANKS)


def test_counts_every_byte_and_value(ranks: list[dict[str, Any]]) -> None:
    for rank in ranks:
        found = rank["hook"]["statistics"]
        assert found["values"] == STEPS * VALUES
        assert found["raw_steps"] == WARM_UP
        # A ring of two ranks sends each value once in each half: 4 bytes, but for the compressed calls.
        assert found["bytes_before"] == STEPS * VALUES * 4
        torchs = sum(part["bytes_sent"] for part in found["parts"] if part["path"] == "torch")
        assert found["torch_calls"] > WARM_UP
        assert found["bytes_sent"] >= rank["hook"]["sent"] + torchs
        compressed = [part for part in found["parts"] if "software" in part["path"]]
        assert sum(part["bytes_sent"] for part in compressed) >= rank["hook"]["sent"]
        assert found["ratio"] == found["bytes_before"] / found["bytes_sent"]
        assert rank["hook"]["own ledger"] == 0  # calls count in the state's


def test_parts_are_buckets_and_add_up(ranks: list[dict[str, Any]]) -> None:
    found = ranks[0]["hook"]["statistics"]
    assert len(found["parts"]) > 1
    assert all(part["name"].startswith("bucket ") for part in found["parts"])
    for name in ("calls", "values", "bytes_sent", "seconds", "samples"):
        assert found[name] == pytest.approx(sum(part[name] for part in found["parts"]))
    assert found == ranks[0]["hook"]["json"]


def test_times_are_parts_of_the_whole(ranks: list[dict[str, Any]]) -> None:
    for part in ranks[0]["hook"]["statistics"]["parts"]:
        parts = [part[name] for name in ("codec", "waiting", "sending", "agreeing")]
        assert sum(parts) <= part["seconds"]
        if part["calls"] > part["torch_calls"]:
            assert all(time > 0 for time in parts)
            assert part["messages"] >= 2 * (part["calls"] - part["torch_calls"])
            assert 0 < part["dropped"] < 0.1 or not part["samples"]


def test_lines_and_curves_of_rank_0(ranks: list[dict[str, Any]]) -> None:
    lines, scalars = ranks[0]["hook"]["lines"], ranks[0]["hook"]["scalars"]
    assert [line.partition(":")[0] for line in lines] == ["step 5", "step 10", "step 15", "step 20", "in all"]
    assert "1 steps raw" not in lines[1]
    assert f"{WARM_UP} steps raw" in lines[0]
    assert f"{WARM_UP} steps raw" in lines[-1]
    assert "by software; ms of a call" in lines[2]
    ratios = [(step, value) for tag, value, step in scalars if tag == "inceptionn/ratio"]
    assert [step for step, _ in ratios] == [5, 10, 15, 20]
    assert ratios[0][1] < ratios[1][1]  # the warm-up's bytes are not counted twice
    assert any(tag.startswith("inceptionn/bucket ") and tag.endswith("/codec_ms") for tag, _, _ in scalars)
    assert ranks[1]["hook"]["lines"] == ranks[1]["hook"]["scalars"] == []


def test_a_raw_last_bucket_is_reported_with_its_step(ranks: list[dict[str, Any]]) -> None:
    assert ranks[0]["raw last"] == {"bytes": [4 * VALUES] * 4, "paths": ["software", "software", "torch"]}


def test_print_shows_settings_and_a_table(ranks: list[dict[str, Any]]) -> None:
    text = ranks[0]["hook"]["text"]
    assert max(map(len, text.splitlines())) <= 120
    settings, _, head, *rows = text.splitlines()
    assert settings.startswith(f"<CompressState step {STEPS}, codec ")
    assert head.split()[:4] == ["path", "calls", "before", "MB"]
    assert rows[-2].startswith("all ")
    assert rows[-1] == f"{WARM_UP} steps raw"


def test_what_is_left_out_travels_raw(ranks: list[dict[str, Any]]) -> None:
    for rank in ranks:
        found = rank["left out"]
        assert found["same"] == ["0.weight", "0.bias", "2.bias", "4.bias"]
        assert found["weights"] == ranks[0]["left out"]["weights"]
        assert found["residuals"] == [8 * 160, 160 * 192]
        assert {path for name, path in found["parts"] if name.endswith(", left out")} == {"off"}


def test_wrong_settings_are_named(ranks: list[dict[str, Any]]) -> None:
    said = ranks[1]["said"]
    assert (
        "leave_out pattern 'no.such*' matches no parameter or module; there are 0.weight" in said["pattern"]
    )
    assert said["module"].startswith("TypeError: leave_out needs module=")
    assert "must be a sequence of patterns" in said["text"]
    assert said["log_every"] == "ValueError: log_every must be at least 0, not -1"
    assert said["writer"] == "TypeError: tensorboard must be a folder or have add_scalar, not 3"
    assert "leave_out needs DDP's hook" in said["fsdp"]
    assert said["tensor"].startswith("ValueError: scale 'tensor' needs DDP's hook")
    assert said["group"].startswith("ValueError: scale 'tensor' needs compress_hook")
    for rank in ranks:
        assert "leave_out differs: rank 0 has ['0'], rank 1 has ['2']" in rank["said"]["differs"]


def test_a_folder_without_tensorboard_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    from inceptionn.torch import CompressState

    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", None)
    with pytest.raises(ModuleNotFoundError, match="'runs' needs TensorBoard: pip install tensorboard"):
        CompressState(tensorboard="runs")


def test_a_compressed_group_has_statistics(ranks: list[dict[str, Any]]) -> None:
    found = ranks[0]["group"]
    assert [(part["name"], part["path"], part["calls"]) for part in found["parts"]] == [
        ("all-reduce, 40000 values", "software", 3),
        ("8 values", "torch", 3),
    ]

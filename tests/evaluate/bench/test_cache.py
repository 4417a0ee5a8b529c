# SPDX-License-Identifier: BSD-2-Clause
"""The arrays that rates are measured on are larger than the processor's caches."""

import json
from pathlib import Path

import pytest

from inceptionn import cli
from inceptionn.evaluate.bench.common import memory


def caches(folder: Path, *sizes: str) -> Path:
    """Make a folder as sysfs has it, with the caches of levels 1, 2, ..."""
    for number, size in enumerate(sizes):
        index = folder / f"index{number}"
        index.mkdir(parents=True)
        (index / "level").write_text(f"{number + 1}\n")
        (index / "size").write_text(f"{size}\n")
    return folder


def test_the_last_level_counts(tmp_path: Path) -> None:
    assert memory.last_level_cache(caches(tmp_path / "three", "32K", "1024K", "32768K")) == 32 << 20
    assert memory.last_level_cache(caches(tmp_path / "large", "48K", "2M", "1G")) == 1 << 30
    assert memory.last_level_cache(caches(tmp_path / "odd", "32K", "many")) == 32 << 10
    assert memory.last_level_cache(tmp_path / "none") == memory.UNKNOWN


def test_real_size_where_memory_allows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "last_level_cache", lambda: 32 << 20)
    monkeypatch.setattr(memory, "available_memory", lambda: 1 << 40)
    assert memory.timed_bytes(233e6) == 233_000_000
    assert memory.timed_bytes(233e6, quick=True) == 4 * (32 << 20)
    assert memory.timed_bytes(2.5e6, quick=True) == 2_500_000
    assert "WITHIN" not in memory.cache_text(233_000_000)
    monkeypatch.setattr(memory, "available_memory", lambda: 160_000_000)
    assert memory.timed_bytes(233e6) == 10_000_000
    assert memory.cache_text(10_000_000) == "10 MB (last-level cache 34 MB, WITHIN it: rates are too high)"


@pytest.mark.parametrize("name", ["a2dtwp", pytest.param("fig7", marks=pytest.mark.slow)])
def test_artefacts_time_arrays_out_of_cache(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The size only: a small cache keeps the test short."""
    pytest.importorskip("sklearn")
    pytest.importorskip("matplotlib")
    monkeypatch.setattr(memory, "last_level_cache", lambda: 4 << 20)
    options = ["--quick", "--no-torch", "--no-network", "--out", str(tmp_path)]
    assert cli.main(["reproduce", name, *options]) == 0
    facts = json.loads((tmp_path / f"{name}.json").read_text())
    assert facts["data"]["bytes"] == 16 << 20
    assert any("17 MB (last-level cache 4 MB)" in line for line in facts["conditions"])

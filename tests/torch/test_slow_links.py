# SPDX-License-Identifier: BSD-2-Clause
"""``inceptionn bench slow-links``: its systems, its arithmetic, and a small run between real hosts."""

import csv
from collections.abc import Callable
from pathlib import Path
from pydoc_data.topics import topics
from typing import Any

import numpy as np
import pytest
from refusals import refused

from inceptionn.collectives.values.stream_codec import examine
from inceptionn.evaluate.bench.torch.slow_links.language import SIZES, Text, loss_of
from inceptionn.evaluate.bench.torch.slow_links.systems import WORDS, Integers, System, TopK
from inceptionn.evaluate.bench.torch.slow_links.tables import losses_table, seconds, times_tables, trained


@pytest.fixture(scope="module")
def text(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a file with the manual that is in every Python, 0.7 MB."""
    path = tmp_path_factory.mktemp("text") / "manual.txt"
    path.write_text("".join(topics[name] for name in sorted(topics)), encoding="utf-8")
    return path


def test_systems() -> None:
    systems = list(map(System.of, WORDS))
    assert len({system.name for system in systems}) == len(WORDS)
    assert System.of("h64:k5-plain") == ("h64:k5-plain", 64, 0, 0, 0, 5, "plain")
    assert System.of("ddp:powersgd4").name == "DDP, PowerSGD 4"
    for word, error in {
        "h16": "a system is ddp or h and its steps",
        "h16:k5-fast": "not 'h16:k5-fast'",
        "h0:raw": "not 'h0:raw'",
        "h16:fp16": "fp16 and PowerSGD are hooks of DDP, so not 'h16:fp16'",
        "ddp:k15": "k must be 1..14, not 'ddp:k15'",
    }.items():
        refused(ValueError, error, System.of, word)


@pytest.mark.parametrize("bits", [4, 8])
def test_integers_keep_the_promises_of_a_codec(bits: int) -> None:
    codec = Integers(bits)
    examine(codec)
    values = np.random.default_rng(1).normal(size=1000).astype(np.float32)
    levels = 2 ** (bits - 1) - 1
    assert len(codec.compress(values)) == 8 * (4 + 16 * bits)
    error = np.abs(codec.lossy(values) - values).reshape(-1, 125)
    assert error.max() <= np.abs(values).max() / levels * 0.51
    refused(ValueError, "finite values alone", codec.compress, np.full(3, np.nan, np.float32))
    refused(ValueError, "7 bytes are not those of 3 values", codec.decompress, b"1234567", 3)


def test_top_k_keeps_the_promises_of_a_codec() -> None:
    codec = TopK(3)
    examine(codec)
    values = np.random.default_rng(1).normal(size=1000).astype(np.float32)
    kept = codec.lossy(values)
    assert len(codec.compress(values)) == 8 * np.count_nonzero(kept) == 240
    assert np.abs(values[kept == 0]).max() <= np.abs(kept[kept != 0]).min()
    assert (kept == values)[kept != 0].all()
    refused(ValueError, "finite values alone", codec.compress, np.full(3, np.nan, np.float32))
    refused(ValueError, "7 bytes are not those of 3 values", codec.decompress, b"1234567", 3)
    refused(ValueError, "a value at 3 of 3", codec.decompress, b"\3\0\0\0abcd", 3)


def test_ranks_read_parts_of_the_text_that_none_shares(text: Path, tmp_path: Path) -> None:
    size = SIZES["small"]
    one, two = (Text(text, size.context, rank, 2) for rank in range(2))
    assert one.test.equal(two.test)
    assert one.batch(1, 2, 3).equal(one.batch(1, 2, 3))
    assert not one.batch(1, 2, 3).equal(two.batch(1, 2, 3))
    held = text.read_bytes()[-(text.stat().st_size // 20) :]
    assert bytes(one.test[0].tolist()) == held[: size.context + 1]
    short = tmp_path / "short.txt"
    short.write_bytes(b"a" * 1000)
    refused(ValueError, "has 1,000 bytes of text; 2 ranks need", Text, short, 64, 0, 2)


def test_sizes_are_those_that_the_help_names() -> None:
    values = {name: sum(each.numel() for each in size.model().parameters()) for name, size in SIZES.items()}
    assert (round(values["small"] / 1e6, 2), round(values["large"] / 1e6, 1)) == (0.47, 10.9)


def test_the_model_sees_no_byte_after_its_place(text: Path) -> None:
    import torch

    torch.manual_seed(1)
    model, windows = SIZES["small"].model(), Text(text, 64).batch(0, 0, 2)
    changed = windows.clone()
    changed[:, 40] ^= 1
    before, after = (model(each[:, :-1]) for each in (windows, changed))
    assert torch.allclose(before[:, :40], after[:, :40], atol=1e-6)
    assert not torch.allclose(before[:, 40], after[:, 40], atol=1e-3)
    assert loss_of(model, windows).item() == pytest.approx(np.log(256), rel=0.1)


def lines() -> list[dict[str, Any]]:
    """Two systems: raw local updates in 1 s a step, and DDP, with sixteen times the bytes, in 2.

    DDP's losses fall by 0.5 whenever its steps double.
    """

    def loss(system: str, final: float, sent: float, seed: int) -> dict[str, Any]:
        steps = (64,) if system == "h16:raw" else (1, 2, 4, 16, 32, 64)
        places = [(n, final + 0.5 * np.log2(64 / n), sent * n / 64) for n in steps]
        return {"what": "loss", "system": system, "seed": seed, "curve": [(0, 9.0, 0.0), *places]}

    def time(system: str, **times: float) -> dict[str, Any]:
        given = {"rate": 1e8, "delay": "0us"}
        return {"what": "time", "system": system, "seconds": {k: [v] for k, v in times.items()}, **given}

    trainings = [loss("h16:raw", 3.0, 1e6, 0), loss("h16:raw", 3.2, 1e6, 1), loss("ddp:raw", 2.0, 16e6, 0)]
    trainings.append(loss("ddp:raw", 2.2, 16e6, 1))
    return [
        *trainings,
        time("h16:raw", computation=0.5, exchange=8),
        time("ddp:raw", step=2, computation=0.5),
    ]


def cells(table: Any) -> list[list[str]]:
    """Return the rows of a table."""
    return [list(row) for row, _ in table.rows]


def test_losses_at_equal_bytes_and_time_are_read_off_the_curves() -> None:
    (found,) = losses_table(lines())
    local, ddp = cells(found)
    assert local[1:] == ["3.1000", "3.0000, 3.2000", "1.00", "16.0", "3.1000 (all steps)"]
    assert ddp[1:] == ["2.1000", "2.0000, 2.2000", "16.00", "1.0", "4.1000"]
    assert seconds(lines()[4]) == (0.5, 0.5)
    (table,) = times_tables(lines(), 64)
    local, ddp = cells(table)
    assert local[1:] == ["500.0", "500.0", "50", "64", "3.1000 (all steps)"]
    assert ddp[1:] == ["500.0", "1500.0", "25", "128", "2.6000"]
    assert losses_table(lines()[4:]) == []
    assert [row[-1] for row in cells(times_tables(lines()[4:], 64)[0])] == ["-", "-"]


def test_a_curve_is_not_read_before_its_first_exchange() -> None:
    local = trained(lines())["h16:raw"]
    assert (local.after(63), local.after(0.9e6, "sent")) == ("-", "-")


def test_an_interrupted_run_compares_seeds_that_all_systems_have() -> None:
    found = trained(lines()[:3])
    assert (found["h16:raw"].finals, found["ddp:raw"].finals) == ([3.0], [2.0])


@pytest.mark.slow
def test_a_small_run(text: Path, made_by: Callable[..., Any]) -> None:
    systems = (
        "ddp:raw",
        "ddp:fp16",
        "ddp:powersgd2",
        "ddp:k10",
        "h8:raw",
        "h8:int8",
        "h8:k5",
        "h8:k5-tensor",
    )
    command = "bench slow-links --hosts 2 --rates 1g --steps 24 --timed 1 --seeds 1"
    made = made_by(command, "--systems", ",".join(systems), "--text", text, csv=True, plot=True)
    rows = list(csv.DictReader(made.rows))
    assert {row["system"] for row in rows if row["loss"]} == set(systems)
    found = made.facts["lines"]
    whats = [(line["what"], line["system"]) for line in found]
    assert whats == [(what, system) for what in ("loss", "time") for system in systems]
    curves = {line["system"]: line["curve"] for line in found if line["what"] == "loss"}
    for curve in curves.values():
        assert [steps for steps, _, _ in curve] == sorted({steps for steps, _, _ in curve})
        assert (curve[0][0], curve[-1][0]) == (0, 24)
        assert curve[-1][1] < curve[0][1] - 1
    assert {curve[0][1] for curve in curves.values()} == {curves["ddp:raw"][0][1]}
    sent = {system: curve[-1][2] for system, curve in curves.items()}
    assert 7.5 < sent["ddp:raw"] / sent["h8:raw"] < 8.5
    assert 3.5 < sent["h8:raw"] / sent["h8:int8"] < 4.2
    assert sent["h8:k5"] < sent["h8:int8"]
    assert curves["ddp:fp16"][-1][1] == pytest.approx(curves["ddp:raw"][-1][1], rel=0.01)
    assert "1 Gbit/s: a step of the training" in made.text
    exchanges = {line["system"]: line["sent"] for line in found if line["what"] == "time"}
    for system in {*systems} - {"ddp:powersgd2"}:  # whose first steps are raw
        every = max(1, System.of(system).every)
        assert exchanges[system] * 24 / every == pytest.approx(sent[system], rel=0.3)

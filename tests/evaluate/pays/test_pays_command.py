# SPDX-License-Identifier: BSD-2-Clause
"""``inceptionn pays`` as users call it, and the bench that checks its model."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from outcomes import Group

from inceptionn import Codec, cli
from inceptionn.codec import converted
from inceptionn.collectives import MEAN, allreduce_comp
from inceptionn.commands.speed import synthetic
from inceptionn.evaluate.bench.collective import pays as bench
from inceptionn.evaluate.bench.collective.variants import RING_BF16, RING_RAW
from inceptionn.evaluate.pays import measure
from inceptionn.evaluate.pays.costs import Coder, Form, Host, Link
from inceptionn.evaluate.pays.ratios import constant, of_values
from inceptionn.transport import Transport


def test_a_slow_link_pays(made_by: Callable[..., Any]) -> None:
    command = "pays --bandwidth 1g --step-time 50ms --ratio 8 --simulate"
    text, facts, _, picture = made_by(command, plot=True)
    assert "Does it pay? Yes." in text
    assert "Simulated host by host, 4 nodes" in text
    assert facts["verdict"] == "yes"
    assert [option["name"] for option in facts["options"]] == ["ring raw", "ring bf16", "ring, NIC"]
    assert facts["speed_up_over_ring_raw"] > facts["speed_up_over_ring_bf16"] > 1.5
    over = facts["chart"]["bandwidth"]["over_raw"]
    assert over[0] > over[-1]
    for label in ("bandwidth of a host's link", "against ring bf16", "speed-up of a step"):
        assert f"<!-- {label} -->" in picture


def test_local_updates_beside_gradients_in_every_step(made_by: Callable[..., Any]) -> None:
    command = "pays --bandwidth 50m --where software --local-steps 16 --nodes 4 --codec-rate 4GB"
    text, facts, *_ = made_by(command)
    assert '"ring, software codec, every 16 steps" ends soonest' in text
    assert facts["local"]["steps_allowed"] > 5
    # Normal values at 2^-6, the bound of four ranks, compress about 10 times, and their sums 7 to 10 times.
    sent = {way["name"]: way["wire_bytes"] for way in facts["local"]["options"]}
    assert 7 < sent["ring raw, every 16 steps"] / sent["ring, software codec, every 16 steps"] < 10
    finer = made_by(f"{command} --local-bound 8")[1]
    assert finer["local"]["steps_allowed"] < facts["local"]["steps_allowed"]


def test_a_measurement_that_fails_is_no_usage_error(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail() -> Host:
        raise ValueError("no clock")

    monkeypatch.setattr(measure, "host", fail)
    assert cli.main(["pays"]) == 2
    assert capsys.readouterr().err == "inceptionn: no clock\n"


def test_no_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["pays", "--where", "inline"]) == 0
    assert "Does it pay? No." in capsys.readouterr().out


def test_gradients_of_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    np.save(tmp_path / "zeros.npy", np.zeros(8192, np.float32))
    assert cli.main(["pays", "--ratio", str(tmp_path / "zeros.npy"), "--bandwidth", "1g"]) == 0
    assert "ratio 16.00" in capsys.readouterr().out


@pytest.mark.parametrize("where", ["software", "nic"])
def test_gradients_of_bfloat16(where: str, tmp_path: Path, made_by: Callable[..., Any]) -> None:
    """Both paths, with the ratio over the file's own bytes."""
    x = np.random.default_rng(1).laplace(scale=1e-3, size=100_000).astype(np.float32)
    halves = converted(x, "bfloat16")
    np.save(tmp_path / "b.npy", halves.view("V2"))
    command = f"pays --where {where} --gradients bfloat16 --bandwidth 1g --scale none --ratio"
    text, facts, _, _ = made_by(command, tmp_path / "b.npy")
    stream = Codec(2**-10, "planes").compress(halves, dtype="bfloat16")
    assert facts["ratio"] == pytest.approx(halves.nbytes / len(stream))
    assert facts["codec"] == "planes"
    assert facts["verdict"] == "yes"
    assert "(over bfloat16)" in text


@pytest.mark.parametrize(
    ("arguments", "result"),
    [
        (["--where", "software", "--topology", "ring"], None),
        (["--where", "software", "--topology", "hierarchical"], None),
        (["--topology", "worker-aggregator"], "1.00"),
        (["--topology", "parameter-server"], "1.00"),
        (["--topology", "parameter-server", "--down"], None),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_the_title_has_the_ratio_of_each_leg(
    tmp_path: Path, arguments: list[str], result: str | None
) -> None:
    found = facts_of(tmp_path, *arguments)
    legs = [f"{found[name]:.2f}" for name in ("ratio", "ratio_of_the_result")]
    assert legs[0] > legs[1] >= (result or "1.01")
    assert result in (None, legs[1])
    assert found["title"].endswith(f", ratio {legs[0]} of gradients, {legs[1]} of the result")


def test_a_constant_ratio_stands_once(tmp_path: Path) -> None:
    assert facts_of(tmp_path, "--ratio", "8")["title"].endswith(", ratio 8.00")


def facts_of(folder: Path, *arguments: str) -> dict[str, Any]:
    """Return the JSON of a prediction."""
    out = folder / "facts.json"
    assert cli.main(["pays", "--tcp-rate", "4GB", "--codec-rate", "5GB", *arguments, "--json", str(out)]) == 0
    facts: dict[str, Any] = json.loads(out.read_text())
    return facts


def test_software_has_the_ratio_that_training_will_have(tmp_path: Path, threads: Group) -> None:
    """Bytes that four ranks send for a file's gradients, with the settings of the hook, by its collective."""
    x = np.random.default_rng(3).standard_normal(40_000).astype(np.float32) * np.float32(2e-4)
    np.save(tmp_path / "gradients.npy", x)
    found = facts_of(tmp_path, "--where", "software", "--ratio", str(tmp_path / "gradients.npy"))
    assert (found["codec"], found["scale"]) == ("planes", "auto")
    codec = Codec(2**-10, "planes")

    def rank(transport: Transport) -> int:
        own = np.random.default_rng(transport.rank).permutation(x)
        allreduce_comp(transport, None, own, MEAN, codec=codec, path="software")
        return transport.bytes_sent

    ratios = [1.5 * x.nbytes / size for size in threads(4, rank)]
    # Half of what is sent are sums of one to three gradients, the other half means of four.
    low, high = sorted((found["ratio"], found["ratio_of_the_result"]))
    assert 0.85 * low < min(ratios) <= max(ratios) < 1.1 * high
    unscaled = facts_of(
        tmp_path, "--where", "software", "--scale", "none", "--ratio", str(tmp_path / "gradients.npy")
    )
    assert unscaled["ratio"] > 2 * max(ratios)


def test_defaults_follow_what_compresses(tmp_path: Path) -> None:
    nic = facts_of(tmp_path)
    assert (nic["codec"], nic["mode"], nic["scale"]) == ("paper", "bounded", None)
    table = facts_of(tmp_path, "--where", "software", "--ratio", "resnet50")
    assert (table["codec"], table["scale"]) == ("paper", None)
    fixed = facts_of(tmp_path, "--where", "software", "--scale", "-3")
    assert fixed["scale"] == -3
    assert fixed["ratio"] > facts_of(tmp_path, "--where", "software")["ratio"]


def test_more_nodes_leave_more_room(tmp_path: Path) -> None:
    """A scale leaves room for the sum of all ranks, so values take fewer bits among more of them."""
    pytest.importorskip("matplotlib")
    few = facts_of(tmp_path, "--where", "software", "--nodes", "2", "--plot", str(tmp_path / "p.png"))
    many = facts_of(tmp_path, "--where", "software", "--nodes", "64")
    assert many["ratio"] > few["ratio"]
    chart = few["chart"]["nodes"]
    at_64 = chart["over_raw"][chart["nodes"].index(64)]
    assert at_64 == pytest.approx(many["speed_up_over_ring_raw"], rel=0.05)


def test_the_bench_predicts_its_variants() -> None:
    codecs = bench.used(synthetic(1 << 17, 1), 10)
    link, host = Link(1e9, 0.0, framing=14, burst=131072), Host(5e9, 1e9, 50e-6, 2)
    times = {
        variant: bench.predicted(variant, 25_000_000, 4, link, host, codecs).seconds
        for variant in bench.MODELLED
    }
    assert times[RING_RAW] == pytest.approx(0.316, rel=0.02)  # measured: docs/benchmarks.md
    assert times[RING_BF16] == pytest.approx(0.160, rel=0.02)
    assert times["worker-aggregator raw"] == pytest.approx(0.666, rel=0.05)


def test_the_model_fits_recorded_measurements() -> None:
    """126 all-reduces between shaped hosts of two processors, measured by `inceptionn bench pays`."""
    recorded = json.loads(Path(__file__).with_name("measured.json").read_text())
    sample = synthetic(1 << 20, 1)
    forms = {name: Form("software", constant(2.0), Coder(**rates))
             for name, rates in recorded["coders"].items()}  # fmt: skip
    forms["bounded"] = replace(forms["bounded"], ratio=of_values(sample, Codec(2**-10)))
    points = []
    for hosts, rate, size, variant, seconds in recorded["points"]:
        link = Link(rate, 0.0, framing=14, burst=max(131072, int(rate / 8 * 200e-6)))
        found = bench.predicted(variant, size, hosts, link, Host(**recorded["hosts"][str(hosts)]), forms)
        points.append(
            bench.Point(hosts, rate, "synthetic", size, variant, seconds, found.seconds, found.limit)
        )
    assert len(points) == 126
    assert bench.median_error(points) <= 10
    assert bench.median_error([point for point in points if point.limit == "link"]) <= 8
    assert bench.median_error([point for point in points if point.limit != "link"]) <= 20


def test_errors_are_of_the_measurement() -> None:
    points = [
        bench.Point(4, 1e9, "synthetic", 4_000_000, RING_RAW, measured, 1.0, "link")
        for measured in (0.5, 1.0, 0.8)
    ]
    assert [round(point.error) for point in points] == [100, 0, 25]
    assert bench.median_error(points) == pytest.approx(25)


@pytest.mark.slow
def test_the_bench_runs(made_by: Callable[..., Any]) -> None:
    made = made_by("bench pays --hosts 2 --rates 500m --sizes 1 --repeats 1", plot=True)
    points = made.facts["points"]
    assert [point["variant"] for point in points] == list(bench.MODELLED)
    assert all(point["measured"] > 0 < point["predicted"] for point in points)


def test_deflated_streams_have_a_ratio_of_their_own(tmp_path: Path) -> None:
    common = ("--where", "software", "--bandwidth", "50m", "--local-steps", "16")
    plain, deflated = facts_of(tmp_path, *common), facts_of(tmp_path, *common, "--deflated")
    assert deflated["ratio"] > 1.05 * plain["ratio"]
    local = [facts["local"]["options"][-1]["step_seconds"] for facts in (deflated, plain)]
    assert local[0] < local[1]
    assert "planes, deflated at 2^-10" in deflated["title"]

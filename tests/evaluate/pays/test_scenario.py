# SPDX-License-Identifier: BSD-2-Clause
"""The verdict is "no" where it must be, and thousands of hosts are simulated as the closed form says."""

from dataclasses import replace
from typing import Any

import pytest
from refusals import refused

from inceptionn.evaluate.pays.costs import Coder, Collectives, Form, Host, Link
from inceptionn.evaluate.pays.ratios import constant
from inceptionn.evaluate.pays.scenario import Scenario, compared, predict
from inceptionn.evaluate.pays.simulation import simulate

FAST = Coder(8e9, 8e9, 8e9, 8e9)
NIC = Form("nic", constant(8.0))
GOOD = Scenario(98e6, 0.1, 4, Link(1e9), NIC, host=Host(5e9, 5e9, 50e-6))


FAR_AWAY = replace(
    GOOD,
    size=1.89e6,
    link=Link(50e6, 0.01),
    form=Form("software", constant(9.2), FAST, collectives=Collectives(True, 2**-10)),
)
"""0.47 million values, and 20 ms for a round trip between two hosts."""


def scene(**changes: Any) -> Scenario:
    return replace(GOOD, **changes)


def test_yes_on_a_slow_link() -> None:
    found = predict(GOOD)
    assert found.verdict == "yes"
    assert found.over_raw > found.over_bf16 > 2
    assert found.gain == pytest.approx(found.over_bf16)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"compute": 60.0}, "compute-bound"),
        ({"link": Link(4e11)}, "TCP stacks are the limit"),
        ({"link": Link(4e11), "form": Form("software", constant(8.0), Coder(1e9, 1e9, 1e9, 1e9))},
         "faster than the host"),
        ({"link": Link(1e11), "host": Host(1e12, 1e12, 1e-6)}, "the engines are the limit"),
        ({"form": Form("inline", constant(8.0))}, "carries raw values"),
        ({"buckets": 500, "size": 5e6, "nodes": 64, "link": Link(1e10)}, "larger buckets"),
        ({"topology": "worker-aggregator"}, "a ring without any codec is"),
        ({"gradients": "bfloat16", "form": Form("nic", constant(2.2), widen=4e9)}, "bf16 already"),
        ({"form": Form("nic", constant(1.05))}, ""),
    ],
)  # fmt: skip
def test_no_when_it_is_no(changes: dict[str, Any], reason: str) -> None:
    found = predict(scene(**changes))
    assert found.verdict in ("no", "not beside bf16")
    assert any(reason in text for text in found.reasons())


def test_local_updates_share_an_exchange() -> None:
    """16 steps of 100 ms share one exchange, of which 20 % of the steps' time is hidden."""
    local = predict(scene(local_steps=16, overlap=0.2))
    raw, every_step = local.raw, predict(scene(overlap=0.2)).raw
    assert raw.name == "ring raw, every 16 steps"
    assert raw.exchange == every_step.exchange
    assert raw.step == pytest.approx(0.1 + raw.exchange.seconds / 16 - 0.02)
    every = predict(scene(overlap=0.2))
    allowed, answer = compared(every, local)
    assert allowed == pytest.approx(every.compressed.step / local.compressed.step)
    assert 'At equal numbers of steps "ring, NIC, every 16 steps" ends soonest' in answer
    assert "unless it needs more than" in answer


def test_far_away_software_agrees_and_takes_one_step() -> None:
    """Within 10 % of what `inceptionn bench slow-links` measured: 137 ms, and with local updates 136."""
    every_step = predict(FAR_AWAY).compressed.exchange
    assert every_step.seconds == pytest.approx(0.137, rel=0.1)
    coarse = replace(FAR_AWAY.form, ratio=constant(10.6), collectives=Collectives(True, 2**-6))
    local = replace(FAR_AWAY, form=coarse, local_steps=16)
    assert predict(local).compressed.exchange.seconds == pytest.approx(0.136, rel=0.1)
    ring = replace(local, form=replace(coarse, collectives=Collectives()))
    # Five steps fewer, of which one sends twice as much.
    gain = predict(ring).compressed.exchange.latency - predict(local).compressed.exchange.latency
    assert gain == pytest.approx(5 * 0.01, rel=0.02)


def test_a_bound_too_coarse_for_the_ranks() -> None:
    assert predict(replace(FAR_AWAY, nodes=64)).verdict == "yes"
    found = predict(replace(FAR_AWAY, nodes=65))
    assert found.verdict == "not at this bound"
    assert "keep the bound at 2^-11" in found.reasons()[0]


def test_inline_devices_store_what_they_delay() -> None:
    """Both send a packet over a gigabit cable, and the first compresses it: 1538 bytes at 249 MB/s."""
    form, slow = Form("inline", constant(8.0)), Link(1e8)
    assert form.delay(slow) == pytest.approx(2 * 12.304e-6 + 6.18e-6, rel=1e-3)
    large, small = (predict(scene(form=form, link=slow, size=size)) for size in (1e8, 1e4))
    assert large.verdict == "yes"
    assert small.compressed.exchange.latency > small.raw.exchange.latency
    assert small.compressed.exchange.limit == "latency"


def test_lanes_of_bf16_halve_what_hosts_send() -> None:
    """In a NIC the host sends its bf16 values as they are; without such lanes, as fp32."""
    halves, lanes = {"gradients": "bfloat16", "size": 49e6}, Form("nic", constant(13.0), bf16_lanes=True)
    slow, fast = (predict(scene(form=lanes, link=Link(rate), **halves)) for rate in (1e9, 1e11))
    assert slow.scenario.ratios == (6.5, 6.5)
    assert slow.verdict == "yes"
    assert slow.bf16.exchange.seconds / slow.compressed.exchange.seconds > 4
    assert fast.compressed.exchange.processor == fast.raw.exchange.processor
    wide = predict(scene(form=Form("nic", constant(13.0), widen=4e9), link=Link(1e11), **halves))
    assert wide.compressed.exchange.processor > 2 * wide.raw.exchange.processor
    assert any("without lanes of bf16" in reason for reason in wide.reasons())
    coder = Coder(20e9, 20e9, 20e9, 20e9)
    software = predict(scene(form=Form("software", constant(13.0), coder), link=Link(1e9), **halves))
    assert software.bf16.exchange.seconds / software.compressed.exchange.seconds > 4
    assert simulate(slow.scenario).even == pytest.approx(slow.compressed.exchange.seconds, rel=0.05)


def test_half_the_gain_is_not_beside_bf16() -> None:
    found = predict(scene(form=Form("nic", constant(2.0)), compute=0.0))
    assert found.verdict == "not beside bf16"
    assert found.over_raw > 1.5


def test_the_codec_is_not_credited_with_groups() -> None:
    found = predict(scene(topology="hierarchical", nodes=4096, link=Link(1e10, 50e-6)))
    assert found.over_raw > found.gain
    assert any("groups alone" in text for text in found.reasons())


def test_overlap_hides_exchanges() -> None:
    hidden = predict(scene(compute=10.0, overlap=1.0))
    assert hidden.raw.step == 10.0
    assert hidden.verdict == "no"


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"nodes": 1}, "nodes must be 2 to 1000000, not 1"),
        ({"size": 0.0}, "size must be 4 B to 100 TB, not 0.0"),
        ({"compute": float("nan")}, "step time must be 0 to 100000 s, not nan"),
        ({"overlap": 1.5}, "overlap must be 0 to 1, not 1.5"),
        ({"group": 5}, "group must be 1 to 4, not 5"),
        ({"buckets": 0}, "buckets must be 1 to 1000000, not 0"),
        ({"topology": "star"}, "topology must be one of ring, .*, not 'star'"),
        ({"form": Form("nic", constant(0.0))}, "ratio must be at least 0.5, not 0.0"),
        ({"oversubscription": 0.5}, "oversubscription must be at least 1, not 0.5"),
    ],
)
def test_impossible_values_are_named(changes: dict[str, Any], text: str) -> None:
    refused(ValueError, text, scene, **changes)


@pytest.mark.parametrize(
    "changes",
    [
        {"nodes": 64},
        {"nodes": 64, "topology": "hierarchical", "group": 8},
        {"buckets": 3},
        {"form": FAR_AWAY.form, "buckets": 3},
        {"form": FAR_AWAY.form, "nodes": 64, "topology": "hierarchical", "group": 8},
        {"form": FAR_AWAY.form, "link": FAR_AWAY.link, "size": 1e6},
    ],
)
def test_without_jitter_the_simulation_is_the_closed_form(changes: dict[str, Any]) -> None:
    chosen = scene(**changes)
    found = simulate(chosen)
    assert found.first == pytest.approx(found.last)
    assert found.last == pytest.approx(predict(chosen).compressed.exchange.seconds, rel=1e-6)


def test_ten_thousand_hosts() -> None:
    chosen = scene(nodes=10_000, topology="hierarchical", group=100)
    found = simulate(chosen, jitter=0.2, seed=3)
    assert found == simulate(chosen, jitter=0.2, seed=3)
    assert found.first <= found.median <= found.last
    assert found.even < found.last < 3 * found.even


def test_what_cannot_be_simulated() -> None:
    refused(ValueError, "not 'parameter-server'", simulate, scene(topology="parameter-server"))
    refused(ValueError, "divide the 4 nodes, not 3", simulate, scene(topology="hierarchical", group=3))
    refused(ValueError, "jitter must be 0 to 100, not -1", simulate, GOOD, jitter=-1)

# SPDX-License-Identifier: BSD-2-Clause
"""What ranks exchange outside the agreement: one rank sends nonsense, and every rank's error names it."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from one_variable import OneVariable
from outcomes import Group, if_rank_1_says, messages

from inceptionn.collectives import MismatchError
from inceptionn.layers import parallax
from inceptionn.layers.gradiveq import GradiVeQ
from inceptionn.layers.parallax import MomentumSGD, ParallaxConfig, get_runner
from inceptionn.layers.parallax.exchange.sparse_exchange import machines_of
from inceptionn.layers.parameter_server import ParameterServer
from inceptionn.layers.traffic import Traffic
from inceptionn.transport import Transport

Lying = Callable[[Transport, Callable[[Any], bool], Any], None]
HUGE = 10**400


def names_rank_1(results: list[Any]) -> None:
    for text in messages(results, MismatchError):
        assert text.startswith("rank 1 sent a malformed agreement: ")
        assert len(text) < 1200


def answers(*values: Any) -> Any:
    return pytest.mark.parametrize("answer", values, ids=lambda value: str(value)[:30])


@answers(
    None, 5, [], [{}], [{}, {}, {}], [[], []], [{"push": -1}, {}], [{"push": "8"}, {}], [{"push": True}, {}],
    [{}, {"push": 1.5}], [{}, {"push": HUGE}], [{"\x1b[2J": 1}, {}], [{"a" * 1001: 1}, {}],
)  # fmt: skip
def test_traffic_of_all(threads: Group, answer: Any) -> None:
    names_rank_1(if_rank_1_says(threads, Traffic().of_all, answer))


@answers(None, 5, ["a"], {"a": "b"})
def test_names_of_machines(threads: Group, answer: Any) -> None:
    names_rank_1(if_rank_1_says(threads, lambda t: machines_of(t, "host"), answer))


@answers(
    None, 5, [], [5], [[1, 0]], [[0, 0, 0]], [[13, 0, 0]], [[True, 0, 0]], [[2, 128, 0]], [[2, 0.0, 0]],
    [[2, 0, 1 << 32]], [[2, 0, "0"]], [[2, 0, 0], [2, 0, 0]],
)  # fmt: skip
def test_compressors(threads: Group, lying: Lying, answer: Any) -> None:
    """One run of slices of 12 values. All other exchanges of the layer are agreements."""

    def run(t: Transport) -> None:
        weights = {"conv": np.ones((2, 6, 1, 1), np.float32)}
        exchange = GradiVeQ(t, weights, warm_up=0, sampling=2, compressed=1, sampling_bits=None)
        if t.rank == 1:
            lying(t, lambda value: isinstance(value[0], list), answer)
        for _ in range(3):
            exchange.all_reduce(weights)

    names_rank_1(threads(3, run, timeout=5))


@answers(None, 5, [], [[1]], [[1], 2], [["1"], []], [[], [True]], [[-1], []], [[HUGE], []], [[1.0], [1.0]])
def test_steps_of_checkpoints(threads: Group, lying: Lying, tmp_path: Path, answer: Any) -> None:
    def run(t: Transport) -> None:
        if t.rank == 1:
            lying(t, lambda value: len(value) == 2, answer)
        ParameterServer(t, {"a": np.zeros(4, np.float32)}, restore=tmp_path)

    names_rank_1(threads(3, run, timeout=5))


def parallax_lies(
    threads: Group, lying: Lying, instead_of: Callable[[Any], bool], answer: Any, **settings: Any
) -> list[Any]:
    def run(t: Transport) -> None:
        with parallax.partitioner() as words:
            parallax.variable("words", None)
        config = ParallaxConfig(
            alpha_steps=1, warm_up=0, sampled=1, strategy="parameter_server", path="off", **settings
        )
        model, machine = OneVariable((6, 2), np.arange(2), 1), str(t.rank)
        runner = get_runner(model, t, lambda: MomentumSGD(0.1), config, partitioners=[words], machine=machine)
        if t.rank == 1:
            lying(t, instead_of, answer)
        for step in range(3):
            runner.run(step)

    return threads(3, run, timeout=5)


ONE = {"words": 0.5}
MEASURED = {"alphas": ONE, "machine": ONE, "pushed": 1, "raw": 1, "trials": {}}


@answers(
    None, 5, {}, {**MEASURED, "alphas": {}}, {**MEASURED, "alphas": {"words": "x"}},
    {**MEASURED, "alphas": {"words": 1.5}}, {**MEASURED, "alphas": {"words": float("nan")}},
    {**MEASURED, "machine": {**ONE, "more": 0.5}}, {**MEASURED, "machine": {"words": True}},
    {**MEASURED, "pushed": -1}, {**MEASURED, "raw": HUGE}, {**MEASURED, "raw": float("inf")},
    {**MEASURED, "trials": {"words": "8"}}, {**MEASURED, "trials": [8]},
)  # fmt: skip
def test_alphas(threads: Group, lying: Lying, answer: Any) -> None:
    names_rank_1(parallax_lies(threads, lying, lambda value: "alphas" in value, answer))


@answers(None, "1", [1], True, -1.0, HUGE, float("nan"), float("inf"))
def test_seconds_of_steps(threads: Group, lying: Lying, answer: Any) -> None:
    names_rank_1(parallax_lies(threads, lying, lambda value: isinstance(value, float), answer))


@answers(None, 5, "", [], {})
def test_whether_a_rank_takes_the_step(threads: Group, lying: Lying, answer: Any) -> None:
    taken = lambda value: value is False  # noqa: E731
    names_rank_1(parallax_lies(threads, lying, taken, answer, non_finite="skip"))

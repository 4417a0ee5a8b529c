# SPDX-License-Identifier: BSD-2-Clause
"""What pushes and pulls have cost: the statistics of a transport count what the layers' traffic counts."""

from typing import Any

import numpy as np
import pytest
from one_variable import OneVariable
from outcomes import Group

from inceptionn import Codec
from inceptionn.collectives import Statistics, statistics
from inceptionn.layers.parallax import ParallaxConfig, get_runner
from inceptionn.layers.parameter_server import MomentumSGD, ParameterServer
from inceptionn.layers.ssd_sgd import SSDSGD
from inceptionn.transport import Transport

RANKS, STEPS = 3, 4
PLANES = Codec(2**-10, "planes")
START = {"w": np.zeros((40, 30), np.float32), "b": np.zeros(30, np.float32)}
VALUES = 1230


def gradients(rank: int, step: int) -> dict[str, Any]:
    random = np.random.default_rng((rank, step))
    return {key: random.laplace(scale=1e-3, size=own.shape).astype(np.float32) for key, own in START.items()}


def sums(found: Statistics, kind: str) -> Statistics:
    """Add up the parts of one kind."""
    whole = Statistics(kind)
    for part in found.parts:
        if part.name.startswith(f"{kind}, "):
            whole.path = part.path
            for name in ("calls", "values", "bytes_before", "bytes_sent", "messages"):
                setattr(whole, name, getattr(whole, name) + getattr(part, name))
            for name in ("seconds", "codec", "waiting", "sending"):
                setattr(whole, name, getattr(whole, name) + getattr(part, name))
    return whole


@pytest.mark.parametrize(
    ("codec", "nic", "path"), [(None, None, "off"), (PLANES, None, "software"), (PLANES, PLANES, "nic")]
)
@pytest.mark.parametrize("separate", [False, True])
def test_a_parameter_server(
    threads: Group, codec: Codec | None, nic: Codec | None, path: str, separate: bool
) -> None:
    def run(t: Transport) -> tuple[Statistics, dict[str, int], dict[str, int]]:
        options: dict[str, Any] = {"workers": [0, 1], "servers": [2]} if separate else {}
        with ParameterServer(t, START, MomentumSGD(0.1), codec=codec, **options) as group:
            for step in range(STEPS if group.worker else 0):
                group.worker.push(gradients(t.rank, step))
                group.worker.pull()
        return statistics(t), dict(group.traffic.sent), dict(group.traffic.raw)

    for rank, (found, sent, raw) in enumerate(threads(RANKS, run, nic=nic)):
        push, pull, received, answered = (
            sums(found, kind) for kind in ("push", "pull", "push received", "pull answered")
        )
        works, serves = not separate or rank < 2, not separate or rank == 2
        assert (push.calls, push.values) == (works * STEPS, works * STEPS * VALUES)
        assert (pull.calls, pull.values) == (works * STEPS, works * STEPS * VALUES)
        assert (push.bytes_sent, push.bytes_before) == (sent.get("push", 0), raw.get("push", 0))
        assert (answered.bytes_sent, answered.bytes_before) == (sent.get("pull", 0), raw.get("pull", 0))
        assert pull.bytes_sent == received.bytes_sent == 0
        assert (received.calls > 0) == (answered.calls > 0) == serves
        if works:
            assert (push.path, pull.path) == (path, "off")
            assert push.codec > 0
            assert push.sending > 0
            assert pull.waiting > 0
            assert pull.codec > 0
            assert push.messages == STEPS * (1 if separate else 2)
        if serves:
            assert received.codec > 0
            assert answered.sending > 0
            assert answered.codec > 0
        for call in (push, pull, received, answered):
            assert call.codec + call.waiting + call.sending <= call.seconds + 1e-6
        assert str(found)


def test_ssd_sgd_is_counted_by_its_worker(threads: Group) -> None:
    def run(t: Transport) -> tuple[int, int, int]:
        with ParameterServer(t, START, MomentumSGD(0.1), codec=PLANES) as group:
            ssd = SSDSGD(group.worker, k=2, warm_up=1)
            for step in range(STEPS):
                ssd.step(gradients(t.rank, step))
            ssd.finish()
        found = statistics(t)
        return sums(found, "push").calls, sums(found, "pull").calls, ssd.pulls

    for pushes, pulls, made in threads(RANKS, run):
        assert pushes == STEPS
        assert pulls == made


def test_a_skipped_push_is_none(threads: Group) -> None:
    def run(t: Transport) -> int:
        with ParameterServer(t, START, MomentumSGD(0.1), codec=PLANES, nonfinite="skip") as group:
            own = gradients(t.rank, 0)
            own["b"][3] = np.nan if t.rank == 1 else 0
            group.worker.push(own)
            group.worker.pull()
        return sums(statistics(t), "push").calls

    assert threads(RANKS, run) == [1, 0, 1]


def test_parallax(threads: Group) -> None:
    def run(t: Transport) -> tuple[Statistics, dict[str, int]]:
        config = ParallaxConfig(alpha_steps=1, strategy="parameter_server", codec=PLANES, path="software")
        model = OneVariable((12, 5), np.arange(t.rank, 12), 1e-3)
        runner = get_runner(model, t, lambda: MomentumSGD(0.1), config, machine=str(t.rank))
        for _ in range(STEPS):
            runner.run(None)
        return statistics(t), dict(runner.traffic.sent)

    for rank, (found, sent) in enumerate(threads(RANKS, run)):
        push, pull = (sums(found, f"Parallax, {kind} of words") for kind in ("push", "pull"))
        assert (push.calls, push.values) == (STEPS, STEPS * 5 * (12 - rank))
        assert push.path == "software"
        assert push.bytes_sent == sent["gradients"] < push.bytes_before
        assert pull.path == "off"
        assert pull.values == pull.calls * 5 * (12 - rank)
        assert pull.bytes_sent == sent["values"] + sent["rows"]
        assert pull.bytes_before == sent["values"]
        for call in (push, pull):
            assert call.codec + call.waiting + call.sending <= call.seconds
            assert call.waiting > 0

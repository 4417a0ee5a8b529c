# SPDX-License-Identifier: BSD-2-Clause
"""GradiVeQ's state: a restored run goes on to the same bits; what is no such state is named at every rank."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from outcomes import Group, messages

from inceptionn import Codec
from inceptionn.collectives import MismatchError
from inceptionn.evaluate.training import Batches, Parameters, digits, model_of
from inceptionn.layers import checkpoint
from inceptionn.layers.gradiveq import GradiVeQ
from inceptionn.transport import Transport

pytest.importorskip("torch")
MODEL = model_of("cnn", channels=(4, 6))
DATA = digits()
STEPS = 24
SETTINGS: dict[str, Any] = {"warm_up": 3, "sampling": 6, "compressed": 8, "loss_limit": 5.0, "reuse": 4}


def train(t: Transport, directory: Path, begin: int = 0, stop: int = STEPS, **more: Any) -> Any:
    """Weights after each step; the whole state in a file of this rank's at the last one."""
    exchange = GradiVeQ(t, MODEL.initial(), **(SETTINGS | more))
    weights, momenta = MODEL.initial(), {key: np.zeros_like(value) for key, value in MODEL.initial().items()}
    if begin:
        state = checkpoint.load(directory / f"rank{t.rank}-step{begin}.npz")
        weights, momenta = state["weights"], state["momenta"]
        exchange.load_state_dict(state["exchange"])
    batches, found = Batches(DATA.train, 8, t.rank, t.size), []
    for step in range(begin, stop):
        for key, gradient in exchange.all_reduce(MODEL.gradients(weights, batches.at(step))).items():
            momenta[key] = np.float32(0.9) * momenta[key] - np.float32(0.02) * gradient
            weights[key] = weights[key] + momenta[key]
        found.append(bits(weights))
    state = {"weights": weights, "momenta": momenta, "exchange": exchange.state_dict()}
    checkpoint.save(directory / f"rank{t.rank}-step{stop}.npz", state)
    return found, exchange


def bits(weights: Parameters) -> bytes:
    return b"".join(value.tobytes() for value in weights.values())


@pytest.mark.parametrize("codec", [None, Codec(2**-12, threads=1)], ids=["raw", "codec"])
def test_a_restart_in_any_phase_goes_on_with_the_same_bits(
    threads: Group, tmp_path: Path, codec: Codec | None
) -> None:
    """Warm-up to step 3, quantised samples to 9, compressed to 17, sampled again to 23, compressed."""
    more = {"codec": codec, "rest_codec": codec}
    whole = threads(2, lambda t: train(t, tmp_path, **more))
    history = [("warm-up", 0), ("sampling", 3), ("compressed", 9), ("sampling", 17), ("compressed", 23)]
    assert whole[0][1].phases.history == history
    last = [(tmp_path / f"rank{rank}-step{STEPS}.npz").read_bytes() for rank in range(2)]
    for begin in (1, 3, 6, 9, 10, 13, 17, 20, 23):
        threads(2, lambda t, begin=begin: train(t, tmp_path, stop=begin, **more))
        again = threads(2, lambda t, begin=begin: train(t, tmp_path, begin, **more))
        for rank, (found, exchange) in enumerate(again):
            assert found == whole[rank][0][begin:], f"from step {begin}"
            assert (tmp_path / f"rank{rank}-step{STEPS}.npz").read_bytes() == last[rank]
            assert exchange.traffic.sent == whole[rank][1].traffic.sent


def test_a_restart_over_tcp(tcp: Group, tmp_path: Path) -> None:
    whole = tcp(3, lambda t: train(t, tmp_path, stop=14))
    tcp(3, lambda t: train(t, tmp_path, stop=11))
    for one, other in zip(whole, tcp(3, lambda t: train(t, tmp_path, 11, 14)), strict=True):
        assert other[0] == one[0][11:]


EDITS: dict[str, tuple[Callable[[Any], Any], str]] = {
    "missing": (lambda s: s.pop("runs"), "runs is missing"),
    "settings": (lambda s: s["settings"].update(threshold="0.5"), "settings/threshold is '0.5' there, '0.0"),
    "other rank": (lambda s: s.update(rank=0), "rank is 0 there, 1 here"),
    "more ranks": (lambda s: s.update(ranks=3), "ranks is 3 there, 2 here"),
    "step": (lambda s: s.update(step=True), "step must be an integer of at least 0, not True"),
    "loss": (lambda s: s.update(loss=float("nan")), "loss must be a number of at least 0, not nan"),
    "phase": (lambda s: s["phases"].update(phase=[]), "phases: phase must be one of warm-up, sampling, comp"),
    "left": (lambda s: s["phases"].update(left=9), "phases: left must be an integer within 0..8, not 9"),
    "losses": (lambda s: s["phases"].update(losses=[1]), "phases: losses must be at most 10 numbers"),
    "history": (lambda s: s["phases"].update(history=[["x", 0]]), "phases: history must hold phases"),
    "random": (
        lambda s: s["quantiser"].update(random={"bit_generator": "PCG64"}),
        "quantiser: random is not a state of PCG64",
    ),
    "no random": (lambda s: s.update(quantiser=None), "quantiser: the state must be a dictionary"),
    "few slices": (lambda s: s["slices"].pop(), "slices must be a list of"),
    "samples": (
        lambda s: s["slices"][0].update(samples=np.zeros((1, 4), np.float32)),
        "slices/0/samples must be float32 of (0, 4), not float32 of (1, 4)",
    ),
    "no runs": (lambda s: s.update(runs=[]), "runs must be a list of"),
    "one element": (
        lambda s: s["runs"][1].update(whitening=np.zeros((1, 1), np.float32)),
        "runs/1/whitening must be float32 of (4, 4), not float32 of (1, 1)",
    ),
    "float64": (
        lambda s: s["runs"][0].update(components=np.zeros((4, 2))),
        "runs/0/components must be float32 of (4, any), not float64 of (4, 2)",
    ),
    "NaN": (
        lambda s: np.put(s["runs"][0]["components"], 0, np.nan),
        "runs/0/components has values that are not finite",
    ),
    "scale": (
        lambda s: s["runs"][0].update(scale=1000), "runs/0/scale must be an integer within -127..127, not 1"
    ),
    "traffic": (
        lambda s: s["traffic"].update(sent={"rest": -1}), "traffic/sent/rest must be an integer of at least 0"
    ),
}  # fmt: skip


def test_one_wrong_field_is_named_at_every_rank_and_nothing_is_restored(threads: Group) -> None:
    """Each edit of rank 1's state; after it the exchange still goes on from where it was."""

    def rank(t: Transport) -> Any:
        exchange = GradiVeQ(t, MODEL.initial(), **SETTINGS)
        batches, weights = Batches(DATA.train, 8, t.rank, t.size), MODEL.initial()
        for step in range(12):
            exchange.all_reduce(MODEL.gradients(weights, batches.at(step)))
        fresh = GradiVeQ(t, MODEL.initial(), **SETTINGS)
        heard = {}
        for name, (change, _) in EDITS.items():
            state = exchange.state_dict()
            if t.rank == 1:
                change(state)
            try:
                fresh.load_state_dict(state)
            except ValueError as error:
                heard[name] = error
        assert fresh.step == 0
        assert (fresh.runs, fresh.phases.history) == ([], [("warm-up", 0)])
        assert fresh.slices[0].samples == []
        fresh.load_state_dict(exchange.state_dict())
        return heard

    other, own = threads(2, rank)
    for name, (_, text) in EDITS.items():
        assert text in str(own[name])
        assert isinstance(other[name], MismatchError)
        assert text in str(other[name])


def test_states_of_different_steps_do_not_fit(threads: Group) -> None:
    def rank(t: Transport) -> None:
        exchange = GradiVeQ(t, MODEL.initial(), **SETTINGS)
        batches, weights = Batches(DATA.train, 8, t.rank, t.size), MODEL.initial()
        states = []
        for step in range(5):
            exchange.all_reduce(MODEL.gradients(weights, batches.at(step)))
            states.append(exchange.state_dict())
        GradiVeQ(t, MODEL.initial(), **SETTINGS).load_state_dict(states[3 + t.rank])

    for text in messages(threads(2, rank), MismatchError):
        assert "differs: rank 0 has" in text

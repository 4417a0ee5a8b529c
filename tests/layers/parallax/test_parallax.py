# SPDX-License-Identifier: BSD-2-Clause
"""Parallax's runner: every strategy trains the same model, and ranks that differ or fail say so."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np
import pytest
from one_variable import OneVariable
from outcomes import Group, messages
from refusals import refused

from inceptionn import Codec
from inceptionn.collectives import SUM, MismatchError, statistics
from inceptionn.collectives.values.wire_form import Raw
from inceptionn.evaluate.training import (
    MLP,
    Batch,
    Batches,
    EmbeddingClassifier,
    Gradients,
    digits,
    zipf_documents,
)
from inceptionn.layers import parallax
from inceptionn.layers.parallax import MomentumSGD, ParallaxConfig, Runner, get_runner
from inceptionn.layers.parallax.exchange.all_gather import all_gather_sum
from inceptionn.layers.parallax.exchange.sparse_exchange import Machines, SparseVariable
from inceptionn.layers.parameter_server import Partition
from inceptionn.layers.parameters import RowSparse
from inceptionn.transport import PeerLost, Transport, TransportError

WORDS = 400
DATA = zipf_documents(WORDS, 8, 1200, 8)


def test_every_machine_sees_every_update(group: Group) -> None:
    """Pulls and pushes of random rows against the sum in one place, for ways to share out ranks and rows."""
    initial = np.random.default_rng(0).normal(size=(50, 3)).astype(np.float32)

    def update(partition: int, values: Any, rows: Any, gradient: Any) -> None:
        values[rows] -= np.float32(0.5) * gradient

    def draws(rank: int) -> list[Any]:
        random = np.random.default_rng(rank)
        return [np.unique(random.integers(0, 50, size)) for size in (0, 5, 20, 100)]

    for of in [(0,), (0, 1), (0, 1, 2), (0, 0, 1), (0, 1, 0, 1)]:

        def run(t: Transport, of: tuple[int, ...] = of) -> list[Any]:
            found = []
            for partitions in (1, 2, 7, 50):
                variable = SparseVariable(t, Machines(of), initial, partitions, update)
                for rows in draws(t.rank):
                    values = variable.pull(rows)
                    assert values.shape == (rows.size, 3)
                    variable.push(np.full_like(values, t.rank + 1))
                found.append(variable.whole())
            return found

        expected = initial.astype(np.float64)
        for rank in range(len(of)):
            for rows in draws(rank):
                expected[rows] -= 0.5 * (rank + 1)
        for result in group(len(of), run):
            assert not isinstance(result, Exception), result
            for whole in result:
                assert np.allclose(whole, expected, atol=1e-5)


def test_pushed_gradients_must_fit(threads: Group) -> None:
    def run(t: Transport) -> None:
        variable = SparseVariable(t, Machines((0, 1)), np.zeros((5, 2), np.float32), 2, lambda *_: None)
        variable.pull(np.array([0, 3]))
        refused(ValueError, r"must be \(2, 2\), not \(3, 2\)", variable.push, np.zeros((3, 2), np.float32))
        refused(ValueError, r"within 0\.\.4, not 5", variable.pull, np.array([5]))

    assert threads(2, run) == [None, None]


def test_all_gather_sums_and_agrees(group: Group) -> None:
    def run(t: Transport) -> Any:
        rows = np.array([[0, 4], [], [4, 9]][t.rank], np.int64)
        values = np.full((rows.size, 2), t.rank + 1, np.float32)
        total, sent = all_gather_sum(t, RowSparse(rows, values, (10, 2)), Raw(t))
        return total.dense(), sent

    results = group(3, run)
    expected = np.zeros((10, 2), np.float32)
    expected[[0, 4, 9]] = [[1, 1], [4, 4], [3, 3]]
    for dense, _ in results:
        assert np.array_equal(dense, expected)
    # Two peers: a set of rows in 1 + 2 bytes, and 8 bytes per row.
    assert [sent for _, sent in results] == [2 * (3 + 16), 2 * 1, 2 * (3 + 16)]


def trained(
    group: Group, size: int = 4, steps: int = 30, machine: Callable[[int], str] = str, **settings: Any
) -> list[Runner]:
    """Return a runner of each rank after some steps, with all variables gathered as ``whole``."""
    settings = {"warm_up": 1, "sampled": 1, "alpha_steps": 2} | settings

    def run(t: Transport) -> Runner:
        with parallax.partitioner() as words:
            parallax.variable("embedding", None)
        model, own = EmbeddingClassifier(WORDS, 16, 8), {"partitioners": [words], "machine": machine(t.rank)}
        optimizer = partial(MomentumSGD, 0.5, momentum=0)
        runner = get_runner(model, t, optimizer, ParallaxConfig(**settings), **own)
        batches = Batches(DATA.train, 8, t.rank, t.size)
        for step in range(steps):
            runner.run(batches.at(step))
        runner.whole = runner.gathered()  # type: ignore[attr-defined]
        return runner

    found = group(size, run)
    for runner in found:
        if isinstance(runner, Exception):
            raise runner
        for key, value in runner.whole.items():
            assert np.array_equal(value.view(np.uint32), found[0].whole[key].view(np.uint32))
    return found


@pytest.mark.parametrize(
    "settings",
    [
        {"strategy": "all_gather"},
        {"strategy": "parameter_server"},
        {"strategy": "hybrid"},
        {"strategy": "hybrid", "partitions": 7},
        {"strategy": "parameter_server", "machine": lambda rank: str(rank // 2)},
        {"strategy": "parameter_server", "machine": lambda rank: str(rank // 2), "local_aggregation": False},
        {"sparse_op": SUM, "dense_op": SUM, "reference": {"sparse_op": SUM, "dense_op": SUM}},
    ],
    ids=lambda settings: ", ".join(settings),
)
def test_all_strategies_train_alike(threads: Group, settings: dict[str, Any]) -> None:
    settings = dict(settings)
    reference = trained(threads, strategy="dense", **settings.pop("reference", {}))[0]
    runner = trained(threads, **settings)[0]
    for key, value in reference.whole.items():  # type: ignore[attr-defined]
        assert np.allclose(runner.whole[key], value, atol=1e-4)  # type: ignore[attr-defined]
    assert 0 < runner.alphas["embedding"] < 0.2
    assert runner.settled
    counted = {part.name.split(",")[0] for part in statistics(runner.transport).parts}
    assert "Parallax" in counted


def test_over_tcp_with_the_codec(tcp: Group) -> None:
    runners = trained(tcp, size=3, path="software", codec=Codec(2**-10), scale=None)
    assert runners[0].architectures["embedding"] == "parameter_server"
    assert runners[0].traffic.raw["gradients"] > 2 * runners[0].traffic.sent["gradients"]


def test_what_is_sent(threads: Group) -> None:
    """The bytes of Table 3: about alpha w (N-1)/N each for rows pulled and gradients pushed, per rank."""
    runner = trained(threads, strategy="parameter_server", partitions=4)[0]
    one_way = runner.alphas["embedding"] * WORDS * 16 * 4 * 3 / 4 * runner.step
    assert runner.traffic.sent["gradients"] == pytest.approx(one_way, rel=0.1)
    assert runner.traffic.sent["local"] == 0
    assert runner.model_alpha == pytest.approx(runner.alphas["embedding"], abs=0.05)


def test_local_aggregation_sends_less(threads: Group) -> None:
    def sent(**settings: Any) -> int:
        runners = trained(threads, strategy="parameter_server", partitions=4, **settings)
        return sum(runner.traffic.sent["gradients"] for runner in runners)

    machine = lambda rank: str(rank // 2)  # noqa: E731
    assert sent(machine=machine) < 0.6 * sent(machine=machine, local_aggregation=False)


def test_a_variable_that_is_not_sparse_is_reduced(threads: Group) -> None:
    runner = trained(threads, advantage=50.0)[0]
    assert runner.architectures == dict.fromkeys(runner.parameters, "all_reduce")
    assert runner.partitions("embedding") == 0
    assert runner.settled


def test_a_dense_model_uses_the_all_reduce_alone(threads: Group) -> None:
    data = digits()

    def run(t: Transport) -> float:
        model = MLP(64, (16,), 10)
        runner = get_runner(model, t, lambda: MomentumSGD(0.1, 0.9))
        batches = Batches(data.train, 32, t.rank, t.size)
        for step in range(60):
            runner.run(batches.at(step))
        assert set(runner.traffic.sent) == {"dense"}
        return model.accuracy(runner.gathered(), data.test)

    results = threads(2, run)
    assert results[0] == results[1]
    assert results[0] > 0.85


class Faulty(EmbeddingClassifier):
    """Puts something wrong into rank 1's gradient of step 2."""

    def __init__(self, rank: int, fault: str) -> None:
        super().__init__(WORDS, 16, 8)
        self.rank, self.fault, self.calls = rank, fault, 0

    def rows(self, batch: Batch) -> dict[str, Any]:
        return {} if self.rank == 1 and self.fault == "no rows" else super().rows(batch)

    def loss_and_gradients(self, parameters: Mapping[str, Any], batch: Batch) -> tuple[float, Gradients]:
        loss, gradients = super().loss_and_gradients(parameters, batch)
        self.calls += 1
        if self.rank == 1 and self.calls == 3:
            embedding = gradients["embedding"]
            if self.fault == "no sparse gradient":
                del gradients["embedding"]
            elif self.fault == "one too many":
                gradients["word"] = embedding
            elif self.fault == "dense":
                gradients["embedding"] = embedding.dense()
            elif self.fault == "transposed":
                gradients["fc.weight"] = gradients["fc.weight"].T.copy()
            elif self.fault == "float64":
                gradients["embedding"] = RowSparse(
                    embedding.rows, embedding.values.astype(np.float64), embedding.shape
                )
            elif self.fault == "other rows":
                rest = np.setdiff1d(np.arange(WORDS), self.rows(batch)["embedding"])[:1]
                gradients["embedding"] = RowSparse(rest, np.ones((1, 16), np.float32), (WORDS, 16))
            else:
                gradients[self.fault] = np.full_like(gradients[self.fault], np.nan)
        return loss, gradients


def fails(t: Transport, fault: str, **settings: Any) -> Any:
    runner = get_runner(Faulty(t.rank, fault), t, MomentumSGD, ParallaxConfig(**settings))
    batches = Batches(DATA.train, 8, t.rank, t.size)
    for step in range(4):
        runner.run(batches.at(step))
    return runner.gathered()


def test_a_gradient_that_is_not_finite(group: Group) -> None:
    first, own, last = group(3, lambda t: fails(t, "fc.bias"))
    others = messages((first, last), PeerLost)
    for text in others | messages([own], parallax.NonFiniteGradient):
        assert "gradient of key 'fc.bias' at step 2 has values that are not finite" in text
    assert all("rank 1" in text for text in others)


def test_a_gradient_that_is_not_finite_is_skipped(threads: Group) -> None:
    results = threads(2, lambda t: fails(t, "fc.bias", non_finite="skip"))
    for key, value in results[0].items():
        assert np.isfinite(value).all()
        assert np.array_equal(value, results[1][key])


def test_rows_that_were_not_looked_up(threads: Group) -> None:
    results = threads(2, lambda t: fails(t, "other rows"))
    for result in results:
        assert "step 2: the gradient of 'embedding' has rows that the batch did not look up" in str(result)


@pytest.mark.parametrize(
    ("fault", "text"),
    [
        ("no sparse gradient", "there is no gradient of 'embedding'"),
        ("one too many", "there is no variable 'word'"),
        ("dense", "the gradient of 'embedding' was sparse in step 0, but is now dense"),
        ("transposed", "the gradient of 'fc.weight' must be float32 of (16, 8), not float32 of (8, 16)"),
        ("float64", "the gradient of 'embedding' must be float32 of (400, 16), not float64 of (400, 16)"),
    ],
)
def test_a_gradient_that_does_not_fit_is_an_error_at_all_ranks(threads: Group, fault: str, text: str) -> None:
    other, own = threads(2, lambda t: fails(t, fault))
    for said in messages([own], ValueError) | messages([other], PeerLost):
        assert f"step 2: {text}" in said


@pytest.mark.parametrize("strategy", ["parameter_server", "all_gather"])
@pytest.mark.parametrize("rows", [[], [7], [0, 1], [0, *4 * [255]], [1, 255]], ids=str)
def test_a_malformed_row_set_names_its_link(threads: Group, strategy: str, rows: list[int]) -> None:
    """Rank 2 sends rank 3 no set of the 160 rows. The values are float32, so row sets are the only bytes."""

    def run(t: Transport) -> None:
        if t.rank == 2:
            real, wrong = t.isend, np.array(rows, np.uint8)
            t.isend = lambda to, data, **how: real(  # type: ignore[method-assign]
                to, wrong if to == 3 and data.dtype == np.uint8 else data, **how
            )
        config = ParallaxConfig(strategy=strategy, path="off")  # type: ignore[arg-type]
        runner = get_runner(EmbeddingClassifier(160, 4, 8), t, MomentumSGD, config, machine=str(t.rank))
        random = np.random.default_rng(t.rank)
        for _ in range(2):
            runner.run(Batch(random.integers(0, 160, (8, 4)), np.zeros(8, np.int64)))

    link = "rank 3 received a malformed stream from rank 2: "
    *others, own = threads(4, run, timeout=5)
    assert all(text.startswith(link) for text in messages([own], TransportError))
    assert all(text.startswith(f"rank 3 gave up: {link}") for text in messages(others, PeerLost))


def test_initial_values_that_differ(threads: Group) -> None:
    found = threads(2, lambda t: get_runner(EmbeddingClassifier(9, 2, 2), t, MomentumSGD, seed=t.rank))
    assert all("values of key 'embedding' differs" in text for text in messages(found, MismatchError))


def test_parameters_must_be_float32(threads: Group) -> None:
    class Doubles(EmbeddingClassifier):
        def initial(self, seed: int = 0) -> Any:
            return {key: value.astype(np.float64) for key, value in super().initial(seed).items()}

    def run(t: Transport) -> None:
        get_runner(Doubles(9, 2, 2) if t.rank else EmbeddingClassifier(9, 2, 2), t, MomentumSGD)

    for error in threads(2, run):
        assert "key 'embedding' must be a float32 array, not float64" in str(error)


def test_any_codec_of_the_collectives(mpirun: Any, tmp_path: Any) -> None:
    """Ranks that are processes: what a codec's repr says (an address) must not be compared."""
    program = tmp_path / "rank.py"
    program.write_text(
        "from mpi4py import MPI\n"
        "from inceptionn.layers.gradiveq.qsgd import QSGD\n"
        "from inceptionn.layers.parallax import MomentumSGD, ParallaxConfig, get_runner\n"
        "from inceptionn.evaluate.training import MLP\n"
        "config = ParallaxConfig(codec=QSGD(), path='software')\n"
        "get_runner(MLP(4, (3,), 2), MPI.COMM_WORLD, MomentumSGD, config)\n"
        "print('agreed')\n"
    )
    assert mpirun(2, str(program)).split() == ["agreed"] * 2


def test_a_model_that_names_no_rows(threads: Group) -> None:
    for result in threads(2, lambda t: fails(t, "no rows")):
        assert "step 0: the model names no rows of the sparse variable 'embedding'" in str(result)


def test_a_lost_rank_is_named(tcp: Group) -> None:
    def run(t: Transport) -> None:
        runner = get_runner(EmbeddingClassifier(WORDS, 16, 8), t, MomentumSGD)
        batches = Batches(DATA.train, 8, t.rank, t.size)
        for step in range(50):
            if t.rank == 2 and step == 3:
                t.close()
                return
            runner.run(batches.at(step))

    results = tcp(3, run)
    for text in messages(results[:2], TransportError):
        assert "rank 2" in text


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (
            lambda t: (EmbeddingClassifier(WORDS + t.rank, 16, 8), ParallaxConfig()),
            "shape of key 'embedding' differs",
        ),
        (
            lambda t: (EmbeddingClassifier(WORDS, 16, 8), ParallaxConfig(sampled=1 + t.rank)),
            "sampled differs: rank 0 has '1', rank 1 has '2'",
        ),
    ],
)
def test_ranks_that_differ(group: Group, make: Callable[[Transport], Any], why: str) -> None:
    def run(t: Transport) -> None:
        model, config = make(t)
        get_runner(model, t, MomentumSGD, config)

    for text in messages(group(2, run), MismatchError):
        assert why in text


@pytest.mark.parametrize(
    ("settings", "keys", "why"),
    [
        ({"partitions": WORDS + 1}, [], rf"within 1\.\.{WORDS}, the rows, not {WORDS + 1}"),
        ({}, ["fc.bias"], "only sparse variables are partitioned, not the dense 'fc.bias'"),
        ({}, ["words"], "no variable 'words' to partition"),
        ({"strategy": "guess"}, [], "strategy must be one of hybrid, .*not 'guess'"),
        ({"partitions": 0}, [], "partitions must be at least 1, not 0"),
        ({"sparse_op": "mean"}, [], "sparse_op must be SUM or MEAN, not 'mean'"),
        ({"non_finite": "hope"}, [], "non_finite must be one of raise, skip, not 'hope'"),
    ],
)
def test_wrong_settings(threads: Group, settings: dict[str, Any], keys: list[str], why: str) -> None:
    def run(t: Transport) -> None:
        with pytest.raises((ValueError, TypeError), match=why):
            get_runner(
                EmbeddingClassifier(WORDS, 16, 8),
                t,
                MomentumSGD,
                ParallaxConfig(**settings),
                partitioners=[parallax.partitioner(keys)],
            ).run(Batches(DATA.train, 8, t.rank, t.size).at(0))

    assert threads(2, run) == [None, None]


def test_momentum_of_rows_rests() -> None:
    """By hand: rate 1, m = 1/2, wd = 1/4."""
    optimizer = MomentumSGD(1.0, 0.5, 0.25)
    values = np.array([[4.0], [8.0]], np.float32)
    whole = Partition(0, "k", 0, 0, 2)
    optimizer.update(whole, values, np.array([[1.0]], np.float32), 0, np.array([0]))
    assert values.tolist() == [[2.0], [8.0]]  # mom = -1 - 4/4
    optimizer.update(whole, values, np.ones((2, 1), np.float32), 1)
    assert values.tolist() == [[-0.5], [5.0]]  # mom = -1 - 1 - 1/2; -1 - 2


def test_shards_are_disjoint_and_equal(threads: Group) -> None:
    shards = threads(3, lambda t: parallax.shard(range(11), t))
    assert shards == [[0, 3, 6], [1, 4, 7], [2, 5, 8]]
    (error, *_) = threads(3, lambda t: parallax.shard(range(2), t))
    assert str(error) == "data must have a sample for each of 3 ranks, not 2"


def halves(rank: int) -> OneVariable:
    """Return a model of ten rows, of which odd and even ranks use six each, two in common."""
    return OneVariable((10, 8), np.arange(6) + 4 * (rank % 2), lambda batch: batch)


@pytest.mark.parametrize("batches", [6, 7, 8])
def test_the_loop_of_the_documentation_ends_together(threads: Group, batches: int) -> None:
    """However many samples there are, all ranks run the same number of steps."""

    def run(t: Transport) -> int:
        runner = get_runner(halves(t.rank), t, lambda: MomentumSGD(0.5, momentum=0))
        for batch in parallax.shard(range(batches), t):
            runner.run(float(batch))
        return runner.step

    assert threads(3, run, timeout=3) == [2, 2, 2]


@pytest.mark.parametrize("local_aggregation", [True, False])
def test_the_choice_counts_what_a_machine_uses(threads: Group, local_aggregation: bool) -> None:
    """Each worker uses 0.6 of the rows, for which servers move less; both on a machine use all of them."""

    def run(t: Transport) -> tuple[float, str]:
        config = ParallaxConfig(alpha_steps=2, local_aggregation=local_aggregation)
        machine = str(t.rank // 2)
        runner = get_runner(halves(t.rank), t, lambda: MomentumSGD(0.5, momentum=0), config, machine=machine)
        for step in range(4):
            runner.run(float(step))
        return runner.alphas["words"], runner.architectures["words"]

    chosen = "all_reduce" if local_aggregation else "parameter_server"
    assert threads(4, run) == [(pytest.approx(0.6), chosen)] * 4


def test_the_choice_is_of_the_fewer_bytes_that_a_codec_leaves(threads: Group) -> None:
    """Servers would send more: pulls are raw, and zeros of dense gradients compress well.

    Every rank uses the first fifth of the rows, with normal gradients, and is a machine of its own.
    """
    codec = Codec(2**-10, "planes")

    def sent(t: Transport, strategy: Any) -> tuple[str, int]:
        config = ParallaxConfig(strategy=strategy, codec=codec, path="software", alpha_steps=2)
        random = np.random.default_rng(t.rank)
        model = OneVariable((2000, 16), np.arange(400), lambda _: random.standard_normal((400, 16)))
        runner = get_runner(model, t, lambda: MomentumSGD(0.1), config, machine=str(t.rank))
        for step in range(2):
            runner.run(float(step))
        before = runner.traffic.total
        for step in range(4):
            runner.run(float(step))
        return runner.architectures["words"], runner.traffic.total - before

    total = {}
    for strategy in ("hybrid", "parameter_server", "dense"):
        found = threads(4, lambda t, strategy=strategy: sent(t, strategy))
        total[strategy] = sum(size for _, size in found)
        assert len({name for name, _ in found}) == 1
        if strategy == "hybrid":
            assert found[0][0] == "all_reduce"
    assert total["hybrid"] <= 1.05 * total["dense"] < total["parameter_server"]

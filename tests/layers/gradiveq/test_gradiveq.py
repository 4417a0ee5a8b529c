# SPDX-License-Identifier: BSD-2-Clause
"""GradiVeQ among ranks: sums in the compressed domain, phases, bytes, errors at every rank, and training."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from outcomes import Group

from inceptionn import Codec
from inceptionn.collectives import MismatchError, statistics
from inceptionn.collectives.values.wire_form import Compressed, Raw
from inceptionn.evaluate.training import Batches, Gradients, Parameters, digits, model_of
from inceptionn.layers.gradiveq import CompressedDomain, Compressor, GradiVeQ, Run, principal_components
from inceptionn.layers.parameter_server import NonFiniteGradient
from inceptionn.transport import Transport

DATA = digits()
SHAPES = {"conv.weight": (4, 3, 3, 3), "conv.bias": (4,), "wide.weight": (8, 4, 3, 3)}
ZEROS: Parameters = {key: np.zeros(shape, np.float32) for key, shape in SHAPES.items()}


def runs() -> list[Run]:
    """Three runs of different K, d, and scale."""
    random = np.random.default_rng(5)
    found = []
    for count, size, samples, scale in ((9, 12, 4, 0), (5, 32, 9, 3), (1, 20, 2, -2)):
        u = principal_components(random.normal(size=(samples, size)).astype(np.float32), 0.0)
        whitening = random.normal(size=(count, size)).astype(np.float32)
        found.append(Run(Compressor(u, whitening), count, scale))
    return found


def slices_of(rank: int) -> list[np.ndarray]:
    random = np.random.default_rng(100 + rank)
    return [random.normal(size=run.compressor.whitening.shape).astype(np.float32) for run in runs()]


@pytest.mark.parametrize("size", [1, 2, 3, 5])
@pytest.mark.parametrize("sub_block", [1, 20, 1 << 14])
def test_algorithm_1(group: Group, size: int, sub_block: int) -> None:
    """Against the definition: the mean, compressed and restored in one place; the same bits everywhere."""

    def reduce(t: Transport, codec: Codec | None = None) -> tuple[list[np.ndarray], float]:
        domain = CompressedDomain(runs(), slices_of(t.rank), 1 / t.size, measured=True)
        domain.reduce(Raw(t) if codec is None else Compressed(t, codec), sub_block)
        return domain.sums, domain.loss

    results = group(size, reduce)
    for number, run in enumerate(runs()):
        mean = np.mean([slices_of(rank)[number] for rank in range(size)], axis=0)
        expected = run.compressor.decompress(run.compressor.compress(mean, 0), 0)
        for sums, _ in results:
            np.testing.assert_allclose(sums[number], expected, atol=2e-5)
            assert sums[number].tobytes() == results[0][0][number].tobytes()
    for rank, (_, loss) in enumerate(results):
        own = slices_of(rank)
        restored = [
            run.compressor.decompress(run.compressor.compress(x, 0), 0)
            for run, x in zip(runs(), own, strict=True)
        ]
        lost = sum(float(((x - y) ** 2).sum()) for x, y in zip(own, restored, strict=True))
        assert loss == pytest.approx(lost / sum(float((x**2).sum()) for x in own), rel=1e-3)
    coded = group(size, lambda t: reduce(t, Codec(2**-12, threads=1)))
    for number, run in enumerate(runs()):
        # Every partial sum is compressed within the bound, and the columns are orthonormal.
        limit = size * 2**-12 * 2.0**-run.scale * run.compressor.dimension**0.5 + 2e-5
        for sums, _ in coded:
            assert np.abs(sums[number] - results[0][0][number]).max() < limit
            assert sums[number].tobytes() == coded[0][0][number].tobytes()


def gradients(rank: int, step: int) -> Gradients:
    """Of rank 3 in every layer, all slices along the same directions, and a mean."""
    random = np.random.default_rng((rank, step))
    found: Gradients = {}
    for key, shape in SHAPES.items():
        if len(shape) == 1:
            found[key] = random.normal(size=shape).astype(np.float32)
            continue
        filters, depth, height, width = shape
        directions = np.random.default_rng(7).normal(size=(3, filters * depth))
        slices = random.normal(size=(height * width, 3)) @ directions + 0.25
        whole = slices.reshape(height, width, depth, filters).transpose(3, 2, 0, 1)
        found[key] = np.ascontiguousarray(whole, np.float32)
    return found


def mean_of(size: int, step: int) -> Gradients:
    every = [gradients(rank, step) for rank in range(size)]
    return {key: np.mean([g[key] for g in every], axis=0) for key in SHAPES}


@pytest.mark.parametrize("size", [1, 3])
@pytest.mark.parametrize("reuse", [None, 4])
def test_mean_through_all_phases(group: Group, size: int, reuse: int | None) -> None:
    """Correlated gradients come through every phase; three components are found; bytes are as promised."""

    def run(t: Transport) -> tuple[list[Parameters], GradiVeQ]:
        exchange = GradiVeQ(
            t, ZEROS, threshold=1e-6, warm_up=2, sampling=6, compressed=3, sampling_bits=None, reuse=reuse
        )
        found = [exchange.all_reduce(gradients(t.rank, step)) for step in range(13)]
        counted = statistics(t)
        assert counted.bytes_sent == counted.bytes_before == exchange.traffic.total
        assert counted.path == "off"
        return found, exchange

    results = group(size, run)
    for step in range(13):
        for found, _ in results:
            for key, expected in mean_of(size, step).items():
                np.testing.assert_allclose(found[step][key], expected, atol=1e-4)
                assert found[step][key].tobytes() == results[0][0][step][key].tobytes()
    exchange = results[0][1]
    each = 1 if reuse is None else 3
    assert exchange.dimensions == {"conv.weight": each * [(12, 3)], "wide.weight": each * [(32, 3)]}
    assert exchange.phases.history == [("warm-up", 0), ("sampling", 2), ("compressed", 8), ("sampling", 11)]
    sent = {kind: sum(e.traffic.sent[kind] for _, e in results) for kind in exchange.traffic.sent}
    passes = 2 * (size - 1)  # each value crosses that many links
    values = 9 * (12 + 32)
    assert sent.get("compressed", 0) == passes * 3 * 4 * 9 * 6
    assert sent.get("warm-up", 0) == passes * 2 * 4 * values
    assert sent.get("sampling", 0) == passes * 8 * 4 * values
    assert sent.get("rest", 0) == passes * 13 * 4 * 4
    assert "compressors" not in sent


def test_quantised_sampling_and_the_codec(group: Group) -> None:
    """Beyond the paper: bits in the compressed phase fall again, and the error stays small."""

    def run(t: Transport, codec: Codec | None) -> tuple[Parameters, float, float]:
        exchange = GradiVeQ(
            t, ZEROS, threshold=1e-2, warm_up=0, sampling=20, compressed=5, codec=codec, rest_codec=codec
        )
        for step in range(21):
            found = exchange.all_reduce(gradients(t.rank, step))
        return (
            found,
            exchange.traffic.sent["sampling"] / exchange.traffic.raw["sampling"],
            float(exchange.traffic.sent["compressed"]),
        )

    raw, coded = group(3, lambda t: run(t, None)), group(3, lambda t: run(t, Codec(2**-10, threads=1)))
    expected = mean_of(3, 20)
    for found, quantised, _ in (*raw, *coded):
        assert quantised < 0.16
        for key, values in expected.items():
            assert np.abs(found[key] - values).max() < 0.25 * np.abs(values).max()
    assert sum(sent for *_, sent in coded) < 0.7 * sum(sent for *_, sent in raw)


def test_a_rank_that_computes_otherwise_takes_rank_0s(group: Group) -> None:
    """Compressors that differ by more than nothing would spoil every sum."""

    def run(t: Transport) -> tuple[Parameters, GradiVeQ]:
        exchange = GradiVeQ(t, ZEROS, threshold=1e-6, warm_up=0, sampling=6, compressed=3, sampling_bits=None)
        for step in range(6):
            exchange.all_reduce(gradients(t.rank, step))
        if t.rank == 1:
            exchange.slices[0].samples[2] += 1
        return exchange.all_reduce(gradients(t.rank, 6)), exchange

    results = group(3, run)
    for found, exchange in results:
        assert exchange.dimensions == results[0][1].dimensions
        for key, expected in mean_of(3, 6).items():
            np.testing.assert_allclose(found[key], expected, atol=1e-4)
    assert results[0][1].traffic.sent["compressors"] > 0


def test_loss_ends_the_phase(group: Group) -> None:
    """Gradients turn away from what was sampled at two of three workers: the phase ends for all."""

    def run(t: Transport, turned: int) -> list[tuple[str, int]]:
        exchange = GradiVeQ(
            t, ZEROS, threshold=1e-6, warm_up=0, sampling=6, compressed=40, sampling_bits=None, loss_limit=0.2
        )
        random = np.random.default_rng(t.rank)
        for step in range(30):
            own = gradients(t.rank, step)
            if step >= 8 and t.rank < turned:
                own = {key: random.normal(size=shape).astype(np.float32) for key, shape in SHAPES.items()}
            exchange.all_reduce(own)
        return exchange.phases.history

    for turned in (1, 2):
        histories = group(3, lambda t, turned=turned: run(t, turned))
        assert histories[0] == histories[1] == histories[2]
        assert histories[0][:2] == [("sampling", 0), ("compressed", 6)]
        assert len(histories[0]) == 2 if turned == 1 else histories[0][2][0] == "sampling"


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"threshold": 1.0}, "threshold must be within 0 and 1, 1 excluded, not 1.0"),
        ({"threshold": -0.5}, "threshold must be within 0 and 1, 1 excluded, not -0.5"),
        ({"sampling": 1}, "sampling must be at least 2 steps, not 1"),
        ({"loss_limit": -1.0}, "loss_limit must be above 0, not -1.0"),
        ({"multiple": 2}, "the multiple must divide 9, not 2"),
        ({"reuse": 0}, "reuse must be at least 1 slice, not 0"),
        ({"keys": ["fc"]}, "there is no key 'fc'"),
        ({"keys": ["conv.bias"]}, "a convolution's gradient has 4 dimensions, not (4,)"),
        ({"sampling_bits": 5}, "bits must be 2, 4 or 8, not 5"),
        ({"nonfinite": "ignore"}, "nonfinite must be 'raise' or 'skip', not 'ignore'"),
    ],
)
def test_one_rank_is_wrong(threads: Group, arguments: dict[str, Any], text: str) -> None:
    """Its own error there, and one that says so at the others."""
    found = threads(3, lambda t: GradiVeQ(t, ZEROS, **(arguments if t.rank == 1 else {})))
    assert [type(error) for error in found] == [MismatchError, ValueError, MismatchError]
    assert all(text in str(error) for error in found)
    assert "rank 1 cannot take part" in str(found[0])


def test_ranks_differ(group: Group) -> None:
    def shapes(t: Transport) -> GradiVeQ:
        return GradiVeQ(t, {"conv": np.zeros((4, 3, 3, 3 + t.rank), np.float32)})

    def settings(t: Transport) -> GradiVeQ:
        return GradiVeQ(t, ZEROS, threshold=0.01 + 0.01 * t.rank)

    for make, text in ((shapes, "shapes differs"), (settings, "threshold differs: rank 0 has '0.01'")):
        found = group(3, make)
        assert all(isinstance(error, MismatchError) and text in str(error) for error in found)


@pytest.mark.parametrize("phase", [0, 3, 9])
def test_gradients_that_do_not_fit(group: Group, phase: int) -> None:
    """In each phase, at every rank, before anything moves."""

    def run(t: Transport, spoil: Callable[[Gradients], Any], policy: Any = "raise") -> Any:
        phases = {"warm_up": 2, "sampling": 6, "compressed": 9, "sampling_bits": None}
        exchange = GradiVeQ(t, ZEROS, threshold=1e-6, nonfinite=policy, **phases)
        for step in range(phase + 1):
            own = gradients(t.rank, step)
            if step == phase and t.rank == 1:
                spoil(own)
            found = exchange.all_reduce(own)
        return found

    def infinite(own: Gradients) -> None:
        own["wide.weight"][0, 0, 0, 0] = np.nan

    def missing(own: Gradients) -> None:
        del own["conv.bias"]

    def shorter(own: Gradients) -> None:
        own["conv.bias"] = own["conv.bias"][:2]

    for spoil, error, text in (
        (infinite, NonFiniteGradient, f"the gradient of key 'wide.weight' at step {phase}"),
        (missing, ValueError, "the gradient of key 'conv.bias' must be float32 of (4,), not NoneType"),
        (shorter, ValueError, "the gradient of key 'conv.bias' must be float32 of (4,), not float32 of (2,)"),
    ):
        found = group(3, lambda t, spoil=spoil: run(t, spoil))
        assert [type(e) for e in found] == [MismatchError, error, MismatchError]
        assert all(text in str(e) for e in found)
    others = [gradients(rank, phase) for rank in (0, 2)]
    for found in group(3, lambda t: run(t, infinite, "skip")):
        for key in SHAPES:
            np.testing.assert_allclose(found[key], (others[0][key] + others[1][key]) / 2, atol=1e-4)


@pytest.mark.slow
def test_trains_with_an_eighth_of_the_bytes(threads: Group) -> None:
    """A small CNN on digits: 8 times fewer bytes than raw, and less than a point of accuracy lost."""
    pytest.importorskip("torch")
    model, steps = model_of("cnn", channels=(16, 32)), 300

    def run(t: Transport, **arguments: Any) -> tuple[float, float]:
        parameters = model.initial()
        momenta = {key: np.zeros_like(value) for key, value in parameters.items()}
        exchange = GradiVeQ(t, parameters, **arguments)
        batches = Batches(DATA.train, 32, t.rank, t.size)
        for step in range(steps):
            mean = exchange.all_reduce(model.gradients(parameters, batches.at(step)))
            rate = np.float32(0.02 * (1 + np.cos(np.pi * step / steps)))
            for key, gradient in mean.items():
                momenta[key] = np.float32(0.9) * momenta[key] - rate * gradient
                parameters[key] = parameters[key] + momenta[key]
        traffic = exchange.traffic
        return model.accuracy(parameters, DATA.test), sum(traffic.raw.values()) / traffic.total

    # The other keys are scaled to the codec's range, message by message.
    codec, rest_codec = Codec(2**-12, threads=1), Codec(2**-8, threads=1)
    raw = threads(2, lambda t: run(t, warm_up=steps))
    small = threads(
        2, lambda t: run(t, warm_up=8, sampling=30, compressed=115, codec=codec, rest_codec=rest_codec)
    )
    assert raw[0][0] == raw[1][0] > 0.95
    assert small[0][0] == small[1][0] > raw[0][0] - 0.01
    assert small[0][1] > 8

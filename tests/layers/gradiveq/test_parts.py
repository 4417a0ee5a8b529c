# SPDX-License-Identifier: BSD-2-Clause
"""GradiVeQ's pieces by hand: slices, principal components, phases, and the quantiser."""

import numpy as np
import pytest

from inceptionn.layers.gradiveq import (
    QSGD,
    Compressor,
    Phases,
    SliceParts,
    Slicing,
    dimension_of,
    principal_components,
)


def test_order_of_a_slice() -> None:
    """Filters fastest, then depth, width, height: value 1000 f + 100 d + 10 h + w at [f, d, h, w]."""
    f, d, h, w = np.indices((2, 2, 2, 3))
    gradient = (1000 * f + 100 * d + 10 * h + w).astype(np.float32)
    slicing = Slicing("conv", gradient.shape)
    cut = slicing.cut(gradient)
    assert (slicing.size, slicing.count) == (4, 6)
    assert cut.tolist()[:4] == [
        [0, 1000, 100, 1100], [1, 1001, 101, 1101], [2, 1002, 102, 1102], [10, 1010, 110, 1110]
    ]  # fmt: skip
    assert np.array_equal(slicing.joined(cut), gradient)
    double = Slicing("conv", gradient.shape, 2)
    assert double.cut(gradient).tolist()[0] == [0, 1000, 100, 1100, 1, 1001, 101, 1101]
    assert np.array_equal(double.joined(double.cut(gradient)), gradient)


@pytest.mark.parametrize("blocks", [1, 2, 3, 4, 7])
@pytest.mark.parametrize("target", [1, 5, 100])
def test_parts_are_whole_slices(blocks: int, target: int) -> None:
    """Every lane in one sub-block, in order, cut at borders only."""
    borders = (0, 3, 6, 9, 20, 21, 22, 23, 40)
    parts = SliceParts(borders, blocks, target)
    at = 0
    for block in range(blocks):
        for sub in range(parts.subs):
            where = parts.sub(block, sub)
            assert where.start == at <= where.stop
            assert where.stop in borders
            at = where.stop
    assert at == 40


def test_even_blocks() -> None:
    parts = SliceParts(tuple(range(0, 81, 10)), 4, 1000)
    assert [parts.sub(block, 0) for block in range(4)] == [
        slice(0, 20), slice(20, 40), slice(40, 60), slice(60, 80)
    ]  # fmt: skip


def test_equation_6() -> None:
    """Eigenvalues 6, 3, 1: tails after 1, 2, 3 of them are 0.4, 0.1 and 0 of all."""
    eigenvalues = np.array([6.0, 3.0, 1.0])
    assert [dimension_of(eigenvalues, t) for t in (0.5, 0.4, 0.39, 0.1, 0.09, 0.0)] == [1, 1, 2, 2, 3, 3]
    assert dimension_of(np.zeros(3), 0.1) == 1


def test_principal_components_by_hand() -> None:
    """Points on the line (3, 4) t + (1, 1): one component, (0.6, 0.8); orthogonal columns at threshold 0."""
    t = np.array([-1, 0, 2, 5], np.float32)[:, np.newaxis]
    line = t * np.array([[3, 4]], np.float32) + 1
    np.testing.assert_allclose(principal_components(line, 0.01), [[0.6], [0.8]], atol=1e-6)
    samples = np.random.default_rng(0).normal(size=(30, 12)).astype(np.float32)
    u = principal_components(samples, 0.0)
    assert u.shape == (12, 12)
    np.testing.assert_allclose(u.T @ u, np.eye(12), atol=1e-5)


def test_components_are_those_of_the_covariance() -> None:
    """Against the eigenvectors of the K x K covariance that the paper decomposes, up to sign."""
    random = np.random.default_rng(1)
    samples = (random.normal(size=(60, 8)) * 2.0 ** np.arange(0, -8, -1) + 3).astype(np.float32)
    u = principal_components(samples, 0.0)
    _, vectors = np.linalg.eigh(np.cov(samples.T.astype(np.float64), bias=True))
    np.testing.assert_allclose(np.abs(u), np.abs(vectors[:, ::-1]), atol=1e-4)


def test_compression_commutes_with_aggregation() -> None:
    """Eq. 1 and 4: compressed shares of three workers add up to the compressed mean; eq. 5 restores it."""
    random = np.random.default_rng(2)
    basis = random.normal(size=(2, 16)).astype(np.float32)
    samples = random.normal(size=(20, 2)).astype(np.float32) @ basis + 0.5
    compressor = Compressor(principal_components(samples, 1e-6), np.tile(samples.mean(axis=0), (3, 1)))
    assert compressor.dimension == 2
    workers = [random.normal(size=(3, 2)).astype(np.float32) @ basis + np.float32(0.5) for _ in range(3)]
    total = sum(compressor.compress(slices, 0, 1 / 3) for slices in workers)
    mean = np.mean(workers, axis=0)
    np.testing.assert_allclose(total, compressor.compress(mean, 0), atol=1e-5)
    np.testing.assert_allclose(compressor.decompress(total, 0), mean, atol=1e-5)


def test_equation_7_without_decompression() -> None:
    random = np.random.default_rng(3)
    samples = random.normal(size=(20, 16)).astype(np.float32)
    whitening = random.normal(size=(4, 16)).astype(np.float32)
    compressor = Compressor(principal_components(samples, 0.3), whitening)
    slices = random.normal(size=(2, 16)).astype(np.float32)
    compressed = compressor.compress(slices, 1)
    lost, energy = compressor.losses(slices, compressed, 1)
    restored = compressor.decompress(compressed, 1)
    assert lost == pytest.approx(float(((slices - restored) ** 2).sum()), rel=1e-4)
    assert energy == pytest.approx(float((slices**2).sum()), rel=1e-5)


def test_phases_by_hand() -> None:
    phases = Phases(2, 3, 4)
    found = [phases.begin(0, 4)[0][0] for _ in range(17)]
    assert "".join(found) == "wwssscccc" + "ssscccc" + "s"
    assert phases.history[:4] == [("warm-up", 0), ("sampling", 2), ("compressed", 5), ("sampling", 9)]


def test_a_majority_ends_a_phase() -> None:
    """Two of four workers are no majority, three are; votes need ten steps of loss above the limit."""
    phases = Phases(0, 2, 100, limit=0.5)
    assert [phases.begin(0, 4)[0] for _ in range(3)] == ["sampling", "sampling", "compressed"]
    for _ in range(9):
        phases.note(0.6)
    assert not phases.vote
    phases.note(0.6)
    assert phases.vote
    assert phases.begin(2, 4) == ("compressed", False)
    assert phases.begin(3, 4) == ("sampling", True)
    assert not phases.vote


def test_qsgd_by_hand() -> None:
    """Multiples of a seventh of the largest magnitude are exact; a stream is 4 bytes and 4 bits a value."""
    codec = QSGD(4, 8)
    x = np.array([7, -7, 3, -1, 0, 0, 2, 5, -14, 2], np.float32)
    stream = codec.compress(x)
    assert stream.nbytes == codec.max_compressed_size(10) == 2 * 4 + 5
    assert bytes(stream[8:]).hex() == "f793" + "00" + "52" + "1f"
    np.testing.assert_allclose(codec.decompress(stream, 10), x, rtol=1e-6)


@pytest.mark.parametrize("bits", [2, 4, 8])
@pytest.mark.parametrize("count", [0, 1, 7, 512, 513, 5000])
def test_qsgd_keeps_what_it_made(bits: int, count: int) -> None:
    """Values change once, by less than a level; compressing them again changes nothing."""
    x = np.random.default_rng(count).normal(size=count).astype(np.float32)
    codec = QSGD(bits, seed=1)
    once = codec.decompress(codec.compress(x), count)
    levels = np.repeat([np.abs(x[at : at + 512]).max() for at in range(0, count, 512)], 512)[:count]
    assert (np.abs(once - x) < levels / codec.levels * (1 + 1e-5)).all()
    for _ in range(3):
        assert codec.lossy(once).tobytes() == once.tobytes()
        assert codec.decompress(codec.compress(once), count).tobytes() == once.tobytes()
    total = np.ones(count, np.float32)
    codec.decompress_add(codec.compress(once), total)
    assert total.tobytes() == (once + np.float32(1)).tobytes()


def test_qsgd_is_right_on_average() -> None:
    x = np.random.default_rng(0).normal(size=512).astype(np.float32)
    codec = QSGD(4, seed=3)
    mean = np.mean([codec.lossy(x) for _ in range(400)], axis=0)
    step = np.abs(x).max() / 7
    assert np.abs(mean - x).max() < 5 * step / 2 / 20  # 5 standard deviations of at most half a step


def test_qsgd_makes_tiny_buckets_zero() -> None:
    tiny = np.full(8, 1e-38, np.float32)
    assert (QSGD().lossy(tiny) == 0).all()


@pytest.mark.parametrize("bits", [2, 4, 8])
def test_quantisation_is_unbiased_however_small_the_values(bits: int) -> None:
    """The mean of many draws is each value, within what chance allows; the sum of small ones is theirs."""
    codec, draws = QSGD(bits, seed=7), 4000
    x = (10.0 ** np.random.default_rng(8).uniform(-3, 0, 512)).astype(np.float32)
    x[0] = 1
    x[100:] *= np.float32(1e-3 / codec.levels)  # below a thousandth of a level
    x *= np.where(np.arange(512) % 2, 1, -1)
    step = np.abs(x).max() / codec.levels
    share = np.abs(x) / step % 1
    mean = np.mean([codec.lossy(x) for _ in range(draws)], axis=0, dtype=np.float64)
    variance = share * (1 - share) * step**2 / draws
    wrong = (mean - x) / np.sqrt(variance + 1e-12)
    assert np.abs(wrong[variance * draws > 0.01 * step**2]).max() < 5
    total = np.sum((mean - x)[100:] * np.sign(x[100:]))
    assert abs(total) < 4 * np.sqrt(variance[100:].sum())


@pytest.mark.parametrize("bits", [2, 4, 8])
def test_what_was_quantised_once_is_not_changed_again(bits: int) -> None:
    """Whatever the scale: quotients and products are rounded, levels are not."""
    source = np.random.default_rng(9)
    codec = QSGD(bits, seed=9)
    x = source.standard_cauchy((4000, 512)).astype(np.float32)
    x *= (10.0 ** source.uniform(-25, 25, (4000, 1))).astype(np.float32)
    once = codec.lossy(x)
    assert (np.abs(once).max(axis=1) == np.abs(x).max(axis=1)).all()  # no code has left its bits
    for _ in range(3):
        assert np.array_equal(codec.lossy(once), once)

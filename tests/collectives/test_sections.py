# SPDX-License-Identifier: BSD-2-Clause
"""Scale "tensor": each section of an array has the scale that an all-reduce of its own would have."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from all_reduce import sums
from outcomes import Group, messages

from inceptionn import Codec
from inceptionn.codec.scaling import joined_sections
from inceptionn.collectives import (
    MEAN,
    SUM,
    BFloat16,
    CompressedCommunicator,
    ErrorFeedback,
    MismatchError,
    Op,
    allgather_comp,
    allreduce_comp,
    bcast_comp,
    reduce_comp,
    reduce_scatter_comp,
    statistics,
)
from inceptionn.collectives.agreement import common_scale, largest_exponent
from inceptionn.collectives.values.lost_energy import loss_of
from inceptionn.sim import golden
from inceptionn.transport import Transport

PLANES = Codec(2**-8, "planes")
SECTIONS = (1, 700, 0, 3000, 16, 2048, 5)
SIZES = (1e-3, 1e-7, 1.0, 30.0, 0.0, 1e-20, 1e20)
"""The magnitude of each section. One is empty, one has zeros alone."""


def of_ranks(ranks: int, seed: int = 1) -> np.ndarray:
    """Float32[ranks, values]: ranks whose sections' magnitudes differ, too."""
    source = np.random.default_rng(seed)
    own = source.uniform(0.1, 3, (ranks, len(SECTIONS)))
    spread = np.repeat(own * SIZES, SECTIONS, axis=1)
    return (source.standard_t(3, (ranks, sum(SECTIONS))) * spread).astype(np.float32)


def cut(x: np.ndarray) -> list[np.ndarray]:
    return np.split(x, np.cumsum(SECTIONS)[:-1], axis=-1)


def golden_sum(x: np.ndarray) -> np.ndarray:
    """Return the golden model's sum of each section, with the scale that "auto" gives to it alone."""
    totals = []
    for values in cut(x):
        scale = common_scale("auto", [largest_exponent(own, PLANES) for own in values], len(x))
        totals.append(golden.lattice.total(list(values), PLANES.error_bound, scale))
    return np.concatenate(totals)


WAYS: list[dict[str, Any]] = [
    {"path": "software"}, {"path": "nic"}, {"sub_block": 300}, {"algorithm": "worker_aggregator"},
    {"algorithm": "worker_aggregator", "legs": "up", "path": "nic"},
    {"algorithm": "hierarchical", "group_size": 2},
    {"algorithm": "hierarchical", "group_size": 3, "upper": "aggregator", "legs": "up"},
]  # fmt: skip


@pytest.mark.parametrize("op", [SUM, MEAN])
@pytest.mark.parametrize("way", WAYS, ids=str)
def test_every_way_and_order_gives_the_golden_sum(threads: Group, way: dict[str, Any], op: Op) -> None:
    x = of_ranks(5)
    wanted = golden_sum(x) * np.float32(1 / 5 if op is MEAN else 1)
    settings = {"codec": PLANES, "scale": "tensor", "sections": SECTIONS, **way}
    for shift in range(2):
        found = sums(threads, np.roll(x, -shift, axis=0), op, PLANES, **settings)
        assert {y.tobytes() for y in found} == {wanted.tobytes()}


@pytest.mark.parametrize("sections", [SECTIONS, np.array(SECTIONS)], ids=["tuple", "array"])
def test_reduce_and_reduce_scatter(threads: Group, sections: Sequence[int]) -> None:
    """Blocks that begin inside sections, and one that is empty."""
    x, counts = of_ranks(4), [0, 2000, 1770, 2000]
    settings: dict[str, Any] = {"codec": PLANES, "scale": "tensor", "sections": sections}

    def run(t: Transport) -> tuple[np.ndarray, np.ndarray]:
        whole, block = np.empty(x.shape[1], np.float32), np.empty(counts[t.rank], np.float32)
        reduce_comp(t, x[t.rank].copy(), whole if t.rank == 2 else None, root=2, **settings)
        reduce_scatter_comp(t, x[t.rank].copy(), block, counts=counts, **settings)
        return whole, block

    found = threads(4, run)
    assert found[2][0].tobytes() == golden_sum(x).tobytes()
    assert np.concatenate([block for _, block in found]).tobytes() == golden_sum(x).tobytes()


def test_with_a_codec_without_exact_sums_each_section_keeps_its_bound(threads: Group) -> None:
    codec, x = Codec(2**-8), of_ranks(3)

    def run(t: Transport) -> np.ndarray:
        y = x[t.rank].copy()
        allreduce_comp(t, None, y, codec=codec, scale="tensor", sections=SECTIONS)
        return y

    found = threads(3, run)
    assert len({y.tobytes() for y in found}) == 1
    for values, total in zip(cut(x.astype(np.float64)), cut(found[0]), strict=True):
        largest = np.abs(values).max(initial=0)
        assert np.abs(total - values.sum(axis=0)).max(initial=0) <= 3 * 2**-8 * 8 * largest


def test_one_section_is_auto_and_sends_its_bytes(threads: Group) -> None:
    x = of_ranks(2)

    def run(t: Transport) -> tuple[list[bytes], int]:
        y, sent, found = np.empty(x.shape[1], np.float32), [], []
        for settings in ({}, {"scale": "tensor", "sections": [x.shape[1]]}):
            before = statistics(t).bytes_sent
            allreduce_comp(t, x[t.rank], y, codec=PLANES, **settings)
            sent.append(statistics(t).bytes_sent - before)
            found.append(y.tobytes())
        assert len(set(found)) == 1
        return found, sent[1] - sent[0]

    assert [more for _, more in threads(2, run)] == [0, 0]


def test_feedback_knows_all_that_is_lost(threads: Group) -> None:
    steps = np.stack([of_ranks(3, seed) for seed in range(4)], axis=1)

    def run(t: Transport) -> tuple[np.ndarray, np.ndarray]:
        memory, total, y = ErrorFeedback(PLANES), 0.0, np.empty(steps.shape[2], np.float32)
        for gradient in steps[t.rank]:
            allreduce_comp(
                t, gradient, y, codec=PLANES, scale="tensor", sections=SECTIONS, feedback=(memory, "w")
            )
            total += y.astype(np.float64)
        return total, memory.residual("w").astype(np.float64)

    found = threads(3, run)
    wanted = steps.astype(np.float64).sum(axis=(0, 1))
    lost, unexplained = wanted - found[0][0], wanted - found[0][0] - sum(residual for _, residual in found)
    for number, size in enumerate(SIZES):
        if size and SECTIONS[number] > 1:
            errors = [np.square(cut(each)[number]).sum() for each in (wanted, lost, unexplained)]
            assert 1e-8 * errors[0] < errors[1] < 0.1 * errors[0]
            assert errors[2] < 1e-6 * errors[1]


def test_other_codecs_and_raw_values_are_not_scaled(threads: Group) -> None:
    x = of_ranks(2)

    def run(t: Transport) -> list[bytes]:
        found = []
        for settings in ({"codec": BFloat16()}, {"path": "off"}):
            for scale in ({"scale": None}, {"scale": "tensor", "sections": SECTIONS}):
                y = np.empty(x.shape[1], np.float32)
                allreduce_comp(t, x[t.rank], y, **settings, **scale)
                found.append(y.tobytes())
        return found

    for plain, tensor, off, raw in threads(2, run):
        assert (plain, off) == (tensor, raw)


X = np.ones(10, np.float32)
TENSOR: dict[str, Any] = {"scale": "tensor", "sections": [4, 6]}


@pytest.mark.parametrize(
    ("wrong", "text"),
    [
        ({"sections": [4, 5]}, "ValueError: the sections have 9 values, the array has 10"),
        ({"sections": [11, -1]}, "ValueError: sections must be 0 or more values each, not [11, -1]"),
        ({"sections": [4.0, 6.0]}, "TypeError: sections must be whole numbers, not [4.0, 6.0]"),
        ({"sections": [True, 9]}, "TypeError: sections must be whole numbers, not [True, 9]"),
        ({"sections": 10}, "TypeError: sections must be a sequence of whole numbers, not 10"),
        (
            {"sections": [0] * 4096 + [10]},
            "ValueError: sections must be 4096 at most, not 4097: join small neighbours",
        ),
        (
            {"sections": None},
            "ValueError: scale 'tensor' needs sections, the lengths of the tensors in the array",
        ),
        ({"scale": "auto"}, "ValueError: sections are for scale 'tensor', not 'auto'"),
    ],
)
def test_wrong_sections_are_one_error_at_every_rank(threads: Group, wrong: dict[str, Any], text: str) -> None:
    def run(t: Transport) -> str:
        with pytest.raises((TypeError, ValueError)) as raised:
            allreduce_comp(t, X, X.copy(), **{**TENSOR, **(wrong if t.rank == 1 else {})})
        t.barrier()
        own = t.rank == 1
        assert isinstance(raised.value, MismatchError) is not own
        return f"{type(raised.value).__name__}: {raised.value}" if own else str(raised.value)

    assert threads(3, run) == [f"rank 1 cannot take part: {text}", text, f"rank 1 cannot take part: {text}"]


@pytest.mark.parametrize("odd", [[6, 4], [4, 6, 0], [10]])
def test_sections_that_differ_are_an_error_at_every_rank(threads: Group, odd: list[int]) -> None:
    def run(t: Transport) -> None:
        allreduce_comp(t, X, X.copy(), scale="tensor", sections=odd if t.rank else [4, 6])

    for text in messages(threads(3, run), MismatchError):
        assert text == f"sections differs: rank 0 has [4, 6], rank 1 has {odd}"


@pytest.mark.parametrize("settings", [TENSOR, {"codec": PLANES, "scale": "rms"}], ids=["tensor", "rms"])
def test_what_is_no_sum_refuses_scales_of_sums(threads: Group, settings: dict[str, Any]) -> None:
    scale = settings["scale"]
    for error in threads(2, lambda t: bcast_comp(t, X.copy(), **settings)):
        assert str(error) == f"scale {scale!r} is for sums, not for broadcast"
    for error in threads(2, lambda t: allgather_comp(t, X, np.empty(20, np.float32), **settings)):
        assert str(error) == f"scale {scale!r} is for sums, not for all-gather"


def test_statistics_measure_each_section(threads: Group) -> None:
    """The energy dropped is that of the sections' own scales; one scale drops all but the largest."""
    x = of_ranks(2)[:, 1:701].repeat(2, axis=1)
    x[:, :700] *= np.float32(2.0**20)

    def run(t: Transport) -> tuple[Any, ...]:
        y = np.empty(1400, np.float32)
        allreduce_comp(t, x[t.rank], y, codec=PLANES, scale="tensor", sections=[700, 700])
        (part,) = statistics(t).parts
        scales = [common_scale("auto", [largest_exponent(v, PLANES) for v in half], 2)
                  for half in np.split(x, 2, axis=1)]  # fmt: skip
        whole = loss_of(PLANES, x[t.rank], np.repeat(scales, 700), sums=True)
        assert part.dropped == pytest.approx(whole.dropped, rel=1e-6)
        return part.scale, part.samples

    assert threads(2, run) == [(None, 1)] * 2


def test_a_communicator_takes_them_as_settings(threads: Group) -> None:
    x = of_ranks(2)

    def run(t: Transport) -> tuple[bytes, str]:
        comm = CompressedCommunicator(t, codec=PLANES, scale="tensor", sections=SECTIONS)
        comm.Allreduce(x[t.rank], total := np.empty(x.shape[1], np.float32))
        with pytest.raises(ValueError) as raised:
            CompressedCommunicator(t, scale="tensor").allreduce(x[t.rank])
        return total.tobytes(), str(raised.value)

    wrong = "scale 'tensor' needs sections, the lengths of the tensors in the array"
    assert threads(2, run) == [(golden_sum(x).tobytes(), wrong)] * 2


@pytest.mark.parametrize("dtype", ["float16", "float64"])
def test_arrays_of_other_types(threads: Group, dtype: str) -> None:
    x = (of_ranks(2)[:, :701] * 1e3).astype(dtype)
    found = sums(threads, x, codec=PLANES, scale="tensor", sections=[1, 700])
    parts = [x[:, :1].astype(np.float32), x[:, 1:].astype(np.float32)]
    totals = []
    for part in parts:
        scale = common_scale("auto", [largest_exponent(own, PLANES) for own in part], 2)
        totals.append(golden.lattice.total(list(part), PLANES.error_bound, scale))
    assert {y.tobytes() for y in found} == {np.concatenate(totals).astype(dtype).tobytes()}


@pytest.mark.parametrize("most", [1, 2, 7, 4096])
def test_joined_sections(most: int) -> None:
    random = np.random.default_rng(most)
    for count in (0, 1, most, most + 1, 3 * most + 5):
        lengths = random.integers(0, 50, count).tolist()
        if count:
            lengths[count // 2] = 100_000
        joined = joined_sections(lengths, most)
        assert len(joined) <= most
        assert joined == lengths or len(lengths) > most
        assert set(np.cumsum(joined)) <= set(np.cumsum(lengths))
        assert sum(joined) == sum(lengths)
        if len(joined) > 2:
            assert max(joined) < 100_050  # none but small ones are joined

# SPDX-License-Identifier: BSD-2-Clause
"""float16 and bfloat16 in sums: the bits are those of float32 values, rounded at the end."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from outcomes import Group

from inceptionn import Codec
from inceptionn.codec import converted
from inceptionn.collectives import (
    IN_PLACE,
    MEAN,
    SUM,
    ErrorFeedback,
    allreduce_comp,
    reduce_comp,
    reduce_scatter_comp,
    statistics,
)
from inceptionn.collectives.algorithms import ring
from inceptionn.collectives.values.buffers import Buffers
from inceptionn.evaluate.bench.common.memory import peak_of
from inceptionn.transport import Transport

COUNT = 6000
HALVES = ("float16", "bfloat16")
CODECS = (Codec(2**-10, "planes"), Codec(2**-8, "paper"))


def values(ranks: int, dtype: str, count: int = COUNT) -> np.ndarray:
    """Gradients with NaNs, infinities, zeros, large and subnormal values."""
    random = np.random.default_rng(ranks)
    x = random.laplace(scale=1e-2, size=(ranks, count)).astype(np.float32)
    x[:, ::97] = 0
    x[0, 5], x[-1, 5], x[0, 700], x[-1, 1400], x[0, 1401] = np.inf, 1, np.nan, -np.inf, 6e4
    x[:, 9] = 1e-7
    return converted(x, dtype)


def of(call: Callable[..., None], t: Transport, x: np.ndarray, in_place: bool, **settings: Any) -> np.ndarray:
    """Return a collective's result as it is stored: at all ranks, at one, or this rank's part."""
    if call is reduce_scatter_comp:
        part = x.copy() if in_place else np.zeros(x.size // t.size, x.dtype)
        call(t, IN_PLACE if in_place else x, part, **settings)
        return part[: x.size // t.size]
    result = x.copy() if in_place else np.zeros_like(x)
    call(t, IN_PLACE if in_place and (call is allreduce_comp or t.rank == 0) else x, result, **settings)
    return result if call is allreduce_comp or t.rank == 0 else x[:0]


@pytest.mark.filterwarnings("ignore:.* at the error bound:RuntimeWarning")
@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("call", [allreduce_comp, reduce_scatter_comp, reduce_comp])
def test_bits_are_those_of_float32(
    threads: Group, call: Any, codec: Codec, dtype: str, monkeypatch: Any
) -> None:
    """Also where a rank must receive before it has sent its first block."""
    monkeypatch.setattr(ring, "AHEAD", 1000)
    for ranks, op, scale, in_place in (
        (2, SUM, "auto", True),
        (3, MEAN, "auto", False),
        (4, MEAN, None, True),
    ):
        x = values(ranks, dtype)
        settings: dict[str, Any] = {"codec": codec, "op": op, "scale": scale, "sub_block": 500}

        def run(
            t: Transport, x: Any = x, settings: Any = settings, in_place: bool = in_place
        ) -> tuple[np.ndarray, np.ndarray]:
            before = x[t.rank].copy()
            found = of(call, t, x[t.rank], in_place, dtype="bfloat16", **settings)
            assert np.array_equal(x[t.rank].view(np.uint16), before.view(np.uint16))
            wide = of(call, t, converted(x[t.rank], patterns=True), in_place, **settings)
            return found, converted(wide, dtype)

        for outcome in threads(ranks, run):
            found, wanted = outcome
            assert found.dtype == x.dtype
            assert np.array_equal(found.view(np.uint16), wanted.view(np.uint16))


@pytest.mark.filterwarnings("ignore:.* at the error bound:RuntimeWarning")
@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize("group_size", [1, 2, 3])
@pytest.mark.parametrize("call", [allreduce_comp, reduce_scatter_comp])
def test_groups_have_the_bits_of_float32(threads: Group, call: Any, group_size: int, dtype: str) -> None:
    """Groups of one rank among them, whose values no codec of a group sees."""
    x = values(3, dtype)
    settings: dict[str, Any] = {"algorithm": "hierarchical", "group_size": group_size, "op": MEAN}

    def run(t: Transport) -> list[bytes]:
        found = []
        for codec in CODECS:
            y = of(call, t, x[t.rank], False, dtype="bfloat16", codec=codec, **settings)
            z = of(call, t, converted(x[t.rank], patterns=True), False, codec=codec, **settings)
            found += [y.tobytes(), converted(z, dtype).tobytes()]
        return found

    for first, wide, second, wide_too in threads(3, run):
        assert (first, second) == (wide, wide_too)


@pytest.mark.parametrize("dtype", HALVES)
def test_overflow_of_any_rank_reaches_all(threads: Group, dtype: str) -> None:
    """As a GradScaler needs it: NaNs and infinities are in the sums where they were in the values."""
    x = values(3, dtype)
    lost = ~np.isfinite(converted(x, patterns=True)).all(axis=0)
    assert lost.sum() >= 3

    def run(t: Transport) -> np.ndarray:
        y = x[t.rank].copy()
        allreduce_comp(t, None, y, MEAN, codec=CODECS[0], dtype="bfloat16")
        return converted(y, patterns=True)

    for found in threads(3, run):
        assert np.array_equal(~np.isfinite(found), lost)


def test_ml_dtypes_error_feedback_and_statistics(threads: Group) -> None:
    """An array of ml_dtypes is used as its patterns are; error feedback takes float32, and gives the type."""
    bfloat16 = pytest.importorskip("ml_dtypes").bfloat16
    x = converted(np.random.default_rng(1).normal(size=(2, COUNT)).astype(np.float32), "bfloat16")

    def run(t: Transport) -> list[Any]:
        y, z = (x[t.rank].copy() for _ in range(2))
        allreduce_comp(t, None, y.view(bfloat16), codec=CODECS[0])
        raw = statistics(t).bytes_before
        allreduce_comp(t, None, z, codec=CODECS[0], dtype="bfloat16", feedback=(ErrorFeedback(Codec()), ""))
        return [y, z, raw]

    for y, z, raw in threads(2, run):
        assert np.array_equal(y, z)
        assert raw == 4 * COUNT  # of two messages of half the values, as float32


@pytest.mark.filterwarnings("ignore:.* at the error bound:RuntimeWarning")
@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("finite", [True, False])
def test_error_feedback_has_the_bits_of_float32(
    threads: Group, codec: Codec, dtype: str, finite: bool
) -> None:
    """Sums and residuals, over steps, in and out of place: the values are read as they are.

    Sums that are not finite leave no residual.
    """
    x = values(3, dtype)
    if finite:
        whole = converted(x, patterns=True)
        x = converted(np.where(np.isfinite(whole), whole, np.float32(0.01)), dtype)

    def run(t: Transport) -> list[Any]:
        narrow, wide = ErrorFeedback(codec, 0.5), ErrorFeedback(codec, 0.5)
        found = []
        for step in range(3):
            y, before = np.roll(x[t.rank], step), np.roll(x[t.rank], step)
            z = converted(before, patterns=True)
            into = y if step % 2 else np.zeros_like(y)
            allreduce_comp(t, y, into, MEAN, codec=codec, dtype="bfloat16", feedback=(narrow, "w"))
            allreduce_comp(t, None, z, MEAN, codec=codec, feedback=(wide, "w"))
            assert step % 2 or np.array_equal(y.view(np.uint16), before.view(np.uint16))
            found += [into.tobytes() == converted(z, dtype).tobytes()]
        found += [narrow.residual("w").tobytes() == wide.residual("w").tobytes()]
        return [*found, bool(narrow.residual("w").any())]

    assert threads(3, run) == [[True] * 4 + [finite]] * 3


@pytest.mark.parametrize("dtype", HALVES)
def test_arrays_of_any_layout(threads: Group, dtype: str) -> None:
    """Unaligned and empty arrays, and receive buffers with gaps, give what plain arrays give."""
    kind = pytest.importorskip("ml_dtypes").bfloat16 if dtype == "bfloat16" else np.float16
    x = values(2, dtype).view(kind)

    def run(t: Transport) -> list[Any]:
        plain, gaps = np.zeros(COUNT, kind), np.zeros(2 * COUNT, kind)[::2]
        unaligned = np.empty(2 * COUNT + 1, np.uint8)[1:].view(kind)
        unaligned[:] = x[t.rank]
        allreduce_comp(t, x[t.rank], plain, codec=CODECS[0])
        allreduce_comp(t, unaligned, gaps, codec=CODECS[0])
        allreduce_comp(t, None, unaligned, codec=CODECS[0])
        for op in (SUM, MEAN):
            allreduce_comp(t, x[t.rank, :0], plain[:0], codec=CODECS[0], op=op)
        return [plain.tobytes(), gaps.tobytes(), unaligned.tobytes()]

    for plain, gaps, unaligned in threads(2, run):
        assert plain == gaps == unaligned


def test_a_type_that_buffers_do_not_have() -> None:
    with pytest.raises(ValueError, match="^dtype must be None or 'bfloat16', not 'float16'$"):
        Buffers(np.zeros(2, np.uint16), np.zeros(2, np.uint16), "float16")


def test_a_buffer_that_cannot_be_written() -> None:
    x = np.zeros(2, np.float32)
    fixed = x.copy()
    fixed.flags.writeable = False
    with pytest.raises(ValueError, match="^recvbuf is read-only$"):
        Buffers(x, fixed)
    assert Buffers(fixed, x).type == "float32"


def test_an_all_reduce_needs_no_array_of_float32(threads: Group) -> None:
    x = np.ones((2, 8 << 20), np.uint16)

    def run(t: Transport) -> None:
        allreduce_comp(t, None, x[t.rank], MEAN, codec=Codec(2**-10, "planes", threads=1), dtype="bfloat16")

    assert threads(2, run) == [None, None]
    peak = peak_of(lambda: threads(2, run))
    if peak is None:
        pytest.skip("this system does not tell a process's peak memory")
    assert peak < x[0].nbytes

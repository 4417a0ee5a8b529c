# SPDX-License-Identifier: BSD-2-Clause
"""A codec of the user's own: in collectives, in the example, and in the commands with ``--with``."""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from all_reduce import fed_sums, sums
from outcomes import Group, messages
from programs import said_by
from refusals import refused

from inceptionn import Codec, cli
from inceptionn.collectives import (
    BFloat16,
    ErrorFeedback,
    MismatchError,
    StreamCodec,
    allgather_comp,
    allreduce_comp,
    bcast_comp,
    examine,
    statistics,
)
from inceptionn.collectives.building import with_scale
from inceptionn.collectives.own_scale import OwnScale
from inceptionn.layers.parameter_server.exchange.legs import push_leg
from inceptionn.transport import PeerLost, Transport

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "own_codec.py"


def stream_into(out: Any, stream: bytes) -> memoryview:
    room = memoryview(out).cast("B")[: len(stream)]
    room[:] = stream
    return room


class Half(StreamCodec):
    """The least that a subclass needs."""

    def __init__(self, name: str = "half") -> None:
        self._name = name

    @property
    def name(self) -> str:
        return self._name

    def max_compressed_size(self, count: int) -> int:
        return 2 * count

    def compress(self, x: Any, out: Any = None) -> bytes | memoryview:
        stream = x.astype("<f2").tobytes()
        return stream if out is None else stream_into(out, stream)

    def decompress(self, stream: Any, count: int, out: Any = None) -> Any:
        values = np.frombuffer(stream, "<f2", count).astype(np.float32)
        if out is None:
            return values
        np.copyto(out, values.reshape(out.shape))
        return out


def test_it_works_in_every_collective(group: Group) -> None:
    x = np.random.default_rng(2).normal(scale=0.1, size=(3, 5000)).astype(np.float32)

    def run(t: Transport) -> tuple[np.ndarray, ...]:
        total, parts, sent = np.empty(5000, np.float32), np.empty((3, 5000), np.float32), x[0].copy()
        allreduce_comp(t, x[t.rank], total, codec=Half())
        feedback = ErrorFeedback(Half())
        allreduce_comp(t, x[t.rank], total, codec=Half(), feedback=(feedback, "w"))
        allgather_comp(t, x[t.rank], parts, codec=Half())
        bcast_comp(t, sent, 0, codec=Half())
        assert np.array_equal(feedback.residual("w"), x[t.rank] - Half().lossy(x[t.rank]))
        return total, parts, sent

    results = group(3, run)
    for total, parts, sent in results:
        assert np.array_equal(total, results[0][0])
        assert np.abs(total - x.sum(axis=0)).max() < 1e-3
        assert np.array_equal(parts, Half().lossy(x))
        assert np.array_equal(sent, Half().lossy(x[0]))


def test_ranks_compare_names(group: Group) -> None:
    def run(t: Transport) -> None:
        x = np.ones(10, np.float32)
        allreduce_comp(t, x, x.copy(), codec=Half(f"half {t.rank}"))

    for text in messages(group(2, run), MismatchError):
        assert text == "codec differs: rank 0 has 'half 0', rank 1 has 'half 1'"


def test_a_name_is_a_codec(group: Group) -> None:
    x = np.random.default_rng(7).normal(size=(2, 3000)).astype(np.float32)

    def run(t: Transport) -> np.ndarray:
        total = np.empty(3000, np.float32)
        feedback = ErrorFeedback("planes")
        # Names and codecs are the same term.
        codec = Codec(codec="planes") if t.rank else "planes"
        allreduce_comp(t, x[t.rank], total, codec=codec, feedback=(feedback, "w"))  # type: ignore[arg-type]
        allgather_comp(t, total, np.empty((2, 3000), np.float32), codec="planes")
        return total

    named = group(2, run)
    assert np.array_equal(named[0], named[1])
    assert np.abs(named[0] - x.sum(axis=0)).max() < 2.0**-5


class Careless(Half):
    """Ignores the memory that one method gets, if the array is larger than `examine`'s."""

    def __init__(self, method: str) -> None:
        super().__init__()
        self._method = method

    def _given(self, method: str, count: int, memory: Any) -> Any:
        return None if method == self._method and count > 3000 else memory

    def compress(self, x: Any, out: Any = None) -> bytes | memoryview:
        return super().compress(x, self._given("compress", x.size, out))

    def decompress(self, stream: Any, count: int, out: Any = None) -> Any:
        return super().decompress(stream, count, self._given("decompress", count, out))

    def decompress_add(self, stream: Any, accumulator: Any, addend: Any = None) -> Any:
        if self._given("decompress_add", accumulator.size, accumulator) is None:
            accumulator = accumulator.copy()
        return super().decompress_add(stream, accumulator, addend)

    def lossy(self, x: Any, out: Any = None) -> Any:
        return super().lossy(x, self._given("lossy", x.size, out))


class CarelessSum(Careless):
    """One that makes its streams of sums itself does so."""

    def compress_sum(self, stream: Any, addend: Any, out: Any) -> Any:
        total = self.decompress(stream, addend.size) + addend
        return Half.compress(self, total, self._given("compress_sum", addend.size, out))


@pytest.mark.parametrize("algorithm", ["ring", "hierarchical", "worker_aggregator"])
@pytest.mark.parametrize("method", ["compress", "decompress", "decompress_add", "lossy", "compress_sum"])
def test_results_elsewhere_are_copied(threads: Group, method: str, algorithm: Any) -> None:
    """What a codec returns counts, wherever it is; memory that nobody wrote is neither sent nor kept."""
    x = np.random.default_rng(3).normal(scale=0.1, size=(4, 40_000)).astype(np.float32)

    def run(t: Transport, codec: StreamCodec) -> bytes:
        total, sent, parts = np.empty(40_000, np.float32), x[0].copy(), np.empty((4, 40_000), np.float32)
        feedback = ErrorFeedback(codec)
        allreduce_comp(t, x[t.rank], total, codec=codec, algorithm=algorithm, feedback=(feedback, "w"))
        allreduce_comp(t, total, sent, codec=codec, algorithm=algorithm)
        bcast_comp(t, sent, 0, codec=codec)
        allgather_comp(t, x[t.rank], parts, codec=codec)
        return total.tobytes() + sent.tobytes() + parts.tobytes() + feedback.residual("w").tobytes()

    codec = CarelessSum(method) if method == "compress_sum" else Careless(method)
    assert threads(4, lambda t: run(t, codec)) == threads(4, lambda t: run(t, Half()))


@pytest.mark.parametrize("method", ["compress", "decompress"])
def test_results_elsewhere_reach_a_parameter_server(threads: Group, method: str) -> None:
    """Its legs keep the codec's results, in memory that it can write to."""
    gradient = np.random.default_rng(5).normal(scale=0.1, size=5000).astype(np.float32)

    def run(t: Transport, codec: StreamCodec) -> bytes:
        leg = push_leg(t, codec, "software", scale=3)
        meta, data = leg.encode([("w", gradient)])
        assert data.nbytes == 10_000
        (back,) = leg.decode(meta, data, [("w", 5000)])
        return back.tobytes()

    assert threads(1, lambda t: run(t, Careless(method))) == threads(1, lambda t: run(t, Half()))


class CarelessGrid(Careless):
    """One with an absolute bound, so that the collectives scale it."""

    absolute_bound = 2.0**-7

    def feed_back(self, x: Any, residual: Any, out: Any = None, *, decay: float = 1.0) -> Any:
        return super().feed_back(x, residual, self._given("feed_back", x.size, out), decay=decay)


@pytest.mark.parametrize("method", ["compress", "decompress", "decompress_add", "lossy"])
@pytest.mark.parametrize("scale", ["auto", 3])
def test_results_elsewhere_get_a_scale_of_their_own(threads: Group, method: str, scale: Any) -> None:
    """`with_scale`, which layers use, keeps streams that a codec did not write into the given memory."""
    x = np.random.default_rng(4).normal(scale=0.1, size=(3, 9000)).astype(np.float32)

    def run(t: Transport, codec: StreamCodec) -> bytes:
        total, sent = np.empty(9000, np.float32), x[0].copy()
        allreduce_comp(t, x[t.rank], total, codec=codec)
        bcast_comp(t, sent, 0, codec=codec)
        return total.tobytes() + sent.tobytes()

    found = threads(3, lambda t: run(t, with_scale(CarelessGrid(method), scale)))
    assert found == threads(3, lambda t: run(t, with_scale(CarelessGrid(""), scale)))


@pytest.mark.parametrize("scale", ["auto", None])
def test_results_elsewhere_are_fed_back(threads: Group, scale: Any) -> None:
    """A codec's own `feed_back` may return other memory than it was given, too."""
    x = np.random.default_rng(6).normal(scale=0.1, size=(3, 5000)).astype(np.float32)
    found, wanted = (
        np.array(fed_sums(threads, x, CarelessGrid(method), scale=scale)) for method in ("feed_back", "")
    )
    assert found.tobytes() == wanted.tobytes()


class CarelessExact(CarelessGrid):
    """One that says that its sums are exact, so that ranks quantise their own values first."""

    sums_exactly = True


def test_results_elsewhere_are_quantised_first(threads: Group) -> None:
    x = np.random.default_rng(6).normal(scale=0.1, size=(4, 5000)).astype(np.float32)
    tree: dict[str, Any] = {"algorithm": "hierarchical", "upper": "aggregator", "legs": "down"}
    found, wanted = (
        np.array(sums(threads, x, codec=CarelessExact(method), scale=None, group_size=2, **tree))
        for method in ("lossy", "")
    )
    assert found.tobytes() == wanted.tobytes()


class TooLong(Half):
    """Makes streams of large arrays that are longer than it says."""

    def compress(self, x: Any, out: Any = None) -> bytes | memoryview:
        stream = super().compress(x, None if x.size > 3000 else out)
        return bytes(stream) + b"more" if x.size > 3000 else stream


class NoArray(Half):
    """Returns something else for large arrays."""

    def decompress(self, stream: Any, count: int, out: Any = None) -> Any:
        return super().decompress(stream, count, out) if count <= 3000 else [0.0] * count


@pytest.mark.parametrize(
    ("codec", "text"),
    [
        (TooLong(), "codec half: compress made 10004 bytes of 5000 values, but max_compressed_size is 10000"),
        (NoArray(), "codec half: decompress must return float32[5000], not list"),
    ],
    ids=lambda of: type(of).__name__,
)
def test_results_that_do_not_fit_are_errors(threads: Group, codec: StreamCodec, text: str) -> None:
    def run(t: Transport) -> None:
        bcast_comp(t, np.ones(5000, np.float32), 0, codec=codec)

    assert any(isinstance(found, ValueError) and str(found) == text for found in threads(2, run))


def test_a_sum_that_a_codec_refuses_is_no_malformed_stream(threads: Group) -> None:
    """Its error names the codec, and not the rank whose stream arrived."""

    class Small(Half):
        def compress(self, x: Any, out: Any = None) -> Any:
            if x.size and abs(x).max() > 1:
                raise ValueError("larger than 1")
            return super().compress(x, out)

    def run(t: Transport) -> None:
        allreduce_comp(t, np.full(9, 0.6, np.float32), np.empty(9, np.float32), codec=Small("small"))

    texts = messages(threads(3, run), (ValueError, PeerLost))  # type: ignore[arg-type]
    assert any("codec small: compress: larger than 1" in text for text in texts), texts
    assert not any("malformed" in text for text in texts), texts


def test_a_sum_that_is_too_large_for_a_codecs_scale_names_both_ranks(threads: Group) -> None:
    """Neither rank's own values are, but what one of them adds to what came."""
    codec = Codec().scaled(126)  # a codec of the user's own, whose scale no agreement checks

    def run(t: Transport) -> None:
        allreduce_comp(t, np.full(10, 3.9, np.float32), np.empty(10, np.float32), codec=codec)

    texts = messages(threads(2, run), (OverflowError, PeerLost))  # type: ignore[arg-type]
    assert any("rank 1, with a stream from rank 0" in text for text in texts), texts


@pytest.mark.parametrize("call", [allreduce_comp, bcast_comp])
def test_a_codec_is_examined_at_its_first_use(group: Group, call: Any) -> None:
    """One that breaks its promises is an error at all ranks, before any data have moved."""
    wrong: Any = lambda self, x, out=None: x.astype("<f2").tobytes()  # noqa: E731
    codec = type("Broken", (Half,), {"compress": wrong})("broken")

    def run(t: Transport) -> str:
        x, own = np.ones(10, np.float32), Half("broken") if t.rank else codec
        buffers = (x, 0) if call is bcast_comp else (x, x.copy())
        with pytest.raises(MismatchError if t.rank else ValueError) as raised:
            call(t, *buffers, codec=own)
        t.barrier()
        return str(raised.value)

    own, theirs = group(2, run)
    assert own.startswith("codec broken, 3000 values: not so: compress(x, out) returns the part of out with")
    assert theirs == f"rank 0 cannot take part: BrokenPromise: {own}"


def test_a_codec_is_examined_once(threads: Group) -> None:
    calls = []

    class Counting(Half):
        def max_compressed_size(self, count: int) -> int:
            calls.append(count)
            return super().max_compressed_size(count)

    def run(t: Transport) -> None:
        for _ in range(3):
            allreduce_comp(t, np.ones(7, np.float32), np.empty(7, np.float32), codec=Counting())

    threads(1, run)
    assert calls.count(3000) == 1


class Unfinished:
    def compress(self, x: Any, out: Any = None) -> bytes:
        return b""


@pytest.mark.parametrize(
    ("codec", "text"),
    [
        (
            Unfinished(),
            "codec Unfinished lacks max_compressed_size, decompress, decompress_add, lossy, name (a str): "
            "make it a subclass of inceptionn.collectives.StreamCodec",
        ),
        ("plane", "codec must be one of paper, planes, not 'plane' (did you mean 'planes'?)"),
        (Half, "codec must be an object, such as Half(), not the class"),
        (Half(name=3), "codec Half lacks name (a str): make it a subclass of"),  # type: ignore[arg-type]
    ],
)
def test_what_is_missing_is_listed_at_all_ranks(group: Group, codec: Any, text: str) -> None:
    def run(t: Transport) -> str:
        x = np.ones(10, np.float32)
        with pytest.raises(MismatchError if t.rank else (TypeError, ValueError)) as raised:
            allreduce_comp(t, x, x.copy(), codec=None if t.rank else codec)
        t.barrier()
        return str(raised.value)

    own, theirs = group(2, run)
    assert own.startswith(text)
    kind = "ValueError" if isinstance(codec, str) else "TypeError"
    assert theirs == f"rank 0 cannot take part: {kind}: {own}"


def test_a_subclass_without_a_method_is_not_made() -> None:
    class NoStream(StreamCodec):
        name = "none"

    refused(TypeError, "compress", NoStream)


@pytest.mark.parametrize(
    "codec", [Codec(), Codec(codec="planes"), BFloat16(), Half()], ids=lambda codec: codec.name
)
def test_what_keeps_its_promises_passes(codec: StreamCodec) -> None:
    examine(codec)
    examine(OwnScale(codec, "auto") if isinstance(codec, Codec) else codec)
    assert codec.scaled(0) is codec
    examine(codec.scaled(3))


class Grid(Half):
    """Rounds to multiples of 2^-6, in two bytes: its bound is absolute."""

    name = "grid"
    absolute_bound = 2.0**-7

    def compress(self, x: Any, out: Any = None) -> bytes | memoryview:
        stream = np.rint(x * 64).astype("<i2").tobytes()
        return stream if out is None else stream_into(out, stream)

    def decompress(self, stream: Any, count: int, out: Any = None) -> Any:
        values = np.frombuffer(stream, "<i2", count).astype(np.float32) / 64
        if out is None:
            return values
        np.copyto(out, values.reshape(out.shape))
        return out


@pytest.mark.parametrize("bound", [0.0, -1.0, float("nan"), float("inf")])
def test_a_bound_that_is_not_positive_and_finite(threads: Group, bound: float) -> None:
    own = type("Own", (Half,), {"absolute_bound": 1.0})
    x = np.ones(100, np.float32)
    threads(2, lambda t: allreduce_comp(t, x, x.copy(), codec=own()))  # the type is known from now on
    own.absolute_bound = bound
    for said in messages(threads(2, lambda t: allreduce_comp(t, x, x.copy(), codec=own())), ValueError):
        assert "must be None or a finite number above 0" in said


def test_ranks_with_bounds_of_their_own(threads: Group) -> None:
    """Of equal names; the bound decides which scale ranks have, and which way they take."""
    x = np.ones(100, np.float32)

    def call(t: Transport) -> None:
        own = type("Own", (Half,), {"absolute_bound": 2.0 ** -(6 + t.rank)})()
        allreduce_comp(t, x, x.copy(), codec=own)

    for said in messages(threads(2, call), MismatchError):
        assert said == "codec's absolute_bound differs: rank 0 has 0.015625, rank 1 has 0.0078125"


def test_a_codec_with_an_absolute_bound_is_scaled(group: Group) -> None:
    """Scale "auto", error feedback and statistics treat it as they do this package's codecs."""
    x = np.random.default_rng(8).normal(scale=2.0**-20, size=(3, 5000)).astype(np.float32)

    def run(t: Transport) -> tuple[np.ndarray, np.ndarray]:
        total, feedback = np.empty(5000, np.float32), ErrorFeedback(Grid())
        allreduce_comp(t, x[t.rank], total, codec=Grid(), feedback=(feedback, "w"))
        assert (found := statistics(t)).scale is not None
        assert found.samples == 1
        return total, feedback.residual("w")

    results = group(3, run)
    assert all(np.array_equal(total, results[0][0]) for total, _ in results)
    assert np.abs(results[0][0] - x.sum(axis=0)).max() < 2.0**-20
    for (_, residual), own in zip(results, x, strict=True):
        assert 0 < np.abs(residual).max() < np.abs(own).max() / 8


def test_a_class_that_is_no_subclass(group: Group) -> None:
    """The first five methods and a name are enough."""
    names = ("max_compressed_size", "compress", "decompress", "decompress_add", "lossy")
    x = np.random.default_rng(9).normal(scale=0.1, size=(3, 5000)).astype(np.float32)
    duck = type("Duck", (), {"name": "duck", **{name: staticmethod(getattr(Half(), name)) for name in names}})
    found, wanted = (np.array(fed_sums(group, x, codec)) for codec in (duck(), Half()))
    assert found.tobytes() == wanted.tobytes()


@pytest.mark.parametrize(
    ("method", "wrong", "text"),
    [
        ("max_compressed_size", lambda self, count: count, "at most max_compressed_size bytes"),
        ("decompress", lambda self, stream, count, out=None: np.frombuffer(stream, "<f2"), "returns float32"),
        (
            "decompress",
            lambda self, stream, count, out=None: np.frombuffer(stream, "<f2", count).astype(np.float32),
            "fills and returns out",
        ),
        ("lossy", lambda self, x, out=None: x, "lossy(x) is what decompress returns"),
        ("compress", lambda self, x, out=None: x.astype("<f2").tobytes(), "the part of out"),
        ("decompress_add", lambda self, stream, accumulator, addend=None: accumulator, "their sum"),
    ],
)
def test_a_broken_promise_is_named(method: str, wrong: Any, text: str) -> None:
    broken = type("Broken", (Half,), {method: wrong})
    with pytest.raises(ValueError, match="half, 3000 values: not so") as raised:
        examine(broken())
    assert text in str(raised.value)


@pytest.mark.parametrize("size", [None, 6000.0, -1])
def test_a_largest_size_that_is_none(size: Any) -> None:
    broken = type("Broken", (Half,), {"max_compressed_size": lambda self, count: size})
    refused((TypeError, ValueError), r"^max_compressed_size of half must be .*not ", examine, broken())


def test_the_example_alone() -> None:
    assert said_by(sys.executable, EXAMPLE, cwd="/").startswith("1 ranks, largest error ")


def test_the_example_under_mpirun(mpirun: Callable[..., str]) -> None:
    said = mpirun(3, "-m", "mpi4py", str(EXAMPLE))
    assert said.startswith("3 ranks, largest error ")
    assert float(said.split()[4].rstrip(",")) < 1e-2


@pytest.fixture
def at_root(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Make the repository's root the working directory; return a folder with ``g.npy``."""
    monkeypatch.chdir(ROOT)
    values = np.random.default_rng(4).normal(scale=0.01, size=9000).astype(np.float32)
    np.save(tmp_path / "g.npy", values)
    return tmp_path


def test_inspect_compares_it(at_root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["inspect", str(at_root / "g.npy"), "--with", "examples.own_codec:Half"]
    assert cli.main(arguments) == 0
    (row,) = (line for line in capsys.readouterr().out.splitlines() if "float16" in line)
    assert "2.00" in row
    assert cli.main([*arguments, "--json", "-"]) == 0
    found = json.loads(capsys.readouterr().out)["with"]
    x = np.load(at_root / "g.npy").astype(np.float64)
    y = x.astype(np.float16).astype(np.float64)
    assert found["name"] == "float16"
    assert found["ratio"] == 2
    assert found["relative_error"] == pytest.approx(np.linalg.norm(x - y) / np.linalg.norm(x), rel=1e-3)


@pytest.mark.slow
def test_bench_codec_measures_it(at_root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["--quick", "--size", "1", "--file", str(at_root / "g.npy"), "--no-peers", "--json"]
    out = str(at_root / "b.json")
    assert cli.main(["bench", "codec", *arguments, out, "--with", "examples.own_codec:Half"]) == 0
    (row,) = (row for row in json.loads(Path(out).read_text())["rows"] if row["kind"] == "with")
    assert (row["name"], row["ratio"]) == ("float16", 2)
    assert "float16" in capsys.readouterr().out


@pytest.mark.slow
def test_fig14_trains_with_it(at_root: Path) -> None:
    pytest.importorskip("sklearn")
    pytest.importorskip("matplotlib")
    arguments = ["--quick", "--no-torch", "--no-network", "--out", str(at_root)]
    assert cli.main(["reproduce", "fig14", *arguments, "--with", "examples.own_codec:Half"]) == 0
    rows = {row["name"]: row for row in json.loads((at_root / "fig14.json").read_text())["rows"]}
    assert rows["HDC: float16, ratio"]["here"] == 2
    assert rows["HDC: float16, ratio"]["paper"] is None
    assert abs(rows["HDC: float16, accuracy less Base"]["here"]) < 5


@pytest.mark.parametrize(
    ("option", "text"),
    [
        ("Half", "--with must be MODULE:CLASS, not 'Half'"),
        ("no_such:Half", "--with no_such:Half: ModuleNotFoundError"),
        ("examples.own_codec:Whole", "has no attribute 'Whole'"),
        ("json:JSONDecoder", "TypeError: codec JSONDecoder lacks"),
    ],
)
def test_a_wrong_option_is_one_line(
    at_root: Path, capsys: pytest.CaptureFixture[str], option: str, text: str
) -> None:
    assert cli.main(["inspect", str(at_root / "g.npy"), "--with", option]) == 2
    assert text in capsys.readouterr().err

# SPDX-License-Identifier: BSD-2-Clause
"""Ranks that do not agree, that cannot take part, or that are lost in the middle."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from all_reduce import sums
from outcomes import Group, if_rank_1_says, messages

from inceptionn import Codec
from inceptionn.collectives import (
    MEAN,
    SUM,
    CompressedCommunicator,
    ErrorFeedback,
    MismatchError,
    agreement,
    allreduce_comp,
    bcast_comp,
    reduce_comp,
)
from inceptionn.transport import PeerLost, Transport, TransportError

X = np.ones(100, np.float32)


def summed(t: Transport) -> None:
    allreduce_comp(t, X, X.copy(), scale="auto")


@pytest.mark.parametrize(
    ("odd", "text"),
    [
        (
            {"sendbuf": np.ones(101, np.float32), "recvbuf": np.ones(101, np.float32)},
            "count differs: rank 0 has 100, rank 2 has 101",
        ),
        (
            {"sendbuf": X.astype("f8"), "recvbuf": X.astype("f8")},
            "dtype differs: rank 0 has 'float32', rank 2 has 'float64'",
        ),
        (
            {"codec": Codec(2**-8)},
            "codec differs: rank 0 has None, rank 2 has 'bounded 0.00390625 (E0 119, T 123, B 123)'",
        ),
        (
            {"codec": Codec(codec="planes")},
            "codec differs: rank 0 has None, rank 2 has 'planes 0.0009765625 (E0 117)'",
        ),
        ({"op": MEAN}, "op differs: rank 0 has 'sum', rank 2 has 'mean'"),
        ({"path": "off"}, "path differs: rank 0 has 'auto', rank 2 has 'off'"),
        (
            {"algorithm": "worker_aggregator"},
            "algorithm differs: rank 0 has 'ring', rank 2 has 'worker_aggregator'",
        ),
        ({"scale": None}, "scale differs: rank 0 has 'auto', rank 2 has None"),
        ({"scale": "rms"}, "scale differs: rank 0 has 'auto', rank 2 has 'rms'"),
        ({"legs": "up"}, "legs differs: rank 0 has 'both', rank 2 has 'up'"),
        ({"sub_block": 5}, "sub_block differs: rank 0 has 229376, rank 2 has 5"),
        ({"group_size": 3}, "group_size differs: rank 0 has None, rank 2 has 3"),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)  # fmt: skip
def test_disagreement_is_an_error_at_all_ranks(group: Group, odd: dict[str, Any], text: str) -> None:
    def run(t: Transport) -> str:
        mine = {"sendbuf": X, "recvbuf": X.copy()} | (odd if t.rank == 2 else {})
        with pytest.raises(MismatchError) as raised:
            allreduce_comp(t, **mine)
        y = np.empty_like(X)
        allreduce_comp(t, X, y)  # nothing was sent: the group goes on
        assert np.all(y == 3)
        return str(raised.value)

    assert group(3, run) == [text] * 3


def test_version(threads: Group, monkeypatch: pytest.MonkeyPatch) -> None:
    real = agreement.agree
    monkeypatch.setattr(
        "inceptionn.collectives.call.agree",
        lambda t, terms, *rest: real(t, {**terms, "version": [1, 2][t.rank]}, *rest),
    )
    assert messages(threads(2, summed), MismatchError) == {"version differs: rank 0 has 1, rank 1 has 2"}


@pytest.mark.parametrize(
    ("wrong", "kind", "text"),
    [
        (
            {"sendbuf": X.astype("i4")},
            TypeError, "sendbuf must be float32, float16, bfloat16 or float64, not int32",
        ),
        ({"sendbuf": X.astype(">f4")}, TypeError, "not >f4"),
        (
            {"sendbuf": np.zeros(30, ">f8")},
            TypeError,
            "not >f8 (the byte order: pass x.astype('f8'))",
        ),
        ({"sendbuf": [1.0, 2.0]}, TypeError, "not <class 'list'> (pass np.array(x, np.float32))"),
        ({"sendbuf": "text"}, TypeError, "sendbuf must be an array, not <class 'str'>"),
        ({"recvbuf": np.ones(99, np.float32)}, ValueError, "sendbuf has 100 values, recvbuf 99"),
        ({"recvbuf": np.ones(100)}, TypeError, "sendbuf is float32, recvbuf is float64"),
        ({"recvbuf": bytes(400)}, TypeError, "recvbuf must be float32"),
        ({"op": "sum"}, TypeError, "op must be SUM or MEAN, not 'sum'"),
        ({"path": "fast"}, ValueError, "path must be one of auto, nic, software, off, not 'fast'"),
        ({"path": "nic"}, ValueError, "path 'nic': not every rank has a NIC with the engines"),
        (
            {"algorithm": "tree"},
            ValueError,
            "algorithm must be one of ring, hierarchical, worker_aggregator, paper_baseline, not 'tree'",
        ),
        ({"scale": 127}, ValueError, "scale must be None, 'auto', 'tensor', 'rms' or -126..126, not 127"),
        ({"scale": True}, ValueError, "not True"),
        ({"group_size": 4}, ValueError, "group_size must be 1..3 of the 3 ranks, not 4"),
        ({"dtype": "float8"}, ValueError, "dtype must be one of None, bfloat16, not 'float8'"),
        ({"sub_block": 0}, ValueError, "sub_block must be at least 1, not 0"),
        ({"sub_block": 2.5}, TypeError, "sub_block must be an integer, not 2.5"),
        ({"sub_block": None}, TypeError, "sub_block must be an integer, not None"),
        ({"feedback": ErrorFeedback(Codec())}, TypeError, "feedback must be an ErrorFeedback and a name"),
        ({"feedback": (ErrorFeedback(Codec()),)}, TypeError, "feedback must be an ErrorFeedback and a name"),
        ({"feedback": ("x", "name")}, TypeError, "feedback must be an ErrorFeedback and a name"),
        ({"feedback": (ErrorFeedback(Codec()), ["x"])}, TypeError, "unhashable type: 'list'"),
    ],
)  # fmt: skip
def test_a_rank_that_cannot_take_part_stops_all(
    group: Group, wrong: dict[str, Any], kind: type[Exception], text: str
) -> None:
    def run(t: Transport) -> str:
        mine = {"sendbuf": X, "recvbuf": X.copy()} | (wrong if t.rank == 1 else {})
        with pytest.raises(kind if t.rank == 1 else MismatchError) as raised:
            allreduce_comp(t, **mine)
        t.barrier()
        return str(raised.value)

    first, own, last = group(3, run)
    assert text in own
    assert first == last == f"rank 1 cannot take part: {kind.__name__}: {own}"


@pytest.mark.parametrize("root", [2.0, None, "0", True, 3, -1, np.ones(1), 1 << 80])
def test_a_wrong_root_at_one_rank_stops_all(threads: Group, root: Any) -> None:
    kind = ValueError if type(root) is int else TypeError

    def run(t: Transport) -> list[str]:
        mine, said = root if t.rank == 1 else 0, []
        for call in (
            lambda: reduce_comp(t, X, X.copy(), root=mine),
            lambda: bcast_comp(t, X.copy(), mine),
            lambda: CompressedCommunicator(t).bcast(X, mine),
            lambda: CompressedCommunicator(t).reduce(X, root=mine),
        ):
            with pytest.raises(kind if t.rank == 1 else MismatchError) as raised:
                call()
            said.append(str(raised.value))
        t.barrier()
        return said

    first, wrong, last = threads(3, run)
    assert all(text.startswith("root must be a rank, 0..2, not ") for text in wrong)
    assert first == last == [f"rank 1 cannot take part: {kind.__name__}: {text}" for text in wrong]


def test_another_root_at_one_rank_stops_all(threads: Group) -> None:
    def run(t: Transport) -> None:
        for call in (bcast_comp, CompressedCommunicator.bcast):
            with pytest.raises(MismatchError, match="root differs: rank 0 has 0, rank 1 has 1"):
                call(t if call is bcast_comp else CompressedCommunicator(t), X.copy(), root=int(t.rank == 1))
        t.barrier()

    assert threads(3, run) == [None] * 3


def test_whole_numbers_of_numpy_are_taken(threads: Group) -> None:
    def run(t: Transport) -> float:
        mine = np.int64 if t.rank == 1 else int
        y = X.copy()
        bcast_comp(t, y, mine(1), sub_block=mine(64))
        reduce_comp(t, X, y, root=mine(1), sub_block=mine(64))
        return float(y[0])

    assert threads(2, run) == [1, 2]


def test_any_error_before_the_agreement_stops_all(threads: Group) -> None:
    class Broken(ErrorFeedback):
        def fed(self, *_: Any) -> Any:
            raise ArithmeticError("no residuals")

    def run(t: Transport) -> None:
        memory = Broken(Codec()) if t.rank == 1 else ErrorFeedback(Codec())
        with pytest.raises(ArithmeticError if t.rank == 1 else MismatchError, match="no residuals"):
            allreduce_comp(t, X, X.copy(), feedback=(memory, "x"))
        assert memory.state_dict() == {}
        t.barrier()

    assert threads(2, run) == [None] * 2


def test_nics_set_to_another_codec(threads: Group) -> None:
    def run(t: Transport) -> tuple[str, bool]:
        codec = Codec(2**-6)
        y = np.empty_like(X)
        with pytest.raises(ValueError, match="path 'nic'") as raised:
            allreduce_comp(t, X, y, path="nic", codec=codec)
        x = np.full(1000, 2.0**-6 + 2.0**-12, np.float32)
        z = np.empty_like(x)
        allreduce_comp(t, x, z, codec=codec, scale=None)  # path "auto": in software
        return str(raised.value), bool(np.all(z == 2 * codec.lossy(x)))

    text = (
        "path 'nic': the codec is bounded 0.015625 (E0 121, T 124, B 124), "
        "the NICs are set to bounded 0.0009765625 (E0 117, T 122, B 122)"
    )
    assert threads(2, run, nic=Codec()) == [(text, True)] * 2


def test_given_scale_that_overflows(threads: Group) -> None:
    def run(t: Transport) -> None:
        allreduce_comp(t, np.float32([2.0**100]), np.empty(1, np.float32), scale=27)

    for text in messages(threads(2, run), MismatchError):
        assert "would leave fp32's range with scale 27" in text


@pytest.mark.parametrize("path", ["auto", "software"])
@pytest.mark.parametrize("nic", [None, Codec(2.0**-6), Codec(2.0**-8, "planes")])
def test_the_default_codec_is_the_nics_or_planes(threads: Group, nic: Codec | None, path: Any) -> None:
    def run(t: Transport) -> bool:
        chosen, codec = agreement.choose_path(t, path, None)
        assert chosen == ("software" if nic is None or path == "software" else "nic")
        return codec == (nic or Codec(2.0**-10, "planes"))

    assert threads(2, run, nic=nic) == [True, True]


@pytest.mark.parametrize("call", [bcast_comp, allreduce_comp])
def test_a_given_scale_that_overflows_names_the_rank(threads: Group, call: Any) -> None:
    """Whose value it is; nothing becomes infinite silently."""

    def run(t: Transport) -> None:
        x = np.full(5, 3e38 if t.rank == 1 else 1.0, np.float32)
        call(t, x, 1 if call is bcast_comp else x.copy(), scale=1)

    first, second, third = threads(3, run)
    assert messages([second], OverflowError) == {"a value of 3e+38 is too large to be scaled by 2**1"}
    assert {str(first), str(third)} == {f"rank 1 cannot take part: OverflowError: {second}"}


@pytest.mark.parametrize("special", [np.inf, np.nan])
@pytest.mark.parametrize("codec", [Codec(2**-10), Codec(2**-10, "planes")])
def test_a_rank_of_zeros_and_no_number_does_not_set_the_scale(
    threads: Group, special: float, codec: Codec
) -> None:
    x = np.float32([[1e-4] * 8, [special] + [0] * 7])
    for result in sums(threads, x, codec=codec):
        assert not np.isfinite(result[0])
        np.testing.assert_allclose(result[1:], 1e-4, rtol=2**-8)


def test_a_rank_whose_warnings_are_errors_ends_the_wait_of_all(threads: Group) -> None:
    def run(t: Transport) -> None:
        own = np.full(8, 1.0 if t.rank else 1e-6, np.float32)
        allreduce_comp(t, own, np.empty(8, np.float32), scale=0, timeout=20)

    first, second = threads(2, run)  # pytest makes warnings errors
    assert isinstance(first, RuntimeWarning)
    assert isinstance(second, PeerLost)


def test_malformed_streams_break_the_group_at_all_ranks(group: Group) -> None:
    class Liar(Codec):
        """Cuts the end off what it sends."""

        def compress(self, x: Any, out: Any = None, *, scale: int = 0) -> Any:
            return super().compress(x, out, scale=scale)[:-1]

    def run(t: Transport) -> None:
        codec = Liar() if t.rank == 1 else Codec()
        allreduce_comp(t, np.full(5000, 0.1, np.float32), np.empty(5000, np.float32), codec=codec)

    *others, own = group(3, run, timeout=5)
    link = "rank 2 received a malformed stream from rank 1: "
    assert all(text.startswith(link) for text in messages([own], TransportError))
    assert all(text.startswith(f"rank 2 gave up: {link}") for text in messages(others, PeerLost))


def test_an_error_of_a_ranks_own_codec_is_its_own(group: Group) -> None:
    class Broken(Codec):
        def compress(self, x: Any, out: Any = None, *, scale: int = 0) -> Any:
            raise ValueError("no table for these lanes")

    def run(t: Transport) -> None:
        codec = Broken() if t.rank == 1 else Codec()
        allreduce_comp(t, np.full(5000, 0.1, np.float32), np.empty(5000, np.float32), codec=codec)

    first, own, last = group(3, run, timeout=5)
    assert messages([own], ValueError) == {"no table for these lanes"}
    assert messages((first, last), PeerLost) == {"rank 1 gave up: ValueError: no table for these lanes"}


def test_floats_of_another_length_name_the_link(threads: Group) -> None:
    """Raw values, in a message that is shorter than the receiver's block."""

    def run(t: Transport) -> None:
        if t.rank == 1:
            real = t.isend
            t.isend = lambda to, data, **how: real(to, data[:-1], **how)  # type: ignore[method-assign]
        allreduce_comp(t, np.ones(300, np.float32), np.empty(300, np.float32), path="off")

    link = "rank 2 received a malformed stream from rank 1: 444 bytes, expected 448"
    assert [*map(str, threads(3, run, timeout=5))] == [f"rank 2 gave up: {link}"] * 2 + [link]


@pytest.mark.parametrize(
    "answer",
    [
        None, 7, "abc", [], ["x", None], ["x", None, None, None], {"a": 1}, [7, None, None],
        ["x", "big", None], ["x", 1, None], ["x", [1.5], None], ["x", [True], None], ["x", [[1]], None],
        ["x", [127], None], ["x", [-127], None], ["x", [10**400], None], ["x", [10**4200], None],
        ["x", [float("inf")], None], ["x", [float("nan")], None], ["x", [None] * 4097, None],
        ["x", None, 7], ["x", None, ["a"]],
    ],
    ids=lambda answer: str(answer)[:20],
)  # fmt: skip
def test_a_malformed_agreement_names_its_rank(threads: Group, answer: Any) -> None:
    for text in messages(if_rank_1_says(threads, summed, answer), MismatchError):
        assert text.startswith("rank 1 sent a malformed agreement: ")
        assert len(text) < 1200


@pytest.mark.parametrize(
    ("check", "good", "bad"),
    [
        (agreement.is_exponent, [None, -126, 0, 126], [-127, 127, True, 1.0, "1", [1]]),
        (agreement.are_exponents, [None, [], [None, 126], [1] * 4096], [[1] * 4097, [127], (1,), 1]),
        (
            agreement.is_amount,
            [0, 0.0, 1, 1 << 62],
            [-1, (1 << 62) + 1, -0.1, True, "1", None, float("nan"), float("inf")],
        ),
    ],
)
def test_checks_of_what_ranks_send(check: Callable[[Any], bool], good: list[Any], bad: list[Any]) -> None:
    assert all(check(value) for value in good)
    assert not any(check(value) for value in bad)


def test_a_common_scale() -> None:
    assert agreement.common_scale("auto", [-10, None, -12], 3) == 8
    assert agreement.common_scale("auto", [None, None], 2) == agreement.common_scale(None, [5], 2) == 0
    with pytest.raises(ValueError, match="'rms' follows from mean squares"):
        agreement.common_scale("rms", [-10], 2)


@pytest.mark.parametrize("terms", [None, 5, [1], {}, {"a": 1}])
def test_terms_that_are_not_those_of_the_digest_name_their_rank(threads: Group, terms: Any) -> None:
    said = messages(if_rank_1_says(threads, summed, ["another digest", None, None], terms), MismatchError)
    assert said == {f"rank 1 sent a malformed agreement: {terms!r} does not belong to its digest"}


@pytest.mark.parametrize(
    ("said", "printed"),
    [("\x1b[2Jgone\nrank 0 is lost", r"\x1b[2Jgone\nrank 0 is lost"), ("a" * 100_000, "a" * 1000)],
    ids=["escaped", "cut"],
)
def test_what_another_rank_says(threads: Group, said: str, printed: str) -> None:
    for error in if_rank_1_says(threads, summed, ["x", None, said]):
        assert str(error) == f"rank 1 cannot take part: {printed}"


def test_a_malformed_exponent_for_error_feedback_names_its_rank(threads: Group) -> None:
    def kept(t: Transport) -> None:
        ErrorFeedback(Codec(), comm=t)(X.copy(), scale="auto")

    for error in if_rank_1_says(threads, kept, "large"):
        assert "rank 1 sent a malformed agreement: 'large'" in str(error)


def test_a_rank_that_never_calls(group: Group) -> None:
    def run(t: Transport) -> None:
        if t.rank != 1:
            allreduce_comp(t, X, X.copy())

    first, silent, last = group(3, run, timeout=3)
    assert silent is None
    assert messages((first, last), TransportError)


def test_comm_must_be_one() -> None:
    with pytest.raises(TypeError, match="a transport or an mpi4py communicator is needed, not 3"):
        allreduce_comp(3, X, X.copy(), SUM)


def test_values_that_only_python_calls_equal_differ(threads: Group) -> None:
    def run(t: Transport) -> None:
        agreement.agree(t, {"word": 1 if t.rank else True}, None, None)

    assert messages(threads(2, run), MismatchError) == {"word differs: rank 0 has True, rank 1 has 1"}


def test_a_term_that_one_rank_lacks_differs_from_none(threads: Group) -> None:
    def run(t: Transport) -> None:
        agreement.agree(t, {} if t.rank else {"word": None}, None, None)

    found = messages(threads(2, run), MismatchError)
    assert found == {"word differs: rank 0 has None, rank 1 has no such term"}

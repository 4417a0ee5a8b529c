# SPDX-License-Identifier: BSD-2-Clause
"""Non-blocking collectives: their order, their errors, and processes that are interrupted while one runs."""

import signal
import subprocess
import sys
import threading
import time
from inspect import signature
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from outcomes import Group, messages
from programs import ranks

from inceptionn import collectives
from inceptionn.collectives import (
    MEAN,
    BFloat16,
    CollectiveRequest,
    MismatchError,
    allgather_comp,
    allreduce_comp,
    iallgather_comp,
    iallreduce_comp,
    ibcast_comp,
    ireduce_comp,
    ireduce_scatter_comp,
    reduce_scatter_comp,
)
from inceptionn.collectives.requests import _line
from inceptionn.transport import PeerLost, Transport, TransportError

HERE = Path(__file__).parent


def ones(count: int = 1000) -> np.ndarray:
    return np.ones(count, np.float32)


def test_many_in_flight_and_a_blocking_one_between(group: Group) -> None:
    def run(t: Transport) -> bool:
        x = np.full(6000, t.rank + 1, np.float32)
        results = [np.empty_like(x) for _ in range(8)]
        part, whole, at_root, handed = ones(2000), ones(18_000), np.empty_like(x), x.copy()
        requests = [iallreduce_comp(t, x * (i + 1), results[i], path="off") for i in range(8)]
        requests.append(ireduce_scatter_comp(t, x, part, MEAN, path="off"))
        requests.append(iallgather_comp(t, x, whole, path="off"))
        blocking = np.empty_like(x)
        allreduce_comp(t, x, blocking, path="off")  # after those that are in flight
        assert all(request.done for request in requests)
        requests.append(ireduce_comp(t, x, at_root, root=1, path="off"))
        requests.append(ibcast_comp(t, handed, root=2, path="off"))
        for request in reversed(requests):
            request.wait(60)
            assert request.test()
        assert all(np.all(result == 6 * (i + 1)) for i, result in enumerate(results))
        assert np.all(part == 2)
        assert np.array_equal(whole, np.repeat(np.float32([1, 2, 3]), 6000))
        assert np.all(blocking == 6)
        assert t.rank != 1 or np.all(at_root == 6)
        assert np.all(handed == 3)
        return True

    assert group(3, run) == [True] * 3


@pytest.mark.parametrize("path", ["off", "software"])
@pytest.mark.parametrize(("ranks", "group_size"), [(4, 2), (5, 3), (7, 2)])
def test_hierarchical_ones_have_the_bits_of_the_blocking_ones(
    threads: Group, ranks: int, group_size: int, path: str
) -> None:
    """All three in flight together; groups that divide the ranks, and that do not."""
    counts = [1000 * rank for rank in range(ranks)]
    settings = {"algorithm": "hierarchical", "group_size": group_size, "path": path, "scale": None}
    x = np.random.default_rng(1).laplace(scale=1e-2, size=(ranks, sum(counts))).astype(np.float32)

    def run(t: Transport) -> float:
        own, block = x[t.rank], x[t.rank, : counts[t.rank]]
        calls: list[tuple[Any, Any, np.ndarray, int, dict[str, Any]]] = [
            (allreduce_comp, iallreduce_comp, own, own.size, {"op": MEAN}),
            (reduce_scatter_comp, ireduce_scatter_comp, own, block.size, {"counts": counts}),
            (allgather_comp, iallgather_comp, block, own.size, {"counts": counts}),
        ]
        found = [np.empty(size, np.float32) for *_, size, _ in calls]
        requests = [
            begin(t, given, y, **rest, **settings)
            for (_, begin, given, _, rest), y in zip(calls, found, strict=True)
        ]
        for request in requests:
            request.wait(60)
        for (blocking, _, given, size, rest), y in zip(calls, found, strict=True):
            wanted = np.empty(size, np.float32)
            blocking(t, given, wanted, **rest, **settings)
            assert np.array_equal(y.view(np.uint32), wanted.view(np.uint32))
        return float(np.abs(found[0] - x.mean(axis=0, dtype=float)).max())

    bound = 1e-6 if path == "off" else 2 * 2**-10
    assert all(error <= bound for error in threads(ranks, run))


@pytest.mark.parametrize("name", ["allreduce", "reduce", "bcast", "reduce_scatter", "allgather"])
def test_a_twin_has_the_parameters_of_the_blocking_call(name: str) -> None:
    call, twin = (getattr(collectives, f"{prefix}{name}_comp") for prefix in ("", "i"))
    assert (twin.__name__, twin.__module__) == (f"i{name}_comp", call.__module__)
    assert signature(twin).parameters == signature(call).parameters
    assert (signature(call).return_annotation, signature(twin).return_annotation) == (
        "None",
        "CollectiveRequest",
    )
    assert twin.__doc__.startswith(f"Begin `{name}_comp` with the same arguments")


def test_an_unknown_argument_names_the_function_that_was_called(threads: Group) -> None:
    def run(t: Transport) -> None:
        for name in ("allreduce_comp", "iallreduce_comp", "ibcast_comp"):
            with pytest.raises(TypeError, match=rf"^{name}\(\) got an unexpected keyword argument 'foo'$"):
                getattr(collectives, name)(t, ones(), ones(), foo=1)

    assert threads(1, run) == [None]


def test_it_returns_before_the_others_call(threads: Group) -> None:
    def run(t: Transport) -> bool:
        if t.rank:
            time.sleep(0.5)
            allreduce_comp(t, ones(), ones())
            return True
        request = iallreduce_comp(t, ones(), ones())
        assert not request.done
        assert not request.test()
        with pytest.raises(TimeoutError, match="the collective is still in progress after 0.01 s"):
            request.wait(0.01)
        request.wait()
        return request.test()

    assert threads(2, run) == [True, True]


def test_callbacks(threads: Group, caplog: pytest.LogCaptureFixture) -> None:
    """Each once, after the result or the error, before the next collective; one that raises stops nothing."""

    def run(t: Transport) -> list[str]:
        said: list[str] = []
        first = iallreduce_comp(t, ones(), y := ones(), path="off")
        first.add_done_callback(lambda request: 1 / 0)
        first.add_done_callback(lambda request: said.append(f"{request.test()} {y[0]:g}"))
        wrong = iallreduce_comp(t, ones(), np.zeros(1000, "i4"))
        wrong.add_done_callback(lambda request: said.append(f"done {request.done}"))
        with pytest.raises(TypeError):
            wrong.wait()
        first.add_done_callback(lambda request: said.append("late"))
        allreduce_comp(t, ones(), ones())  # after the callbacks
        return sorted(said)

    assert threads(2, run) == [["True 2", "done True", "late"]] * 2
    assert caplog.text.count("a callback of a collective failed") == 2


def test_a_callback_that_exits_stops_nothing(threads: Group, caplog: pytest.LogCaptureFixture) -> None:
    """The thread is not the program's: the collectives after it would wait for ever."""
    added = threading.Event()

    def run(t: Transport) -> bool:
        if t.rank:
            assert added.wait(20)
        first = iallreduce_comp(t, ones(), ones())
        if not t.rank:
            first.add_done_callback(lambda request: sys.exit(3))
            added.set()
        first.wait(20)
        after = iallreduce_comp(t, ones(), ones())
        after.wait(5)
        return after.done

    assert threads(2, run) == [True, True]
    assert caplog.text.count("a callback of a collective failed") == 1


def test_a_callback_cannot_wait_for_itself(threads: Group, caplog: pytest.LogCaptureFixture) -> None:
    """A blocking call in a callback would wait for the thread that it is in; a non-blocking one is fine."""
    added, over = threading.Event(), threading.Event()

    def run(t: Transport) -> list[str]:
        said: list[str] = []
        begun: list[CollectiveRequest] = []

        def callback(_: CollectiveRequest) -> None:
            begun.extend(iallreduce_comp(t, ones(), ones()) for _ in range(2))
            for call in (begun[0].wait, lambda: allreduce_comp(t, ones(), ones())):
                try:
                    call()
                except RuntimeError as error:
                    said.append(str(error))
            over.set()

        if t.rank:
            assert added.wait(20)
            for _ in range(4):
                allreduce_comp(t, ones(), ones())
            return said
        first = iallreduce_comp(t, ones(), ones())
        first.add_done_callback(callback)
        added.set()
        assert over.wait(20)
        allreduce_comp(t, ones(), ones())
        assert all(request.test() for request in begun)
        return said

    said, _ = threads(2, run)
    assert len(said) == 2
    assert all("callback" in text for text in said), said
    assert not caplog.text


def test_a_thread_that_cannot_start_leaves_the_line_free(
    threads: Group, monkeypatch: pytest.MonkeyPatch
) -> None:
    def run(t: Transport) -> str:
        def fail(thread: threading.Thread) -> None:
            raise RuntimeError("can't start new thread")

        with monkeypatch.context() as patch:
            patch.setattr(threading.Thread, "start", fail)
            with pytest.raises(RuntimeError) as raised:
                iallreduce_comp(t, ones(), ones())
        y = ones()
        allreduce_comp(t, ones(), y)  # in this thread
        iallreduce_comp(t, ones(), y).wait(20)
        return str(raised.value)

    assert threads(1, run) == ["can't start new thread"]


def test_calls_that_no_thread_takes_fail_and_may_begin_others(
    threads: Group, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A call that came while one ran in its caller's thread fails; its callback begins another."""

    def run(t: Transport) -> list[str]:
        waiting: list[CollectiveRequest] = []
        said: list[str] = []

        def again(request: CollectiveRequest) -> None:
            with pytest.raises(RuntimeError, match="can't start new thread"):
                iallreduce_comp(t, ones(), ones())
            said.append(type(request).__name__)

        def fail(thread: threading.Thread) -> None:
            raise RuntimeError("can't start new thread")

        with monkeypatch.context() as patch:

            def meanwhile() -> None:
                waiting.append(iallreduce_comp(t, ones(), ones()))
                waiting[0].add_done_callback(again)
                patch.setattr(threading.Thread, "start", fail)

            _line(t).run(meanwhile)
        with pytest.raises(RuntimeError, match="can't start new thread"):
            waiting[0].wait(20)
        return said

    (said,) = threads(1, run)
    assert said == ["CollectiveRequest"]


def test_errors_come_with_wait_and_the_line_goes_on(group: Group) -> None:
    def run(t: Transport) -> str:
        wrong = iallreduce_comp(t, ones(), np.zeros(1000, "i4") if t.rank else ones())
        right = iallreduce_comp(t, ones(), y := ones())
        with pytest.raises((TypeError, MismatchError)) as raised:
            wrong.wait()
        with pytest.raises((TypeError, MismatchError)):
            wrong.test()
        right.wait()
        assert np.all(np.abs(y - 2) < 1e-2)
        return str(raised.value)

    text = "recvbuf must be float32, float16, bfloat16 or float64, not int32"
    assert group(2, run) == [f"rank 1 cannot take part: TypeError: {text}", text]


def test_an_error_while_data_move_ends_all(group: Group) -> None:
    class Breaks(BFloat16):
        def compress(self, x: Any, out: Any = None) -> Any:
            if 300 < x.size < 400:  # a part of three, and none of `examine`'s arrays
                raise MemoryError("no memory")
            return super().compress(x, out)

    def run(t: Transport) -> Exception:
        requests = [
            iallreduce_comp(t, ones(), ones(), codec=Breaks() if t.rank == 1 else BFloat16())
            for _ in range(3)
        ]
        errors = []
        for request in requests:
            with pytest.raises((MemoryError, TransportError)) as raised:
                request.wait()
            errors.append(raised.value)
        assert all(isinstance(error, TransportError) for error in errors[1:])
        return errors[0]

    first, own, last = group(3, run)
    assert isinstance(own, MemoryError)
    for text in messages((first, last), PeerLost):
        assert "rank 1 gave up: MemoryError: no memory" in text


def test_a_rank_that_never_calls(group: Group) -> None:
    def run(t: Transport) -> str:
        if t.rank == 1:
            time.sleep(2)
            return "silent"
        with pytest.raises(TransportError) as raised:
            iallreduce_comp(t, ones(), ones(), timeout=0.5).wait()
        return str(raised.value)

    assert "nothing from rank 1 for 0.5 s" in group(2, run)[0]


def test_an_interrupt_ends_the_process(port: int) -> None:
    """Ctrl-C while one waits for a request: it ends at once, and the other rank learns of it."""
    with ranks(HERE / "interrupted_rank.py", 2, port, stderr=subprocess.PIPE) as started:
        assert started[0].stdout is not None
        assert started[0].stdout.readline() == "waiting\n"
        started[0].send_signal(signal.SIGINT)
        said = [rank.communicate(timeout=30)[1] for rank in started]
    assert said[0].endswith("KeyboardInterrupt\n")
    assert "PeerLost: rank 0 gave up: KeyboardInterrupt" in said[1]

# SPDX-License-Identifier: BSD-2-Clause
"""Non-blocking collectives. Those of one transport run one after the other."""

from __future__ import annotations

import logging
import os
import threading
from collections import deque
from collections.abc import Callable
from dataclasses import fields
from functools import wraps
from inspect import signature
from typing import Any, NamedTuple, ParamSpec
from weakref import WeakKeyDictionary

from ..transport import Transport, TransportError
from ..transport.mpi import transport_of
from .settings import Settings, check_names

P = ParamSpec("P")


class CollectiveRequest:
    """A collective in flight, or done.

    A thread of the transport runs its collectives, one at a time and in the order of the calls. A blocking
    one waits for those before it. All ranks must call them in the same order. Do not use a request's buffers,
    or the transport's other methods, until the request is done.
    """

    def __init__(self, call: Callable[[], None], line: _Line | None = None) -> None:
        self._call: Callable[[], None] | None = call
        self._line = line
        self._over = threading.Event()
        self._error: BaseException | None = None
        self._lock = threading.Lock()
        self._process = os.getpid()
        self._callbacks: list[Callable[[CollectiveRequest], None]] = []

    @property
    def done(self) -> bool:
        """True if it has ended, by its result or an error."""
        return self._over.is_set()

    def test(self) -> bool:
        """Tell whether the result is available.

        If the collective has failed, raises the error that `wait` would.
        """
        if self.done and self._error is not None:
            raise self._error
        return self.done

    def wait(self, timeout: float | None = None) -> None:
        """Wait until the result is available. Raise the errors of the blocking call.

        After ``timeout`` seconds this raises ``TimeoutError``, and the collective continues. The wait is
        limited in any case, since a collective fails after its own time-out if ranks fall silent.

        ``RuntimeError`` in a callback of an earlier collective, which the wait would wait for, and
        `TransportError` in a forked process, which has not the thread.
        """
        if not self.done and self._process != os.getpid():
            raise TransportError(f"the collective is in progress in another process, {self._process}")
        if not self.done and getattr(_here, "line", None) is self._line:
            raise RuntimeError(_IN_CALLBACK)
        if not self._over.wait(timeout):
            raise TimeoutError(f"the collective is still in progress after {timeout:g} s")
        self.test()

    def add_done_callback(self, function: Callable[[CollectiveRequest], None]) -> None:
        """Call ``function`` with this request once it is done, with a result or an error.

        The call is made in the transport's thread, before the next collective begins. If the request is
        already done, it is immediate.
        """
        with self._lock:
            if not self.done:
                self._callbacks.append(function)
                return
        function(self)

    Wait, Test = wait, test
    """The names of mpi4py's requests."""

    def _run(self) -> None:
        assert self._call is not None
        try:
            self._call()
        except BaseException as error:
            self._error = error
        self._end()

    def _fail(self, error: BaseException) -> None:
        """End without a call."""
        self._error = error
        self._end()

    def _end(self) -> None:
        self._call = None  # it holds the buffers
        with self._lock:
            self._over.set()
        for function in self._callbacks:
            try:
                function(self)
            except BaseException:  # sys.exit() would end the thread, and all later calls would wait
                logging.getLogger(__name__).exception("a callback of a collective failed")


class _Line:
    """The queue of calls on one transport."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiting: deque[CollectiveRequest] = deque()
        self._busy = False

    def start(self, call: Callable[[], None]) -> CollectiveRequest:
        """Append a call. A thread, which exists while calls are waiting, runs it."""
        request = CollectiveRequest(call, self)
        with self._lock:
            if not self._busy:
                self._start_thread()
                self._busy = True
            self._waiting.append(request)
        return request

    def run(self, call: Callable[[], None]) -> None:
        """Run a call after all waiting calls. If there are none, run it in this thread.

        ``RuntimeError`` in a callback of one of them.
        """
        if getattr(_here, "line", None) is self:
            raise RuntimeError(_IN_CALLBACK)
        with self._lock:
            here = not self._busy
            self._busy = True
        if not here:
            self.start(call).wait()
            return
        try:
            call()
        finally:
            self._go_on()

    def _start_thread(self) -> None:
        # The thread ends with the last call. As a daemon it does not keep an interrupted program alive.
        threading.Thread(target=self._work, name="collectives", daemon=True).start()

    def _go_on(self) -> None:
        """Start a thread for the calls that came meanwhile; they fail if that is impossible."""
        with self._lock:
            self._busy = False
            if not self._waiting:
                return
            try:
                self._start_thread()
                self._busy = True
                return
            except RuntimeError as problem:
                error, failed = problem, [*self._waiting]
                self._waiting.clear()
        for request in failed:  # without the lock, since callbacks may begin collectives
            request._fail(error)

    def _work(self) -> None:
        _here.line = self
        while True:
            with self._lock:
                if not self._waiting:
                    self._busy = False
                    return
                request = self._waiting.popleft()
            request._run()


_here = threading.local()
"""``line``: the `_Line` whose thread this one is."""
_IN_CALLBACK = (
    "a callback of a collective cannot wait for a later one on the same transport: begin a non-blocking one, "
    "or wait elsewhere"
)

_lines: WeakKeyDictionary[Transport, _Line] = WeakKeyDictionary()
_lines_lock = threading.Lock()


def _line(transport: Transport) -> _Line:
    with _lines_lock:
        return _lines.setdefault(transport, _Line())


class Plan(NamedTuple):
    """A collective with its arguments, not yet begun."""

    transport: Transport
    call: Callable[[], None]

    def run(self) -> None:
        """Run the collective now, or after those in flight."""
        self.transport.check_process()
        _line(self.transport).run(self.call)

    def start(self) -> CollectiveRequest:
        """Begin the collective.

        Raise ``RuntimeError`` if the transport cannot be used from another thread.
        """
        self.transport.check_process()
        self.transport.check_threads()
        return _line(self.transport).start(self.call)


def plan(comm: Any, timeout: float | None, collective: Callable[..., None], *arguments: Any) -> Plan:
    """Plan ``collective(transport, *arguments)`` over a transport or an mpi4py communicator.

    ``timeout`` is that of `Transport.patience`.
    """
    transport = transport_of(comm, timeout)

    def call() -> None:
        with transport.patience(timeout):
            collective(transport, *arguments)

    return Plan(transport, call)


def blocking(planned: Callable[P, Plan]) -> Callable[P, None]:
    """Make the blocking call of a function that plans a collective."""
    known = _names(planned)

    @wraps(planned)
    def call(*args: P.args, **kwargs: P.kwargs) -> None:
        check_names(planned.__name__, kwargs, known)
        planned(*args, **kwargs).run()

    _say_that_it_returns(call, "None")
    return call


def nonblocking(call: Callable[P, None]) -> Callable[P, CollectiveRequest]:
    """Make the non-blocking twin of a `blocking` call: the same arguments, and an "i" before its name."""
    planned: Callable[P, Plan] = call.__wrapped__  # type: ignore[attr-defined]
    known, name = _names(planned), f"i{planned.__name__}"

    @wraps(planned)
    def begin(*args: P.args, **kwargs: P.kwargs) -> CollectiveRequest:
        check_names(name, kwargs, known)
        return planned(*args, **kwargs).start()

    begin.__name__ = begin.__qualname__ = name
    begin.__doc__ = f"Begin `{planned.__name__}` with the same arguments, and return a `CollectiveRequest`."
    _say_that_it_returns(begin, "CollectiveRequest")
    return begin


def _names(planned: Callable[P, Plan]) -> set[str]:
    """Return the names of arguments: a function's own, and those of `Settings`."""
    return {*signature(planned).parameters, *(each.name for each in fields(Settings))}


def _say_that_it_returns(function: Any, kind: str) -> None:
    """Give a wrapped function the parameters of the original and a return type of its own."""
    function.__signature__ = signature(function).replace(return_annotation=kind)
    function.__annotations__ = {**function.__annotations__, "return": kind}

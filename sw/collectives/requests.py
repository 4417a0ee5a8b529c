# SPDX-License-Identifier: BSD-2-Clause
"""Non-blocking collectives. Those of one transport run one after the other."""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable
from weakref import WeakKeyDictionary

from ..transport import Transport


class CollectiveRequest:
    """A collective in flight, or done.

    A thread of the transport runs its collectives, one at a time and in the order of the calls. A blocking
    one waits for those before it. All ranks must call them in the same order. Do not use a request's buffers,
    or the transport's other methods, until the request is done.
    """

    def __init__(self, call: Callable[[], None]) -> None:
        self._call: Callable[[], None] | None = call
        self._over = threading.Event()
        self._error: BaseException | None = None
        self._lock = threading.Lock()
        self._callbacks: list[Callable[[CollectiveRequest], None]] = []

    @property
    def done(self) -> bool:
        """Whether it has ended, by its result or an error."""
        return self._over.is_set()

    def test(self) -> bool:
        """Whether the result is available.

        If the collective has failed, raises the error that `wait` would.
        """
        if self.done and self._error is not None:
            raise self._error
        return self.done

    def wait(self, timeout: float | None = None) -> None:
        """Returns when the result is available. Raises the errors of the blocking call.

        After ``timeout`` seconds this raises ``TimeoutError``, and the collective continues. The wait is
        limited in any case, since a collective fails after its own time-out if ranks fall silent.
        """
        if not self._over.wait(timeout):
            raise TimeoutError(f"the collective is still in progress after {timeout:g} s")
        self.test()

    def add_done_callback(self, function: Callable[[CollectiveRequest], None]) -> None:
        """Calls ``function`` with this request once it is done, by its result or an error.

        The call is in the transport's thread, before the next collective begins. If the request is already
        done, it is immediate.
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
        self._call = None  # it holds the buffers
        with self._lock:
            self._over.set()
        for function in self._callbacks:
            try:
                function(self)
            except Exception:
                logging.getLogger(__name__).exception("a callback of a collective failed")


class _Line:
    """The queue of calls on one transport."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiting: deque[CollectiveRequest] = deque()
        self._busy = False

    def start(self, call: Callable[[], None]) -> CollectiveRequest:
        """Appends a call. A thread, which exists while calls are waiting, runs it."""
        request = CollectiveRequest(call)
        with self._lock:
            self._waiting.append(request)
            if not self._busy:
                self._busy = True
                self._start_thread()
        return request

    def run(self, call: Callable[[], None]) -> None:
        """Runs a call after all waiting calls. If there are none, runs it in this thread."""
        with self._lock:
            here = not self._busy
            self._busy = True
        if not here:
            self.start(call).wait()
            return
        try:
            call()
        finally:
            with self._lock:
                self._busy = bool(self._waiting)
                if self._waiting:
                    self._start_thread()

    def _start_thread(self) -> None:
        # The thread ends with the last call. As a daemon it does not keep an interrupted program alive.
        threading.Thread(target=self._work, name="collectives", daemon=True).start()

    def _work(self) -> None:
        while True:
            with self._lock:
                if not self._waiting:
                    self._busy = False
                    return
                request = self._waiting.popleft()
            request._run()


_lines: WeakKeyDictionary[Transport, _Line] = WeakKeyDictionary()
_lines_lock = threading.Lock()


def _line(transport: Transport) -> _Line:
    with _lines_lock:
        return _lines.setdefault(transport, _Line())


def in_order(transport: Transport, timeout: float | None, call: Callable[[], None]) -> None:
    """Runs a collective now, or after those in flight. ``timeout`` is that of `Transport.patience`."""
    _line(transport).run(lambda: _patiently(transport, timeout, call))


def start(transport: Transport, timeout: float | None, call: Callable[[], None]) -> CollectiveRequest:
    """Begins a collective. Raises ``RuntimeError`` if the transport cannot be used from another thread."""
    transport.check_threads()
    return _line(transport).start(lambda: _patiently(transport, timeout, call))


def _patiently(transport: Transport, timeout: float | None, call: Callable[[], None]) -> None:
    with transport.patience(timeout):
        call()

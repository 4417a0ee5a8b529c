# SPDX-License-Identifier: BSD-2-Clause
"""JSON objects over one socket, one per line. Everything that another process sends is checked here.

Processes outside the group may reach its ports, and a peer may be broken. Malformed input raises
``ValueError``.
"""

import json
import re
import select
import socket
import string
import time
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any

MAX_LINE = 1 << 24
"""Length of the longest object that is accepted, in bytes."""
HELLO_BYTES = 1 << 13
"""Length of the longest object, in bytes, that is accepted from a process before it is known to be a rank."""
_HELLO_BRACKETS = 64
"""Most opening brackets in such an object. The limit bounds the nesting depth before the object is parsed."""
_MOST_DEPTH = 500
"""Deepest nesting of an object. Python's own limit would depend on the caller's stack, at each rank."""
_STRING = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+(?:"|\\?\Z)', re.DOTALL)
"""A string, also one without an end. It never tries a byte twice."""
_CHUNK = 1 << 18
"""Most bytes that one read takes."""
_LONGEST_TEXT = 4096
_MOST_RANKS = 1 << 16

Form = Mapping[str, Callable[[Any], bool]]
"""The fields of an object, with a check for each."""


def whole(value: Any) -> bool:
    """Accept an integer of 0..2^63-1; not a ``bool``."""
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 63


def text(value: Any) -> bool:
    """Accept a string of at most 4096 characters."""
    return isinstance(value, str) and len(value) <= _LONGEST_TEXT


def digest(value: Any) -> bool:
    """Accept 32 bytes as 64 hexadecimal digits."""
    return isinstance(value, str) and len(value) == 64 and set(value) <= set(string.hexdigits)


def ranks(value: Any) -> bool:
    """Accept a list of ranks."""
    return isinstance(value, list) and len(value) <= _MOST_RANKS and all(map(whole, value))


def anything(value: Any) -> bool:
    """Accept any JSON value."""
    return True


def shortened(reason: str, longest: int = _LONGEST_TEXT) -> str:
    """Cut the text to the length that the other end accepts."""
    return reason[:longest]


def check_depth(line: bytes | bytearray) -> None:
    """Raise ``ValueError`` if a JSON text is nested too deeply."""
    if line.count(b"[") + line.count(b"{") <= _MOST_DEPTH:
        return
    depth = 0
    for bracket in re.finditer(rb"[][{}]", _STRING.sub(b"", line)):
        depth += 1 if bracket[0] in b"[{" else -1
        if depth > _MOST_DEPTH:
            raise ValueError("an object is nested too deeply")


def decoded(line: bytes | bytearray, *, stranger: bool = False) -> dict[str, Any]:
    """Return the object that a line holds. Raise ``ValueError`` for anything else.

    From a stranger, the object must also be flat.
    """
    if stranger and line.count(b"[") + line.count(b"{") > _HELLO_BRACKETS:
        raise ValueError("an object is nested too deeply")
    check_depth(line)
    try:
        said = json.loads(line)
    except RecursionError:  # of a caller whose own stack is deep
        raise ValueError("an object is nested too deeply") from None
    if not isinstance(said, dict):
        raise ValueError(f"an object was expected, not {type(said).__name__}")
    return said


def checked(said: dict[str, Any], form: Form) -> dict[str, Any]:
    """Return the object if its fields pass their checks.

    Raises ``ValueError`` naming the first field that is missing or fails its check in ``form``.
    """
    for name, right in form.items():
        if name not in said:
            raise ValueError(f"the field {name!r} is missing")
        if not right(said[name]):
            raise ValueError(f"the field {name!r} cannot be {said[name]!r:.60}")
    return said


class Line:
    """Objects over one socket. The socket blocks for at most ``timeout`` seconds; with 0.0 it does not block.

    The other end is a stranger, of whom only short, flat objects are accepted, until `trust`.
    """

    def __init__(self, sock: socket.socket, timeout: float) -> None:
        self.sock = sock
        self.stranger = True
        self.limit = HELLO_BYTES
        """Length of the longest line that is accepted, in bytes."""
        self.lines: deque[bytearray] = deque()
        """Complete lines that have not been read yet."""
        self._partial = bytearray()
        self._out: deque[memoryview] = deque()
        sock.settimeout(timeout)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def trust(self, limit: int = MAX_LINE) -> None:
        """Accept lines of up to ``limit`` bytes, since the other end has proved that it is a rank."""
        self.stranger, self.limit = False, limit

    @property
    def pending(self) -> bool:
        """True if there are bytes that the kernel has not accepted yet."""
        return bool(self._out)

    def send(self, value: Any) -> None:
        """Begin to send one object. Raise ``OSError`` if the connection is lost."""
        self.send_encoded(json.dumps(value, separators=(",", ":")).encode() + b"\n")

    def send_encoded(self, lines: bytes) -> None:
        """Begin to send lines that are already encoded."""
        self._out.append(memoryview(lines))
        self.flush()

    def flush(self) -> None:
        """Send as much as the kernel accepts."""
        while self._out:
            try:
                sent = self.sock.send(self._out[0])
            except BlockingIOError:
                return
            if sent < len(self._out[0]):
                self._out[0] = self._out[0][sent:]
            else:
                self._out.popleft()

    def drain(self, deadline: float) -> None:
        """Send the pending bytes until none are left or ``time.monotonic`` has reached ``deadline``."""
        poll = select.poll()
        poll.register(self.sock, select.POLLOUT)
        while self._out and poll.poll(max(0.0, deadline - time.monotonic()) * 1000):
            self.flush()

    def fill(self) -> None:
        """Read once, into `lines`. Call it when the socket is readable.

        Raises ``EOFError`` at the end of the connection and ``ValueError`` for a line that is too long.
        """
        data = self.sock.recv(self.limit if self.stranger else _CHUNK)
        if not data:
            raise EOFError("the connection ended")
        first, *others = data.split(b"\n")
        self._partial += first
        for rest in others:
            self._add()
            self._partial = bytearray(rest)
        self._check()

    def _add(self) -> None:
        self._check()
        self.lines.append(self._partial)

    def _check(self) -> None:
        if len(self._partial) > self.limit:
            raise ValueError(f"a line is longer than {self.limit} bytes")

    def receive(self) -> list[dict[str, Any]]:
        """Read once and return the objects that are now complete.

        Raises like `fill`, and ``ValueError`` for a line that is not an object.
        """
        self.fill()
        said = [decoded(line, stranger=self.stranger) for line in self.lines]
        self.lines.clear()
        return said

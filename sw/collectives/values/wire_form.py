# SPDX-License-Identifier: BSD-2-Clause
"""The forms in which lanes are sent: raw, as streams of a codec, or as floats that NICs compress."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from enum import Enum, auto
from functools import cache
from time import perf_counter
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from ...codec import converted
from ...codec.stream_codec import BrokenPromise, StreamCodec, stream_in, values_in
from ...transport import Request, Transport
from ...wire import LANE_BYTES

Lanes = NDArray[np.float32]


class Then(Enum):
    """The use of arriving lanes, or of their sum with an addend."""

    KEPT = auto()
    """They are stored."""
    RELAYED = auto()
    """They are only relayed. The destination's content is unspecified."""
    SETTLED = auto()
    """They are relayed, and the values that the next receiver gets are stored."""


@contextmanager
def arriving(rank: int, peer: int) -> Iterator[None]:
    """Decode in this context what ``rank`` received from ``peer``.

    A ``ValueError`` means a malformed stream and becomes `MalformedStream`. An ``OverflowError`` means a sum
    that is too large for the codec's scale and stays one. The texts of both name the two ranks. A
    `BrokenPromise` is the codec's own fault and passes as it is.
    """
    try:
        yield
    except BrokenPromise:
        raise
    except OverflowError as problem:
        raise OverflowError(f"rank {rank}, with a stream from rank {peer}: {problem}") from problem
    except ValueError as problem:
        link = f"rank {rank} received a malformed stream from rank {peer}"
        raise MalformedStream(f"{link}: {problem}") from problem


class MalformedStream(ValueError):
    """One rank received from another a message that is no stream of the codec, or has another length."""


@dataclass(slots=True)
class Spent:
    """The cost of one collective to this rank so far: seconds, messages, and their size as float32.

    It is only added to, by the one thread that uses the transport. A message costs three to eight readings of
    a clock, about 50 ns each.
    """

    codec: float = 0.0
    waiting: float = 0.0
    sending: float = 0.0
    messages: int = 0
    raw_bytes: int = 0

    def sent(self, lanes: Lanes, peers: int, since: float) -> None:
        """Count a message to some peers that was handed to the transport from ``since`` until now."""
        self.sending += perf_counter() - since
        self.messages += peers
        self.raw_bytes += peers * LANE_BYTES * lanes.size


class Incoming(ABC):
    """Lanes in flight to this rank, to be stored, summed or relayed as `WireForm.receive` was told."""

    @abstractmethod
    def finish(self) -> int:
        """Wait for the lanes, sum them, and return the bytes of the message. Lanes to be kept are stored."""

    @abstractmethod
    def relay(self, peers: Sequence[int]) -> None:
        """Begin to relay finished lanes to one or more ranks, unchanged or as their sum.

        Lanes to be settled are stored then, so that the link to the next rank does not wait for it.
        """

    def drop(self) -> None:
        """Free the memory, if the lanes are not relayed."""
        return


class WireForm(ABC):
    """A form in which lanes are sent over a transport. An instance serves one collective.

    ``spent`` counts what it costs; forms of one collective share one.
    """

    def __init__(self, transport: Transport, spent: Spent | None = None) -> None:
        self.transport = transport
        self.spent = Spent() if spent is None else spent
        self._sending: deque[tuple[Request, NDArray[np.uint8] | None]] = deque()

    @abstractmethod
    def send(self, peers: Sequence[int], lanes: Lanes, *, settle: bool = False) -> int:
        """Begin to send lanes to one or more ranks. Return the size of one message in bytes.

        With ``settle`` they are replaced by the values that a receiver gets. From then on they must keep
        their values until `drain`, or until data that depend on their arrival have returned, as in a ring.
        """

    @abstractmethod
    def receive(
        self, peer: int, lanes: Lanes, addend: Lanes | None = None, then: Then = Then.KEPT
    ) -> Incoming:
        """Begin to receive ``lanes.size`` lanes; store them, or their sum with an addend, in ``lanes``.

        ``addend`` has the same size, and may be ``lanes`` itself. ``then`` says what is done with them next.
        """

    def settle(self, lanes: Lanes) -> None:
        """Replace lanes by the values that a receiver gets, so that all ranks hold the same bits."""
        return

    def post(self, peer: int, data: NDArray[Any]) -> None:
        """Begin to send an array's bytes, and keep the array until they are sent."""
        self._sending.append((self.transport.isend(peer, data), data))

    def drain(self) -> None:
        """Wait until everything is sent."""
        start = perf_counter()
        while self._sending:
            self._sending.popleft()[0].wait()
        self.spent.sending += perf_counter() - start


class _Direct(Incoming):
    """Lanes that are received directly into their place, or into a buffer and then added."""

    def __init__(self, form: Raw, peer: int, lanes: Lanes, addend: Lanes | None, then: Then) -> None:
        self._form, self._peer, self._lanes, self._addend, self._then = form, peer, lanes, addend, then
        self._scratch = None if addend is None else form.scratch(lanes.size)
        into = lanes if self._scratch is None else self._scratch[: lanes.size]
        self._request = form.transport.irecv_into(peer, into, tagged=form.tagged)

    def finish(self) -> int:
        start = perf_counter()
        got = self._request.wait()
        self._form.spent.waiting += perf_counter() - start
        if got != self._lanes.nbytes:
            with arriving(self._form.transport.rank, self._peer):
                raise ValueError(f"{got} bytes, expected {self._lanes.nbytes}")
        if self._scratch is not None and self._addend is not None:
            np.add(self._addend, self._scratch[: self._lanes.size], out=self._lanes)
            self._form.spare.append(self._scratch)
        return got

    def relay(self, peers: Sequence[int]) -> None:
        settle = self._then is Then.SETTLED and self._addend is not None  # else done already
        self._form.send(peers, self._lanes, settle=settle)


class Raw(WireForm):
    """Raw lanes, 4 bytes each, in messages."""

    tagged = False

    def __init__(self, transport: Transport, spent: Spent | None = None) -> None:
        super().__init__(transport, spent)
        self.spare: list[Lanes] = []

    def scratch(self, count: int) -> Lanes:
        """Return memory for at least ``count`` lanes."""
        if self.spare and self.spare[-1].size >= count:
            return self.spare.pop()
        return np.empty(count, np.float32)

    def send(self, peers: Sequence[int], lanes: Lanes, *, settle: bool = False) -> int:
        if settle:
            self.settle(lanes)
        start = perf_counter()
        for peer in peers:
            self._sending.append((self.transport.isend(peer, lanes, tagged=self.tagged), None))
        self.spent.sent(lanes, len(peers), start)
        return lanes.nbytes

    def receive(
        self, peer: int, lanes: Lanes, addend: Lanes | None = None, then: Then = Then.KEPT
    ) -> Incoming:
        return _Direct(self, peer, lanes, addend, then)


class Tagged(Raw):
    """Lanes as floats on marked connections, which the NICs compress and restore.

    A NIC may send any packet raw. So values that must be equal everywhere are settled before they are sent.
    ``codec`` makes the values that NICs keep as they are: theirs, or its `Codec.summing`.
    """

    tagged = True

    def __init__(self, transport: Transport, codec: StreamCodec) -> None:
        super().__init__(transport)
        self.codec = codec

    def settle(self, lanes: Lanes) -> None:
        start = perf_counter()
        values_in(lanes, self.codec, self.codec.lossy(lanes, out=lanes), "lossy")
        self.spent.codec += perf_counter() - start


class _Stream(Incoming):
    def __init__(self, form: Compressed, peer: int, lanes: Lanes, addend: Lanes | None, then: Then) -> None:
        self._form, self._peer, self._lanes, self._addend, self._then = form, peer, lanes, addend, then
        self._buffer = form.buffer(lanes.size)
        self._length = 0
        self._request = form.transport.irecv_into(peer, self._buffer)

    def finish(self) -> int:
        start = perf_counter()
        length = self._length = self._request.wait()
        arrived = perf_counter()
        stream, lanes = self._buffer[:length], self._lanes
        with arriving(self._form.transport.rank, self._peer):
            if self._then is Then.KEPT:
                if self._addend is None:
                    self._form.restore(stream, lanes)
                else:
                    self._form.add(stream, self._addend, lanes)
            elif self._addend is not None:
                came, self._buffer = self._buffer, self._form.buffer(lanes.size)
                self._length = self._form.compress_sum(stream, self._addend, self._buffer)
                self._form.spare.append(came)
        self._form.spent.waiting += arrived - start
        self._form.spent.codec += perf_counter() - arrived
        return length

    def relay(self, peers: Sequence[int]) -> None:
        self._form.forward(peers, self._buffer, self._length, self._lanes)
        if self._then is Then.SETTLED:
            start = perf_counter()
            with arriving(self._form.transport.rank, self._peer):
                self._form.restore(self._buffer[: self._length], self._lanes)
            self._form.spent.codec += perf_counter() - start

    def drop(self) -> None:
        self._form.spare.append(self._buffer)


_KEPT = 16
"""Buffers for streams that a transport keeps between two collectives, since new memory costs page faults."""

_spare: WeakKeyDictionary[Transport, list[NDArray[np.uint8]]] = WeakKeyDictionary()


class Compressed(WireForm):
    """Lanes as streams of a codec, in messages (the software path).

    Lanes are float32, or where the codec takes them float16 and uint16 with bfloat16 patterns, of which none
    is a partial sum. ``factor``: what received lanes, which are complete, are multiplied by in float32.
    """

    def __init__(self, transport: Transport, codec: StreamCodec, factor: float | None = None) -> None:
        super().__init__(transport)
        self.codec, self.factor = codec, factor
        self._size_of = cache(codec.max_compressed_size)
        self.spare = _spare.setdefault(transport, [])
        self._sum = np.empty(0, np.float32)

    def buffer(self, count: int) -> NDArray[np.uint8]:
        """Return memory for the stream of at least ``count`` lanes, reused if possible."""
        while self._sending and self._sending[0][0].test():
            _, buffer = self._sending.popleft()
            if buffer is not None:
                self.spare.append(buffer)
        size = self._size_of(count)
        while self.spare:
            if (buffer := self.spare.pop()).size >= size:
                return buffer
        return np.empty(size, np.uint8)

    def drain(self) -> None:
        sent = [buffer for _, buffer in self._sending if buffer is not None]
        super().drain()
        self.spare += sent
        del self.spare[:-_KEPT]

    def compressed(self, lanes: Lanes) -> tuple[NDArray[np.uint8], int]:
        """Compress lanes into a buffer; return it, for `forward`, and the length of the stream in it."""
        buffer = self.buffer(lanes.size)
        start = perf_counter()
        length = self._stream(self.codec.compress(lanes, buffer), lanes, buffer)
        self.spent.codec += perf_counter() - start
        return buffer, length

    def send(self, peers: Sequence[int], lanes: Lanes, *, settle: bool = False) -> int:
        buffer, length = self.compressed(lanes)
        self.forward(peers, buffer, length, lanes)
        if settle:
            start = perf_counter()
            self.restore(buffer[:length], lanes)
            self.spent.codec += perf_counter() - start
        return length

    def restore(self, stream: Any, lanes: Lanes) -> None:
        """Decompress a stream to lanes."""
        if self.factor is None:
            values_in(lanes, self.codec, self.codec.decompress(stream, lanes.size, out=lanes), "decompress")
            return
        total = self.codec.decompress(stream, lanes.size, out=self._scratch(lanes.size))
        np.multiply(total, np.float32(self.factor), out=total)
        converted(total, out=lanes)

    def add(self, stream: Any, addend: Lanes, out: Lanes) -> Lanes:
        """Write the sum of an addend and a stream's values to ``out``, which may be the addend; return it."""
        return values_in(out, self.codec, self.codec.decompress_add(stream, out, addend), "decompress_add")

    def _stream(self, stream: Any, lanes: Lanes, out: NDArray[np.uint8]) -> int:
        return stream_in(out, self.codec, stream, lanes, self._size_of(lanes.size))

    def forward(self, peers: Sequence[int], buffer: NDArray[np.uint8], length: int, lanes: Lanes) -> None:
        """Begin to send the first ``length`` bytes of a buffer, which is reused once they are sent.

        They are the stream of ``lanes``, whose content does not matter here.
        """
        start = perf_counter()
        for peer in peers:
            request = self.transport.isend(peer, buffer[:length])
            self._sending.append((request, buffer if peer == peers[-1] else None))
        self.spent.sent(lanes, len(peers), start)

    def compress_sum(self, stream: Any, addend: Lanes, out: NDArray[np.uint8]) -> int:
        """Compress the sum of an addend and a stream's values into ``out``; return its length."""
        return self._stream(self.codec.compress_sum(stream, addend, out), addend, out)

    def _scratch(self, count: int) -> Lanes:
        """Return float32 memory for one sum, always the same, so that it stays in the cache."""
        if self._sum.size < count:
            self._sum = np.empty(count, np.float32)
        return self._sum[:count]

    def receive(
        self, peer: int, lanes: Lanes, addend: Lanes | None = None, then: Then = Then.KEPT
    ) -> Incoming:
        return _Stream(self, peer, lanes, addend, then)

    def settle(self, lanes: Lanes) -> None:
        start = perf_counter()
        values_in(lanes, self.codec, self.codec.lossy(lanes, out=lanes), "lossy")
        self.spent.codec += perf_counter() - start


def sums_exactly(form: WireForm) -> bool:
    """Tell whether what arrives are multiples of a power of two each, whose sums in float64 are exact."""
    return isinstance(form, Compressed) and form.codec.sums_in_double


def wire_form(transport: Transport, path: str, codec: StreamCodec, factor: float | None = None) -> WireForm:
    """Return the form of a path: `Tagged` for "nic", `Raw` for "off", `Compressed` for "software".

    ``factor`` is for the last one.
    """
    if path == "nic":
        return Tagged(transport, codec)
    return Raw(transport) if path == "off" else Compressed(transport, codec, factor)

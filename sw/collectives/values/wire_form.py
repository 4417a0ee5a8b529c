# SPDX-License-Identifier: BSD-2-Clause
"""How lanes travel between ranks: as they are, as streams of a codec, or as floats that NICs compress."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Sequence
from functools import cache
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from ...transport import Request, Transport

Lanes = NDArray[np.float32]


class StreamCodec(Protocol):
    """What the software path needs of a codec: `inceptionn.Codec`'s methods, or `BFloat16`'s.

    Values are C-contiguous float32 arrays, streams any contiguous bytes. All methods are O(size). A codec
    must be idempotent in value: ``lossy(lossy(x)) == lossy(x)``.
    """

    def compress(self, x: Any, out: Any = None) -> bytes | memoryview:
        """The stream of ``x``, of any shape: new bytes, or the part of the buffer ``out`` that holds it.

        ``max_compressed_size(x.size)`` bytes of ``out`` are always enough.
        """

    def decompress(self, stream: Any, count: int, out: Lanes | None = None) -> Lanes:
        """float32[count] of a stream; ``out``, of the same size, is filled and returned if given.

        Raises ``ValueError`` for a malformed stream, or one of another count.
        """

    def decompress_add(self, stream: Any, accumulator: Lanes, addend: Lanes | None = None) -> Lanes:
        """Adds a stream to an array of the same size and returns it; errors as `decompress`.

        With ``addend``, apart from the accumulator or the same, the sum of that and the stream is stored.
        """

    def lossy(self, x: Any, out: Lanes | None = None) -> Lanes:
        """What the receiver of ``x`` sees, in its shape; ``out`` may be ``x``."""

    def max_compressed_size(self, count: int) -> int:
        """The most bytes that a stream of ``count`` values takes."""


def add_decompressed(codec: StreamCodec, stream: Any, accumulator: Lanes, addend: Lanes | None) -> Lanes:
    """`StreamCodec.decompress_add` of a codec that adds what it has decompressed; O(size) of memory."""
    values = codec.decompress(stream, accumulator.size).reshape(accumulator.shape)
    return np.add(accumulator if addend is None else addend, values, out=accumulator)


class Incoming(ABC):
    """A run of lanes in flight to this rank, to be stored or summed where `WireForm.receive` said."""

    @abstractmethod
    def finish(self) -> None:
        """Waits for it, and stores it or the sum."""

    @abstractmethod
    def relay(self, peers: Sequence[int]) -> None:
        """Begins to relay it, unchanged, to one or more ranks; only if it was stored and is finished."""

    def drop(self) -> None:
        """Frees its memory; only where it is not relayed."""
        return


class WireForm(ABC):
    """One way for lanes to travel over a transport. Its memory lasts for one collective."""

    def __init__(self, transport: Transport) -> None:
        self.transport = transport
        self._sending: deque[tuple[Request, NDArray[np.uint8] | None]] = deque()

    @abstractmethod
    def send(self, peers: Sequence[int], lanes: Lanes) -> int:
        """Begins to send lanes to one or more ranks; returns the bytes of one message.

        The lanes must keep their values until `drain`, or until data that depend on their arrival have come
        back, as in a ring.
        """

    @abstractmethod
    def receive(self, peer: int, lanes: Lanes, addend: Lanes | None = None) -> Incoming:
        """Expects ``lanes.size`` lanes from a rank; stores them, or their sum with an addend, in ``lanes``.

        ``addend``: of the same size; it may be ``lanes`` itself.
        """

    def passing(self, lanes: Lanes) -> Lanes:
        """Where to sum what is only sent on: ``lanes``, or memory of that size for one sum at a time."""
        return lanes

    def settle(self, lanes: Lanes) -> None:
        """Replaces lanes by what a receiver of them sees; all ranks hold the same bits then."""
        return

    def post(self, peer: int, data: NDArray[Any]) -> None:
        """Begins to send an array's bytes as they are; it is kept until they have left."""
        self._sending.append((self.transport.isend(peer, data), data))

    def drain(self) -> None:
        """Waits for all that was sent."""
        while self._sending:
            self._sending.popleft()[0].wait()


class _Direct(Incoming):
    """Lanes that are received where they are to be stored, or into other memory and then added."""

    def __init__(self, form: Raw, peer: int, lanes: Lanes, addend: Lanes | None) -> None:
        self._form, self._lanes, self._addend = form, lanes, addend
        self._scratch = None if addend is None else form.scratch(lanes.size)
        into = lanes if self._scratch is None else self._scratch[: lanes.size]
        self._request = form.transport.irecv_into(peer, into, tagged=form.tagged)

    def finish(self) -> None:
        got = self._request.wait()
        if got != self._lanes.nbytes:
            raise ValueError(f"received {got} bytes, expected {self._lanes.nbytes}")
        if self._scratch is not None and self._addend is not None:
            np.add(self._addend, self._scratch[: self._lanes.size], out=self._lanes)
            self._form.spare.append(self._scratch)

    def relay(self, peers: Sequence[int]) -> None:
        self._form.send(peers, self._lanes)


class Raw(WireForm):
    """Lanes as they are: 4 bytes each, in messages."""

    tagged = False

    def __init__(self, transport: Transport) -> None:
        super().__init__(transport)
        self.spare: list[Lanes] = []

    def scratch(self, count: int) -> Lanes:
        """Memory for at least ``count`` lanes."""
        if self.spare and self.spare[-1].size >= count:
            return self.spare.pop()
        return np.empty(count, np.float32)

    def send(self, peers: Sequence[int], lanes: Lanes) -> int:
        for peer in peers:
            self._sending.append((self.transport.isend(peer, lanes, tagged=self.tagged), None))
        return lanes.nbytes

    def receive(self, peer: int, lanes: Lanes, addend: Lanes | None = None) -> Incoming:
        return _Direct(self, peer, lanes, addend)


class Tagged(Raw):
    """Lanes as floats on marked connections, which the NICs compress and restore.

    Any packet may go raw, so values that must be equal everywhere are settled before they are sent.
    """

    tagged = True

    def settle(self, lanes: Lanes) -> None:
        assert self.transport.nic_codec is not None
        self.transport.nic_codec.lossy(lanes, out=lanes)


class _Stream(Incoming):
    def __init__(self, form: Compressed, peer: int, lanes: Lanes, addend: Lanes | None) -> None:
        self._form, self._lanes, self._addend = form, lanes, addend
        self._buffer = form.buffer(lanes.size)
        self._length = 0
        self._request = form.transport.irecv_into(peer, self._buffer)

    def finish(self) -> None:
        self._length = self._request.wait()
        stream = self._buffer[: self._length]
        if self._addend is not None:
            self._form.codec.decompress_add(stream, self._lanes, self._addend)
        else:
            self._form.codec.decompress(stream, self._lanes.size, out=self._lanes)

    def relay(self, peers: Sequence[int]) -> None:
        self._form.forward(peers, self._buffer, self._length)

    def drop(self) -> None:
        self._form.spare.append(self._buffer)


class Compressed(WireForm):
    """Lanes as streams of a codec, in messages: the software path."""

    def __init__(self, transport: Transport, codec: StreamCodec) -> None:
        super().__init__(transport)
        self.codec = codec
        self._size_of = cache(codec.max_compressed_size)
        self.spare: list[NDArray[np.uint8]] = []
        self._passing = np.empty(0, np.float32)

    def buffer(self, count: int) -> NDArray[np.uint8]:
        """Memory for the stream of at least ``count`` lanes; reused where possible."""
        while self._sending and self._sending[0][0].test():
            _, buffer = self._sending.popleft()
            if buffer is not None:
                self.spare.append(buffer)
        size = self._size_of(count)
        if self.spare and self.spare[-1].size >= size:
            return self.spare.pop()
        return np.empty(size, np.uint8)

    def send(self, peers: Sequence[int], lanes: Lanes) -> int:
        buffer = self.buffer(lanes.size)
        length = len(self.codec.compress(lanes, buffer))
        self.forward(peers, buffer, length)
        return length

    def forward(self, peers: Sequence[int], buffer: NDArray[np.uint8], length: int) -> None:
        """Begins to send the first bytes of a buffer, which is reused once they have left."""
        for peer in peers:
            request = self.transport.isend(peer, buffer[:length])
            self._sending.append((request, buffer if peer == peers[-1] else None))

    def passing(self, lanes: Lanes) -> Lanes:
        # Compressed at once, so the same memory serves all, and stays in the cache.
        if self._passing.size < lanes.size:
            self._passing = np.empty(lanes.size, np.float32)
        return self._passing[: lanes.size]

    def receive(self, peer: int, lanes: Lanes, addend: Lanes | None = None) -> Incoming:
        return _Stream(self, peer, lanes, addend)

    def settle(self, lanes: Lanes) -> None:
        self.codec.lossy(lanes, out=lanes)


def wire_form(transport: Transport, path: str, codec: StreamCodec) -> WireForm:
    """The form of a path: "nic" is `Tagged`, "off" `Raw`, "software" `Compressed` with the codec."""
    if path == "nic":
        return Tagged(transport)
    return Raw(transport) if path == "off" else Compressed(transport, codec)

# SPDX-License-Identifier: BSD-2-Clause
"""A group whose ranks are threads of one process. It behaves like the others, without sockets.

With ``nic_codec``, tagged floats arrive as if a pair of NICs had processed them. They are cut into packets.
Most packets are lossy; some are unchanged, since an engine may send any packet raw. Real ones can take the
place of this model.
"""

from __future__ import annotations

import json
import random
import threading
import time
from collections import deque
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

from ..wire import LANE_BYTES
from .base import (
    DEFAULT_TIMEOUT,
    BytesLike,
    PeerLost,
    Request,
    RunningClock,
    Transport,
    TransportError,
    TransportTimeout,
    bytes_of,
    ranks_text,
    silent_of,
)

if TYPE_CHECKING:
    from ..codec import Codec

PACKET_LANES = 362
"""fp32 values in a TCP segment with timestamps on Ethernet (1448 bytes)."""


class _Group:
    """The state that the ranks share, guarded by one lock."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.changed = threading.Condition()
        self.queues: dict[tuple[int, int, bool], deque[bytes]] = {}
        self.rounds: dict[int, dict[int, str]] = {}
        self.gone: set[int] = set()
        self.waits: dict[int, Callable[[], Collection[int]]] = {}
        """The ranks that each rank waits for now."""
        self.broken: str | None = None
        """Why the group is broken, as the first rank that noticed it said."""

    def check(self, needs: set[int]) -> None:
        """Raise `PeerLost` if the group is broken or one of these ranks left. The caller holds the lock."""
        if self.broken is not None:
            raise PeerLost(self.broken)
        if missing := needs & self.gone:
            raise PeerLost(f"rank {min(missing)} has closed its transport")

    def wait(
        self, rank: int, ready: Callable[[], Any], needs: Callable[[], set[int]], timeout: float, what: str
    ) -> Any:
        """Wait for a true value of ``ready()`` and return it; it depends on the ranks ``needs()``."""
        with self.changed:
            clock = RunningClock(timeout)
            deadline = clock.now() + timeout
            self.waits.pop(rank, None)
            if timeout > 0:
                self.waits[rank] = needs
            while not (found := ready()):
                self.check(needs())
                left = deadline - clock.now()
                if left > 0:
                    self.changed.wait(min(left, clock.step))
                else:
                    # The entry in `waits` stays, so that another rank that times out now does not report this
                    # one as silent.
                    silent = ranks_text(self.silent(needs()))
                    raise TransportTimeout(
                        f"rank {rank} waited for {what}: nothing from {silent} for {timeout:g} s"
                    )
            self.waits.pop(rank, None)
            return found

    def silent(self, peers: Collection[int]) -> list[int]:
        """Return the ranks at the end of the waits that begin at ``peers``. The caller holds the lock."""
        return silent_of(peers, {rank: needs() for rank, needs in self.waits.items()})


class _Sent(Request):
    """A send is complete at once: the message was copied."""

    def __init__(self, length: int) -> None:
        self._length = length

    def test(self) -> bool:
        return True

    def wait(self, timeout: float | None = None) -> int:
        return self._length


class _Receive(Request):
    def __init__(self, owner: LoopbackTransport, peer: int, into: memoryview, tagged: bool) -> None:
        self._owner, self._peer, self._into, self._tagged = owner, peer, into, tagged
        self._filled = 0
        self._done = tagged and not into.nbytes

    def test(self) -> bool:
        if not self._done:
            self._owner._alive()
            with self._owner._failing(), self._owner._group.changed:
                self._take()
        return self._done

    def wait(self, timeout: float | None = None) -> int:
        owner = self._owner
        if not self._done:
            owner._alive()
            limit = owner.timeout if timeout is None else timeout
            with owner._failing():
                owner._group.wait(
                    owner.rank, self._take, lambda: {self._peer}, limit, f"a message from rank {self._peer}"
                )
        return self._filled

    def _take(self) -> bool:
        """Move arrived data into the oldest receive from that peer. The caller holds the lock."""
        pending = self._owner._pending[self._peer, self._tagged]
        queue = self._owner._group.queues.setdefault((self._peer, self._owner.rank, self._tagged), deque())
        while queue and pending and not self._done:
            first = pending[0]
            data = queue.popleft()
            room = first._into.nbytes - first._filled
            if first._tagged and len(data) > room:  # the rest belongs to the next receive
                queue.appendleft(data[room:])
                data = data[:room]
            elif len(data) > room:
                raise TransportError(
                    f"rank {self._peer} sent a message of {len(data)} bytes to a buffer of {room}"
                )
            first._into[first._filled : first._filled + len(data)] = data
            first._filled += len(data)
            if not first._tagged or first._filled == first._into.nbytes:
                first._done = True
                pending.popleft()
        return self._done


class LoopbackTransport(Transport):
    """One of the ranks that `loopback` makes."""

    def __init__(
        self,
        group: _Group,
        rank: int,
        timeout: float,
        nic_codec: Codec | None,
        nics: Callable[[bytes], bytes] | None,
        seed: int,
    ) -> None:
        self.rank, self.size, self.timeout, self.nic_codec = rank, group.size, timeout, nic_codec
        self._group, self._nics = group, nics
        self._pending: dict[tuple[int, bool], deque[_Receive]] = {}
        self._round = 0
        self._woken = False
        self._state: str | None = None
        """Why this rank has left the group; None while it has not."""
        self._random = random.Random(seed * group.size + rank)

    def _alive(self) -> None:
        self.check_process()
        if self._state is not None:
            raise TransportError(self._state)

    def isend(self, peer: int, buffer: BytesLike, *, tagged: bool = False) -> Request:
        view = bytes_of(buffer)
        self._check(peer, view, tagged)
        self._alive()
        self.bytes_sent += view.nbytes
        data = self._through_nics(view) if tagged else bytes(view)
        group = self._group
        if tagged and not data:
            return _Sent(0)
        with self._failing(), group.changed:
            group.check({peer})
            group.queues.setdefault((self.rank, peer, tagged), deque()).append(data)
            group.changed.notify_all()
        return _Sent(view.nbytes)

    def _through_nics(self, view: memoryview) -> bytes:
        """Return tagged floats as they arrive: packets are raw with probability 1/4, else lossy."""
        assert self.nic_codec is not None
        if self._nics is not None:
            return self._nics(bytes(view))
        lanes = np.frombuffer(view, np.dtype("<f4"), count=view.nbytes // LANE_BYTES).copy()
        for start in range(0, lanes.size, PACKET_LANES):
            packet = lanes[start : start + PACKET_LANES]
            if self._random.random() < 0.75:
                packet[:] = self.nic_codec.lossy(packet)
        return lanes.tobytes()

    def irecv_into(self, peer: int, buffer: BytesLike, *, tagged: bool = False) -> Request:
        view = bytes_of(buffer, writable=True)
        self._check(peer, view, tagged)
        self._alive()
        request = _Receive(self, peer, view, tagged)
        if not request._done:
            self._pending.setdefault((peer, tagged), deque()).append(request)
        return request

    def wait_any(self, requests: Sequence[Request], timeout: float) -> list[Request]:
        self._alive()
        group, deadline = self._group, time.monotonic() + timeout
        with self._failing(), group.changed:
            while True:
                done = [r for r in requests if not isinstance(r, _Receive) or r._done or r._take()]
                if not done:
                    group.check({r._peer for r in requests if isinstance(r, _Receive)})
                left = deadline - time.monotonic()
                if done or self._woken or left <= 0:
                    self._woken = False
                    return done
                group.changed.wait(left)

    def wake(self) -> None:
        with self._group.changed:
            self._woken = True
            self._group.changed.notify_all()

    def exchange(self, value: Any) -> list[Any]:
        self._alive()
        text = json.dumps(value)
        group, number = self._group, self._round
        self._round += 1
        with group.changed:
            answers = group.rounds.setdefault(number, {})
            answers[self.rank] = text
            group.changed.notify_all()
        everyone = set(range(self.size))
        with self._failing():
            group.wait(
                self.rank,
                lambda: answers.keys() == everyone,
                lambda: everyone - answers.keys(),
                self.timeout,
                "an exchange with all ranks",
            )
        with group.changed:
            group.rounds.pop(number - 1, None)  # every rank of this round has finished the previous one
        return [json.loads(answers[rank]) for rank in range(self.size)]

    def waits_for(self, peers: Collection[int]) -> None:
        with self._group.changed:
            self._group.waits.pop(self.rank, None)
            if peers:
                self._group.waits[self.rank] = lambda: peers

    def silent(self, peers: Collection[int]) -> list[int]:
        with self._group.changed:
            self._group.check(set())
            return self._group.silent(peers)

    def abort(self, reason: str) -> None:
        if self._state is None:
            self._leave(f"the transport was given up: {reason}", f"rank {self.rank} gave up: {reason}")

    def close(self) -> None:
        if self._state is None:
            self._leave("the transport is closed", None)

    def _leave(self, state: str, broken: str | None) -> None:
        self._state = state
        if self.forked:
            return
        with self._group.changed:
            self._group.gone.add(self.rank)
            if self._group.broken is None:
                self._group.broken = broken
            self._group.changed.notify_all()

    @contextmanager
    def _failing(self) -> Iterator[None]:
        """Break the group if the transport raises an error in this context."""
        try:
            yield
        except TransportError as error:
            if self._state is None:
                self._leave(str(error), str(error))
            raise


def loopback(
    size: int,
    *,
    timeout: float = DEFAULT_TIMEOUT,
    nic_codec: Codec | None = None,
    nics: Callable[[bytes], bytes] | None = None,
    seed: int = 0,
) -> list[LoopbackTransport]:
    """Make the transports of a group of ``size`` ranks, one for each thread.

    With ``nic_codec`` they behave like hosts whose NICs apply this codec to tagged floats. ``seed`` decides
    which packets stay raw. Where ``nics`` is given, it returns instead what arrives of a tagged message, such
    as ``inceptionn.sim.nic_link.NicLink.carry``; threads call it. Raises ``ValueError`` for a size below 1,
    and for ``nics`` without a codec.
    """
    if size < 1:
        raise ValueError(f"size must be at least 1, not {size!r}")
    if nics is not None and nic_codec is None:
        raise ValueError("nics need nic_codec, the codec that they are set to, not None")
    group = _Group(size)
    return [LoopbackTransport(group, rank, timeout, nic_codec, nics, seed) for rank in range(size)]

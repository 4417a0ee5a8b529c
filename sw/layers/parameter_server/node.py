# SPDX-License-Identifier: BSD-2-Clause
"""The thread of a rank. It moves messages between workers and servers, and runs the rank's server.

Only this thread uses the transport while it runs. The worker, in the caller's thread, gives it pushes and
pulls and continues to compute. Communication thus overlaps computation.
"""

import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from ...transport import Transport, TransportError
from ..parameters import Floats, Parameters
from ..traffic import Traffic
from .exchange.call import Call
from .exchange.envelope import Envelope, Kind, most_bytes
from .exchange.handle import Handle
from .exchange.legs import Data, Leg
from .exchange.links import Links, MalformedMessage
from .limits import Limits
from .plan import Plan
from .server import ServerError
from .serving import Serving, gradients_of, parts_of

_TICK = 0.25
"""Seconds between checks of the time limits while nothing happens."""
_ROOM = 1 << 20
"""Bytes that a message may have in addition to twice the size of its values as fp32."""


class _GivenUp(Exception):
    """The caller's own error ends the node."""


class Node:
    """One rank, which is a worker, a server, or both. ``workers`` and ``servers`` are lists of ranks.

    ``serving`` is this rank's server, or None.
    """

    def __init__(
        self,
        transport: Transport,
        plan: Plan,
        workers: Sequence[int],
        servers: Sequence[int],
        serving: Serving | None,
        push_leg: Leg,
        pull_leg: Leg,
        traffic: Traffic,
    ) -> None:
        self.transport, self.plan, self.traffic, self.serving = transport, plan, traffic, serving
        self.workers, self.servers = list(workers), list(servers)
        self.push_leg, self.pull_leg = push_leg, pull_leg
        self.rank = transport.rank
        self.error: TransportError | None = None
        self._commands: deque[Callable[[], None]] = deque()
        self._lock = threading.Lock()
        """Guards the data of both threads. A new handle is either known when the node fails, or refused."""
        self._handles: set[Handle[Any]] = set()
        self._pulls: dict[int, tuple[Handle[Parameters], Parameters]] = {}
        self._tickets = 0
        self._calls: dict[Handle[Any], Call] = {}
        self._coded = 0.0
        """Seconds of the server's encoding that are counted already."""
        is_worker = self.rank in self.workers
        self._closing = not is_worker
        self._done = not is_worker
        """True if this rank's worker has told the servers that it is done."""
        self._bye = serving is None
        """True if this rank's server has told the workers that it has ended."""
        self._open = set(self.servers if is_worker else ())
        """Servers that have not sent `BYE`."""
        self._limits = Limits(transport, serving)
        tagged = {kind for kind, leg in ((Kind.PUSH, push_leg), (Kind.WEIGHTS, pull_leg)) if leg.tagged}
        room = max(most_bytes(len(plan.of(s)), 4) for s in range(len(self.servers)))
        self._links = Links(transport, room, 8 * max(plan.load) + _ROOM, tagged, self._deliver)
        self._thread = threading.Thread(target=self._run, name=f"inceptionn-node-{self.rank}", daemon=True)

    # In the caller's thread.

    def start(self) -> None:
        """Begin to listen."""
        self._thread.start()

    def push(self, gradients: Mapping[str, Floats] | None, steps: Mapping[str, int]) -> Handle[None]:
        """Send the keys of ``steps`` to their servers.

        ``gradients`` is None if this worker skips these steps.
        """
        handle: Handle[None] = Handle("push", self._concerned(steps), None, self.transport.timeout)
        self._submit(handle, lambda: self._push(gradients, steps, handle))
        return handle

    def pull(self, versions: Mapping[str, int], into: Parameters) -> Handle[Parameters]:
        """Request keys in these versions or later ones, and fill the arrays of ``into``."""
        handle = Handle("pull", self._concerned(versions), into, self.transport.timeout)
        self._submit(handle, lambda: self._pull(versions, into, handle))
        return handle

    def _concerned(self, keys: Mapping[str, int]) -> list[int]:
        """Return the ranks of the servers that hold some of the keys."""
        return [rank for server, rank in enumerate(self.servers) if self.plan.of(server, keys)]

    def _submit(self, handle: Handle[Any], command: Callable[[], None]) -> None:
        with self._lock:
            if self.error is not None:
                raise type(self.error)(str(self.error))
            if self._closing:
                raise TransportError("this rank's worker is closed")
            self._handles.add(handle)
        self._commands.append(command)
        self.transport.wake()

    def finish(self) -> None:
        """Tell the servers that this rank's worker is done, and return once all workers are.

        Raises the error that broke the group.
        """
        with self._lock:
            closing, self._closing = self._closing, True
        if not closing:
            self._commands.append(self._say_done)
            self.transport.wake()
        self._join()
        if self.error is not None:
            raise type(self.error)(str(self.error)) from self.error

    def give_up(self, reason: str) -> None:
        """Tell the other ranks that this one has given up."""

        def end() -> None:
            raise _GivenUp(reason)

        self._commands.append(end)
        self.transport.wake()
        self._join()

    def _join(self) -> None:
        while self._thread.is_alive():
            self._thread.join(_TICK)

    # In the node's thread.

    def _run(self) -> None:
        try:
            for peer in {*self._open, *(self.workers if self.serving else ())} - {self.rank}:
                self._links.listen(peer)
            while True:
                while self._commands:
                    self._commands.popleft()()
                if self.serving is not None and self.serving.finished and not self._bye:
                    self._say_bye()
                if self._bye and self._done and not self._open and not self._links.busy:
                    return
                self._links.poll(_TICK)
                self._check_limits()
        except Exception as error:
            self._fail(error)

    def _fail(self, error: Exception) -> None:
        plain = isinstance(error, _GivenUp | MalformedMessage | ServerError)
        reason = str(error) if plain else f"{type(error).__name__}: {error}"
        self.transport.abort(reason)
        with self._lock:
            self.error = error if isinstance(error, TransportError) else TransportError(reason)
            handles = list(self._handles)
        for handle in handles:
            handle.fail(self.error)

    def _advance(self, handle: Handle[Any], server: int) -> None:
        if handle.left == {server} and (call := self._calls.pop(handle, None)):
            call.end("waiting" if call.name == "pull" else "sending" if call.sent else None)
        if handle.advance(server):
            with self._lock:
                self._handles.discard(handle)

    def _in_turn(self) -> list[int]:
        """Return the numbers of all servers.

        Each rank begins with a different one, and its own is the last.
        """
        first = (
            self.servers.index(self.rank) if self.rank in self.servers else self.workers.index(self.rank)
        ) + 1
        return [(first + i) % len(self.servers) for i in range(len(self.servers))]

    def _push(
        self, gradients: Mapping[str, Floats] | None, steps: Mapping[str, int], handle: Handle[None]
    ) -> None:
        call = Call(self.transport, "push", self.push_leg)
        if gradients is not None:
            call.values = sum(gradient.size for gradient in gradients.values())
            self._calls[handle] = call
        for index in self._in_turn():
            parts = self.plan.of(index, steps)
            if not parts:
                continue
            peer, numbers, at = self.servers[index], [p.number for p in parts], [steps[p.key] for p in parts]
            if gradients is None:
                skip = Envelope(Kind.SKIP, numbers, at)
                if peer == self.rank:
                    self._take(self.rank, skip, [None] * len(parts))
                else:
                    self._control(peer, skip)
                self._advance(handle, peer)
                continue
            slices = [gradients[p.key].reshape(-1)[p.start : p.stop] for p in parts]
            named = [(p.key, part) for p, part in zip(parts, slices, strict=True)]
            if peer == self.rank:
                with call.coding():
                    kept = self._kept(named)
                self._take(self.rank, Envelope(Kind.PUSH, numbers, at), kept)
                self._advance(handle, peer)
                continue
            with call.coding():
                meta, data = self.push_leg.encode(named)
            raw = sum(part.nbytes for part in slices)
            call.data(data, raw)
            self.traffic.count("push", data.nbytes, raw)
            envelope = Envelope(Kind.PUSH, numbers, at, 0, meta, data.nbytes)
            self._control_bytes(envelope)
            self._links.send(peer, envelope, data, partial(self._advance, handle, peer))

    def _kept(self, parts: Sequence[tuple[str, Floats]]) -> list[Floats]:
        """Copy what this rank's server takes of its own worker's gradient.

        Exact sums do not depend on the rank that has a gradient, so it passes the leg then.
        """
        if not self.push_leg.exact:
            return [part.copy() for _, part in parts]
        return self.push_leg.decode(*self.push_leg.encode(parts), [(key, part.size) for key, part in parts])

    def _pull(self, versions: Mapping[str, int], into: Parameters, handle: Handle[Parameters]) -> None:
        self._tickets += 1
        ticket = self._tickets
        self._pulls[ticket] = handle, into
        values = sum(array.size for array in into.values())
        self._calls[handle] = Call(self.transport, "pull", self.pull_leg, values)
        for index in self._in_turn():
            parts = self.plan.of(index, versions)
            if not parts:
                continue
            wish = Envelope(Kind.PULL, [p.number for p in parts], [versions[p.key] for p in parts], ticket)
            if self.servers[index] == self.rank:
                self._take(self.rank, wish, [])
            else:
                self._control(self.servers[index], wish)

    def _control(self, peer: int, envelope: Envelope) -> None:
        self._control_bytes(envelope)
        self._links.send(peer, envelope)

    def _control_bytes(self, envelope: Envelope) -> None:
        self.traffic.count("control", len(envelope.pack()))

    def _deliver(self, peer: int, envelope: Envelope, data: Data | None) -> bool:
        """Handle a message. Raise ``ValueError`` for one that a healthy rank does not send."""
        self._limits.heard()
        if envelope.kind is Kind.WEIGHTS:
            self._weights(peer, envelope, data)
        elif envelope.kind in (Kind.BYE, Kind.ALIVE):
            if peer not in self.servers:
                raise ValueError(f"{envelope.kind.name} of a rank that is no server")
            if envelope.kind is Kind.BYE:
                self._open.discard(peer)
                return self._more_from(peer)
        else:
            call = Call(self.transport, "push received", self.push_leg)
            with call.coding():
                gradients = gradients_of(self.push_leg, self.plan, envelope, data)
            self._take(peer, envelope, gradients)
            if envelope.kind is Kind.PUSH:
                call.values = sum(self.plan.partitions[number].size for number in envelope.numbers)
                call.end()
            if envelope.kind is Kind.DONE:
                return self._more_from(peer)
        return True

    def _more_from(self, peer: int) -> bool:
        """Tell whether a rank must still report that its worker is done or its server has ended."""
        unfinished = self.serving is not None and peer in self.workers
        unfinished = unfinished and self.workers.index(peer) not in self.serving.done  # type: ignore[union-attr]
        return unfinished or peer in self._open

    def _take(self, rank: int, envelope: Envelope, gradients: Sequence[Floats | None]) -> None:
        self._limits.moved()
        if self.serving is None or rank not in self.workers:
            raise ValueError(
                f"rank {rank} sent {envelope.kind.name} to rank {self.rank}, which is not a server"
            )
        self.serving.take(self.workers.index(rank), envelope, gradients, self._reply)

    def _reply(self, worker: int, envelope: Envelope, data: Data) -> None:
        peer = self.workers[worker]
        if peer == self.rank:
            # These pass the leg too, so that every worker gets the same weights.
            self._weights(peer, envelope, data)
            return
        values = sum(self.plan.partitions[n].size for n in envelope.numbers)
        self.traffic.count("pull", data.nbytes, 4 * values)
        self._control_bytes(envelope)
        assert self.serving is not None
        call = Call(self.transport, "pull answered", self.pull_leg, values)
        call.data(data, 4 * values)
        # All encoding since the last answer, which took place before this call began.
        coding, self._coded = self.serving.coding - self._coded, self.serving.coding
        self._links.send(peer, envelope, data, partial(call.end, "sending", coding))

    def _weights(self, server: int, envelope: Envelope, data: Data | None) -> None:
        self._limits.moved()
        if envelope.ticket not in self._pulls:
            raise ValueError(f"weights for the pull {envelope.ticket}, which is not open")
        handle, into = self._pulls[envelope.ticket]
        if server not in handle.left:
            raise ValueError(f"weights for the pull {envelope.ticket}, which waits for none from there")
        parts = parts_of(self.plan, envelope.numbers)
        if strange := sorted({key for key, _ in parts} - into.keys()):
            raise ValueError(f"weights of the key {strange[0]!r}, which is not of the pull")
        wanted = [part.number for part in self.plan.of(self.servers.index(server), into)]
        if sorted(envelope.numbers) != wanted:
            raise ValueError(f"weights of {len(envelope.numbers)} partitions, the pull needs {len(wanted)}")
        with self._calls[handle].coding():
            found = self.pull_leg.decode(
                envelope.meta, np.empty(0, np.uint8) if data is None else data, parts
            )
        for number, values in zip(envelope.numbers, found, strict=True):
            part = self.plan.partitions[number]
            into[part.key].reshape(-1)[part.start : part.stop] = values
        self._advance(handle, server)
        if handle.done:
            del self._pulls[envelope.ticket]

    def _say_done(self) -> None:
        done = Envelope(Kind.DONE)
        self._done = True
        for index in self._in_turn():
            if self.servers[index] == self.rank:
                self._take(self.rank, done, [])
            else:
                self._control(self.servers[index], done)

    def _say_bye(self) -> None:
        self._bye = True
        self._open.discard(self.rank)
        for worker in self.workers:
            if worker != self.rank:
                self._control(worker, Envelope(Kind.BYE))

    def _check_limits(self) -> None:
        """Raise `TransportTimeout` for a worker or a server that keeps the others waiting."""
        with self._lock:
            handles = list(self._handles)
        waits_for = self._open if self._done else ()
        alive = self._limits.check(handles, waits_for, self._closing, not self._bye)
        if alive and self.serving is not None:
            for worker in self.serving.done:
                if self.workers[worker] != self.rank:
                    self._control(self.workers[worker], Envelope(Kind.ALIVE))

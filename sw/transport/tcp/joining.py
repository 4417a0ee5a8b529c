# SPDX-License-Identifier: BSD-2-Clause
"""The other ranks' side of the rendezvous; `rendezvous` is rank 0's, and describes the messages."""

import hashlib
import socket
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from ...system.address import unspecified
from ...system.text import printable
from ..base import PeerLost, TransportError, TransportTimeout
from .line import HELLO_BYTES, MAX_LINE, Line, checked, decoded
from .rendezvous import CHALLENGE, GRACE, HELLO, PROOF, REFUSED, WELCOME, Address, Hello
from .secret import differs, nonce, proof, same

_THERE = "what listens at the rendezvous"
_LONGEST_PAUSE = 0.2
"""Most seconds between two attempts to connect."""


class _Evicted(Exception):
    """Rank 0 closed the connection before it had accepted this rank. It does so if strangers flood it."""


def _left(deadline: float) -> float:
    return max(0.0, deadline - time.monotonic())


def join(address: Address, timeout: float, source: str | None) -> Line:
    """Connect to rank 0, from the address ``source`` if given.

    Tries again until rank 0 listens. Raises `TransportTimeout` if it never does.
    """
    deadline = time.monotonic() + timeout
    name = printable(address[0])
    pause = 0.005
    while True:
        try:
            return Line(_connected(address, max(0.01, _left(deadline)), source), timeout)
        except (socket.gaierror, UnicodeError) as error:  # of the latter kind for a name that DNS forbids
            raise TransportError(f"no such host: {name}") from error
        except OSError as error:
            if time.monotonic() + pause > deadline:
                here = f" ({name} is this host: give the address of rank 0's host)"
                raise TransportTimeout(
                    f"rank 0 does not answer at {name}:{address[1]}{_tried(address)}: "
                    f"{error.strerror or error}{here if unspecified(address[0]) else ''}"
                ) from error
        time.sleep(pause)
        pause = min(2 * pause, _LONGEST_PAUSE)


def _tried(address: Address) -> str:
    """Return the addresses of a name, of which rank 0 may use another one."""
    with suppress(OSError):
        infos = socket.getaddrinfo(*address, type=socket.SOCK_STREAM)
        found = dict.fromkeys(str(info[4][0]) for info in infos)
        if address[0] not in found:
            return f" (tried {', '.join(found)})"
    return ""


def _connected(address: Address, timeout: float, source: str | None) -> socket.socket:
    where = None if source is None else (source, 0)
    sock = socket.create_connection(address, timeout, source_address=where)
    try:
        # A connection to an ephemeral port without a listener may connect to itself.
        if sock.getsockname() == sock.getpeername():
            raise ConnectionRefusedError("nobody listens")
    except OSError:
        sock.close()
        raise
    return sock


def await_welcome(
    line: Line,
    hello: Hello,
    timeout: float,
    secret: bytes = b"",
    again: Callable[[float], Line] | None = None,
) -> tuple[Line, list[Hello], str]:
    """Send a hello to rank 0 and wait until the group has formed.

    ``again(timeout)`` makes another connection. It is called if rank 0 closes one before it has accepted this
    rank, until ``timeout`` has passed.

    Returns the line that rank 0 has accepted, all ranks' hellos and the session. Raises `TransportError` with
    rank 0's reason if the group does not form, or if rank 0 lacks the secret. Raises `PeerLost` or
    `TransportTimeout` if rank 0 sends nothing.
    """
    # Leaves rank 0 time to say which ranks are missing.
    end = time.monotonic() + timeout
    pause = 0.01
    try:
        while True:
            try:
                challenge = _prove(line, hello, end + GRACE, secret)
                break
            except _Evicted as error:
                line.sock.close()
                if again is None or time.monotonic() + pause > end:
                    raise EOFError(str(error)) from error
            time.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE)
            line, hello["nonce"] = again(_left(end)), nonce()
        hellos, session = _welcomed(line, hello, challenge, end + GRACE, secret)
    except TimeoutError as error:
        raise TransportTimeout(f"rank 0 did not form the group within {timeout:g} s") from error
    except (OSError, EOFError, ValueError) as error:
        raise PeerLost(f"rank 0 is lost, or {_THERE} is not rank 0: {error!r}") from error
    return line, hellos, session


def _prove(line: Line, hello: Hello, deadline: float, secret: bytes) -> str:
    """Prove the secret to rank 0, and that rank 0 has it. Return rank 0's challenge."""
    try:
        line.send(hello)
        challenge = str(checked(_said(line, deadline), CHALLENGE)["challenge"])
        line.send({"proof": proof(secret, "rank", hello, challenge)})
        shown = checked(_said(line, deadline), PROOF)["proof"]
    except TimeoutError:
        raise
    except (OSError, EOFError) as error:
        raise _Evicted(str(error)) from error
    if not same(proof(secret, "rank 0", hello, challenge), shown):
        raise TransportError(differs(_THERE, f"rank {hello['rank']}"))
    return challenge


def _welcomed(
    line: Line, hello: Hello, challenge: str, deadline: float, secret: bytes
) -> tuple[list[Hello], str]:
    """Wait for the welcome, and return the hellos and the session."""
    rank, size = hello["rank"], hello["size"]
    said = checked(_said(line, deadline), WELCOME)
    session, host = said["session"], said["host"]
    if not same(proof(secret, "welcome", hello, challenge, session, host, said["welcome"]), said["proof"]):
        raise TransportError(f"the welcome of {_THERE} was changed on its way to rank {rank}")
    line.trust(min(MAX_LINE, (size + 1) * HELLO_BYTES))
    ranks = _line(line, deadline)
    if not same(said["welcome"], hashlib.sha256(ranks).hexdigest()):
        raise TransportError(f"the hellos of {_THERE} were changed on their way to rank {rank}")
    line.trust()
    welcome = decoded(ranks).get("ranks")
    if not isinstance(welcome, list) or len(welcome) != size:
        raise ValueError("the welcome has another number of ranks")
    hellos = [checked(theirs, HELLO) if isinstance(theirs, dict) else {} for theirs in welcome]
    if [theirs.get("rank") for theirs in hellos] != list(range(size)) or hellos[rank] != hello:
        raise ValueError("the welcome has other ranks")
    if unspecified(hellos[0]["host"]):  # rank 0 listens at all addresses of its host
        seen = line.sock.getpeername()[0]  # a link-local address has this host's scope
        hellos[0]["host"] = seen if seen.partition("%")[0] == host.partition("%")[0] else host
    return hellos, session


def _line(line: Line, deadline: float) -> bytearray:
    """Wait for the next line from rank 0."""
    while not line.lines:
        line.sock.settimeout(max(0.001, _left(deadline)))
        line.fill()
    return line.lines.popleft()


def _said(line: Line, deadline: float) -> dict[str, Any]:
    """Wait for the next object from rank 0. Raise `TransportError` with its reason if it refuses."""
    said = decoded(_line(line, deadline), stranger=True)
    if "refused" in said:
        raise TransportError(printable(checked(said, REFUSED)["refused"]))
    return said

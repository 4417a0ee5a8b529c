# SPDX-License-Identifier: BSD-2-Clause
"""The formation of a group over TCP: rendezvous, a connection for each pair of ranks, the search for NICs."""

from __future__ import annotations

import logging
import socket
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ...system.address import parse_address
from ...system.text import brief
from ...tos.mark import tag
from ...wire import BF16_CODECS, DEFAULT_BF16_TOS, DEFAULT_TOS
from ..base import DEFAULT_TIMEOUT, Request, TransportError, name_of, ranks_text
from ..probe import bf16_pattern, pattern, recognise, restored_bf16
from .channel import Channel
from .control import PROTOCOL, Control
from .joining import await_welcome, join
from .line import HELLO_BYTES, Form, Line, checked, ranks, text
from .mesh import Terms, mesh
from .rendezvous import gather, listen
from .secret import nonce, secret_of
from .transport import TcpTransport

if TYPE_CHECKING:
    from ...codec import Codec

_log = logging.getLogger(__name__)
DEFAULT_PORT = 29520
_FINDING: Form = {"found": lambda value: value is None or text(value), "heard": ranks}
_LATENCY: Form = {"latency": lambda value: type(value) in (int, float) and 0 <= value <= 60}
SILENCE = 2.0
"""Seconds without an answer after which there are no NICs. A first packet is retransmitted three times until
then.
"""


def connect(
    rank: int,
    size: int,
    rendezvous: str = f"127.0.0.1:{DEFAULT_PORT}",
    *,
    timeout: float = DEFAULT_TIMEOUT,
    nic: bool | None | Codec = None,
    tos: int = DEFAULT_TOS,
    host: str | None = None,
    job: str = "",
    secret: str | bytes | None = None,
    listener: socket.socket | None = None,
) -> TcpTransport:
    """Join a group, and return this rank's transport once every rank is connected to every other rank.

    ``rendezvous`` is the address at which rank 0 listens, as ``HOST:PORT`` (``[ADDRESS]:PORT`` for IPv6).
    ``listener`` is a socket that already listens there. All ranks must join within ``timeout`` seconds; later
    it is the seconds that any wait may last without progress. ``host`` is this rank's own address, if its
    host has several; rank 0's default is the address of ``rendezvous``. ``job`` must be the same at all
    ranks; it separates groups that use the same port.

    ``secret`` must also be the same at all ranks. Its default is ``INCEPTIONN_SECRET``, or the content of the
    file that ``INCEPTIONN_SECRET_FILE`` names. Without any of these, every process that reaches the ports can
    join. Nothing is encrypted (``docs/trust.md``).

    ``nic`` tells whether to use NICs with the engines. With None, every two ranks exchange floats over a
    marked connection; if every rank's arrive changed by one codec, that is ``transport.nic_codec``. With
    the planes codec they then exchange bf16 with the ToS byte 0x2C, which ``transport.nic_bf16`` is about.
    False makes no marked connections. True tests like None, and raises if the NICs are not found. A `Codec`
    is used without a test.

    Raises `TransportError` at all ranks if ranks disagree on size, protocol or ``nic`` (naming both values),
    or if a rank joins twice or does not join; also for a port in use. A rank with another job, or without the
    secret, is refused, and its `TransportError` says why. Other processes that connect to any port are
    ignored.
    """
    transport = TcpTransport.__new__(TcpTransport)
    form(
        transport, rank, size, rendezvous, timeout=timeout, nic=nic, tos=tos, host=host, job=job,
        secret=secret, listener=listener,
    )  # fmt: skip
    return transport


def form(
    transport: TcpTransport,
    rank: int,
    size: int,
    rendezvous: str,
    *,
    timeout: float,
    nic: bool | None | Codec,
    tos: int,
    host: str | None,
    job: str,
    secret: str | bytes | None,
    listener: socket.socket | None,
) -> None:
    """Initialise a transport, possibly of a subclass, as a rank of a group; see `connect`."""
    if size < 1 or not 0 <= rank < size:
        raise ValueError(f"rank must be one of 0..{size - 1}, not {rank!r}")
    address = parse_address(rendezvous)
    wish = (
        "ask" if nic is None else {False: "no", True: "must"}[nic] if isinstance(nic, bool) else name_of(nic)
    )
    key = secret_of(secret)
    hello: dict[str, Any] = {
        "rank": rank, "size": size, "protocol": PROTOCOL, "job": job, "nic": wish, "tos": tos,
        "nonce": nonce(), "secret": bool(key),
    }  # fmt: skip
    if len(job) > HELLO_BYTES // 16:
        raise ValueError(f"job must have at most {HELLO_BYTES // 16} characters, not {len(job)}")
    marked = wish != "no"
    opened: list[socket.socket] = []
    try:
        lines, hellos, session, accepting = _rendezvous(
            address, hello, timeout, host, key, listener, marked, opened
        )
        TcpTransport.__init__(transport, rank, size, timeout, Control(rank, size, lines), {}, {})
    except BaseException as error:
        for sock in opened:
            sock.close()
        if isinstance(error, OSError):
            raise TransportError(f"the group cannot form: {error.strerror or error}") from error
        raise
    _log.info("rank %d of %d has joined at %s", rank, size, rendezvous)
    terms = Terms(tos, host, timeout, key, session)
    try:
        _check_equal(hellos)
        for tagged in range(len(accepting)):
            socks = mesh(transport, hellos, accepting[tagged], tagged, terms)
            for peer, sock in socks.items():
                transport._channels[tagged][peer] = Channel(sock, peer, framed=not tagged)
        if nic is not None and not isinstance(nic, bool):
            transport.nic_codec = nic
        elif marked:
            _find_nics(transport, tos, needed=bool(nic))
        transport.latency = _agreed_latency(transport)
    except TransportError as error:
        if transport._broken is None:
            raise transport._fail(error) from error.__cause__
        raise
    except BaseException as error:
        transport.abort(f"{type(error).__name__}: {error}")
        raise
    finally:
        for sock in opened:
            sock.close()


def _check_equal(hellos: Sequence[dict[str, Any]]) -> None:
    """Raise `TransportError` if ranks differ in what all must want."""
    for word in ("nic", "tos"):
        for other, theirs in enumerate(hellos):
            if theirs[word] != hellos[0][word]:
                raise TransportError(
                    f"{word} differs: rank 0 has {hellos[0][word]!r}, rank {other} has {theirs[word]!r}"
                )


def _agreed_latency(transport: TcpTransport) -> float:
    """Return the longest latency that any rank has seen, the same at all."""
    answers = _told(transport, {"latency": transport._control.latency}, _LATENCY, "latency")
    return float(max(answer["latency"] for answer in answers))


def _told(transport: TcpTransport, said: dict[str, Any], form: Form, what: str) -> list[dict[str, Any]]:
    """Return what all ranks say. Raise `TransportError`, with the rank's number, if one has not this form."""
    answers = transport.exchange(said)
    for rank, answer in enumerate(answers):
        try:
            checked(answer, form)
        except (TypeError, ValueError):
            raise TransportError(f"rank {rank} sent a malformed {what}: {brief(answer)}") from None
    return answers


def _find_nics(transport: TcpTransport, tos: int, needed: bool) -> None:
    """Find out what the NICs do, and use them if they compress; else raise if they are ``needed``."""
    transport.nic_codec = _codec_of_nics(transport)
    if transport.nic_codec is not None:
        transport.nic_bf16 = _bf16_of_nics(transport, transport.nic_codec, tos)
        return
    transport._drop_floats()
    if needed:
        raise TransportError("not every rank has a NIC with the engines")


def _rendezvous(
    address: tuple[str, int],
    hello: dict[str, Any],
    timeout: float,
    host: str | None,
    secret: bytes,
    listener: socket.socket | None,
    marked: bool,
    opened: list[socket.socket],
) -> tuple[dict[int, Line], list[dict[str, Any]], str, list[socket.socket]]:
    """Meet the other ranks.

    Returns control lines, all ranks' hellos, the session, and this rank's listening sockets (messages,
    floats).
    """
    rank, size = hello["rank"], hello["size"]
    if size == 1:
        return {}, [hello], "", []
    line = name = None
    if rank == 0:
        if listener is None:
            listener, name = listen(address), address[0]
        opened.append(listener)
        here = host or listener.getsockname()[0]
    else:
        line = join(address, timeout, host)
        opened.append(line.sock)
        here = line.sock.getsockname()[0]
    accepting = []
    for tagged in range(1 + marked):
        sock = listen((here, 0), tos=hello["tos"] if tagged else None)
        opened.append(sock)
        accepting.append(sock)
    hello["ports"] = [sock.getsockname()[1] for sock in accepting]
    hello["host"] = here
    if line is None:
        assert listener is not None
        lines, hellos, session = gather(listener, hello, timeout, secret, name)
    else:

        def again(left: float) -> Line:
            other = join(address, left, host)
            opened.append(other.sock)
            return other

        line, hellos, session = await_welcome(line, hello, timeout, secret, again)
        lines = {0: line}
        opened.remove(line.sock)
    return lines, hellos, session, accepting


def _swap(transport: TcpTransport, sent: NDArray[Any]) -> tuple[list[NDArray[Any]], list[Request]]:
    """Exchange values with all ranks over the marked connections, until nothing moves for `SILENCE` seconds.

    Returns the received values by peer, and the requests, which are complete unless packets were lost.
    """
    peers = [peer for peer in range(transport.size) if peer != transport.rank]
    received = [np.empty_like(sent) for _ in peers]
    requests = [transport.irecv_into(*each, tagged=True) for each in zip(peers, received, strict=True)]
    requests += [transport.isend(peer, sent, tagged=True) for peer in peers]
    transport._await(requests, min(SILENCE, transport.timeout / 2))
    return received, requests


def _bf16_of_nics(transport: TcpTransport, codec: Codec, tos: int) -> bool:
    """Tell whether the NICs of all ranks, which have this codec, have bf16 lanes, too.

    The connections for floats carry the other ToS byte meanwhile. If one host's NIC compresses bf16 and the
    other's does not restore it, the packets are lost until they are sent again with the first ToS byte. Their
    values do not matter then.
    """
    if codec.codec not in BF16_CODECS or transport.size == 1 or tos == DEFAULT_BF16_TOS:
        return False
    socks = transport.sockets(tagged=True).values()
    for sock in socks:
        tag(sock, DEFAULT_BF16_TOS)
    received, requests = _swap(transport, bf16_pattern())
    whole = all(r.test() for r in requests)
    found = [restored_bf16(lanes, codec) or None for lanes in received] if whole else []
    agreed = _all_have(transport, "bf16" if any(found) else None, found)
    for sock in socks:
        tag(sock, tos)
    for request in requests:
        request.wait()
    _log.info("rank %d: the NICs have %sbf16 lanes", transport.rank, "" if agreed else "no ")
    return agreed


def _codec_of_nics(transport: TcpTransport) -> Codec | None:
    """Return the codec that all NICs of the group apply to marked floats. None if there is no such codec."""
    received, requests = _swap(transport, pattern())
    try:
        found = [recognise(lanes) for lanes in received] if all(r.test() for r in requests) else []
    except ValueError:
        found = []
    codecs = [codec for codec in found if codec is not None]
    codec = codecs[0] if codecs and all(other == codecs[0] for other in codecs) else None
    if codec is None:
        transport._mute_floats()  # another rank may close its end before this one has the result
    return codec if _all_have(transport, None if codec is None else name_of(codec), found) else None


def _all_have(transport: TcpTransport, known: str | None, found: Sequence[object]) -> bool:
    """Tell whether all ranks found the same as this rank, whose finding is ``known``, at every rank's NIC.

    ``found`` is what this rank found at its peers, in their order; None is nothing. Nothing at some pairs of
    ranks does not matter: a connection without an entry in the NIC's flow table passes raw.
    """
    peers = [peer for peer in range(transport.size) if peer != transport.rank]
    heard = [peer for peer, what in zip(peers, found, strict=bool(found)) if what is not None]
    said = {"found": known, "heard": heard}
    answers = _told(transport, said, _FINDING, "answer to the search for NICs")
    seen = {peer for answer in answers for peer in answer["heard"]}
    if known is None or any(answer["found"] != known for answer in answers) or len(seen) < transport.size:
        return False
    if len(heard) < len(peers):
        raw = ranks_text(set(peers) - set(heard))
        _log.warning("rank %d: floats of %s arrive raw, perhaps for want of an entry", transport.rank, raw)
    return True

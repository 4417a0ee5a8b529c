# SPDX-License-Identifier: BSD-2-Clause
"""The parameter server's errors at every rank: ranks that differ, give up, fall silent, or push nonsense."""

import threading
import time
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pytest
from outcomes import Group, messages
from refusals import refused

from inceptionn import Codec
from inceptionn.collectives import MismatchError
from inceptionn.layers.parameter_server import MomentumSGD, NonFiniteGradient, ParameterServer
from inceptionn.layers.parameter_server.exchange.envelope import Envelope, Kind
from inceptionn.layers.parameter_server.exchange.legs import CodecLeg
from inceptionn.layers.parameter_server.node import Node
from inceptionn.transport import PeerLost, Transport, TransportError, TransportTimeout


def test_shapes_and_keys_that_differ(group: Group) -> None:
    def shapes(t: Transport) -> None:
        width = 5 if t.rank == 2 else 4
        ParameterServer(t, {"a": np.zeros(3, np.float32), "b": np.zeros(width, np.float32)})

    for text in messages(group(3, shapes), MismatchError):
        assert text == "shape of key 'b' differs: rank 0 has [4], rank 2 has [5]"

    def keys(t: Transport) -> None:
        names = "ac" if t.rank == 1 else "ab"
        ParameterServer(t, {name: np.zeros(3, np.float32) for name in names})

    for text in messages(group(2, keys), MismatchError):
        assert text == "keys differs: rank 0 has ['a', 'b'], rank 1 has ['a', 'c']"


def test_a_push_that_does_not_fit(threads: Group) -> None:
    def rank(t: Transport) -> None:
        with ParameterServer(t, {"a": np.zeros((2, 3), np.float32)}) as g:
            with pytest.raises(ValueError, match=r"key 'a' has the shape \(2, 3\), not \(3, 2\)"):
                g.worker.push({"a": np.zeros((3, 2), np.float32)})
            with pytest.raises(TypeError, match="key 'a' must be a float32 array, not float64"):
                g.worker.push({"a": np.zeros((2, 3))})
            refused(ValueError, "there is no key 'b'; the keys are 'a'", g.worker.pull, ["b"])
            refused(ValueError, "push needs at least one key", g.worker.push, {})
            g.worker.push({"a": np.zeros((2, 3), np.float32)})
        refused(TransportError, "this rank's worker is closed", g.worker.pull)

    assert threads(2, rank) == [None, None]


def test_a_worker_that_gives_up_is_named(group: Group) -> None:
    def rank(t: Transport) -> None:
        with ParameterServer(t, {"a": np.zeros(600, np.float32)}) as g:
            for step in range(10):
                if t.rank == 2 and step == 3:
                    raise RuntimeError("out of memory")
                g.worker.push({"a": np.ones(600, np.float32)})
                g.worker.pull()

    *others, own = group(3, rank)
    assert isinstance(own, RuntimeError)
    assert messages(others, PeerLost) == {"rank 2 gave up: RuntimeError: out of memory"}


def test_a_worker_that_falls_silent_is_named_within_the_time_out(group: Group) -> None:
    heard = threading.Event()

    def rank(t: Transport) -> None:
        with ParameterServer(t, {"a": np.zeros(600, np.float32)}) as g:
            g.worker.push({"a": np.ones(600, np.float32)})
            g.worker.pull()
            if t.rank == 1:
                heard.wait(20)
            try:
                g.worker.push({"a": np.ones(600, np.float32)})
                g.worker.pull()
            finally:
                heard.set()

    start = time.monotonic()
    for text in messages(group(2, rank, timeout=1.0), TransportTimeout | PeerLost):
        assert "worker rank 1 has not pushed key 'a' of step 1 in 1 s" in text
    assert time.monotonic() - start < 15  # rank 1 was not waited for


def test_a_worker_that_ends_early_is_named(group: Group) -> None:
    def rank(t: Transport) -> None:
        with ParameterServer(t, {"a": np.zeros(600, np.float32)}) as g:
            for _ in range(3 if t.rank == 1 else 5):
                g.worker.push({"a": np.ones(600, np.float32)})
                g.worker.pull()

    for text in messages(group(2, rank), TransportError):
        assert "worker rank 1 has not pushed key 'a' of step 3 and is done, while rank 0 waits" in text


def test_a_gradient_that_is_not_finite(group: Group) -> None:
    def rank(t: Transport) -> Any:
        with ParameterServer(t, {"a": np.zeros(600, np.float32), "b": np.zeros(2, np.float32)}) as g:
            for step in range(5):
                gradient = np.ones(2, np.float32)
                if t.rank == 1 and step == 2:
                    gradient[1] = np.nan
                g.worker.push({"a": np.ones(600, np.float32), "b": gradient})
                g.worker.pull()

    other, own = group(2, rank)
    text = "the gradient of key 'b' at step 2 has values that are not finite"
    assert isinstance(own, NonFiniteGradient)
    assert (str(own), own.key, own.step) == (text, "b", 2)
    assert isinstance(other, PeerLost)
    assert text in str(other)
    assert "rank 1" in str(other)


def test_a_gradient_that_is_not_finite_can_be_skipped(group: Group) -> None:
    def rank(t: Transport) -> Any:
        rule = MomentumSGD(1.0, momentum=0)
        with ParameterServer(t, {"a": np.zeros(600, np.float32)}, rule, nonfinite="skip") as g:
            for step in range(3):
                bad = t.rank == 1 and step == 1
                gradient = np.full(600, np.inf if bad else t.rank + 1, np.float32)
                g.worker.push({"a": gradient})
                weights = g.worker.pull()
            return weights["a"], g.worker.skipped, g.server.skipped

    found = group(2, rank)
    for weights, _, noted in found:
        assert set(weights.tolist()) == {-(1.5 + 1 + 1.5)}
        assert noted == [(1, "a", 1)]
    assert [skipped for _, skipped, _ in found] == [[], [("a", 1)]]


def test_a_gradient_that_the_scale_moves_out_of_range(group: Group) -> None:
    def rank(t: Transport) -> None:
        shapes = {"a": np.zeros(600, np.float32), "b": np.zeros((2, 3), np.float32)}
        with ParameterServer(t, shapes, codec=Codec(), path="software", scale=100) as g:
            for step in range(2):
                large = np.full((2, 3), 3e8 if (t.rank, step) == (1, 1) else 1e8, np.float32)
                g.worker.push({"a": np.ones(600, np.float32), "b": large})
                g.worker.pull()

    other, own = group(2, rank)
    text = "a value of 3e+08 is too large to be scaled by 2**100"
    assert messages([own], OverflowError) == {text}
    assert messages([other], PeerLost) == {f"rank 1 gave up: OverflowError: {text}"}


NUMBERS = [0], [0]


@pytest.mark.parametrize(
    ("header", "data", "text"),
    [
        (b"short", b"", "a header has at least 20 bytes, not 5"),
        (b"\x63" + bytes(19), b"", "99 is not a valid Kind"),
        (Envelope(Kind.PUSH), b"", "PUSH names no partition"),
        (Envelope(Kind.PULL), b"", "PULL names no partition"),
        (Envelope(Kind.PULL, [9], [0]), b"", "partition 9 is not with server 0"),
        (Envelope(Kind.PUSH, [9], [0]), b"", "there are 1 partitions, not 10"),
        (Envelope(Kind.PUSH, *NUMBERS, data=8), b"ab", "2 bytes, announced were 8"),
        (Envelope(Kind.PUSH, *NUMBERS, data=1 << 40), b"", "it announces 1099511627776 bytes, more than "),
        (Envelope(Kind.PUSH, *NUMBERS, meta=b"\xff\x7f", data=3), b"abc", "malformed stream"),
        (Envelope(Kind.PUSH, *NUMBERS, meta=b"\xff\x7f"), b"", "malformed stream"),
        (Envelope(Kind.WEIGHTS, *NUMBERS, ticket=77), b"", "weights for the pull 77, which is not open"),
        (Envelope(Kind.DONE, *NUMBERS), b"", "DONE names 1 partition"),
        (Envelope(Kind.ALIVE, data=8), b"", "ALIVE carries no values"),
        (Envelope(Kind.PULL, *NUMBERS, meta=b"x"), b"", "PULL carries no values"),
        (Envelope(Kind.ALIVE), b"", "ALIVE of a rank that is no server"),
        (Envelope(Kind.BYE), b"", "BYE of a rank that is no server"),
        (Envelope(Kind.PULL, [0], [1]), b"", "a pull of version 1 after 0 pushes"),
        (Envelope(Kind.SKIP, [0], [1]), b"", "worker 1 pushed step 1 of key 'a', its next is 0"),
    ],
)  # fmt: skip
def test_a_malformed_message_names_its_link(threads: Group, header: Any, data: bytes, text: str) -> None:
    """Rank 1 sends what no worker sends; rank 0 is the only server."""

    def rank(t: Transport) -> None:
        group = ParameterServer(t, {"a": np.zeros(600, np.float32)}, codec=Codec(), servers=[0])
        with group as g:
            if t.rank == 1:
                t.send(0, header if isinstance(header, bytes) else header.pack())
                if data:
                    t.send(0, data)
                g.worker.pull()
            g.worker.push({"a": np.ones(600, np.float32)})
            g.worker.pull()

    link = "rank 0 received a malformed message from rank 1: "
    server, worker = threads(2, rank, timeout=5)
    (said,) = messages([server], TransportError)
    assert said.startswith(link)
    assert text in said
    assert all(said.startswith(f"rank 0 gave up: {link}") for said in messages([worker], PeerLost))


@pytest.mark.parametrize(
    ("reply", "text"),
    [
        (
            lambda real, worker, envelope, data: real(
                worker, replace(envelope, numbers=envelope.numbers[:1], steps=[0], data=32), data[:32]
            ),
            "weights of 1 partitions, the pull needs 2",
        ),
        (
            lambda real, *reply_to: (real(*reply_to), real(*reply_to)),
            "weights for the pull 1, which waits for none from there",
        ),
    ],
    ids=["partial", "twice"],
)
def test_malformed_weights_name_their_link(
    threads: Group, monkeypatch: pytest.MonkeyPatch, reply: Any, text: str
) -> None:
    """Ranks 1 and 2 are servers with two keys each. Rank 1 answers by ``reply``, rank 2 never."""
    real = Node._reply

    def answer(node: Node, *reply_to: Any) -> None:
        if node.rank == 1:
            reply(partial(real, node), *reply_to)

    monkeypatch.setattr(Node, "_reply", answer)

    def rank(t: Transport) -> None:
        values = {key: np.zeros(8, np.float32) for key in "abcd"}
        with ParameterServer(t, values, servers=[1, 2], workers=[0]) as group:
            if t.rank:
                group.serve()
            else:
                group.worker.pull()

    worker, liar, silent = threads(3, rank, timeout=5)
    assert messages([worker], TransportError) == {f"rank 0 received a malformed message from rank 1: {text}"}
    assert messages((liar, silent), PeerLost) == {f"rank 0 gave up: {worker}"}


class NoRate(MomentumSGD):
    """Its update fails."""

    def update(self, *arguments: Any, **rest: Any) -> None:
        raise ValueError("no rate for this step")


class NoForm:
    """An encoding that fails."""

    def encode(self, key: str, values: Any) -> Any:
        raise ValueError("no form for these weights")

    decode = encode


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ({"optimizer": NoRate()}, "the optimizer's update of key 'a': ValueError: no rate for this step"),
        ({"encoding": NoForm()}, "the encoding of weights: ValueError: no form for these weights"),
    ],
    ids=["optimizer", "encoding"],
)
def test_an_error_of_the_servers_own_parts_is_no_malformed_message(
    threads: Group, settings: dict[str, Any], text: str
) -> None:
    """It happens while the only server handles the message of the only worker."""

    def rank(t: Transport) -> None:
        group = ParameterServer(t, {"a": np.zeros(8, np.float32)}, servers=[0], workers=[1], **settings)
        with group:
            if t.rank == 0:
                group.serve()
            else:
                group.worker.push({"a": np.ones(8, np.float32)})
                group.worker.pull()

    server, worker = threads(2, rank, timeout=5)
    assert messages([server], TransportError) == {text}
    assert messages([worker], PeerLost) == {f"rank 0 gave up: {text}"}


def test_a_scale_beyond_the_format_is_malformed() -> None:
    leg = CodecLeg(Codec())
    _, stream = leg.encode([("a", np.ones(8, np.float32))])
    for meta in (b"\xff\x7f", b"\x01" * 900):
        refused(ValueError, "the scale exponent is 0x.*, beyond 126", leg.decode, meta, stream, [("a", 8)])

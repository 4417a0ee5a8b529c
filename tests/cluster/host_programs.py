# SPDX-License-Identifier: BSD-2-Clause
"""What the tests run on the hosts of a cluster: ``host_programs.py NAME ARGUMENT...``; answers in JSON."""

import fcntl
import hashlib
import json
import os
import socket
import struct
import sys
import termios
import time
from pathlib import Path
from typing import Any

import numpy as np

from inceptionn.tos import mark as tos
from inceptionn.wire import DEFAULT_BF16_TOS, DEFAULT_TOS

RANK = int(os.environ.get("INCEPTIONN_RANK", "0"))
SIZE = int(os.environ.get("INCEPTIONN_SIZE", "1"))
PATIENCE = 100.0
MARKS = {"1": DEFAULT_TOS, "bf16": DEFAULT_BF16_TOS}
"""ToS bytes by the word that names them here; "0" is no mark."""


def gradients(seed: int, count: int, marked: str = "1") -> Any:
    """Gradients in fp32, or those of the mark "bf16" as its words."""
    values = (np.random.default_rng(seed).laplace(size=count) * 3e-3).astype(np.float32)
    return (values.view(np.uint32) >> 16).astype(np.uint16) if marked == "bf16" else values


def say(**facts: Any) -> None:
    print(json.dumps(facts), flush=True)


def allreduce(count: str, path: str, folder: str) -> None:
    """Sum all ranks' gradients, and save the result in ``folder``."""
    from inceptionn.collectives import allreduce_comp
    from inceptionn.transport import connect

    rendezvous, address = os.environ["INCEPTIONN_RENDEZVOUS"], os.environ["INCEPTIONN_ADDRESS"]
    with connect(RANK, SIZE, rendezvous, host=address, timeout=PATIENCE, nic=path == "nic" or None) as group:
        x = gradients(RANK, int(count))
        y = np.empty_like(x)
        allreduce_comp(group, x, y, path=path, scale=None)  # what the golden model predicts
        codec, bf16 = group.nic_codec, group.nic_bf16
    np.save(Path(folder) / f"{RANK}.npy", y)
    mode = codec and (codec.mode or codec.codec)
    say(nic=codec is not None, bound=codec and codec.error_bound, mode=mode, bf16=bf16)


def receive(folder: str, port: str, marked: str = "1") -> None:
    """Take one connection; write received bytes to ``folder``, even if the connection ends in an error."""
    with socket.socket() as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if marked in MARKS:
            tos.tag(listener, MARKS[marked])
        listener.bind(("", int(port)))
        listener.listen(1)
        listener.settimeout(PATIENCE)
        print("ready", flush=True)
        connection, _ = listener.accept()
    end = "closed"
    with connection, (Path(folder) / f"received-{port}").open("wb", buffering=0) as out:
        connection.settimeout(PATIENCE)
        while True:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK, 1)
            try:
                data = connection.recv(1 << 18)
            except OSError as error:
                end = str(error)
                break
            if not data:
                break
            out.write(data)
    say(end=end)


def send(host: str, port: str, seed: str, count: str, marked: str = "1", pieces: str = "1") -> None:
    """Send gradients in equal pieces; the next piece follows when a line of input comes.

    ``marked`` is a key of `MARKS`, or "late" for a mark on the connection once it stands.
    """
    data = gradients(int(seed), int(count), marked).tobytes()
    with socket.socket() as connection:
        connection.settimeout(PATIENCE)
        if marked in MARKS:
            tos.tag(connection, MARKS[marked], peer=(host, int(port)))
        connection.connect((host, int(port)))
        if marked == "late":
            tos.tag(connection)
        step = len(data) // int(pieces)
        for number in range(int(pieces)):
            if number:
                sys.stdin.readline()
            connection.sendall(data[number * step : (number + 1) * step])
            print("sent", flush=True)
        connection.shutdown(socket.SHUT_WR)
        connection.recv(1)
    say(sha256=hashlib.sha256(data).hexdigest())


def send_pieces(host: str, port: str, seed: str, sizes: str) -> None:
    """Send gradients as segments of the given sizes; each is acknowledged before the next is written."""
    lengths = json.loads(sizes)
    data = gradients(int(seed), sum(lengths) // 4 + 1).tobytes()[: sum(lengths)]
    with socket.socket() as connection:
        tos.tag(connection, peer=(host, int(port)))
        connection.settimeout(PATIENCE)
        connection.connect((host, int(port)))
        at = 0
        for length in lengths:
            connection.sendall(data[at : at + length])
            at += length
            deadline = time.monotonic() + PATIENCE
            while struct.unpack("i", fcntl.ioctl(connection, termios.TIOCOUTQ, bytes(4)))[0]:
                if time.monotonic() > deadline:
                    raise TimeoutError("a segment was never acknowledged")
                time.sleep(0.0005)
    say(sha256=hashlib.sha256(data).hexdigest())


def echo(port: str) -> None:
    """Answers each keystroke of `type_keys`, as a remote shell does."""
    with socket.create_server(("", int(port))) as listener:
        listener.settimeout(PATIENCE)
        print("ready", flush=True)
        connection, _ = listener.accept()
        with connection:
            connection.settimeout(PATIENCE)
            count = 0
            while data := connection.recv(100):
                connection.sendall(data.upper())
                count += 1
    say(count=count)


def type_keys(host: str, port: str, keys: str) -> None:
    """Types, a key at a time, and waits for each one's echo."""
    slowest, wrong = 0.0, 0
    with socket.create_connection((host, int(port)), PATIENCE) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for number in range(int(keys)):
            begin = time.monotonic()
            key = b"abcdefghij"[number % 10 : number % 10 + 1]
            connection.sendall(key)
            wrong += connection.recv(100) != key.upper()
            slowest = max(slowest, time.monotonic() - begin)
            time.sleep(0.01)
    say(slowest=slowest, wrong=wrong)


class HalfRing:
    """A connection of bf16 values to the next host, and one from the host before."""

    def __init__(self) -> None:
        addresses = os.environ["INCEPTIONN_ADDRESSES"].split(",")
        with socket.socket() as listener:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            tos.tag(listener, DEFAULT_BF16_TOS)
            listener.bind((addresses[RANK], 7000))
            listener.listen(1)
            listener.settimeout(PATIENCE)
            peer = (addresses[(RANK + 1) % SIZE], 7000)
            self.to_next = socket.socket()
            tos.tag(self.to_next, DEFAULT_BF16_TOS, peer=peer)
            deadline = time.monotonic() + PATIENCE
            while self.to_next.connect_ex(peer) and time.monotonic() < deadline:
                time.sleep(0.1)
            sock, _ = listener.accept()
        sock.settimeout(PATIENCE)
        self.from_last = sock.makefile("rb")

    def turn(self, seed: int, count: int) -> None:
        """Send values to the next host, and check those that come from the one before."""
        from inceptionn.sim.golden import planes
        from inceptionn.wire import BF16_LANES

        self.to_next.sendall(gradients(seed + RANK, count, "bf16").tobytes())
        sent = gradients(seed + (RANK - 1) % SIZE, count, "bf16")
        came = np.frombuffer(self.from_last.read(sent.nbytes), np.uint16)
        right = (came == sent) | (came == planes.lossy(sent, 2.0**-10, BF16_LANES))
        assert right.all(), f"{np.sum(~right)} bf16 values are wrong"


def soak(seconds: str, bf16: str) -> None:
    """Mixed traffic until the time is up: all-reduces of many sizes, untagged bulk, datagrams of floats.

    ``bf16``: "1" adds connections and datagrams of bf16.
    """
    from inceptionn.collectives import allreduce_comp
    from inceptionn.transport import connect

    rendezvous, address = os.environ["INCEPTIONN_RENDEZVOUS"], os.environ["INCEPTIONN_ADDRESS"]
    neighbour = os.environ["INCEPTIONN_ADDRESSES"].split(",")[(RANK + 1) % SIZE]
    source = np.random.default_rng(1)  # alike at all ranks
    sums, bulk, floats, digest = 0, 0, 0, hashlib.sha256()
    ring = HalfRing() if bf16 == "1" else None
    with (
        connect(RANK, SIZE, rendezvous, host=address, timeout=PATIENCE, nic=True) as group,
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as datagrams,
    ):
        tos.tag(datagrams)
        end = time.monotonic() + float(seconds)
        while group.exchange(time.monotonic() < end)[0]:
            count = int(source.integers(1, 60_000))
            x = gradients(int(source.integers(1 << 30)) + RANK, count)
            path = ("nic", "nic", "software", "off")[int(source.integers(4))]
            y = np.empty_like(x)
            allreduce_comp(group, x, y, path=path)
            digest.update(y.tobytes())
            sums, floats = sums + 1, floats + count
            for _ in range(int(source.integers(8))):
                datagrams.sendto(gradients(RANK, int(source.integers(20, 360))).tobytes(), (neighbour, 9))
            if ring is not None:
                ring.turn(int(source.integers(1 << 30)), 2 * int(source.integers(1, 30_000)))
                tos.tag(datagrams, DEFAULT_BF16_TOS)
                bf16 = gradients(RANK, 2 * int(source.integers(20, 360)), "bf16")
                datagrams.sendto(bf16.tobytes(), (neighbour, 9))
                tos.tag(datagrams)
            raw = source.bytes(int(source.integers(1, 100_000)))
            back = bytearray(len(raw))
            group.sendrecv((RANK + 1) % SIZE, raw, (RANK - 1) % SIZE, back)
            assert bytes(back) == raw, "untagged bytes have changed"
            bulk += len(raw)
    say(sums=sums, bulk=bulk, floats=floats, digest=digest.hexdigest())


if __name__ == "__main__":
    programs = (allreduce, receive, send, send_pieces, echo, type_keys, soak)
    {program.__name__: program for program in programs}[sys.argv[1]](*sys.argv[2:])

# SPDX-License-Identifier: BSD-2-Clause
"""Gives spoilt input to what reads input: ``python tests/fuzz/fuzz.py [TARGET ...]``, or ``make fuzz``.

- *streams*, *threads*: the C codec on hostile streams, all kernels against each other, in exactly fitting
  buffers: under AddressSanitizer and UndefinedBehaviorSanitizer, and under ThreadSanitizer.
- *adt*, *adt_threads*: the kernels of Approximate Data Transfer, alike.
- *message*, *npy*, *capture*: files and messages that this package or NumPy wrote, with bits flipped, pieces
  cut, doubled, or replaced by extreme numbers; half of the messages have a right checksum all the same.
- *line*, *agreement*: what ranks and strangers send, as bytes and as JSON values.
- *member*, *server*: one of three ranks spoils what it sends, streams or values, in each collective, or as a
  member of a parameter server. The others end with a result or a documented error, and never hang.
- *checkpoint*: states of precision control and error feedback, with a leaf or a key replaced.

Input is taken, or refused with the error that the reader documents; what is unspoilt must be taken. Any other
exception ends the command with status 1, the seed, and the input. A seed repeats a target's run. Hypothesis
and coverage-guided fuzzers are not used: the readers are small, and a million inputs of this kind a minute
reach each of their checks.
"""

import argparse
import json
import math
import random
import shutil
import struct
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from zlib import crc32

import numpy as np

from inceptionn import Codec, message
from inceptionn.collectives import (
    allgather_comp,
    allreduce_comp,
    bcast_comp,
    reduce_comp,
    reduce_scatter_comp,
)
from inceptionn.collectives.agreement import MismatchError, agree, exchanged, is_amount, is_exponent
from inceptionn.collectives.error_feedback import ErrorFeedback
from inceptionn.layers.a2dtwp.awp import AWP
from inceptionn.layers.parameter_server import ParameterServer
from inceptionn.sim.capture import PcapWriter, read_pcap
from inceptionn.system import npy_file
from inceptionn.transport import Transport, TransportError, loopback
from inceptionn.transport.tcp.line import checked, decoded
from inceptionn.transport.tcp.rendezvous import HELLO

ROOT = Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "tests" / "prove"))
import records  # noqa: E402

NATIVE = ROOT / "sw" / "native"
EXTENSIONS = ("adt", "adt_kernels", "codec", "crc32")
SOURCES = sorted(path for path in NATIVE.rglob("*.c") if path.stem not in EXTENSIONS)
"""The C codec without what Python's extension modules add."""
CODEC = [ROOT / "tests" / "codec" / "native_fuzz.c", *SOURCES]
ADT = [
    ROOT / "tests" / "layers" / "a2dtwp" / "native_adt_fuzz.c",
    *(NATIVE / f"{name}.c" for name in ("weights/adt_kernels", "threads")),
]
PROGRAMS = {
    "streams": ("address,undefined", CODEC), "threads": ("thread", CODEC),
    "adt": ("address,undefined", ADT), "adt_threads": ("thread", ADT),
}  # fmt: skip
"""C programs with two arguments, seed and rounds: their sanitizers and sources."""
VALUES: tuple[Any, ...] = (
    None, True, 0, -1, 1 << 63, 1 << 200, 0.5, math.nan, math.inf, "", "a" * 5000, [], [[]], {}, {"a": []},
)  # fmt: skip
"""What a JSON value is replaced by."""


def spoilt(source: random.Random, data: bytes) -> bytes:
    """Draw a change of ``data``: flips, cuts, doubled pieces, extreme numbers, or none."""
    changed = bytearray(data)
    for _ in range(source.choice((0, 1, 1, 1, 2, 5))):
        at = source.randrange(len(changed) + 1)
        match source.randrange(5):
            case 0 if at < len(changed):
                changed[at] ^= 1 << source.randrange(8)
            case 1:
                del changed[at : at + source.choice((1, 4, 8, len(changed)))]
            case 2:
                changed[at:at] = changed[at : at + source.randint(1, 40)]
            case 3:
                size = source.choice((1, 2, 4, 8))
                extreme = source.choice((0, 1, (1 << 8 * size) - 1, 1 << 8 * size - 1, source.getrandbits(8)))
                changed[at : at + size] = extreme.to_bytes(size, source.choice(("little", "big")))
            case _:
                changed[at:at] = source.randbytes(source.randint(1, 8))
    return bytes(changed)


def replaced(source: random.Random, value: Any) -> Any:
    """Draw a change of a JSON value: one part of it is another value, missing, or has another key."""
    if isinstance(value, dict | list) and value and source.random() < 0.8:
        copy = value.copy()
        key = source.choice([*copy] if isinstance(copy, dict) else range(len(copy)))
        if source.random() < 0.15:
            copy.pop(key)
        else:
            copy[key] = replaced(source, copy[key])
        return copy
    return source.choice(VALUES)


def refused(read: Callable[[], Any], *errors: type[Exception]) -> bool:
    """Whether input was refused as documented, with one line of text."""
    try:
        read()
    except errors as error:
        if "\n" in str(error) or not str(error):
            raise AssertionError(f"an error must be one line: {str(error)!r}") from error
        return True
    return False


def a_message(source: random.Random) -> tuple[bytes, bool]:
    count = source.choice((0, 1, 7, 300))
    values = np.random.default_rng(source.getrandbits(32)).standard_normal(count).astype(np.float32)
    shape = source.choice(((count,), (1, count)))
    codec = source.choice((None, Codec(2**-10), Codec(2**-8, codec="planes")))
    whole = bytes(message.pack(values.reshape(shape), codec))
    data = spoilt(source, whole)
    if source.random() < 0.5 and len(data) >= message.HEADER.size:
        at = message.CHECKSUM_OFFSET
        checksum = crc32(data[message.HEADER.size :], crc32(data[:at]))
        data = data[:at] + struct.pack("<I", checksum) + data[at + 4 :]
    return data, data == whole


def collective(source: random.Random) -> Callable[[Transport], Any]:
    """Draw a collective with its settings; what each rank does."""
    count = source.choice((1, 5, 96, 3000))
    root, settings = source.randrange(3), {"path": source.choice(("software", "off", "auto"))}
    if settings["path"] == "software":
        settings["codec"] = Codec(2**-10, codec=source.choice(("paper", "planes")))
    algorithm = source.choice(("ring", "hierarchical", "worker_aggregator"))
    name = source.choice(("allreduce", "reduce", "bcast", "allgather", "reduce_scatter"))

    def run(t: Transport) -> Any:
        values = np.linspace(-1, 1, 3 * count, dtype=np.float32)
        part, whole = values[:count].copy(), np.empty(3 * count, np.float32)
        match name:
            case "allreduce":
                return allreduce_comp(t, values, whole, algorithm=algorithm, **settings)
            case "reduce":
                return reduce_comp(t, values, whole if t.rank == root else None, root=root, **settings)
            case "bcast":
                return bcast_comp(t, values, root=root, **settings)
            case "allgather":
                return allgather_comp(t, part, whole, **settings)
            case _:
                return reduce_scatter_comp(t, values, part, **settings)

    return run


def service(source: random.Random) -> Callable[[Transport], Any]:
    """Return what each rank does in a parameter server with three members that all serve and work."""
    steps, codec = source.choice((1, 2)), source.choice((None, Codec(2**-10, codec="planes")))

    def run(t: Transport) -> Any:
        values = {key: np.zeros(40, np.float32) for key in "abc"}
        with ParameterServer(t, values, codec=codec) as group:
            for _ in range(steps):
                group.worker.push(values)
                group.worker.pull()

    return run


def with_liar(source: random.Random, run: Callable[[Transport], Any]) -> bool:
    """Whether rank 0 or 2 refused what rank 1 sent; all have ended."""
    ranks, found = loopback(3, timeout=0.5), {}
    liar, draw = ranks[1], random.Random(source.getrandbits(64))
    send, exchange, lies = liar.isend, liar.exchange, source.random() < 0.5

    def spoil_bytes(peer: int, buffer: Any, *, tagged: bool = False) -> Any:
        return send(peer, spoilt(draw, bytes(buffer)), tagged=tagged)

    def spoil_value(value: Any) -> list[Any]:
        return exchange(replaced(draw, value) if draw.random() < 0.5 else value)

    if lies:
        liar.exchange = spoil_value  # type: ignore[method-assign]
    else:
        liar.isend = spoil_bytes  # type: ignore[method-assign]

    def rank(t: Transport) -> None:
        found[t.rank] = None
        try:
            with t:
                run(t)
        except Exception as error:
            found[t.rank] = error

    threads = [threading.Thread(target=rank, args=(t,), daemon=True) for t in ranks]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive(), "a rank hangs"

    errors = [found[rank] for rank in (0, 2) if found[rank] is not None]
    for error in errors:
        if not isinstance(error, (TransportError, MismatchError, ValueError)) or "\n" in str(error):
            raise error
    return bool(errors)


class Cases:
    """One function for each target: draw an input, read it; whether it was refused."""

    def __init__(self, folder: Path):
        self.file = folder / "input"
        self.input: Any = None
        self.awp = AWP({"a": ["x", "y"], "b": ["z"]}, threshold=1e-3, interval=100)
        writer = PcapWriter(self.file)
        writer.write([bytes(range(60)), bytes(1500)])
        writer.close()
        self.captures = [self.file.read_bytes(), _pcapng([bytes(range(60)), bytes(61)])]

    def _file(self, data: bytes, read: Callable[[Path], Any], *errors: type[Exception]) -> bool:
        self.input = data
        self.file.write_bytes(data)
        return refused(lambda: read(self.file), *errors)

    def message(self, source: random.Random) -> bool:
        self.input, whole = a_message(source)
        no = refused(lambda: message.unpack(self.input), ValueError)
        assert not (no and whole), "a whole message must be taken"
        return no

    def npy(self, source: random.Random) -> bool:
        kind = source.choice(("<f4", "<f2", ">f4", "<i8", "?"))
        with self.file.open("wb") as file:
            np.save(file, np.zeros(source.choice(((), (0,), (3, 5))), kind))
        data = spoilt(source, self.file.read_bytes())
        return self._file(data, lambda path: npy_file.load(path, halves=True), ValueError, TypeError)

    def capture(self, source: random.Random) -> bool:
        return self._file(spoilt(source, source.choice(self.captures)), read_pcap, ValueError)

    def line(self, source: random.Random) -> bool:
        hello = {
            "rank": 1, "size": 2, "protocol": 3, "job": "j", "nic": "no", "tos": 40, "nonce": "0" * 64,
            "secret": False, "host": "127.0.0.1", "ports": [4000, 4001],
        }  # fmt: skip
        self.input = spoilt(source, json.dumps(replaced(source, hello)).encode())
        return refused(lambda: checked(decoded(self.input, stranger=True), HELLO), ValueError)

    def agreement(self, source: random.Random) -> bool:
        own: dict[str, Any] = {"collective": "all_reduce", "count": 5, "settings": [1, "a", None]}

        class Ranks:
            def exchange(self, value: Any) -> list[Any]:
                return [value, replaced(source, value) if source.random() < 0.7 else value]

        self.input = source.getstate()[1][:2]
        ranks: Any = Ranks()
        if source.random() < 0.5:
            valid = source.choice((is_exponent, is_amount))
            return refused(lambda: exchanged(ranks, 5, valid), MismatchError)
        return refused(lambda: agree(ranks, own, 3, None), MismatchError)

    def member(self, source: random.Random) -> bool:
        self.input = source.getstate()[1][:2]
        return with_liar(source, collective(source))

    def server(self, source: random.Random) -> bool:
        self.input = source.getstate()[1][:2]
        return with_liar(source, service(source))

    def checkpoint(self, source: random.Random) -> bool:
        if source.random() < 0.5:
            self.input = replaced(source, self.awp.state_dict())
            return refused(lambda: self.awp.load_state_dict(self.input), ValueError)
        residual = source.choice((*VALUES, np.zeros(3, np.float32), np.full(2, np.nan, "f4"), np.zeros(2)))
        self.input = {"w": residual}
        return refused(lambda: ErrorFeedback("planes").load_state_dict(self.input), ValueError)


def _pcapng(frames: list[bytes]) -> bytes:
    """Return a pcapng file: a section, an Ethernet interface, and an enhanced packet block for each frame."""

    def block(kind: int, body: bytes) -> bytes:
        body += bytes(-len(body) % 4)
        size = struct.pack("<I", 12 + len(body))
        return struct.pack("<I", kind) + size + body + size

    head = block(0x0A0D0D0A, struct.pack("<IHHq", 0x1A2B3C4D, 1, 0, -1)) + block(
        1, struct.pack("<HHI", 1, 0, 0)
    )
    heads = (struct.pack("<IIIII", 0, 0, 0, len(frame), len(frame)) for frame in frames)
    return head + b"".join(block(6, start + frame) for start, frame in zip(heads, frames, strict=True))


PYTHON = ("message", "npy", "capture", "line", "agreement", "member", "server", "checkpoint")


def fuzz(target: str, seed: int, seconds: float) -> str:
    """Read spoilt input for that long; a line that says how often. `SystemExit` names a finding."""
    source, begun, counts = random.Random(f"{seed} {target}"), time.monotonic(), [0, 0]
    with tempfile.TemporaryDirectory(prefix="fuzz-") as folder:
        cases = Cases(Path(folder))
        while sum(counts) < 200 or time.monotonic() - begun < seconds:
            try:
                counts[getattr(cases, target)(source)] += 1
            except Exception as error:
                found = f"{target}, seed {seed}, run {sum(counts)}: {type(error).__name__}: {error}"
                raise SystemExit(f"{found}\ninput: {cases.input!r}") from error
    if not all(counts):
        raise SystemExit(f"{target}: {counts[0]} inputs taken, {counts[1]} refused; there must be both")
    return f"{sum(counts)} inputs, {counts[1]} refused"


def sanitize(target: str, seed: int, seconds: float) -> str:
    """Run the C program with one seed after another for that long."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        raise SystemExit(f"{target} needs a C compiler; apt install gcc")
    sanitizer, sources = PROGRAMS[target]
    flags = ["-std=gnu11", "-O1", "-g", f"-fsanitize={sanitizer}", "-fno-sanitize-recover=all"]
    with tempfile.TemporaryDirectory(prefix="fuzz-") as folder:
        program = Path(folder) / target
        command = [compiler, *flags, f"-I{NATIVE}", "-o", program, *sources, "-lpthread", "-lm"]
        subprocess.run(command, check=True)
        begun, runs = time.monotonic(), 0
        while not runs or time.monotonic() - begun < seconds:
            done = subprocess.run(
                [program, str(seed + runs), "200"], capture_output=True, text=True, check=False
            )
            if done.returncode:
                raise SystemExit(f"{target}, seed {seed + runs}:\n{done.stderr[-4000:]}")
            runs += 1
    return f"{200 * runs} rounds"


def main() -> int:
    style = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=style)
    every = [*PROGRAMS, *PYTHON]
    parser.add_argument("targets", nargs="*", metavar="TARGET", help=f"{', '.join(every)} (all)")
    parser.add_argument("--seconds", type=float, default=20, help="of each target (20)")
    parser.add_argument("--seed", type=int, default=1, help="of the first input (1)")
    parser.add_argument("--record", action="store_true", help="put what was done into docs/assurance*")
    arguments = parser.parse_args()
    if unknown := sorted(set(arguments.targets) - set(every)):
        parser.error(f"{unknown[0]} must be one of {', '.join(every)}")
    if not 0 < arguments.seconds < math.inf:
        parser.error(f"--seconds must be a time above 0, not {arguments.seconds}")
    for target in arguments.targets or every:
        run = sanitize if target in PROGRAMS else fuzz
        done = run(target, arguments.seed, arguments.seconds)
        print(f"{target}: {done}", flush=True)
        if arguments.record:
            how = {"done": done, "seconds": arguments.seconds, "seed": arguments.seed}
            records.put("fuzz", [{"name": target, **how, "commit": records.commit("sw")}], every)
    print("no finding")
    if arguments.record:
        records.write_page()
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit("interrupted")

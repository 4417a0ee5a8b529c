# SPDX-License-Identifier: BSD-2-Clause
"""Programs of ranks: one on each host of a network, which reports by lines of JSON; or in threads."""

import json
import os
import queue
import re
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from importlib.util import find_spec
from itertools import chain
from typing import IO, Any, TypeVar

from ....commands.console import Console, new_progress
from ....netns import Namespaces, NetworkError, mpi_popen
from ....transport import LoopbackTransport, TransportError, loopback

T = TypeVar("T")
Rank = subprocess.Popen[str]
Line = dict[str, Any]
"""What rank 0 reports."""

_EXCEPTION = re.compile(r"[\w.]*(Error|Exception|Lost|Timeout|Interrupt)\b.*")
"""The last line of a traceback, or what a rank prints instead of one."""
_RANK = re.compile(r"\[rank\d+\]: *")
"""The mark before each line of a rank's traceback; its launcher's own is a ``ChildFailedError``."""
ONE_THREAD = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
"""In the environment of a process: its linear algebra takes one thread."""
_FAREWELL = 5.0
"""Seconds in which a launcher ends its processes."""
_LAST_WORDS = 10.0
"""Seconds in which the other ranks say what they think of one that has failed."""
_POLL = 0.5
"""Seconds between two looks at the ranks' exit statuses."""
PORT, TIMEOUT = 29520, 120.0
"""Where the ranks meet, and the seconds without progress after which one gives up, unless the plan says."""
_GRACE = 30.0
"""Seconds in which ranks end after rank 0's last line."""


def with_mpi() -> bool:
    """Tell whether MPI can start the ranks, and be measured."""
    return find_spec("mpi4py") is not None


def lines_of(
    network: Namespaces, program: Callable[..., object], plan: Mapping[str, Any], patience: float = 600.0
) -> Iterator[Line]:
    """Run a function of a module, ``program``, on every host, and yield rank 0's lines of JSON.

    It gets the transport and the plan, to which the hosts' "addresses" are added, see `rank.run`. Ranks run
    under MPI where it is installed, else with their number as a further argument. Raises `NetworkError` if no
    line comes for ``patience`` seconds, or if a rank fails: its text is the ranks' last output.
    """
    path = network.folder / "plan.json"
    common = {"port": PORT, "timeout": TIMEOUT, "addresses": [host.address for host in network.hosts]}
    path.write_text(json.dumps({**common, **plan}))
    function = f"{program.__module__}:{program.__name__}"
    argv = [sys.executable, "-m", f"{__package__}.rank", function, str(path)]
    with tempfile.TemporaryFile("w+", dir=network.folder) as said:
        # All hosts share this machine's processors: one thread of the linear algebra each.
        options: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": said, "text": True}
        if with_mpi():
            ranks = [mpi_popen(network, argv, environment=ONE_THREAD, **options)]
        else:
            options["env"] = os.environ | ONE_THREAD
            ranks = [host.popen([*argv, str(host.index)], **options) for host in network.hosts]
        yield from heard(ranks, said, patience)


def torch_lines_of(
    network: Namespaces | None, module: str, plan: Mapping[str, Any], port: int, patience: float
) -> Iterator[Line]:
    """Run a module on every host with torchrun's environment and the plan's file; yield rank 0's lines.

    The ranks meet at ``port`` of the first host. Without a network they are two processes of this machine.
    Errors as `lines_of`.
    """
    group = os.environ | ONE_THREAD | {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    starts: list[Callable[..., Rank]] = [subprocess.Popen] * 2
    if network is not None:
        group |= {"MASTER_ADDR": network.hosts[0].address, "GLOO_SOCKET_IFNAME": "eth0"}
        starts = [host.popen for host in network.hosts]
    group["WORLD_SIZE"] = str(len(starts))
    with tempfile.NamedTemporaryFile("w+") as path, tempfile.TemporaryFile("w+") as said:
        json.dump(plan, path)
        path.flush()
        argv = [sys.executable, "-m", module, path.name]
        options: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": said, "text": True}
        ranks = [start(argv, env={**group, "RANK": str(n)}, **options) for n, start in enumerate(starts)]
        yield from heard(ranks, said, patience)


def counted(
    console: Console, lines: Iterable[T], total: int, text: Callable[[T], str] = lambda line: ""
) -> Iterator[T]:
    """Yield the lines, and show how many of ``total`` there are and the ``text`` of the last one."""
    with new_progress(console) as progress:
        task = progress.add_task("", total=total)
        for line in lines:
            progress.update(task, advance=1, description=text(line))
            yield line


def heard(ranks: Sequence[Rank], said: IO[str], patience: float) -> Iterator[Line]:
    """Yield the JSON lines of the first of these processes; end all of them.

    ``said`` has their standard error. Errors as `lines_of`. Any line shows that the ranks go on, JSON or not.
    """
    arrived: queue.Queue[str | None] = queue.Queue()

    def read() -> None:
        for line in chain(ranks[0].stdout or (), [None]):
            arrived.put(line)

    reader = threading.Thread(target=read, daemon=True)
    reader.start()
    try:
        since, failed = time.monotonic(), False
        while True:
            try:
                line = arrived.get(timeout=min(_POLL, patience))
            except queue.Empty:
                quiet = time.monotonic() - since
                if failed and quiet >= _LAST_WORDS:
                    raise NetworkError(f"a rank failed: {_said(said)}") from None
                if quiet >= patience:
                    text = f"no output from the ranks for {quiet:.0f} s; the last was: {_said(said)}"
                    raise NetworkError(text) from None
                if not failed and any(rank.poll() for rank in ranks):
                    since, failed = time.monotonic(), True
                continue
            if line is None:
                break
            if not failed:
                since = time.monotonic()
            if line.startswith("{"):
                yield json.loads(line)
                since = time.monotonic()  # not the caller's time
        if any(rank.wait(_GRACE) for rank in ranks):
            raise NetworkError(f"a rank failed: {_said(said)}")
    except subprocess.TimeoutExpired as error:
        raise NetworkError(f"a rank did not end within {_GRACE:.0f} s") from error
    finally:
        for rank in ranks:
            rank.terminate()  # a launcher ends what it has started
        deadline = time.monotonic() + _FAREWELL
        for rank in ranks:
            with suppress(subprocess.TimeoutExpired):
                rank.wait(max(0.0, deadline - time.monotonic()))
            rank.kill()
        reader.join(_FAREWELL)
        for rank in ranks:
            with rank:  # waits for it, and closes its output
                pass


def _said(file: IO[str]) -> str:
    """Return the ranks' first exception that is not about another rank, or else their last line."""
    file.seek(0)
    lines = [_RANK.sub("", line.strip()) for line in file]
    errors = [line for line in lines if _EXCEPTION.match(line) and "ChildFailedError" not in line]
    causes = [line for line in errors if "PeerLost" not in line]
    rest = [line for line in lines if line and "plm:ssh" not in line]
    return next(iter([*causes, *errors, *rest[-1:]]), "not a word")


def on_ranks(ranks: int, work: Callable[[LoopbackTransport], T], **settings: Any) -> list[T]:
    """Run ``work`` at every rank, each in a thread, and return the results; ``settings`` as of `loopback`.

    An error at a rank ends all of them. Raises the first one, a rank's own first.
    """

    def run(transport: LoopbackTransport) -> T:
        with transport:
            return work(transport)

    with ThreadPoolExecutor(ranks) as pool:
        found = [pool.submit(run, transport) for transport in loopback(ranks, **settings)]
    errors = [error for each in found if (error := each.exception()) is not None]
    if errors:
        # The others only say that a rank is lost or silent.
        raise min(errors, key=lambda error: isinstance(error, TransportError))
    return [each.result() for each in found]

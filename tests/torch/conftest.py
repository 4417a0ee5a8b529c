# SPDX-License-Identifier: BSD-2-Clause
"""Groups of torch processes, which run functions of the tests at all ranks."""

import os
from collections.abc import Callable, Iterator, Sequence
from importlib.util import find_spec
from multiprocessing import get_context
from pathlib import Path
from runpy import run_path
from typing import Any

import pytest

HERE = Path(__file__).parent
if find_spec("torch") is None and not os.environ.get("CI"):
    collect_ignore_glob = ["test_*.py"]  # pip install 'inceptionn[torch]'


class Ranks:
    """Processes of one group: ``ranks(function, *arguments, victim=None)`` is what each but that returns.

    They start with the first call, and again after one that failed, which prints what all have said. With a
    ``backend`` they have torch's default group. ``own`` holds further environment variables for each rank.
    """

    def __init__(
        self, log: Path, new_port: Callable[[], int], count: int, backend: str = "",
        own: Sequence[dict[str, str]] = (),
    ) -> None:  # fmt: skip
        self._log, self._new_port, self._backend = log, new_port, backend
        self._own = own or [{}] * count
        self._running: list[tuple[Any, Any]] = []

    def __call__(self, function: Callable[..., Any], *arguments: Any, victim: int | None = None) -> list[Any]:
        if not self._running:
            self._start()
        links = [link for _, link in self._running]
        for link in links:
            link.send((Path(function.__code__.co_filename).stem, function.__name__, arguments))
        try:
            others = [link for rank, link in enumerate(links) if rank != victim]
            return [link.recv()[0] for link in others if link.poll(240) or pytest.fail("a rank hangs")]
        except BaseException:
            self.kill()
            print(self._log.read_text())
            raise

    def _start(self) -> None:
        server = get_context("forkserver")
        server.set_forkserver_preload(["torch._dynamo", "torch.distributed.fsdp", "inceptionn.torch"])
        size, port = str(len(self._own)), str(self._new_port())
        group = {"WORLD_SIZE": size, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
        for rank, own in enumerate(self._own):
            here, there = server.Pipe()
            environment = {**os.environ, **group, "RANK": str(rank), **own}
            given = {
                "link": there,
                "environment": environment,
                "log": str(self._log),
                "backend": self._backend,
            }
            process = server.Process(
                target=run_path, args=(str(HERE / "rank.py"),), kwargs={"init_globals": given}
            )
            process.start()
            there.close()
            self._running.append((process, here))

    def end(self) -> None:
        """Let the processes end as programs do, which must succeed."""
        for _, link in self._running:
            link.send(None)
        for process, _ in self._running:
            process.join(60)
        codes = [process.exitcode for process, _ in self._running]
        self.kill()
        assert not any(codes), self._log.read_text()

    def kill(self) -> None:
        for process, _ in self._running:
            process.kill()
            process.join()
        self._running.clear()


@pytest.fixture
def alone() -> Iterator[None]:
    """Make this process torch's default group."""
    import torch.distributed as dist

    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    yield
    dist.destroy_process_group()


@pytest.fixture(scope="session")
def ranks_of(
    tmp_path_factory: pytest.TempPathFactory, new_port: Callable[[], int]
) -> Iterator[Callable[..., Ranks]]:
    """Yield a function that makes `Ranks` of its arguments."""
    made: list[Ranks] = []

    def make(*arguments: Any, **named: Any) -> Ranks:
        made.append(Ranks(tmp_path_factory.mktemp("ranks") / "log", new_port, *arguments, **named))
        return made[-1]

    yield make
    for ranks in made:
        ranks.end()


@pytest.fixture(scope="session")
def gloo(ranks_of: Callable[..., Ranks]) -> Ranks:
    """Return two ranks with torch's own backend, for all tests that leave the default group as it is."""
    return ranks_of(2, "gloo")

# SPDX-License-Identifier: BSD-2-Clause
"""Programs of several torch processes, which leave what they found in a file each."""

import json
import os
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from multiprocessing import get_context
from pathlib import Path
from runpy import run_path
from typing import Any

import pytest

Found = list[dict[str, Any]]
HERE = Path(__file__).parent
PROGRAMS = HERE / "ranks"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """All tests here need torch: a skip, or a failure under CI, without it."""
    if find_spec("torch") is None:
        for item in items:
            if HERE in item.path.parents and not os.environ.get("CI"):
                item.add_marker(pytest.mark.skip(reason="no torch here: pip install 'inceptionn[torch]'"))


@pytest.fixture(scope="session")
def ranks_of(tmp_path_factory: pytest.TempPathFactory, new_port: Callable[[], int]) -> Callable[..., Found]:
    """``ranks_of(program, count, *arguments, victim=None, own=())``: what each rank but the victim has found.

    ``own`` holds further environment variables for each rank. The test fails with what the ranks said if one
    fails.
    """
    server = get_context("forkserver")
    server.set_forkserver_preload(["torch._dynamo", "torch.distributed.fsdp", "inceptionn.torch"])

    def run(
        program: str,
        count: int,
        *arguments: str,
        victim: int | None = None,
        own: Sequence[dict[str, str]] = (),
    ) -> Found:
        folder = tmp_path_factory.mktemp("ranks")
        group = {"WORLD_SIZE": str(count), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(new_port())}
        log = str(folder / "log")
        ranks = []
        for rank in range(count):
            mine = {"RANK": str(rank), "REPORT": str(folder), **(own[rank] if own else {})}
            given = {
                "arguments": [str(PROGRAMS / program), *arguments],
                "environment": {**os.environ, **group, **mine},
                "log": log,
            }
            start = server.Process(
                target=run_path, args=(str(PROGRAMS / "start.py"),), kwargs={"init_globals": given}
            )
            start.start()
            ranks.append(start)
        others = [rank for rank in range(count) if rank != victim]
        try:
            for rank in others:
                ranks[rank].join(timeout=240)
                assert ranks[rank].exitcode == 0, Path(log).read_text()
        finally:
            for process in ranks:
                process.kill()
                process.join()
        return [json.loads((folder / f"{rank}.json").read_text()) for rank in others]

    return run

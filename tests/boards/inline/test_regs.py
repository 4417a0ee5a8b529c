# SPDX-License-Identifier: BSD-2-Clause
"""``inceptionn regs --uart`` at the serial line of a simulated inline device."""

import json
import os
import select
import threading
import tty
from collections.abc import Iterator
from pathlib import Path

import pytest

from inceptionn.cli import main
from inceptionn.sim.golden import packets
from inceptionn.sim.inline.model import US, InlineModel


@pytest.fixture
def device() -> Iterator[tuple[InlineModel, str]]:
    """Yield a device without engines, and the terminal at its serial line."""
    master, slave = os.openpty()
    tty.setraw(slave)
    stop = threading.Event()
    with InlineModel(None) as model:

        def serve() -> None:
            while not stop.is_set():
                if select.select([master], [], [], 0.02)[0]:
                    model.say(os.read(master, 256).decode())
                model.run(5 * US)
                if heard := model.hear():
                    os.write(master, heard.encode())

        thread = threading.Thread(target=serve)
        frame = packets.ethernet(bytes(100), 0x88B5)
        for good in (True, False, True):
            model.send("host", frame, good=good)
        thread.start()
        yield model, os.ttyname(slave)
        stop.set()
        thread.join(60)
    os.close(master)
    os.close(slave)


@pytest.mark.slow
def test_registers_by_name(
    device: tuple[InlineModel, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _, line = device
    assert main(["regs", "get", "LINKS.HOST_SPEED", "--uart", line]) == 0
    assert capsys.readouterr().out == "0x2\n"
    counters = tmp_path / "counters.json"
    assert main(["regs", "counters", "--uart", line, "--json", str(counters)]) == 0
    found = json.loads(counters.read_text())
    assert (found["HOST_GOOD"], found["HOST_FCS"], found["NETWORK_SENT"]) == (2, 1, 2)
    capsys.readouterr()
    assert main(["regs", "get", "TOS", "--uart", line]) == 2
    assert "register must be one of LINKS, or a counter, not 'TOS'" in capsys.readouterr().err
    assert main(["regs", "set", "HOST_GOOD", "0", "--uart", line]) == 2
    assert "read only" in capsys.readouterr().err

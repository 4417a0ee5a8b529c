# SPDX-License-Identifier: BSD-2-Clause
"""Bad input to every option and argument of every command: one line, exit status 2, and nothing left over.

The commands and their parameters are those of the parser, so a new one is tried without a change here.
"""

import importlib
import inspect
import os
import signal
import struct
import types
from collections.abc import Iterator
from enum import Enum
from pathlib import Path
from typing import Annotated, Literal, Union, get_args, get_origin

import numpy as np
import pytest
from commands import after_reset, leaves

from inceptionn import cli

GIVEN = {
    "generate": ["--board", "generic", "--out", "out"],
    "bring-up": ["--out", "out"],
    "encode": ["good.npy"],
    "decode": ["good.npy.inc"],
    "inspect": ["good.npy"],
    "tag": ["1", "--peer", "127.0.0.1:1"],
    "untag": ["1", "--peer", "127.0.0.1:1"],
    "simulate": ["registers"],
    "inline build": ["--out", "out"],
    "inline simulate": ["good.pcap"],
    "replay": ["good.pcap"],
    "cluster run": ["true"],
    "regs dump": ["--bar", "good.bar"],
    "regs get": ["TOS", "--bar", "good.bar"],
    "regs set": ["TOS.VALUE", "8", "--bar", "good.bar"],
    "regs bound": ["8", "--bar", "good.bar"],
    "regs counters": ["--bar", "good.bar"],
}
"""What a command needs; an option that is tried comes after it, an argument takes the first place."""
TOGETHER = {
    "--socket": ["--cluster", "host0"],
    "--record": [],
    "--times": ["--watch", "1"],
    "--baud": ["--uart", "missing.npy"],
    "--history": ["--compare"],
}
"""Options that say nothing without another one."""
WITHOUT_BAR = {"--cluster", "--uart", "--socket", "--bar", "--baud"}
"""Options that name another bus than the one of `GIVEN`."""
READ = {"file", "verilog", "bar", "socket", "uart", "history"}
"""Parameters of type Path that are read; ``pcap`` is, of ``replay`` and ``inline simulate``."""
BAD_FILES = ("missing.npy", "folder", "empty.npy", "text.npy", "double.npy", "huge.npy", "pipe.npy")
SUFFIX = {"--plot": ".png", "--waves": ".vcd"}
ANY_TEXT = {
    ("cluster run", "program"): "found on the hosts, where it may be another",
}
"""Texts that cannot be wrong before the work, and why."""
NUMBERS = {
    int: ("-7777777", "99999999999999999999", "1.5", "x"),
    float: ("nan", "-1", "inf", "x"),
}


COMMANDS = leaves()


def parameters(name: str) -> Iterator[tuple[str, bool, type]]:
    """Option or argument of a command, whether it is an option, and its type."""
    command = COMMANDS[name]
    function = getattr(importlib.import_module(command.module), command.function)
    hints = inspect.signature(function, eval_str=True).parameters
    for parameter in cli._load(name.split()[-1], command).params:
        if parameter.name not in hints:
            continue  # --help
        kind = hints[parameter.name].annotation
        if get_origin(kind) is Annotated:
            kind = get_args(kind)[0]
        if get_origin(kind) in (Union, types.UnionType):
            kind = next(one for one in get_args(kind) if one is not type(None))
        if get_origin(kind) is list:
            kind = get_args(kind)[0]
        yield parameter.opts[0], parameter.opts[0].startswith("-"), kind


def bad_values(name: str, option: str, kind: type) -> Iterator[str]:
    """Values that no such parameter can have."""
    word = option.lstrip("-")
    if kind in NUMBERS:
        yield from NUMBERS[kind]
    elif option == "--out":
        yield "/dev/null/a/out"
        if kind is str:
            yield ""
    elif kind is str:
        yield "no such thing?!"
        yield ""
    elif get_origin(kind) is Literal or issubclass(kind, Enum):
        yield "no such thing"
    elif issubclass(kind, Path):
        if word in READ or (name, word) in (("replay", "pcap"), ("inline simulate", "pcap")):
            yield from BAD_FILES
        else:
            yield f"/dev/null/a/out{SUFFIX.get(option, '')}"
            if option in ("--json", "--csv", "--plot", "--frames", "--out-pcap"):
                yield "folder"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the working directory, with files that are right and files that are not."""
    monkeypatch.chdir(tmp_path)
    values = np.linspace(-0.01, 0.01, 64, dtype=np.float32)
    np.save("good.npy", values)
    assert cli.main(["encode", "good.npy"]) == 0
    np.save("double.npy", values.astype(np.float64))
    Path("empty.npy").touch()
    Path("text.npy").write_text("1.0 2.0\n" * 4)
    header = str({"descr": "<f4", "fortran_order": False, "shape": (1 << 60,)}).encode().ljust(117) + b"\n"
    Path("huge.npy").write_bytes(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header + bytes(64))
    os.mkfifo("pipe.npy")
    Path("folder").mkdir()
    frame = bytes(60)
    pcap = struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, 1)
    Path("good.pcap").write_bytes(pcap + struct.pack("<IIII", 0, 0, len(frame), len(frame)) + frame)
    Path("good.bar").write_bytes(after_reset())
    return tmp_path


@pytest.fixture
def no_work() -> Iterator[None]:
    """Fails what takes more than some seconds of processor time, or minutes: work that was begun."""

    def stop(*_: object) -> None:
        raise AssertionError("the command has begun to work")

    before = signal.signal(signal.SIGPROF, stop), signal.signal(signal.SIGALRM, stop)
    yield
    signal.setitimer(signal.ITIMER_PROF, 0)
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGPROF, before[0])
    signal.signal(signal.SIGALRM, before[1])


def words_of(name: str, option: str, is_option: bool, value: str) -> list[str]:
    """Return the command line that gives ``value`` to the option or the argument."""
    given = list(GIVEN.get(name, []))
    if not is_option:
        return [*name.split(), "--", value] if not given else [*name.split(), *given[1:], "--", value]
    for replaced in {option, "--bar"} if option in WITHOUT_BAR else {option}:
        if replaced in given:
            at = given.index(replaced)
            del given[at : at + 2]
    return [*name.split(), *TOGETHER.get(option, []), option, value, *given]


@pytest.mark.parametrize("name", COMMANDS)
def test_bad_input_is_one_line_and_status_2(
    name: str, folder: Path, no_work: None, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("matplotlib")
    wrong = []
    there = sorted(folder.rglob("*"))
    for option, is_option, kind in parameters(name):
        if (name, option) in ANY_TEXT or kind is bool:
            continue
        for value in bad_values(name, option, kind):
            words = words_of(name, option, is_option, value)
            signal.setitimer(signal.ITIMER_PROF, 8)
            signal.setitimer(signal.ITIMER_REAL, 300)
            capsys.readouterr()
            status = cli.main(words)
            out, err = capsys.readouterr()
            one_line = err.startswith("inceptionn: ") and err.count("\n") == 1 and not out
            tried = one_line and "Missing option" not in err and "Missing argument" not in err
            if status != 2 or not tried or sorted(folder.rglob("*")) != there:
                wrong.append(f"{' '.join(map(repr, words))}: status {status}: {out[:200]}{err[:400]}")
    assert not wrong, "\n".join(wrong)

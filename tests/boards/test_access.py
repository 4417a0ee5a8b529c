# SPDX-License-Identifier: BSD-2-Clause
"""``inceptionn regs`` over a BAR: a file in its place, with the registers' reset values and some counts."""

import json
import os
import re
import struct
import subprocess
import sys
import threading
import tty
from pathlib import Path

import pytest
from refusals import refused

from inceptionn.boards.access.bar import BarBus
from inceptionn.boards.access.bring_up import BringUpBus
from inceptionn.boards.access.bus import BusError
from inceptionn.boards.access.uart import SerialLine
from inceptionn.boards.bring_up.registers import VALUES
from inceptionn.boards.generate import BOARDS, load_board
from inceptionn.boards.templates import render
from inceptionn.cli import main
from inceptionn.hdl.codec.codecs import CODECS
from inceptionn.hdl.control.map_formats import bound_word, c_header
from inceptionn.hdl.control.registers import REGISTERS, registers_of

OFFSET = 0xA000
COUNT = (7 << 32) + 3


@pytest.fixture
def bar(tmp_path: Path) -> Path:
    """64 KiB with a NIC's registers at `OFFSET`."""
    memory = bytearray(1 << 16)
    for register in REGISTERS:
        struct.pack_into("<I", memory, OFFSET + register.offset, register.reset)
    struct.pack_into("<Q", memory, OFFSET + REGISTERS["TX_BYTES_IN"].offset, COUNT)
    path = tmp_path / "resource0"
    path.write_bytes(memory)
    return path


def regs(bar: Path, *arguments: str) -> int:
    return main(["regs", *arguments, "--bar", str(bar), "--offset", hex(OFFSET)])


def word(bar: Path, name: str) -> int:
    value: int = struct.unpack_from("<I", bar.read_bytes(), OFFSET + REGISTERS[name].offset)[0]
    return value


def test_dump_and_counters(bar: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert regs(bar, "dump", "--json", str(tmp_path / "dump.json")) == 0
    out = capsys.readouterr().out
    assert "TX_BYTES_IN" in out
    assert "RX_BYTES_IN" not in out
    found = json.loads((tmp_path / "dump.json").read_text())
    assert found == {r.name: r.reset for r in REGISTERS if r.access != "wo"} | {"TX_BYTES_IN": COUNT}
    assert regs(bar, "counters", "--all", "--json", "-") == 0
    captured = capsys.readouterr()
    assert json.loads(captured.out) == {name: n for name, n in found.items() if REGISTERS[name].width == 64}
    assert "RX_BYTES_IN" in captured.err


def test_counters_are_watched(bar: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = tmp_path / "log.csv"
    assert regs(bar, "counters", "--watch", "0.01", "--times", "3", "--csv", str(log)) == 0
    head, *rows = [line.split(",") for line in log.read_text().splitlines()]
    assert head[0] == "seconds"
    assert [row[head.index("TX_BYTES_IN")] for row in rows] == [str(COUNT)] * 3
    out = capsys.readouterr().out
    assert out.count("TX_BYTES_IN") == 3
    assert out.count("per second") == 2


def test_get_set_bound(bar: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert regs(bar, "set", "TOS.VALUE", "0x30") == 0
    assert word(bar, "TOS") == REGISTERS["TOS"].reset & ~0xFF | 0x30
    assert regs(bar, "set", "control", "1") == 0
    assert word(bar, "CONTROL") == 1
    assert regs(bar, "bound", "8") == 0
    assert word(bar, "PARAMETERS") == bound_word(8)
    assert capsys.readouterr().out == ""
    assert regs(bar, "get", "parameters") == 0
    assert regs(bar, "get", "TOS.value") == 0
    assert regs(bar, "get", "TX_BYTES_IN") == 0
    assert capsys.readouterr().out.split() == [f"{bound_word(8):#010x}", "0x30", str(COUNT)]


@pytest.mark.parametrize(
    ("arguments", "status", "text"),
    [
        (["get", "SPEED"], 2, "register must be one of ID, VERSION, CONTROL"),
        (["get", "TOS.SPEED"], 2, "field of TOS must be one of VALUE, MASK, not 'SPEED'"),
        (["set", "ID", "1"], 2, "register ID is read only"),
        (["set", "TOS.VALUE", "256"], 2, "field VALUE takes 8 bits, not 256"),
        (["set", "TOS", "0x100000000"], 2, "register TOS takes 32 bits, not 4294967296"),
        (["set", "TOS", "low"], 2, "value must be a number such as 10 or 0xa, not 'low'"),
        (["bound", "15"], 2, "k in 1..14, not k = 15"),
        (["bound", "8", "--mode", "loose"], 2, "'--mode': must be one of literal, bounded, not 'loose'"),
        (["counters", "--watch", "0"], 2, "seconds must be above 0"),
        (["counters", "--watch", "1", "--times", "0"], 2, "must be 1..1000000000, not 0"),
    ],
)
def test_wrong_values_are_one_line(
    arguments: list[str], status: int, text: str, bar: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = bar.read_bytes()
    assert regs(bar, *arguments) == status
    captured = capsys.readouterr()
    assert text in captured.err
    assert captured.err.count("\n") == 1
    assert bar.read_bytes() == before


@pytest.mark.parametrize(
    ("arguments", "status", "text"),
    [
        ([], 2, "name one of --bar FILE, --cluster HOST and --uart FILE"),
        (["--bar", "a", "--uart", "b"], 2, "name one of --bar FILE"),
        (["--bar", "no-such-file"], 2, "No such file or directory: 'no-such-file'"),
        (["--bar", "{bar}", "--offset", "0xfff0"], 2, "not 0xfff0"),
        (["--bar", "{bar}", "--offset", "2"], 2, "offset must be a multiple of 4"),
        (["--bar", "{bar}", "--offset", "here"], 2, "offset must be a number such as 10 or 0xa, not 'here'"),
        (["--bar", "{bar}"], 1, "not a NIC of inceptionn: ID reads 0x00000000, not 0x494e4350"),
        (["--uart", "{bar}"], 2, "is not a serial line"),
        (["--uart", "{bar}", "--baud", "7"], 2, "baud must be a speed of termios such as 115200, not 7"),
        (["--cluster", "0", "--socket", "{bar}"], 2, "no socket of a virtual cluster"),
    ],
)
def test_wrong_places_are_one_line(
    arguments: list[str], status: int, text: str, bar: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["regs", "dump", *(word.format(bar=bar) for word in arguments)]) == status
    captured = capsys.readouterr()
    assert text in captured.err
    assert captured.err.count("\n") == 1


def test_another_map_is_refused(bar: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Its registers mean something else. A greater minor version only adds some."""
    version = OFFSET + REGISTERS["VERSION"].offset
    content = bytearray(bar.read_bytes())
    content[version + 2] += 1
    major = content[version + 3]
    bar.write_bytes(content)
    assert regs(bar, "get", "TOS") == 0
    content[version + 3] += 1
    bar.write_bytes(content)
    capsys.readouterr()
    assert regs(bar, "set", "TOS", "0") == 1
    error = capsys.readouterr().err
    maps = f"register map {major + 1}.x of the NIC is unknown here, which has {major}.x"
    assert f"{maps}: use the version of" in error
    assert error.count("\n") == 1
    assert bar.read_bytes() == content


def test_a_bar_that_shrinks_under_watch(bar: Path) -> None:
    """One line, where a load beyond the file's end would kill the process."""
    command = [sys.executable, "-u", "-m", "inceptionn.cli", "regs", "counters", "--watch", "0.01"]
    command += ["--bar", str(bar), "--offset", hex(OFFSET)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline()
        os.truncate(bar, OFFSET)
        _, error = process.communicate(timeout=60)
    assert process.returncode == 1
    assert "resource0' has shrunk to 40960 bytes" in error
    assert error.count("\n") == 1


def test_a_closed_bar_gives_its_file_back(bar: Path) -> None:
    bus = BarBus(bar, OFFSET)
    assert bus.read32(0) == REGISTERS["ID"].reset
    bus.close()
    bus.close()
    refused(ValueError, "closed", bus.read32, 0)
    refused(BusError, "device is not enabled", BarBus, bar, 0)


def test_the_codec_is_read_from_the_nic(bar: Path, capsys: pytest.CaptureFixture[str]) -> None:
    memory = bytearray(bar.read_bytes())
    version = REGISTERS["VERSION"]
    planes = registers_of("planes")
    struct.pack_into("<I", memory, OFFSET + version.offset, planes["VERSION"].reset)
    struct.pack_into("<Q", memory, OFFSET + planes["TX_GROUPS_CODE_15"].offset, 77)
    bar.write_bytes(memory)
    assert regs(bar, "bound", "8") == 0
    assert word(bar, "PARAMETERS") == 127 - 8
    assert regs(bar, "get", "TX_GROUPS_CODE_15") == 0
    assert capsys.readouterr().out == "77\n"
    memory[OFFSET + version.offset] = 9
    bar.write_bytes(memory)
    assert regs(bar, "dump") == 1
    assert "VERSION.WIRE reads 9, a wire format that this tool does not know" in capsys.readouterr().err


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("name", BOARDS)
def test_every_readme_shows_the_bound_and_the_class_counters(name: str, codec: str, tmp_path: Path) -> None:
    """Its section is rendered, its C compiled and run on a memory, its commands read by the command line."""
    from inceptionn.boards.package_files import register_context

    board = load_board(name)
    text = render("registers.md.j2", {"board": board, **register_context(codec)})
    (code,) = re.findall(r"```c\n(.*?)```", text, re.DOTALL)
    at = board.access.offset
    registers = registers_of(codec)
    first = registers.class_counters[0].name
    wanted = bound_word(8, codec=codec)
    (read,) = re.findall(r"uint64_t (\w+) =", code)
    (tmp_path / "inceptionn_registers.h").write_text(c_header(registers))
    (tmp_path / "example.c").write_text(
        '#include "inceptionn_registers.h"\nstatic uint32_t bar[1 << 14];\nint main(void) {\n'
        f"    bar[({at} + INCEPTIONN_{first}) / 4] = 9;\n{code}"
        f"    return !({read} == 9 && bar[({at} + INCEPTIONN_PARAMETERS) / 4] == {wanted}u);\n}}\n"
    )
    program = str(tmp_path / "example")
    subprocess.run(["cc", "-Wall", "-Werror", str(tmp_path / "example.c"), "-o", program], check=True)
    subprocess.run([program], check=True)
    memory = bytearray(1 << 16)
    for register in registers:
        struct.pack_into("<I", memory, at + register.offset, register.reset)
    (tmp_path / "resource").write_bytes(memory)
    commands = re.findall(r"^# inceptionn (regs .*)$", text, re.MULTILINE)
    assert [command.split()[1] for command in commands] == ["dump", "bound", "counters"]
    for command in commands:
        words = [str(tmp_path / "resource") if "/sys/" in word else word for word in command.split()]
        words += ["--times", "1"] if "--watch" in words else []
        assert main(words) == 0
    written = struct.unpack_from(
        "<I", (tmp_path / "resource").read_bytes(), at + registers["PARAMETERS"].offset
    )
    assert written == (wanted,)


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        (b"no such command\xff\x1b[2J: try\r\n", r"no such command\xff\x1b[2J: try"),
        (b"\xff\xfe\x1b[2J\r\n", r"b'\xff\xfe\x1b[2J\r\n'"),
        (" ".join(f"{name}={'9' * 5000}" for name in VALUES).encode() + b" PASS\r\n", "no answer to"),
    ],
)
def test_wrong_bytes_of_a_serial_line_are_one_line(
    answer: bytes, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("inceptionn.boards.access.uart._PATIENCE", 0.5)
    master, slave = os.openpty()
    tty.setraw(slave)

    def serve() -> None:
        os.read(master, 100)
        os.write(master, answer)

    thread = threading.Thread(target=serve)
    thread.start()
    with BringUpBus(SerialLine(Path(os.ttyname(slave)))) as bus, pytest.raises(BusError) as raised:
        bus.read("SECONDS")
    thread.join(20)
    os.close(master)
    os.close(slave)
    assert text in str(raised.value)
    assert str(raised.value).isprintable()

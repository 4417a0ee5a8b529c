# SPDX-License-Identifier: BSD-2-Clause
"""The command line: help, version, errors in one line, exit status."""

import re
import signal
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest
from commands import after_reset
from programs import ended, said_by

from inceptionn import cli
from inceptionn.system.extras import pip_install

CAPTURE = Path(__file__).parents[2] / "examples" / "captures" / "digits.pcap"


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["--version"]) == 0
    assert capsys.readouterr().out == f"inceptionn {version('inceptionn')}\n"


def test_help_lists_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["--help"]) == 0
    out = capsys.readouterr().out
    for name, command in cli.COMMANDS.items():
        assert f"  {name} " in out
        assert command.help in out


@pytest.mark.parametrize("command", cli.COMMANDS)
def test_help_of_each_command(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main([command, "--help"]) == 0
    out = capsys.readouterr().out
    assert out.startswith(f"Usage: inceptionn {command} ")
    assert "--help" in out


def test_help_has_sections(capsys: pytest.CaptureFixture[str]) -> None:
    for words, sections in (
        (["--help"], ["Options", "Host", "Hardware", "Measure"]),
        (["bench", "--help"], ["Options", "Commands"]),
        (["inspect", "--help"], ["Arguments", "Options"]),
        (
            ["pays", "--help"],
            ["Training", "Network", "Compression", "Rates of hosts and devices", "Simulation", "Options"],
        ),
    ):
        assert cli.main(words) == 0
        out = capsys.readouterr().out
        assert re.findall(r"^(\S.*):$", out, re.MULTILINE) == sections, words


def test_help_shows_the_type_of_one_value(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["timing", "--help"]) == 0
    out = capsys.readouterr().out
    assert "components" in out
    assert "list[" not in out


def test_no_arguments_print_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main([]) == 2
    assert "Usage: inceptionn" in capsys.readouterr().out


def test_traceback_on_request() -> None:
    with pytest.raises(NotADirectoryError):
        cli.main(["--traceback", "replay", str(CAPTURE), "--json", "/dev/null/a/out.json"])


def test_long_text_of_a_tool_is_cut(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fails(*command: object) -> None:
        raise RuntimeError("g++ failed\n" + "noise\n" * 20 + "the reason\n")

    monkeypatch.setattr(cli, "_load", fails)
    assert cli.main(["timing"]) == 1
    assert (
        capsys.readouterr().err
        == "inceptionn: g++ failed ... the reason (all of it: inceptionn --traceback ...)\n"
    )


def test_interrupted(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def interrupted(*command: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(cli, "_load", interrupted)
    assert cli.main(["timing"]) == 130
    assert capsys.readouterr().err == "inceptionn: interrupted\n"


@pytest.mark.parametrize(
    ("command", "module", "extra"),
    [("generate", "amaranth", "hdl"), ("timing", "amaranth", "timing"), ("simulate", "cocotb_tools", "sim")],
)
def test_missing_extra_is_named(command: str, module: str, extra: str, tmp_path: Path) -> None:
    arguments = {
        "generate": ["generate", "--board", "vc709", "--out", str(tmp_path)],
        "timing": ["timing"],
        "simulate": ["simulate", "registers", "--no-waves"],
    }[command]
    code = (
        "import sys\nfrom importlib.abc import MetaPathFinder\n"
        "class Missing(MetaPathFinder):\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        f"        if name.split('.')[0] == {module!r}:\n"
        "            raise ModuleNotFoundError(f'No module named {name!r}', name=name)\n"
        "sys.meta_path.insert(0, Missing())\n"
        f"from inceptionn.cli import main\nsys.exit(main({arguments!r}))"
    )
    done = ended(sys.executable, "-c", code)
    assert done.returncode == 2, done.stdout
    assert done.stderr == f"inceptionn: {module} is not installed: {pip_install(extra)}\n"


@pytest.mark.parametrize(
    ("words", "place", "found"),
    [("inceptionn repl", 1, "replay"), ("inceptionn regs counters --wat", 3, "--watch")],
)
def test_the_shell_completes_commands_and_options(words: str, place: int, found: str) -> None:
    asked = {"_INCEPTIONN_COMPLETE": "complete_bash", "COMP_WORDS": words, "COMP_CWORD": str(place)}
    said = said_by(sys.executable, "-c", "from inceptionn.cli import main; main()", **asked)
    assert said.split() == [found]


@pytest.fixture
def bar(tmp_path: Path) -> Path:
    """Return a file that answers as the registers of a NIC after reset."""
    path = tmp_path / "bar"
    path.write_bytes(after_reset())
    return path


@pytest.mark.parametrize(
    ("number", "status", "said"),
    [(signal.SIGINT, 130, "inceptionn: interrupted\n"), (signal.SIGTERM, 143, ""), (signal.SIGHUP, 129, "")],
)
def test_signals_unwind_a_command(number: int, status: int, said: str, bar: Path) -> None:
    """Files that it has not finished are gone then, and processes that it has started."""
    out = bar.with_name("counters.json")
    words = ["regs", "counters", "--bar", str(bar), "--watch", "3600", "--json", str(out)]
    program = [sys.executable, "-u", "-m", "inceptionn.cli", *words]
    with subprocess.Popen(program, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        process.stdout.readline()  # it has begun
        process.send_signal(number)
        try:
            _, error = process.communicate(timeout=60)
        finally:
            process.kill()
    assert (process.returncode, error) == (status, said)
    assert sorted(bar.parent.iterdir()) == [bar]


def test_logging_is_silent_until_it_is_asked_for(bar: Path) -> None:
    """A write to a register is logged by the logger of its module, and by no other way."""
    words = ["regs", "set", "TOS.VALUE", "8", "--bar", str(bar)]
    program = [sys.executable, "-m", "inceptionn.cli"]
    quiet = subprocess.run([*program, *words], capture_output=True, text=True, check=True)
    assert quiet.stderr == ""
    told = subprocess.run([*program, "--log", "info", *words], capture_output=True, text=True, check=True)
    assert "INFO inceptionn.boards.access.bus: TOS: write 0x0000fc08 to 0x014" in told.stderr
    assert cli.main(["--log", "loud", "doctor"]) == 2

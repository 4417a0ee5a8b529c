# SPDX-License-Identifier: BSD-2-Clause
"""The command line, ``inceptionn``.

Each command is part of the package that it belongs to and is imported when it is called, so that
``inceptionn --help`` needs nothing beyond the host package. Exit status: 0; 2 for what the caller can mend
(a usage error, a file that cannot be read or written, a missing package); 130 after Ctrl-C; 1 for any other
error, such as a check that fails. An error is one line on standard error.
"""

from __future__ import annotations

import logging
import re
import sys
from collections.abc import Sequence
from importlib import import_module
from importlib.metadata import version as distribution_version
from typing import Annotated, Any, NamedTuple

import typer
from typer.core import TyperCommand, TyperGroup

from .system.extras import pip_install
from .system.options import one_of
from .system.signals import unwind_on_signals
from .system.text import nearest, printable


class Command(NamedTuple):
    """A command: ``function`` of ``module``; ``extra`` is the pip extra that it needs.

    A group has its subcommands in ``commands``, and neither module nor function.
    """

    module: str
    function: str
    extra: str
    help: str
    commands: dict[str, Command] | None = None


def _bench(module: str, help: str) -> Command:
    """Describe a measurement: the function of its module's name."""
    return Command(f"inceptionn.evaluate.bench.{module}", module.rpartition(".")[2], "bench", help)


def _reproduce(name: str, help: str) -> Command:
    """Describe an artefact of a paper."""
    return Command("inceptionn.evaluate.reproduce.command", name, "bench", help)


HOST = {
    "encode": Command("inceptionn.commands.files", "encode", "plot", "Compress a .npy array into a message."),
    "decode": Command("inceptionn.commands.files", "decode", "plot", "Restore the array from a message."),
    "inspect": Command(
        "inceptionn.commands.files", "inspect", "plot", "Show classes and errors of a message or an array."
    ),
    "tag": Command(
        "inceptionn.tos.process_sockets", "tag_command", "", "Mark another process's TCP connection."
    ),
    "untag": Command(
        "inceptionn.tos.process_sockets", "untag_command", "", "Remove the mark from a connection."
    ),
    "doctor": Command("inceptionn.commands.doctor", "doctor", "", "Report what this host supports."),
}
HARDWARE = {
    "generate": Command("inceptionn.boards.generate", "generate", "hdl", "Write a board's Verilog."),
    "bring-up": Command(
        "inceptionn.boards.bring_up.project", "bring_up", "hdl", "Write a self-test design for a bare board."
    ),
    "inline": Command(
        "",
        "",
        "sim",
        "The inline device: build its bitstream or simulate two of them.",
        {
            "build": Command(
                "inceptionn.boards.inline.build", "build", "timing", "Build the bitstream for a board."
            ),
            "simulate": Command(
                "inceptionn.sim.inline.commands", "simulate", "sim", "Drive a capture through two devices."
            ),
        },
    ),
    "regs": Command(
        "",
        "",
        "",
        "Read and write a NIC's registers.",
        {
            name: Command("inceptionn.boards.access.commands", f"{name}_command", "", text)
            for name, text in (
                ("dump", "Print every register."),
                ("get", "Print a register, field or counter."),
                ("set", "Write a register or field."),
                ("bound", "Set the error bound."),
                ("counters", "Print or watch the counters."),
            )
        },
    ),
    "simulate": Command("inceptionn.sim.simulate", "simulate", "sim", "Run one module's test bench."),
    "replay": Command(
        "inceptionn.sim.replay.replay", "replay", "sim", "Drive captured traffic through the NIC."
    ),
    "cluster": Command(
        "",
        "",
        "sim",
        "Run programs on virtual hosts with NICs in Verilog.",
        {
            "run": Command(
                "inceptionn.sim.cluster.commands", "run", "sim", "Run a program on virtual hosts."
            ),
            "bench": Command("inceptionn.sim.cluster.bench", "bench", "sim", "Measure how fast it is."),
            "clean": Command(
                "inceptionn.sim.cluster.commands", "clean", "sim", "Remove what killed runs left."
            ),
        },
    ),  # fmt: skip
}
MEASURE = {
    "pays": Command("inceptionn.evaluate.pays.command", "pays", "plot", "Predict whether compression pays."),
    "bench": Command(
        "",
        "",
        "bench",
        "Measure the codec, collectives and training systems.",
        {
            "codec": _bench("kernels.codec", "The codec against memcpy and other compressors."),
            "allreduce": _bench("collective.allreduce", "All-reduce between shaped hosts."),
            "calls": _bench("torch.calls", "One all-reduce by size and ranks, and its parts."),
            "trainings": _bench("trainings.trainings", "Bounds, error feedback and scales: loss by bytes."),
            "equal-error": _bench("trainings.equal_error", "Our codecs and others at equal error and bytes."),
            "parallax": _bench("layers.parallax", "Sparse gradients between shaped hosts."),
            "layers": _bench("layers.layers", "Training systems between shaped hosts."),
            "a2dtwp": _bench("layers.a2dtwp", "Weight packing against memcpy; GPU copies."),
            "gradiveq": _bench("layers.gradiveq", "Sums of compressed gradients; training."),
            "torch": Command(
                "inceptionn.evaluate.bench.torch.torch",
                "torch",
                "torch",
                "PyTorch's DDP between shaped hosts.",
            ),
            "slow-links": Command(
                "inceptionn.evaluate.bench.torch.slow_links.slow_links",
                "slow_links",
                "bench",
                "DDP and local updates by loss, bytes and time.",
            ),
            "pays": _bench("collective.pays", "The predictions of pays against measured all-reduces."),
        },
    ),
    "reproduce": Command(
        "",
        "",
        "bench",
        "Reproduce the papers' tables and figures.",
        {
            "all": _reproduce("everything", "All of them, in sequence."),
            "fig4": _reproduce("fig4", "Truncation of g, w and both, and accuracy."),
            "fig5": _reproduce("fig5", "Distribution of gradients during training."),
            "table2": _reproduce("table2", "Time breakdown of a worker-aggregator step."),
            "table3": _reproduce("table3", "Shares of compressed widths."),
            "fig7": _reproduce("fig7", "The cost of compression in software."),
            "fig12": _reproduce("fig12", "WA, WA+C, INC, INC+C."),
            "fig13": _reproduce("fig13", "Epochs to equal accuracy."),
            "fig14": _reproduce("fig14", "Ratio and accuracy by truncation and bound."),
            "fig15": _reproduce("fig15", "Scaling: measured to 8, modelled to 1,024 nodes."),
            "ssd-sgd": _reproduce("ssd-sgd", "SSD-SGD, Table 2: accuracy by delay."),
            "a2dtwp": _reproduce("a2dtwp", "A2DTWP, Table II: parts of a batch."),
            "parallax": _reproduce("parallax", "Parallax, Table 4: throughput by architecture."),
            "gradiveq": _reproduce("gradiveq", "GradiVeQ, Section 4: ratio, accuracy, aggregation."),
        },
    ),
    "scale": Command(
        "inceptionn.sim.scaling", "scale", "sim", "Compute which link a number of engines can carry."
    ),
    "latency": Command("inceptionn.sim.latency", "latency", "sim", "Measure how long a NIC holds a frame."),
    "report": Command(
        "inceptionn.boards.measure.report", "report", "timing", "Report area and clock of every part."
    ),
    "timing": Command(
        "inceptionn.boards.measure.timing", "timing", "timing", "Place and route, and print clock and area."
    ),
}
COMMANDS = HOST | HARDWARE | MEASURE

# Newer versions of typer carry click inside, older ones use the installed one; this finds either's.
_UsageError: Any = typer.BadParameter.__bases__[0]
_ClickException: Any = _UsageError.__bases__[0]

_NUMBERS = {"int": "a whole number", "float": "a number"}
_INTERRUPTED = 130
_BAD_INPUT = (
    ValueError, TypeError, ModuleNotFoundError,
    FileNotFoundError, FileExistsError, IsADirectoryError, NotADirectoryError, PermissionError,
)  # fmt: skip
LOG_LEVELS = ("debug", "info", "warning", "error")
_MOST_LINES = 4


def _load(name: str, command: Command) -> Any:
    """Import the command's module and return Typer's command.

    Raises ``ModuleNotFoundError`` if an extra is missing.
    """
    if command.commands is not None:
        group = typer.Typer(
            cls=_group({"Commands": command.commands}),
            add_completion=False,
            no_args_is_help=True,
            rich_markup_mode=None,
        )
        group.callback(help=command.help)(lambda: None)
        return typer.main.get_command(group)
    function = getattr(import_module(command.module), command.function)
    app = typer.Typer(add_completion=False, rich_markup_mode=None)
    app.command(name, cls=_Command)(function)
    return _with_plain_types(typer.main.get_command(app))


def _with_plain_types(command: Any) -> Any:
    """Let the help of a repeatable parameter show the type of one value: ``<int>`` for ``<list[int]>``."""
    for parameter in command.params:
        if (shown := getattr(parameter, "display_type_rich", None)) is not None:
            parameter.display_type_rich = lambda ctx, shown=shown: (
                None if (text := shown(ctx=ctx)) is None else re.sub(r"list\[(.*)\]", r"\1", text)
            )
    return command


class _Command(TyperCommand):
    """A command whose help has a section for each ``rich_help_panel`` of its options."""

    def format_options(self, ctx: Any, formatter: Any) -> None:
        sections: dict[str, list[tuple[str, str]]] = {}
        for parameter in self.get_params(ctx):
            if (record := parameter.get_help_record(ctx)) is not None:
                usual = "Arguments" if parameter.param_type_name == "argument" else "Options"
                title = getattr(parameter, "rich_help_panel", None) or usual
                sections.setdefault(title, []).append(record)
        for title, records in sections.items():
            with formatter.section(title):
                formatter.write_dl(records)


def _group(sections: dict[str, dict[str, Command]]) -> type[TyperGroup]:
    """Make a group of commands, by the sections of its help.

    For ``--help`` it has names and one line each; a command is loaded when called.
    """
    commands = {name: command for section in sections.values() for name, command in section.items()}
    widest = max(map(len, commands))

    class _Commands(TyperGroup):
        def list_commands(self, ctx: Any) -> list[str]:
            return list(commands)

        def get_command(self, ctx: Any, cmd_name: str) -> Any:
            if cmd_name not in commands:
                return None
            return TyperCommand(cmd_name, help=commands[cmd_name].help)

        def format_commands(self, ctx: Any, formatter: Any) -> None:
            for title, section in sections.items():
                with formatter.section(title):
                    formatter.write_dl([(f"{name:{widest}}", each.help) for name, each in section.items()])

        def resolve_command(self, ctx: Any, args: list[str]) -> Any:
            if args and args[0] not in commands and not args[0].startswith("-"):
                near = nearest(args[0], commands)
                ctx.fail(f"No such command {args[0]!r}{near}; {ctx.command_path} --help lists them.")
            name, found, rest = super().resolve_command(ctx, args)
            return (name, found, rest) if name is None else (name, _load(name, commands[name]), rest)

    return _Commands


app = typer.Typer(
    cls=_group({"Host": HOST, "Hardware": HARDWARE, "Measure": MEASURE}),
    no_args_is_help=True,
    rich_markup_mode=None,
)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"inceptionn {distribution_version('inceptionn')}")
        raise typer.Exit


@app.callback()
def _inceptionn(
    version: bool = typer.Option(
        False, "--version", callback=_print_version, is_eager=True, help="Print the version and exit."
    ),
    traceback: bool = typer.Option(False, "--traceback", help="Show where an error came from."),
    log: Annotated[
        str | None, one_of(LOG_LEVELS, "Log to standard error: {}.", "--log", metavar="LEVEL")
    ] = None,
) -> None:
    """In-network gradient compression: generate, simulate and measure the NIC engines."""
    if log is not None:
        logging.basicConfig(format="%(asctime)s %(levelname)s %(name)s: %(message)s")
        logging.getLogger("inceptionn").setLevel(log.upper())


def _missing_extra(error: ModuleNotFoundError, arguments: Sequence[str]) -> str | None:
    """Return the line that names the pip extra. None if one of our own modules is missing."""
    command, commands = None, COMMANDS
    for word in arguments:
        if word in commands:
            command = commands[word]
            commands = command.commands or {}
    if command is None or error.name is None or error.name.split(".")[0] == "inceptionn":
        return None
    extra = "torch" if error.name == "torch" else command.extra
    return f"{error.name} is not installed: {pip_install(extra)}"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; return the exit status.

    ``arguments`` are those of the process if None. With ``--traceback`` before the command, errors other
    than usage errors are raised.
    """
    if arguments is None:
        unwind_on_signals()
    arguments = sys.argv[1:] if arguments is None else list(arguments)
    try:
        status = typer.main.get_command(app).main(
            args=list(arguments), prog_name="inceptionn", standalone_mode=False
        )
        if status == _INTERRUPTED:  # typer's exit status after Ctrl-C; it prints nothing
            return _fail("interrupted", status)
        return status if isinstance(status, int) else 0
    except typer.Exit as done:
        return done.exit_code
    except (typer.Abort, KeyboardInterrupt):
        return _fail("interrupted", _INTERRUPTED)
    except _UsageError as error:
        if type(error).__name__ == "NoArgsIsHelpError":
            typer.echo(str(error).rstrip())
            return 2
        return _fail(_text(error), 2)
    except Exception as error:
        if "--traceback" in arguments:
            raise
        if isinstance(error, ModuleNotFoundError) and (line := _missing_extra(error, arguments)):
            return _fail(line, 2)
        return _fail(_text(error) or type(error).__name__, 2 if isinstance(error, _BAD_INPUT) else 1)


def _text(error: Any) -> str:
    """Return an exception's text as one line, without what a terminal would obey.

    Of a long one, such as a tool's output, it has the first and the last line.
    """
    text = _usage_text(error) if isinstance(error, _ClickException) else str(error)
    if isinstance(error, OSError) and error.strerror and error.filename is not None:
        text = f"{error.strerror}: {str(error.filename)!r}"
    lines = [" ".join(line.split()) for line in text.splitlines() if line.strip()]
    if len(lines) > _MOST_LINES:
        lines = [lines[0], "...", lines[-1], "(all of it: inceptionn --traceback ...)"]
    return printable(" ".join(lines))


def _usage_text(error: Any) -> str:
    """Return a usage error's text, with the value that is no number, or the option that is near."""
    if hasattr(error, "possibilities"):
        known = [name for each in error.ctx.command.get_params(error.ctx) for name in each.opts]
        return f"No such option: {error.option_name}{nearest(error.option_name, known)}"
    cause = error.__cause__
    if hasattr(cause, "errors"):  # newer versions of typer say what Pydantic does, without the value
        found = cause.errors()[0]
        if kind := _NUMBERS.get(found["type"].partition("_")[0]):
            error.message = f"must be {kind}, not {found['input']!r}"
    text: str = error.format_message()
    return text


def _fail(line: str, status: int) -> int:
    print(f"inceptionn: {line}", file=sys.stderr)
    return status


if __name__ == "__main__":
    sys.exit(main())

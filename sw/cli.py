# SPDX-License-Identifier: BSD-2-Clause
"""The command line, ``inceptionn``.

Each verb lives with the package that it belongs to and is imported by name when it is called, so that
``inceptionn --help`` needs nothing beyond the host package. Exit status: 0, 2 for a usage error, 130 after
Ctrl-C, 1 for any other; an error is one line on standard error.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib import import_module
from importlib.metadata import version as distribution_version
from typing import Any, NamedTuple

import typer
from typer.core import TyperCommand, TyperGroup

from .system.extras import pip_install


class Verb(NamedTuple):
    """Where a verb is: ``function`` of ``module``; ``extra`` is the pip extra that brings what it imports.

    One that only leads to others, ``verbs``, has neither module nor function.
    """

    module: str
    function: str
    extra: str
    help: str
    verbs: dict[str, Verb] | None = None


VERBS = {
    "encode": Verb("inceptionn.commands.files", "encode", "plot", "Compress a .npy array into a message."),
    "decode": Verb("inceptionn.commands.files", "decode", "plot", "Write the array of a message."),
    "inspect": Verb(
        "inceptionn.commands.files", "inspect", "plot", "Classes and errors of a message or an array."
    ),
    "tag": Verb("inceptionn.tos.process_sockets", "tag_verb", "", "Mark another process's TCP connection."),
    "untag": Verb("inceptionn.tos.process_sockets", "untag_verb", "", "Take that mark back."),
    "doctor": Verb("inceptionn.commands.doctor", "doctor", "", "Say what this host can do."),
    "generate": Verb("inceptionn.boards.generate", "generate", "hdl", "Write a board's Verilog."),
    "bring-up": Verb(
        "inceptionn.boards.bring_up.project", "bring_up", "hdl", "Write a bare board's test design."
    ),
    "simulate": Verb("inceptionn.sim.simulate", "simulate", "sim", "Run one module's test bench."),
    "replay": Verb(
        "inceptionn.sim.replay.replay", "replay", "sim", "Drive captured traffic through the NIC."
    ),
    "bench": Verb(
        "",
        "",
        "bench",
        "Measure the codec and the all-reduce.",
        {
            "codec": Verb("inceptionn.bench.codec", "codec", "bench", "The codec against memcpy and others."),
            "allreduce": Verb(
                "inceptionn.bench.allreduce", "allreduce", "bench", "All-reduce between shaped hosts."
            ),
            "parallax": Verb(
                "inceptionn.bench.parallax", "parallax", "bench", "Sparse gradients between shaped hosts."
            ),
            "layers": Verb(
                "inceptionn.bench.layers", "layers", "bench", "Training systems between shaped hosts."
            ),
            "a2dtwp": Verb(
                "inceptionn.bench.a2dtwp", "a2dtwp", "bench", "Packing weights against memcpy; GPU copies."
            ),
            "gradiveq": Verb(
                "inceptionn.bench.gradiveq", "gradiveq", "bench", "Sums of compressed gradients; training."
            ),
            "ssd-sgd": Verb(
                "inceptionn.bench.ssd_sgd", "ssd_sgd", "bench", "SSD-SGD: times by model, accuracy by delay."
            ),
        },
    ),
    "cluster": Verb(
        "",
        "",
        "sim",
        "Run programs on virtual hosts with NICs in Verilog.",
        {
            "run": Verb("inceptionn.sim.cluster.verbs", "run", "sim", "Run a program on virtual hosts."),
            "bench": Verb("inceptionn.sim.cluster.bench", "bench", "sim", "Measure how fast it is."),
            "clean": Verb("inceptionn.sim.cluster.verbs", "clean", "sim", "Remove what killed runs left."),
        },
    ),  # fmt: skip
    "scale": Verb("inceptionn.sim.scaling", "scale", "sim", "Which link how many engines carry."),
    "report": Verb("inceptionn.boards.measure.report", "report", "timing", "Area and clock of every part."),
    "timing": Verb(
        "inceptionn.boards.measure.timing", "timing", "timing", "Place and route; print clock and area."
    ),
}

# Newer versions of typer carry click inside, older ones use the installed one; this finds either's.
_UsageError: Any = typer.BadParameter.__bases__[0]
_ClickException: Any = _UsageError.__bases__[0]

_INTERRUPTED = 130
_MOST_LINES = 4


def _load(name: str, verb: Verb) -> Any:
    """The command of a verb; its module is imported here. ``ModuleNotFoundError`` if an extra is missing."""
    if verb.verbs is not None:
        group = typer.Typer(
            cls=_group(verb.verbs), add_completion=False, no_args_is_help=True, rich_markup_mode=None
        )
        group.callback(help=verb.help)(lambda: None)
        return typer.main.get_command(group)
    function = getattr(import_module(verb.module), verb.function)
    app = typer.Typer(add_completion=False, rich_markup_mode=None)
    app.command(name)(function)
    return typer.main.get_command(app)


def _group(verbs: dict[str, Verb]) -> type[TyperGroup]:
    """A group of verbs: names and one line each for ``--help``, the real command once one is called."""

    class _Verbs(TyperGroup):
        def list_commands(self, ctx: Any) -> list[str]:
            return list(verbs)

        def get_command(self, ctx: Any, cmd_name: str) -> Any:
            if cmd_name not in verbs:
                return None
            return TyperCommand(cmd_name, help=verbs[cmd_name].help)

        def resolve_command(self, ctx: Any, args: list[str]) -> Any:
            name, found, rest = super().resolve_command(ctx, args)
            return (name, found, rest) if name is None else (name, _load(name, verbs[name]), rest)

    return _Verbs


app = typer.Typer(cls=_group(VERBS), add_completion=False, no_args_is_help=True, rich_markup_mode=None)


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
) -> None:
    """In-network gradient compression: generate, simulate and measure the NIC engines."""


def _missing_extra(error: ModuleNotFoundError, arguments: Sequence[str]) -> str | None:
    """The line that names the pip extra, or None if it is one of our own modules that is missing."""
    verb, verbs = None, VERBS
    for word in arguments:
        if word in verbs:
            verb = verbs[word]
            verbs = verb.verbs or {}
    if verb is None or error.name is None or error.name.split(".")[0] == "inceptionn":
        return None
    return f"{error.name} is not installed: {pip_install(verb.extra)}"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; return the exit status.

    ``arguments`` are those of the process if None. With ``--traceback`` in front of the verb, errors other
    than usage errors are raised.
    """
    arguments = sys.argv[1:] if arguments is None else list(arguments)
    try:
        status = typer.main.get_command(app).main(
            args=list(arguments), prog_name="inceptionn", standalone_mode=False
        )
        if status == _INTERRUPTED:  # typer's own answer to Ctrl-C, without a word
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
            return _fail(line, 1)
        return _fail(_text(error) or type(error).__name__, 1)


def _text(error: Any) -> str:
    """An exception's text as one line; of a long one, such as a tool's output, the first and the last."""
    text: str = error.format_message() if isinstance(error, _ClickException) else str(error)
    if isinstance(error, OSError) and error.strerror and error.filename is not None:
        text = f"{error.strerror}: {str(error.filename)!r}"
    lines = [" ".join(line.split()) for line in text.splitlines() if line.strip()]
    if len(lines) > _MOST_LINES:
        lines = [lines[0], "...", lines[-1], "(all of it: inceptionn --traceback ...)"]
    return " ".join(lines)


def _fail(line: str, status: int) -> int:
    print(f"inceptionn: {line}", file=sys.stderr)
    return status


if __name__ == "__main__":
    sys.exit(main())

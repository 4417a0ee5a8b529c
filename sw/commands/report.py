# SPDX-License-Identifier: BSD-2-Clause
"""Shared by all measurements: their options, and the lists with commas that some of these take."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from ..netns import bits_per_second
from ..system.options import one_of, regular
from ..system.options import whole as whole
from ..system.text import nearest
from .codec_option import bound

Bound = Annotated[int, bound("Error bound 2**-k.")]
Seed = Annotated[int, whole(0, 2**32 - 1, "Of the data.")]
FirstSeed = Annotated[int, whole(0, 2**31, "Of the first training; each further one has the next.")]

NpyFile = Annotated[
    Path | None,
    typer.Option(
        "--file", metavar="NPY", exists=True, callback=regular,
        help="Measure with these values instead, of float32 or of 16 bits.",
    ),
]  # fmt: skip


def listed(text: str, *names: str, **options: Any) -> Any:
    """Make an option for a list with commas, which `words`, `choices`, `numbers` or `rates` read."""
    return typer.Option(*names, metavar="LIST", help=text, **options)


def some_of(names: Iterable[str], show_default: str = "all of them") -> Any:
    """Make an option for a list of names, all of them by default."""
    return listed(f"Of {', '.join(names)}.", show_default=show_default)


def type_of(types: Collection[str], text: str) -> Any:
    """Make an option for a type of values. The help names the types where ``text`` has {}."""
    return one_of(types, f"Type of the {text}", metavar="TYPE")


def quick(**defaults: Any) -> Any:
    """Make the option ``--quick``. It sets other defaults; options that the user gives override them."""
    text = "Less data and fewer repeats by default: a first look, not a measurement."
    return _other_defaults("--quick", text, defaults)


def full(**defaults: Any) -> Any:
    """Make the option ``--full``, which sets other defaults, as `quick` does."""
    return _other_defaults("--full", "All that the recorded figures have, by default: long.", defaults)


def _other_defaults(name: str, text: str, defaults: Mapping[str, Any]) -> Any:
    def apply(ctx: typer.Context, wanted: bool) -> bool:
        if wanted:
            ctx.default_map = {**(ctx.default_map or {}), **defaults}
        return wanted

    return typer.Option(name, callback=apply, is_eager=True, help=text)


def words(text: str, option: str, what: str) -> list[str]:
    """Return the words of a list with commas, each once.

    A usage error, of an empty list, names the option and ``what`` it takes.
    """
    found = [word.strip() for word in text.split(",") if word.strip()]
    if not found:
        raise typer.BadParameter(f"{option} takes one or more {what}, not {text!r}")
    return list(dict.fromkeys(found))


def choices(text: str, allowed: Sequence[str], option: str) -> list[str]:
    """Return the words of a list with commas, each once. A usage error names one that is not allowed."""
    found = words(text, option, f"of {', '.join(allowed)}")
    for word in found:
        if word not in allowed:
            hint = nearest(word, allowed)
            raise typer.BadParameter(f"{option} takes {', '.join(allowed)}, not {word!r}{hint}")
    return found


def numbers(text: str, least: int, most: int, option: str) -> list[int]:
    """Return the whole numbers of a list with commas, ascending, each once.

    A usage error names one that is not ``least`` to ``most``.
    """
    found = words(text, option, "numbers")
    for word in found:
        if not word.isdecimal() or not least <= int(word) <= most:
            raise typer.BadParameter(f"{option} takes whole numbers of {least}..{most}, not {word!r}")
    return sorted(set(map(int, found)))


def rate(text: str, option: str = "--rate") -> float:
    """Return the bits per second of a text; a usage error names the option."""
    try:
        return bits_per_second(text)
    except ValueError as error:
        raise typer.BadParameter(f"{option}: {error}") from error


def rates(text: str) -> list[float]:
    """Return the rates of a list with commas, ascending, each once. A usage error names the wrong one."""
    return sorted({rate(word, "--rates") for word in words(text, "--rates", "rates")})

# SPDX-License-Identifier: BSD-2-Clause
"""The option ``--with``: a codec of the user's own, compared with this package's."""

import os
import sys
from importlib import import_module
from typing import Annotated, Any

import typer

from ..collectives.values.stream_codec import StreamCodec, examine
from ..system.text import nearest, printable

UserCodec = Annotated[
    str | None,
    typer.Option("--with", metavar="MODULE:CLASS", help="Compare a codec of your own, a StreamCodec, too."),
]


def user_codec(text: str | None) -> StreamCodec | None:
    """Load and examine the codec of ``--with``; None for None.

    Modules are also searched in the current folder. ``MODULE:CLASS`` names a class that needs no arguments, a
    function that returns a codec, or a codec. Raises ``typer.BadParameter`` for anything else.
    """
    if text is None:
        return None
    module, colon, name = text.partition(":")
    if not (module and colon and name):
        raise typer.BadParameter(f"--with must be MODULE:CLASS, not {text!r}")
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    try:
        found: Any = import_module(module)
        for part in name.split("."):
            if not hasattr(found, part):
                raise AttributeError(f"{found!r} has no attribute {part!r}{nearest(part, vars(found))}")
            found = getattr(found, part)
        codec: StreamCodec = found if hasattr(found, "compress") and not isinstance(found, type) else found()
        examine(codec)
    except (Exception, SystemExit) as error:  # whatever the user's code raises; it may be a script that exits
        said = printable(f"--with {text}: {type(error).__name__}: {error}")
        raise typer.BadParameter(said) from error
    return codec

# SPDX-License-Identifier: BSD-2-Clause
"""Text files that ``inceptionn generate`` fills in (``*.j2``) or copies.

Those of all boards are here, those of one board in its folder.
"""

from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Any

from jinja2 import Environment, FunctionLoader, StrictUndefined


def text(name: str) -> str:
    """Return the text of a file of this package, or of a board's as ``"vc709/readme.md.j2"``.

    Raises ``FileNotFoundError`` for a name that is not there.
    """
    folder = files(__package__) if "/" not in name else files("inceptionn.boards")
    return (folder / name).read_text(encoding="utf-8")


@cache
def _environment() -> Environment:
    return Environment(
        loader=FunctionLoader(text), undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True,
        keep_trailing_newline=True, autoescape=False,
    )  # fmt: skip


def render(name: str, context: Mapping[str, Any]) -> str:
    """Fill in the template ``name``.

    ``jinja2.UndefinedError`` for a name that ``context`` lacks.
    """
    return _environment().get_template(name).render(context)

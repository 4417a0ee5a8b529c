# SPDX-License-Identifier: BSD-2-Clause
"""Text and values of other programs, as one line that a terminal shows and does not obey."""

from collections.abc import Iterable
from difflib import get_close_matches
from typing import Any

LONGEST = 1000
"""Characters of one value in a message."""


def printable(text: object, kept: str = "") -> str:
    """Return the text of a value, such as a path, as one line.

    Characters that are not printable become Python's escapes, such as ``\\x1b``, except those ``kept``.
    """
    return "".join(one if one.isprintable() or one in kept else ascii(one)[1:-1] for one in str(text))


def brief(value: Any) -> str:
    """Return ``repr(value)``, shortened to `LONGEST` characters. Works for whole numbers of any length."""
    if isinstance(value, int) and value.bit_length() > LONGEST:
        return f"a whole number of {value.bit_length()} bits"
    try:
        text = repr(value)
    except ValueError:  # Python refuses to write whole numbers of more than 4,300 digits
        return f"a {type(value).__name__} with a whole number of too many digits"
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 3]}..."


def nearest(name: str, known: Iterable[str]) -> str:
    """Return `` (did you mean 'ring'?)`` for what begins a known name or is close to one, else nothing."""
    known, name = list(known), name.lower()
    begun = [each for each in known if len(name) > 2 and each.startswith(name)]
    found = begun or get_close_matches(name, known, 1)
    return f" (did you mean {found[0]!r}?)" if found else ""

# SPDX-License-Identifier: BSD-2-Clause
"""Timing constraints as package data: ``read("crossings.tcl")``."""

from importlib.resources import files


def read(name: str) -> str:
    """Return a constraints file's text; raise ``FileNotFoundError`` for a name that is not there."""
    return (files(__name__) / name).read_text(encoding="utf-8")

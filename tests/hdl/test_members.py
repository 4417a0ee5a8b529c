# SPDX-License-Identifier: BSD-2-Clause
"""Every component's docstring lists the ports that its signature has."""

from __future__ import annotations

import inspect
import re
import warnings

import pytest
from amaranth.hdl import UnusedElaboratable

from inceptionn.hdl.catalogue import CATALOGUE


def documented(docstring: str) -> dict[str, bool]:
    """Names in the section "Members", and whether each is there only with some parameter."""
    _, _, section = inspect.cleandoc(docstring).partition("\nMembers\n-------\n")
    entries = re.findall(r"^(\S[^:\n]*)(?:: .*)?\n?((?:    .*\n?)*)", section, re.MULTILINE)
    return {name: "With ``" in text for head, text in entries for name in re.findall(r"\w+", head)}


@pytest.mark.parametrize("name", CATALOGUE)
def test_members_are_documented(name: str) -> None:
    ports: set[str] = set()
    entry = CATALOGUE[name]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UnusedElaboratable)
        for variant in range(len(entry.variants)):
            ports |= entry.make(variant).signature.members.keys()
    classes = [cls for cls in entry.factory.__mro__ if "\nMembers\n" in inspect.cleandoc(cls.__doc__ or "")]
    members = documented(classes[0].__doc__ or "")
    assert ports <= members.keys()
    assert all(members[other] for other in members.keys() - ports), members.keys() - ports

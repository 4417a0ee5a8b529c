# SPDX-License-Identifier: BSD-2-Clause
"""Every member of a component has a sentence where it is declared; the documentation shows it."""

import inspect
import warnings
from importlib import import_module
from pathlib import Path
from pkgutil import walk_packages
from runpy import run_path

import pytest
from amaranth.hdl import UnusedElaboratable
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

import inceptionn.boards
import inceptionn.hdl
from inceptionn.hdl.catalogue import CATALOGUE

member_texts = run_path(str(Path(__file__).parents[2] / "docs" / "members.py"))["member_texts"]
PACKAGES = (inceptionn.hdl, inceptionn.boards)
MODULES = [
    found.name
    for package in PACKAGES
    for found in walk_packages(package.__path__, f"{package.__name__}.")
    if not found.ispkg
]


@pytest.mark.parametrize("name", CATALOGUE)
def test_every_port_has_its_sentence(name: str) -> None:
    entry = CATALOGUE[name]
    ports: set[str] = set()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UnusedElaboratable)
        for variant in range(len(entry.variants)):
            ports |= entry.make(variant).signature.members.keys()
    assert isinstance(entry.factory, type)
    described = {member.name for member in member_texts(entry.factory) if member.sentence}
    assert ports - described == set()


def test_no_declaration_lacks_its_sentence() -> None:
    classes = [
        cls
        for module in MODULES
        for cls in vars(import_module(module)).values()
        if inspect.isclass(cls) and issubclass(cls, wiring.Component) and cls.__module__ == module
    ]
    assert classes
    for cls in classes:
        assert {member.name for member in member_texts(cls) if not member.sentence} == set(), cls
        assert "\nMembers\n" not in inspect.cleandoc(cls.__doc__ or ""), cls


class Sum(wiring.Component):
    """A component for :func:`test_comments_become_sentences`."""

    a: In(8)  #: First summand.
    #: Second summand. It may change
    #: in any cycle.
    b: In(8)
    c: In(8)
    unit: str


class Sums(Sum):
    def __init__(self, ports: int, *, extra: bool) -> None:
        self.width = ports
        port = Out(self.width)
        members = {f"sum{n}": port.array(2) for n in range(ports)}  #: Of port *n*.
        if extra:
            #: With ``extra``.
            members["extra"] = In(1).flip()
        super().__init__(members)


def test_comments_become_sentences() -> None:
    assert member_texts(Sums) == [
        ("a", "In(8)", "First summand."),
        ("b", "In(8)", "Second summand. It may change in any cycle."),
        ("c", "In(8)", ""),
        ("sum{n}", "Out(width).array(2)", "Of port *n*."),
        ("extra", "In(1).flip()", "With ``extra``."),
    ]

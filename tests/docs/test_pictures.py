# SPDX-License-Identifier: BSD-2-Clause
"""The pictures in docs/images, and the bytes that pages show, are those that docs/pictures.py makes."""

import re
from pathlib import Path
from xml.etree import ElementTree

import drawing
import example_bytes
import pictures
import pytest
from refusals import refused

ROOT = Path(__file__).parents[2]
SHOWING = (ROOT / "README.md", *(ROOT / "docs").glob("*.md"))
PAGES = "\n".join(path.read_text(encoding="utf-8") for path in SHOWING)
TEXTS = pictures.texts()


@pytest.mark.parametrize("path", TEXTS, ids=lambda path: path.name)
def test_file_is_what_the_script_makes(path: Path) -> None:
    assert path.read_text(encoding="utf-8") == TEXTS[path], "run python docs/pictures.py"


@pytest.mark.parametrize("name", pictures.PICTURES)
def test_picture_is_shown_and_described(name: str) -> None:
    assert re.search(rf"!\[[^\]]+\]\((docs/)?images/{name}\.svg\)", PAGES)
    described = ElementTree.parse(pictures.IMAGES / f"{name}.svg").getroot()
    assert all(described.findtext(f"{{http://www.w3.org/2000/svg}}{tag}") for tag in ("title", "desc"))


def test_every_block_of_bytes_is_shown() -> None:
    assert {name for _, name in example_bytes.BLOCK.findall(PAGES)} == set(example_bytes.BLOCKS)
    assert {name for _, name in example_bytes.VALUE.findall(PAGES)} == set(example_bytes.sizes())


def test_text_without_room_is_refused() -> None:
    picture = drawing.Picture("p", "d", 40)
    refused(ValueError, "'wide'", picture.box, 0, 0, 20, 20, "head", ["wide"])
    refused(ValueError, "'edge'", picture.text, drawing.WIDTH - 10, 20, "edge")
    refused(ValueError, "'small'", picture.text, 20, 20, "small", size=9)
    picture.text(20, 20, "one")
    picture.text(20, 38, "low")
    refused(ValueError, "above 40", picture.svg)
    picture.text(25, 20, "two")
    refused(ValueError, "overlaps", picture.svg)

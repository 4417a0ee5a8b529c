# SPDX-License-Identifier: BSD-2-Clause
"""Every relative link of the documents leads to a file, and every anchor to a heading."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
FOLDERS = ("docs", "examples", "tests", "hdl", "sim", "sw", "boards", "constraints")
PAGES = sorted([*ROOT.glob("*.md"), *(page for folder in FOLDERS for page in (ROOT / folder).rglob("*.md"))])
LONGEST_LINE = 120

_FENCE = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"\]\(([^()\s]+)\)")
_HEADING = re.compile(r"^#+ (.*)$", re.MULTILINE)


def _text(page: Path) -> str:
    """Return the page without its blocks of code."""
    return _FENCE.sub("", page.read_text(encoding="utf-8"))


def _anchors(page: Path) -> set[str]:
    """Return the anchors that GitHub makes of the page's headings."""
    headings = (re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", heading) for heading in _HEADING.findall(_text(page)))
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def _broken(page: Path) -> list[str]:
    broken = []
    for link in _LINK.findall(_text(page)):
        if re.match(r"[a-z]+:", link):
            continue  # another site
        name, _, anchor = link.partition("#")
        target = (page.parent / name).resolve() if name else page
        if not target.exists() or (anchor and anchor not in _anchors(target)):
            broken.append(link)
    return broken


def test_links() -> None:
    assert [(page, link) for page in PAGES for link in _broken(page)] == []


def test_length_of_lines() -> None:
    lines = ((page, line) for page in PAGES for line in _text(page).splitlines())
    assert [(p, line) for p, line in lines if len(line) > LONGEST_LINE and not line.startswith("|")] == []


def test_broken_links_are_found(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        "# One, `two`\n\n[a](#one-two) [b](#three) [c](none.md) [d](page.md#one-two) [e](https://x.y/z)\n"
    )
    assert _broken(page) == ["#three", "none.md"]

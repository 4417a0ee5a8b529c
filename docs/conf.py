# SPDX-License-Identifier: BSD-2-Clause
"""Sphinx's settings: `make docs` builds the pages of this folder into build/docs, warnings as errors."""

import inspect
import json
import pkgutil
import re
from importlib import import_module
from importlib.metadata import version as distribution_version
from pathlib import Path
from runpy import run_path
from typing import Any

from docutils import nodes
from docutils.parsers.rst import Directive
from sphinx.application import Sphinx

HERE = Path(__file__).parent
ASSURANCE = run_path(str(HERE / "assurance.py"))["TABLES"]
member_texts = run_path(str(HERE / "members.py"))["member_texts"]

project = "inceptionn"
copyright = "the inceptionn maintainers, BSD-2-Clause"
release = version = distribution_version("inceptionn")
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinx_copybutton"]
exclude_patterns = ["README.md"]
nitpicky = False
suppress_warnings = ["ref.python"]  # a docstring's short name may fit a class of either codec
default_role = "code_text"

html_theme = "furo"
html_title = f"inceptionn {release}"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_theme_options = {"navigation_with_keys": True}
html_show_sphinx = False

myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 4
copybutton_prompt_text = r"[$#] "
copybutton_prompt_is_regexp = True

autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_mock_imports = ["torch", "mpi4py"]
autodoc_inherit_docstrings = False
napoleon_google_docstring = False
napoleon_custom_sections = [("Members", "params_style"), ("Attributes", "params_style")]
napoleon_use_param = False
napoleon_use_rtype = False
OUTSIDE = {
    "../CONTRIBUTING.md": "contributing.md",
    "../CHANGELOG.md": "changelog.md",
    "../SECURITY.md": "security.md",
    "../examples/README.md": "examples.md",
    "../tests/vectors/README.md": "vectors.md",
}
"""Pages of the repository outside of this folder, and where the site includes them."""


class WaveDrom(Directive):
    """A timing diagram (WaveJSON), drawn without network by yowasp-wavedrom; the argument describes it."""

    has_content = True
    required_arguments = 1
    final_argument_whitespace = True

    def run(self) -> list[nodes.Node]:
        import yowasp_wavedrom

        try:
            drawing = yowasp_wavedrom.render(json.loads("\n".join(self.content)))
        except ValueError as error:
            raise self.error(f"no WaveJSON: {error}") from error
        described = drawing.replace("<svg ", f'<svg role="img" aria-label="{self.arguments[0]}" ', 1)
        html = f'<figure class="wavedrom">{described}<figcaption>{self.arguments[0]}</figcaption></figure>'
        return [nodes.raw("", html, format="html")]


def _code(
    name: str, rawtext: str, text: str, lineno: int, inliner: Any, options: Any = None, content: Any = None
) -> tuple[list[nodes.Node], list[nodes.system_message]]:
    """Show single back-quotes in docstrings, and the role py, as code."""
    return [nodes.literal(rawtext, text)], []


def _links(app: Sphinx, name: str, content: list[str]) -> None:
    """Turn links that lead out of this folder, as the repository shows them, into those of the site."""
    text = content[0]
    for outside, inside in OUTSIDE.items():
        text = text.replace(f"]({outside}", f"]({inside}")
    # A link that shows a file name shows the page's title.
    text = re.sub(r"\[[\w-]+\.md\]\(([\w-]+\.md(?:#[\w-]+)?)\)", r"[](\1)", text)
    text = re.sub(r"^@modules (\S+)$", lambda match: _reference(match[1]), text, flags=re.MULTILINE)
    content[0] = re.sub(r"^@assurance (\S+)$", lambda match: ASSURANCE[match[1]](), text, flags=re.MULTILINE)


def _reference(name: str) -> str:
    """Write the documentation of a module, or of a package's modules for ``package.*``."""
    names = [name]
    if name.endswith(".*"):
        package = import_module(name.removesuffix(".*"))
        found = (found.name for found in pkgutil.iter_modules(package.__path__) if not found.ispkg)
        names = [f"{package.__name__}.{module}" for module in found if not module.startswith("_")]
    lines = []
    for module in names:
        lines += [f"## {module.rpartition('.')[2]}", "", "```{eval-rst}", f".. automodule:: {module}"]
        lines += ["   :members:", "   :show-inheritance:", "```", ""]
    return "\n".join(lines)


def _signature(
    app: Sphinx, what: str, name: str, thing: Any, options: Any, signature: str | None,
    returns: str | None,
) -> tuple[str, str | None] | None:  # fmt: skip
    """Show the arguments of ``__init__``: Amaranth's components take theirs through a metaclass."""
    if what != "class" or "src_loc_at" not in (signature or ""):
        return None
    _, *parameters = inspect.signature(thing.__init__).parameters.values()
    shown = inspect.Signature([one for one in parameters if one.name != "src_loc_at"])
    return str(shown), returns


def _prose_after_parameters(
    app: Sphinx, what: str, name: str, thing: Any, options: Any, lines: list[str]
) -> None:
    """Give text after the parameters a heading, which ends a section of NumPy's form."""
    found, inside = list[str](), False
    for at, line in enumerate(lines):
        after = lines[at + 1] if at + 1 < len(lines) else ""
        if re.fullmatch("-{3,}", after):
            inside = line in ("Parameters", "Members", "Attributes")
        elif inside and line and not line.startswith(" ") and not lines[at - 1] and not after.startswith(" "):
            found += ["Notes", "-----"]
            inside = False
        found.append(line)
    lines[:] = found


def _members(app: Sphinx, what: str, name: str, thing: Any, options: Any, lines: list[str]) -> None:
    """Add the section "Members", from the comments at the members' declarations."""
    members = member_texts(thing) if what == "class" and inspect.isclass(thing) else []
    if members:
        lines += ["", "Members", "-------"]
        for member in members:
            lines += [f"{member.name} : :py:`{member.declaration}`", f"    {member.sentence}"]
        lines.append("")


def _shown_once(app: Sphinx, what: str, name: str, thing: Any, skip: bool, options: Any) -> bool | None:
    """Skip an annotation with a comment ``#:``, which is a member already and no attribute."""
    if what != "class":
        return None
    here = app.env.temp_data
    owner = getattr(import_module(here["autodoc:module"]), here["autodoc:class"])
    return name in {member.name for member in member_texts(owner)} or None


def _included(app: Sphinx, relative_path: Path, parent: str, content: list[str]) -> None:
    """Make links of an included page, which are relative to that page, those of the site."""
    folder = (HERE / relative_path).resolve().parent if str(relative_path).startswith("..") else HERE
    root = HERE.parent

    def moved(match: re.Match[str]) -> str:
        target, anchor = match[2], match[3] or ""
        path = (root / target).resolve() if (root / target).exists() else (folder / target).resolve()
        if path.is_relative_to(HERE):
            return f"{match[1]}({path.relative_to(HERE)}{anchor})"
        outside = f"../{path.relative_to(root)}" if path.is_relative_to(root) else target
        return f"{match[1]}({OUTSIDE.get(outside, outside)}{anchor})"

    content[0] = re.sub(r"(\])\((?!https?:|#)([^)#\s]+)(#[^)]*)?\)", moved, content[0])


def setup(app: Sphinx) -> None:
    """Register the directive, the role and the hooks."""
    app.add_directive("wavedrom", WaveDrom)
    for role in ("code_text", "py"):
        app.add_role(role, _code)
    app.connect("autodoc-process-signature", _signature)
    app.connect("autodoc-process-docstring", _prose_after_parameters, priority=100)  # before napoleon's
    app.connect("autodoc-process-docstring", _members, priority=101)
    app.connect("autodoc-skip-member", _shown_once)
    app.connect("source-read", _links)
    app.connect("include-read", _included)

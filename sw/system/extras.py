# SPDX-License-Identifier: BSD-2-Clause
"""The command that installs an extra, as messages name it for this installation."""

import json
import shutil
import sys
from importlib.metadata import distributions
from pathlib import Path
from shlex import quote
from typing import Any
from urllib.parse import unquote, urlsplit


def pip_install(extra: str) -> str:
    """Return the shell command that installs an extra of this package into this interpreter's environment.

    It installs from the package's origin (PEP 610): the package index, a repository, or a folder (editable if
    it was). ``pip`` is named by its interpreter where the shell would find another one.
    """
    beside = shutil.which("pip", path=str(Path(sys.executable).parent))
    pip = "pip" if beside and beside == shutil.which("pip") else f"{quote(sys.executable)} -m pip"
    # A build leaves an egg-info in its folder, which says nothing of where the package came from.
    found = [each for each in distributions(name="inceptionn") if each.read_text("METADATA")]
    try:
        origin: dict[str, Any] = json.loads(found[0].read_text("direct_url.json") or "{}") if found else {}
    except ValueError:
        origin = {}
    url = origin.get("url", "")
    if url.startswith("file:"):
        editable = "-e " if origin.get("dir_info", {}).get("editable") else ""
        return f"{pip} install {editable}{quote(f'{unquote(urlsplit(url).path)}[{extra}]')}"
    where = f" @ {origin['vcs_info']['vcs']}+{url}" if "vcs_info" in origin else ""
    return f"{pip} install {quote(f'inceptionn[{extra}]{where}')}"

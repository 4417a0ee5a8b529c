# SPDX-License-Identifier: BSD-2-Clause
"""Other names for a folder's modules and files, so that one design can hold two NICs of different options."""

import re
from collections.abc import Mapping

DEFAULT_PREFIX = "inceptionn"
_NAME = re.compile(rf"\b{DEFAULT_PREFIX}_")


def check_prefix(prefix: str) -> str:
    """Return ``prefix``. Raise ``ValueError`` unless it can begin a Verilog name."""
    if not re.fullmatch(r"[A-Za-z][A-Za-z0-9_]*", prefix):
        raise ValueError(f"prefix must be letters, digits and _, a letter first, not {prefix!r}")
    return prefix


def rename(text: str, prefix: str) -> str:
    """Put ``PREFIX_`` in place of every ``inceptionn_`` that begins a name in ``text``."""
    return _NAME.sub(f"{prefix}_", text)


def renamed(files: Mapping[str, str], prefix: str) -> dict[str, str]:
    """Put ``PREFIX_`` in place of ``inceptionn_`` in every module's and file's name of the folder.

    The texts that refer to them follow. Modules that another design names (Corundum's ``mqnic_app_block``)
    have no such prefix and keep their names.
    """
    return {rename(name, prefix): rename(text, prefix) for name, text in files.items()}

# SPDX-License-Identifier: BSD-2-Clause
"""The variants of simulated NICs that the options ``--codec``, ``--bf16`` and ``--lanes`` select."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated

import typer

from inceptionn.commands.codec_option import check_bf16

from .nic_codec import INLINE_LANES, NIC_VARIANTS


def _lanes(number: int) -> int:
    if number not in INLINE_LANES:
        raise typer.BadParameter(f"must be {' or '.join(map(str, INLINE_LANES))}, not {number}")
    return number


LanesOption = Annotated[
    int, typer.Option("--lanes", metavar="N", help="Lanes of each engine, 1 or 8.", callback=_lanes)
]
"""The option ``--lanes`` of what simulates inline devices."""


def variants(words: Sequence[str], bf16: bool) -> list[str]:
    """Return these words of `NIC_VARIANTS`; with ``bf16`` those that have bf16 lanes, too.

    A codec without such lanes is then a usage error.
    """
    for word in words:
        check_bf16(NIC_VARIANTS[word].name, bf16)
    return [replace(NIC_VARIANTS[word], bf16=True).variant for word in words] if bf16 else list(words)

# SPDX-License-Identifier: BSD-2-Clause
"""The variants of simulated NICs that the options ``--codec`` and ``--half`` select."""

from collections.abc import Sequence
from dataclasses import replace

from inceptionn.commands.codec_option import check_half

from .nic_codec import NIC_VARIANTS


def variants(words: Sequence[str], half: bool) -> list[str]:
    """Return these words of `NIC_VARIANTS`; with ``half`` those that have bf16 lanes, too.

    A codec without such lanes is then a usage error.
    """
    for word in words:
        check_half(NIC_VARIANTS[word].name, half)
    return [replace(NIC_VARIANTS[word], half=True).variant for word in words] if half else list(words)

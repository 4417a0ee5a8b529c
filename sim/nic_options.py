# SPDX-License-Identifier: BSD-2-Clause
"""The variants of simulated NICs that the options ``--codec`` and ``--bf16`` select."""

from collections.abc import Sequence
from dataclasses import replace

from inceptionn.commands.codec_option import check_bf16

from .nic_codec import NIC_VARIANTS


def variants(words: Sequence[str], bf16: bool) -> list[str]:
    """Return these words of `NIC_VARIANTS`; with ``bf16`` those that have bf16 lanes, too.

    A codec without such lanes is then a usage error.
    """
    for word in words:
        check_bf16(NIC_VARIANTS[word].name, bf16)
    return [replace(NIC_VARIANTS[word], bf16=True).variant for word in words] if bf16 else list(words)

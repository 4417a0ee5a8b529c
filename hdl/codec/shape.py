# SPDX-License-Identifier: BSD-2-Clause
"""The shape of an engine: what is chosen when it is built."""

from __future__ import annotations

from dataclasses import dataclass

from inceptionn.wire import BF16_CODECS, GROUP_LANES

from ..parts.width import Width
from .codecs import CODECS, PAPER, LaneCodec, codec_of


@dataclass(frozen=True)
class EngineShape(Width):
    """The width of an engine, 1, 8 or 16 fp32 lanes, and its codec, given whole to its components."""

    codec: LaneCodec = CODECS[PAPER]

    @classmethod
    def of(cls, lanes: int = GROUP_LANES, codec: str = PAPER, bf16: bool = False) -> EngineShape:
        """Make a shape of 1, 8 or 16 lanes and the named codec; ``ValueError`` for any other.

        ``bf16``: with bf16 lanes, too, which not every codec has.
        """
        return cls(lanes, bf16, codec_of(codec))

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.bf16 and self.codec.name not in BF16_CODECS:
            raise ValueError(f"bf16 lanes need the codec {' or '.join(BF16_CODECS)}, not {self.codec.name!r}")


USUAL = EngineShape()
"""8 lanes and the paper's codec."""

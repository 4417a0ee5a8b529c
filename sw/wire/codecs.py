# SPDX-License-Identifier: BSD-2-Clause
"""All codecs by name, and their variants."""

from difflib import get_close_matches
from typing import NamedTuple

from . import paper, planes
from .codec import DEFAULT_MODE, CodecName, CodecSpec, Mode

CODECS: dict[str, CodecSpec] = {spec.name: spec for spec in (paper.SPEC, planes.SPEC)}
"""By name, in the order of their versions."""
DEFAULT_CODEC: CodecName = "paper"
BF16_CODECS = tuple(name for name, spec in CODECS.items() if spec.bf16_lanes)
"""Those with bf16 lanes, too."""


def codec_spec(name: str) -> CodecSpec:
    """Return the codec of this name; ``ValueError`` for any other."""
    for spec in CODECS.values():
        if spec.name == name:
            return spec
    near = get_close_matches(str(name), CODECS, 1)
    hint = f" (did you mean {near[0]!r}?)" if near else ""
    raise ValueError(f"codec must be one of {', '.join(CODECS)}, not {name!r}{hint}")


class Variant(NamedTuple):
    """A codec and, where it has modes, one of them."""

    codec: CodecName
    mode: Mode | None

    @property
    def name(self) -> str:
        """One word for both, as the names of codecs and tables use it."""
        return self.mode or self.codec


VARIANTS = tuple(Variant(spec.name, mode) for spec in CODECS.values() for mode in spec.modes or (None,))
"""All codecs in all their modes: literal, bounded, planes."""
DEFAULTS = tuple(Variant(spec.name, spec.mode_of(None)) for spec in CODECS.values())
"""All codecs, each in its default mode."""
BOUNDED, PLANES = (Variant("paper", DEFAULT_MODE), Variant("planes", None))


def variant(name: str) -> Variant:
    """Return the variant of this name; ``ValueError`` for any other."""
    for each in VARIANTS:
        if each.name == name:
            return each
    raise ValueError(f"a codec's variant is one of {', '.join(v.name for v in VARIANTS)}, not {name!r}")

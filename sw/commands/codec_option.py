# SPDX-License-Identifier: BSD-2-Clause
"""The options ``--codec``, ``--mode``, ``--bound`` and ``--bf16``: the same words in every command."""

import re
from typing import Annotated, Any

import typer

from ..system.options import one_of, usage_error, whole
from ..wire import (
    BF16_CODECS,
    BOUNDED,
    CODECS,
    DEFAULT_MODE,
    MAX_K,
    MIN_K,
    MODES,
    PLANES,
    Variant,
    codec_spec,
)


def exponent(text: str | int) -> int:
    """Read k from 10, 2^-10 or 2**-10: all are the bound 2**-10. A usage error for any other text."""
    match = re.fullmatch(r"(?:2(?:\^|\*\*)-)?([0-9]{1,3})", str(text).strip())
    if match is None:
        raise typer.BadParameter(f"must be k of the bound 2^-k, such as 10 or 2^-10, not {text!r}")
    return int(match[1])


def bound(text: str, *names: str, **options: Any) -> Any:
    """Make an option for k of an error bound 2**-k, as `exponent` reads it. ``options``: of typer's."""
    return whole(MIN_K, MAX_K, text, *names, **{"parser": exponent, "metavar": "K", **options})


CodecOption = Annotated[str | None, typer.Option("--codec", metavar="CODEC", help=f"{' or '.join(CODECS)}.")]
MODE_HELP = "Of the paper's codec: bounded, or literal for its Algorithm 2."
ModeOption = Annotated[str | None, typer.Option("--mode", metavar="MODE", help=MODE_HELP)]

# Those of hardware.
_NEEDED = f"--codec {' or '.join(BF16_CODECS)}"
EngineCodec = Annotated[str, one_of(CODECS, "Codec of the engines: {}.", "--codec", metavar="CODEC")]
Bf16Option = Annotated[
    bool, typer.Option("--bf16", help=f"With bf16 lanes for ToS 0x2C beside fp32; needs {_NEEDED}.")
]
PaperMode = Annotated[
    str | None,
    one_of(MODES, f"Mode of the paper's codec: {{}}; default: {DEFAULT_MODE}.", "--mode", metavar="MODE"),
]
NicBound = Annotated[int, bound("Error bound 2^-K of the NICs.", "--bound")]


def check_bf16(codec: str | None, bf16: bool) -> None:
    """Raise a usage error for bf16 lanes with a codec that does not have them."""
    if bf16 and codec not in BF16_CODECS:
        raise typer.BadParameter(f"needs {_NEEDED}, not {codec}", param_hint="--bf16")


def chosen(codec: str | None, mode: str | None, default: Variant = BOUNDED) -> Variant:
    """Return the codec and mode that two options name.

    A mode alone asks for the paper's codec. The older words, ``--mode planes`` and ``--codec bounded``, are
    accepted with a warning. Others are usage errors.
    """
    if mode == PLANES.codec and codec in (None, mode):
        _say_that_it_is_now("--mode planes", "--codec planes")
        codec, mode = mode, None
    elif codec in MODES and mode is None:
        _say_that_it_is_now(f"--codec {codec}", f"--mode {codec}")
        codec, mode = None, codec
    if codec is None and mode is None:
        return default
    with usage_error("--codec"):
        spec = codec_spec(BOUNDED.codec if codec is None else codec)
    with usage_error("--mode"):
        return Variant(spec.name, spec.mode_of(mode))


def _say_that_it_is_now(old: str, new: str) -> None:
    typer.echo(f"inceptionn: warning: {old} is now {new}", err=True)

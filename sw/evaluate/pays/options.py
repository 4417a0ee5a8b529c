# SPDX-License-Identifier: BSD-2-Clause
"""The options of ``inceptionn pays``, and what their texts mean."""

import re
from pathlib import Path
from typing import Annotated, get_args

import typer

from ... import BOUNDED, CODECS, MAX_SCALE, PLANES, Codec, Variant
from ...collectives import Scale, check_scale
from ...commands.codec_option import chosen
from ...system.options import one_of
from .costs import Where
from .ratios import TABLE_III, RatioAt, constant, of_file, of_synthetic, published
from .scenario import TOPOLOGIES, Dtype, Topology

SYNTHETIC = "synthetic"
WHERE = tuple(place for place in get_args(Where) if place != "none")
_SIZE = re.compile(r"([0-9]*\.?[0-9]+)\s*([kMGT]?)B?", re.IGNORECASE)
_TIME = re.compile(r"([0-9]*\.?[0-9]+)\s*(ns|us|µs|ms|s)", re.IGNORECASE)
_PREFIX = {"": 1.0, "k": 1e3, "m": 1e6, "g": 1e9, "t": 1e12}
_SECOND = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0}

# The options of the command.
Size = Annotated[str, typer.Option(metavar="SIZE", help="Bytes of the gradient, such as 98MB.")]
StepTime = Annotated[
    str, typer.Option(metavar="TIME", help="Training step without the exchange, such as 150ms.")
]
Nodes = Annotated[int, typer.Option(help="Hosts.")]
Bandwidth = Annotated[str, typer.Option(metavar="RATE", help="Bandwidth of each host's link, such as 10g.")]
Latency = Annotated[str, typer.Option(metavar="TIME", help="One-way latency between two hosts.")]
TopologyName = Annotated[Topology, one_of(TOPOLOGIES, "{}.")]
Place = Annotated[Where, one_of(WHERE, "What compresses: {}.")]
CodecName = Annotated[
    str | None,
    typer.Option(
        metavar="CODEC",
        help=f"{' or '.join(CODECS)}. Default: planes in software and for bfloat16; paper in a NIC or box, "
        "and for the ratios of Table III.",
    ),
]
ScaleText = Annotated[
    str | None,
    typer.Option(
        metavar="EXPONENT",
        help="Scale as in the collectives: auto, none, or -126..126. Default: auto in software, else none.",
    ),
]
RatioText = Annotated[
    str,
    typer.Option(
        help=f"A number, a .npy file of gradients, {SYNTHETIC}, or {', '.join(TABLE_III)} of Table III."
    ),
]
Gradients = Annotated[Dtype, one_of(get_args(Dtype), "{}.")]
Buckets = Annotated[int, typer.Option(help="Exchanges per step.")]
Overlap = Annotated[float, typer.Option(help="Share of the step that can overlap with exchanges.")]
GroupSize = Annotated[int | None, typer.Option(help="Hosts per group of the hierarchy.")]
Oversubscription = Annotated[float, typer.Option(help="Oversubscription of the bandwidth across groups.")]
Down = Annotated[
    bool, typer.Option("--down", help="Also compress the return leg from aggregator or servers.")
]
Mtu = Annotated[int, typer.Option(help="Largest IP packet in bytes.")]
CodecRate = Annotated[
    str | None,
    typer.Option(metavar="RATE", help="Software codec rate in bytes/s, such as 5GB; else measured."),
]
TcpRate = Annotated[
    str | None,
    typer.Option(metavar="RATE", help="Bytes/s that one processor sends and receives; else measured."),
]
EngineRate = Annotated[
    str, typer.Option(metavar="RATE", help="Bits of values per second that a NIC's engines process.")
]
BoxBandwidth = Annotated[
    str | None, typer.Option(metavar="RATE", help="Bandwidth between host and box; default: the link's.")
]
Simulate = Annotated[
    bool, typer.Option("--simulate", help="Also simulate host by host (ring, hierarchical).")
]
Jitter = Annotated[float, typer.Option(help="Mean random delay of a simulated step, relative to it.")]


def size_of(text: str, option: str) -> float:
    """Return the bytes of a text such as "98MB"; a usage error names the option."""
    return _parsed(text, _SIZE, _PREFIX, f"{option} takes bytes such as 98MB or 2.5GB, not {text!r}")


def time_of(text: str, option: str) -> float:
    """Return the seconds of a text such as "150ms"; a usage error names the option."""
    return _parsed(text, _TIME, _SECOND, f"{option} takes a time such as 150ms or 10us, not {text!r}")


def _parsed(text: str, pattern: re.Pattern[str], units: dict[str, float], rule: str) -> float:
    match = pattern.fullmatch(text.strip())
    if match is None:
        raise typer.BadParameter(rule)
    return float(match[1]) * units[match[2].lower()]


def bytes_per_second(text: str, option: str) -> float:
    """Return the bytes per second of a text such as "5GB"; a usage error names the option."""
    given = size_of(text, option)
    if not 1e3 <= given <= 1e13:
        raise typer.BadParameter(f"{option} must be 1kB to 10TB per second, not {text!r}")
    return given


def variant_of(codec: str | None, mode: str | None, where: str, ratio: str, narrow: bool = False) -> Variant:
    """Return the requested variant, or the default of the hook in software, and of NICs.

    ``narrow`` gradients, of 16 bits, have lanes of their own in NICs with planes.
    """
    planes = (where == "software" or narrow) and ratio not in TABLE_III
    variant = chosen(codec, mode, PLANES if planes else BOUNDED)
    if variant.codec != BOUNDED.codec and ratio in TABLE_III:
        raise typer.BadParameter(
            f"--ratio {ratio} is of the paper's codec, not of --codec {variant.codec}: "
            "give a number or a .npy file"
        )
    return variant


def scale_of(text: str | None, where: str, ratio: str) -> Scale:
    """Return the requested scale.

    The default is that of the hook in software, and none in NICs and for Table III.
    """
    if text is None:
        return "auto" if where == "software" and ratio not in TABLE_III else None
    scale: Scale = None
    try:
        scale = "auto" if text == "auto" else None if text == "none" else check_scale(int(text))
    except ValueError:
        rule = f"auto, none or -{MAX_SCALE}..{MAX_SCALE}"
        raise typer.BadParameter(f"--scale takes {rule}, not {text!r}") from None
    if scale is not None and ratio in TABLE_III:
        raise typer.BadParameter(f"--ratio {ratio} is of values that are not scaled, so --scale must be none")
    return scale


def ratio_of(text: str, codec: Codec, bound: int, scale: Scale) -> RatioAt:
    """Return the ratio by number of nodes that a text asks for; a usage error names the text."""
    if text == SYNTHETIC:
        return of_synthetic(codec, scale)
    try:
        if text in TABLE_III:
            table = published(text, bound)
            return lambda nodes: table
        try:
            number = constant(float(text))
            return lambda nodes: number
        except ValueError:
            if not text.endswith(".npy"):
                names = ", ".join((SYNTHETIC, *TABLE_III))
                raise ValueError(f"takes a number, a .npy file, or {names}, not {text!r}") from None
        return of_file(Path(text), codec, scale)
    except (ValueError, TypeError) as error:
        raise typer.BadParameter(f"--ratio: {error}") from error
    except OSError as error:
        raise typer.BadParameter(f"--ratio: {error.strerror}: {text!r}") from error

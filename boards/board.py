# SPDX-License-Identifier: BSD-2-Clause
"""A board's description, the options of the user, and the resolved target."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from fractions import Fraction
from typing import Any, Literal

from amaranth.lib import wiring

from inceptionn.hdl.codec.codecs import PAPER
from inceptionn.hdl.codec.shape import EngineShape
from inceptionn.hdl.nic import check_engines
from inceptionn.wire import GROUP_LANES

from .module_names import DEFAULT_PREFIX, check_prefix

ENGINE = "inceptionn_nic"
"""Verilog module of the engine pair."""
ENGINE_WIDTH = 256
"""Bits of an engine's stream, with 8 lanes."""


@dataclass(frozen=True)
class Options:
    """The user's options; None: the board's default.

    ``clock_ratio``: the stream clock divided by the engines' clock. ``data_width``: the target's stream width
    in bits. ``engines``: engine pairs that share one stream. ``lanes``: fp32 lanes of an engine, by default
    the board's, or else the fewest that process the stream's width per cycle. ``codec``: the engines' lane
    codec. ``bf16``: with bf16 lanes, too, which the codec planes alone has. ``prefix``: begins the names of
    all modules and files. ``clock_mhz``: the clock that the constraints name, where the board leaves it open.
    """

    ports: int | None = None
    clock_ratio: Fraction | None = None
    data_width: int | None = None
    part: str | None = None
    engines: int = 1
    lanes: int | None = None
    codec: str = PAPER
    prefix: str = DEFAULT_PREFIX
    bf16: bool = False
    clock_mhz: float | None = None

    @property
    def shape(self) -> EngineShape:
        """Shape of the engines; ``ValueError`` if there is none of these lanes and codec."""
        return EngineShape.of(GROUP_LANES if self.lanes is None else self.lanes, self.codec, self.bf16)


@dataclass(frozen=True)
class Clock:
    """A clock input; ``mhz`` is its frequency in the target, 0 if any."""

    port: str
    mhz: float
    text: str


@dataclass(frozen=True)
class Reset:
    """A reset input and the clocks of what it resets."""

    port: str
    active: Literal["low", "high"]
    text: str


@dataclass(frozen=True)
class Interface:
    """A bus of the top module: ``name`` is the prefix of its ports."""

    name: str
    kind: Literal["axis", "axil"]
    mode: Literal["slave", "master"]
    clock: str
    resets: tuple[str, ...]
    text: str
    user: str = ""
    """The meaning of ``tuser``; empty if there is none."""


@dataclass(frozen=True)
class RegisterAccess:
    """The place of the registers: port n's begin at ``offset + stride * n`` of PCIe BAR ``bar``.

    ``bar`` is None where no BAR leads there directly; ``text`` then says what does, or else adds a remark.
    """

    bar: int | None
    text: str
    offset: int = 0
    stride: int = 0


@dataclass(frozen=True)
class Target:
    """One board with the user's options: the top module and its description.

    ``make`` gives the top, or None where it is the engine pair itself; ``sources`` are more Verilog files by
    name; ``extras`` further files; ``context`` is for the board's README template.
    """

    module: str
    make: Callable[[], wiring.Component] | None
    clocks: tuple[Clock, ...]
    resets: tuple[Reset, ...]
    interfaces: tuple[Interface, ...]
    part: str
    parameters: dict[str, Any]
    top: str = ""
    """The module that a design instantiates, if a source wraps ``module``."""
    engine: str = ENGINE
    """The module with the engines' streams: ``module``, if that contains the engines."""
    sources: dict[str, str] = field(default_factory=dict)
    extras: dict[str, str] = field(default_factory=dict)
    context: dict[str, Any] = field(default_factory=dict)

    def metadata(self) -> dict[str, Any]:
        """Return clocks, resets and interfaces, for JSON."""
        return {
            "clocks": [asdict(clock) for clock in self.clocks],
            "resets": [asdict(reset) for reset in self.resets],
            "interfaces": [asdict(interface) for interface in self.interfaces],
        }


@dataclass(frozen=True)
class Board:
    """A target of ``inceptionn generate``.

    ``part`` is the FPGA's ordering code, empty for any; ``clock_mhz`` the stream clock, 0 if that is open;
    ``max_ports`` 0 and ``data_widths`` empty where there is no choice.
    """

    name: str
    description: str
    target: Callable[[Board, Options], Target]
    access: RegisterAccess
    part: str = ""
    clock_mhz: float = 0
    max_ports: int = 0
    default_ports: int = 1
    data_widths: tuple[int, ...] = ()
    max_engines: int = 1
    min_lanes: int = GROUP_LANES
    max_lanes: int = GROUP_LANES
    default_lanes: int | None = None
    """None: the fewest that process the stream's width per cycle."""
    clock_ratio: tuple[Fraction, Fraction] | None = None
    """Least and greatest ratio that is allowed."""

    def resolve(self, options: Options) -> Options:
        """Return ``options`` with the board's defaults.

        Raises ``ValueError`` for options that the board does not have.
        """
        if options.ports is not None and not self.max_ports:
            raise ValueError(f"ports cannot be chosen for {self.name}: {options.ports!r}")
        ports = options.ports if options.ports is not None else self.default_ports
        if self.max_ports and not 1 <= ports <= self.max_ports:
            raise ValueError(f"ports of {self.name} must be 1 to {self.max_ports}, not {ports!r}")
        width = options.data_width
        if width is not None and width not in self.data_widths:
            choices = ", ".join(map(str, self.data_widths)) or str(ENGINE_WIDTH)
            raise ValueError(f"stream width of {self.name} must be {choices}, not {width!r}")
        if width is None:
            width = self.data_widths[-1] if self.data_widths else ENGINE_WIDTH
        ratio = options.clock_ratio
        if ratio is not None:
            if self.clock_ratio is None:
                raise ValueError(f"clock ratio cannot be chosen for {self.name}: {str(ratio)!r}")
            least, most = self.clock_ratio
            if not least < ratio <= most or (32 * ratio).denominator != 1:
                raise ValueError(
                    f"clock ratio must be above {least}, at most {float(most):g}, and a multiple of 1/32, "
                    f"not {str(ratio)!r}"
                )
        mhz = options.clock_mhz
        if mhz is not None and self.clock_mhz:
            raise ValueError(f"clock of {self.name} is {self.clock_mhz:g} MHz and cannot be chosen: {mhz:g}")
        if mhz is not None and not 1 <= mhz <= 1000:
            raise ValueError(f"clock must be 1 to 1000 MHz, not {mhz:g}")
        check_engines(options.engines)
        if options.engines > self.max_engines:
            raise ValueError(
                f"engines of {self.name} must be at most {self.max_engines}, as its streams carry no more, "
                f"not {options.engines!r}"
            )
        lanes = self.default_lanes if options.lanes is None else options.lanes
        if lanes is None:
            lanes = GROUP_LANES if width <= ENGINE_WIDTH * options.engines else 2 * GROUP_LANES
        check_engines(options.engines, lanes)
        options = replace(options, lanes=lanes)
        shape = options.shape
        if lanes < self.min_lanes:
            raise ValueError(
                f"lanes of {self.name} must be at least {self.min_lanes}, as its streams carry more, not "
                f"{lanes!r}: take --board generic"
            )
        if lanes > self.max_lanes:
            choices = " or ".join(map(str, sorted({self.min_lanes, self.max_lanes})))
            raise ValueError(
                f"lanes of {self.name} must be {choices}, as its streams carry no more, not {lanes!r}"
            )
        if width > shape.bits * options.engines and not shape.serial:
            raise ValueError(
                f"lanes of {self.name} must be {2 * GROUP_LANES} on its {width}-bit stream, not {lanes!r}, "
                "which take half of its rate: untagged frames would be lost"
            )
        check_prefix(options.prefix)
        return replace(
            options,
            ports=ports,
            clock_ratio=ratio,
            data_width=width,
            part=options.part or self.part,
        )

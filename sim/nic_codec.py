# SPDX-License-Identifier: BSD-2-Clause
"""The differences between NICs with the paper's codec and with planes: registers, settings, counters.

A NIC's register ``VERSION.WIRE`` tells its codec; see :func:`read_codec`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from inceptionn.hdl.control.register_map import RegisterMap
from inceptionn.hdl.control.registers import REGISTERS, class_counters, registers_of
from inceptionn.wire import (
    CODE_BYTES,
    DEFAULT_MODE,
    EXPONENT_BIAS,
    RAW_EXPONENT,
    SHIM_VERSIONS,
    TAG_BYTES,
    Parameters,
    PlanesParameters,
    parameters,
    planes_parameters,
)

Settings = Parameters | PlanesParameters


@dataclass(frozen=True)
class NicCodec:
    """One codec of NICs.

    ``unit``: what its class counters count. ``labels``: their classes, in order. ``shares``: the named sums
    of classes in a short table; ``shares_of`` says what they are.
    """

    name: str
    unit: str
    labels: tuple[str, ...]
    shares: dict[str, range] = field(hash=False)
    shares_of: str

    @property
    def registers(self) -> RegisterMap:
        """All registers of a NIC with this codec."""
        return registers_of(self.name)

    @property
    def counters(self) -> tuple[str, ...]:
        """Names of the class counters, in the order of a golden result's ``counts``."""
        return tuple(register.name for register in class_counters(self.name))

    def settings(self, k: int, mode: str | None = None) -> Settings:
        """The numbers of a bound 2^-k. Raises ``ValueError`` for another k, or a mode that the codec has not.

        The paper's codec has the modes "bounded" (the default) and "literal"; planes has none.
        """
        if self.name == "paper":
            return parameters(k, DEFAULT_MODE if mode is None else mode)
        if mode is not None:
            raise ValueError(f"the codec planes has no modes, so not {mode!r}")
        return planes_parameters(k)

    def classes(self, registers: Mapping[str, int]) -> dict[str, int]:
        """The class counters, by name; zeros without a NIC."""
        return {name: registers.get(name, 0) for name in self.counters}

    def lanes(self, registers: Mapping[str, int]) -> int:
        """Values of the compressed frames, from the counters of a NIC by name; 0 without a NIC."""
        names = self.counters if self.name == "paper" else ("TX_LANES",)
        return sum(registers.get(name, 0) for name in names)


NIC_CODECS = {
    "paper": NicCodec(
        "paper",
        "lanes",
        tuple(f"tag {tag:02b} ({8 * size} bits)" for tag, size in enumerate(TAG_BYTES)),
        {f"{tag:02b}": range(tag, tag + 1) for tag in range(len(TAG_BYTES))},
        "tags",
    ),
    "planes": NicCodec(
        "planes",
        "groups",
        tuple(f"code {code} ({size} bytes)" for code, size in enumerate(CODE_BYTES)),
        {"0": range(1), "1-4": range(1, 5), "5-8": range(5, 9), "9-14": range(9, 15), "15": range(15, 16)},
        "codes",
    ),
}
"""By name."""


def codec_of(settings: Settings) -> NicCodec:
    """The codec that these numbers are for."""
    return NIC_CODECS["paper" if isinstance(settings, Parameters) else "planes"]


def codec_of_counters(registers: Mapping[str, int]) -> NicCodec:
    """The codec of a NIC with these counters, by name; the paper's where there are none."""
    return NIC_CODECS["planes" if "TX_LANES" in registers else "paper"]


def exact_exponent(settings: Settings) -> int:
    """The biased exponent from which on every value comes back bit for bit."""
    return EXPONENT_BIAS if isinstance(settings, Parameters) else settings.e0 + RAW_EXPONENT


def has_bound(settings: Settings) -> bool:
    """Whether every value must come back within the bound: always but in ``literal`` and with odd numbers."""
    return isinstance(settings, PlanesParameters) or settings.b == settings.t


def read_codec(read: Callable[[int], int]) -> NicCodec:
    """The codec of a NIC whose registers ``read`` reads.

    Raises ``ValueError`` if it is not an INCEPTIONN NIC.
    """
    identity, version = REGISTERS["ID"], REGISTERS["VERSION"]
    found = read(identity.offset)
    if found != identity.reset:
        raise ValueError(f"register ID reads {found:#x}, not {identity.reset:#x}")
    wire = version["WIRE"].get(read(version.offset))
    for name, number in SHIM_VERSIONS.items():
        if wire == number:
            return NIC_CODECS[name]
    raise ValueError(
        f"register VERSION reads wire format {wire}, not one of {sorted(SHIM_VERSIONS.values())}"
    )

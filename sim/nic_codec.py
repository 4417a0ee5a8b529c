# SPDX-License-Identifier: BSD-2-Clause
"""NICs by codec: their registers and counters.

A NIC's register ``VERSION.WIRE`` tells its codec; see :func:`read_codec`.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from inceptionn.hdl.control.registers import REGISTERS, NicRegisters, check_map, has_bf16, registers_of
from inceptionn.wire import (
    BF16_CODECS,
    BF16_LANES,
    CODECS,
    DEFAULT_BF16_TOS,
    DEFAULT_CODEC,
    DEFAULT_K,
    GROUP_LANES,
    LANE_BYTES,
    CodecParameters,
    CodecSpec,
)

from .golden import EngineConfig

INLINE_LANES = (1, GROUP_LANES)
"""The lanes that engines of an inline device can have."""


@dataclass(frozen=True)
class NicCodec:
    """One codec of NICs: its record, with the registers and counters that follow from it.

    ``bf16``: the NIC has bf16 lanes, too.
    """

    spec: CodecSpec
    bf16: bool = False

    @property
    def name(self) -> str:
        """The codec's name."""
        return self.spec.name

    @property
    def variant(self) -> str:
        """Its word in `NIC_VARIANTS`."""
        return f"{self.name}-bf16" if self.bf16 else self.name

    @property
    def registers(self) -> NicRegisters:
        """All registers of a NIC with this codec."""
        return registers_of(self.name, self.bf16)

    def config(self, k: int = DEFAULT_K, mode: str | None = None) -> EngineConfig:
        """Return the settings of an engine out of reset, with the bound 2^-k."""
        bf16_tos = DEFAULT_BF16_TOS if self.bf16 else None
        return EngineConfig(parameters=self.spec.parameters(k, mode), bf16_tos=bf16_tos)

    @property
    def counters(self) -> tuple[str, ...]:
        """Names of the class counters, in the order of a golden result's ``counts``."""
        return tuple(register.name for register in self.registers.class_counters)

    def classes(self, registers: Mapping[str, int]) -> dict[str, int]:
        """Return the class counters, by name; zeros without a NIC."""
        return {name: registers.get(name, 0) for name in self.counters}

    def lanes(self, registers: Mapping[str, int]) -> int:
        """Count the values of the compressed frames, from the counters of a NIC by name. 0 without a NIC."""
        names = self.counters if self.spec.counts_lanes else ("TX_LANES", "TX_LANES_BF16")
        return sum(registers.get(name, 0) for name in names)

    def payload_bytes(self, registers: Mapping[str, int]) -> int:
        """Return the bytes of these values, which have 2 bytes in bf16 and else 4."""
        bf16 = registers.get("TX_LANES_BF16", 0)
        return LANE_BYTES * (self.lanes(registers) - bf16) + BF16_LANES.bytes * bf16


NIC_CODECS: dict[str, NicCodec] = {name: NicCodec(spec) for name, spec in CODECS.items()}
"""By name, with fp32 lanes alone."""
NIC_VARIANTS: dict[str, NicCodec] = NIC_CODECS | {
    f"{name}-bf16": NicCodec(CODECS[name], bf16=True) for name in BF16_CODECS
}
"""By the words that name codec and lanes of a NIC; ``-bf16`` has bf16 lanes, too."""


def codec_of(settings: CodecParameters) -> NicCodec:
    """Return the codec that these numbers are for."""
    return NIC_CODECS[settings.codec]


def codec_of_counters(registers: Mapping[str, int]) -> NicCodec:
    """Return the codec of a NIC with these counters, by name; the paper's where there are none."""
    for codec in NIC_CODECS.values():
        if set(codec.counters) & set(registers):
            return replace(codec, bf16="TX_LANES_BF16" in registers)
    return NIC_CODECS[DEFAULT_CODEC]


def read_codec(read: Callable[[int], int]) -> NicCodec:
    """Return the codec of a NIC whose registers ``read`` reads.

    Raises ``ValueError`` if it is not an INCEPTIONN NIC with this project's register map.
    """
    identity, version = REGISTERS["ID"], REGISTERS["VERSION"]
    found = read(identity.offset)
    if found != identity.reset:
        raise ValueError(f"register ID reads {found:#x}, not {identity.reset:#x}")
    word = read(version.offset)
    check_map(word)
    wire = version["WIRE"].get(word)
    for codec in NIC_CODECS.values():
        if codec.spec.version == wire:
            return replace(codec, bf16=has_bf16(word))
    versions = [spec.version for spec in CODECS.values()]
    raise ValueError(f"register VERSION reads wire format {wire}, not one of {versions}")

# SPDX-License-Identifier: BSD-2-Clause
"""32-bit registers at byte addresses, and the registers of a map over them by name."""

import logging
from abc import ABC, abstractmethod
from typing import Self

from inceptionn.hdl.codec.codecs import CODECS
from inceptionn.hdl.control.map_formats import bound_word
from inceptionn.hdl.control.register_map import DATA_WIDTH, Field, Register, RegisterMap
from inceptionn.hdl.control.registers import IDENTITY, REGISTERS, check_map, has_bf16, registers_of

_log = logging.getLogger(__name__)
WORD_BYTES = DATA_WIDTH // 8
_WORD_MASK = (1 << DATA_WIDTH) - 1


class BusError(RuntimeError):
    """An access failed, or the device is not a NIC of this project. The text says where and why."""


class Bus(ABC):
    """32-bit registers at byte addresses, from 0 up, as a context manager that closes the device.

    An access waits a few seconds at most, and raises `BusError` or ``OSError`` if it fails.
    """

    registers: RegisterMap = REGISTERS
    """The register map of the device; `identify` finds it."""
    codec = ""
    """The NIC's codec, if there is one."""

    @abstractmethod
    def read32(self, address: int) -> int:
        """Read the register at ``address``, a multiple of 4."""

    @abstractmethod
    def write32(self, address: int, value: int) -> None:
        """Write all 32 bits of the register at ``address``, a multiple of 4."""

    def close(self) -> None:
        """Release the device. A second call does nothing."""
        return

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    # By name.

    def find(self, name: str) -> tuple[Register, Field | None]:
        """Find ``"TOS"`` or ``"TOS.VALUE"``, in either case.

        ``ValueError`` names the choices for another.
        """
        word, _, part = name.upper().partition(".")
        try:
            register = self.registers[word]
        except KeyError:
            names = ", ".join(register.name for register in self.registers if register.fields)
            raise ValueError(f"register must be one of {names}, or a counter, not {name!r}") from None
        try:
            return register, register[part] if part else None
        except KeyError:
            parts = ", ".join(field.name for field in register.fields) or "none"
            raise ValueError(f"field of {word} must be one of {parts}, not {part!r}") from None

    def read(self, name: str) -> int:
        """Read a register, a field or a 64-bit counter. A counter's low word is read first."""
        register, part = self.find(name)
        value = self.read32(register.offset)
        if register.width > DATA_WIDTH:
            value |= self.read32(register.offset + WORD_BYTES) << DATA_WIDTH
        return value if part is None else part.get(value)

    def write(self, name: str, value: int) -> None:
        """Write a register or a field. The register's other bits keep their values.

        Raises ``ValueError`` if it cannot be written.
        """
        register, part = self.find(name)
        if register.access == "ro":
            writable = ", ".join(r.name for r in self.registers if r.access != "ro")
            raise ValueError(f"register {register.name} is read only; {writable} can be written")
        if part is not None:
            value = part.put(value)
            if register.access == "rw":
                value |= self.read32(register.offset) & ~part.mask
        elif not 0 <= value <= _WORD_MASK:
            raise ValueError(f"register {register.name} takes {DATA_WIDTH} bits, not {value!r}")
        _log.info("%s: write %#010x to %#05x", register.name, value, register.offset)
        self.write32(register.offset, value)

    def counters(self) -> dict[str, int]:
        """Read all 64-bit registers by name."""
        return {
            register.name: self.read(register.name) for register in self.registers if register.width == 64
        }

    def set_bound(self, k: int, mode: str | None = None) -> None:
        """Set the error bound 2^-k in one write.

        Raises ``ValueError`` for an unknown k or mode.
        """
        self.write("PARAMETERS", bound_word(k, mode, self.codec))

    def identify(self) -> None:
        """Find the codec and its map.

        Raises `BusError` if ID and VERSION are not a NIC's of this project, with this map.
        """
        found = self.read("ID")
        if found != IDENTITY:
            raise BusError(f"not a NIC of inceptionn: ID reads {found:#010x}, not {IDENTITY:#010x}")
        version = self.read("VERSION")
        try:
            check_map(version)
        except ValueError as error:
            raise BusError(str(error)) from None
        wire, bf16 = self.registers["VERSION"]["WIRE"].get(version), has_bf16(version)
        for codec in CODECS.values():
            if codec.spec.version == wire:
                self.codec, self.registers = codec.name, registers_of(codec.name, bf16)
                return
        raise BusError(f"VERSION.WIRE reads {wire}, a wire format that this tool does not know")

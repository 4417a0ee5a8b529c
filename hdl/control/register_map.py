# SPDX-License-Identifier: BSD-2-Clause
"""Elements of a register table: fields, registers, and the map that checks them. Needs no Amaranth."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal

DATA_WIDTH = 32
Access = Literal["ro", "rw", "wo"]


@dataclass(frozen=True)
class Field:
    """``width`` bits of a register from bit ``lsb`` up, with their value after reset."""

    name: str
    lsb: int
    width: int
    reset: int
    description: str

    @property
    def mask(self) -> int:
        """The field's bits in the register."""
        return ((1 << self.width) - 1) << self.lsb

    @property
    def bits(self) -> str:
        """``"7:0"`` or ``"3"``."""
        return f"{self.lsb + self.width - 1}:{self.lsb}" if self.width > 1 else f"{self.lsb}"

    def get(self, word: int) -> int:
        """Extract the field from a register's value."""
        return (word & self.mask) >> self.lsb

    def put(self, value: int) -> int:
        """Return a register's value with ``value`` in this field; ``ValueError`` if it does not fit."""
        if not 0 <= value < 1 << self.width:
            raise ValueError(f"field {self.name} takes {self.width} bits, not {value!r}")
        return value << self.lsb


@dataclass(frozen=True)
class Register:
    """One register: 32 bits at ``offset``, or a 64-bit counter at ``offset`` (low word) and ``offset + 4``.

    ``access``: ``"ro"`` read only; ``"rw"`` read/write; ``"wo"`` write only, each 1 written to a bit is a
    command, reads give zero. Bits outside ``fields`` read as zero and ignore writes.
    """

    name: str
    offset: int
    access: Access
    description: str
    fields: tuple[Field, ...] = ()
    width: int = DATA_WIDTH

    @property
    def reset(self) -> int:
        """Value after reset."""
        return sum(part.put(part.reset) for part in self.fields)

    @property
    def mask(self) -> int:
        """The bits that are implemented."""
        return sum(part.mask for part in self.fields) if self.fields else (1 << self.width) - 1

    def __getitem__(self, name: str) -> Field:
        for part in self.fields:
            if part.name == name:
                return part
        raise KeyError(f"register {self.name} has no field {name!r}")


@dataclass(frozen=True)
class RegisterMap:
    """Registers without overlaps, by name (``map["TOS"].offset``) or by iteration.

    ``address_width``: the aperture is ``2**address_width`` bytes. Raises ``ValueError`` for offsets that are
    not aligned to the register's width, lie outside the aperture or overlap, for names that appear twice, and
    for fields that overlap or do not fit.
    """

    registers: tuple[Register, ...]
    address_width: int
    words: dict[int, Register] = field(init=False, compare=False)
    """Byte offset of each word to its register; a 64-bit register has two words."""

    def __post_init__(self) -> None:
        words: dict[int, Register] = {}
        for register in self.registers:
            if register.width not in (DATA_WIDTH, 2 * DATA_WIDTH) or register.offset % (register.width // 8):
                raise ValueError(f"register {register.name} is not aligned: {register.offset:#x}")
            taken = 0
            for part in register.fields:
                if part.mask >> register.width or taken & part.mask:
                    raise ValueError(
                        f"field {register.name}.{part.name} overlaps or does not fit: {part.bits!r}"
                    )
                taken |= part.mask
            for offset in range(register.offset, register.offset + register.width // 8, DATA_WIDTH // 8):
                if offset in words or not 0 <= offset < 1 << self.address_width:
                    raise ValueError(f"register {register.name} has no room at {offset:#x}")
                words[offset] = register
        if len({register.name for register in self.registers}) != len(self.registers):
            raise ValueError("register names must differ")
        object.__setattr__(self, "words", words)

    def __getitem__(self, name: str) -> Register:
        for register in self.registers:
            if register.name == name:
                return register
        raise KeyError(name)

    def __iter__(self) -> Iterator[Register]:
        return iter(self.registers)

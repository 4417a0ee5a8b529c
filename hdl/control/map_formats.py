# SPDX-License-Identifier: BSD-2-Clause
"""The register map for other tools: a C header, SystemRDL 2.0, and an IP-XACT memory map (IEEE 1685-2014).

All are made from a :class:`~inceptionn.hdl.control.registers.NicRegisters`. Nothing here needs Amaranth.
"""

from collections.abc import Iterator
from xml.sax.saxutils import escape

from inceptionn.wire import codec_spec

from ..codec.codecs import PAPER
from .register_map import DATA_WIDTH, Field, Register
from .registers import ADDRESS_WIDTH, MAP_VERSION, REGISTERS, NicRegisters, parameters_word

PREFIX = "INCEPTIONN_"
"""Of every macro of the C header."""
_VERSION = ".".join(map(str, MAP_VERSION))
_WHAT = f"Registers of inceptionn_nic, map version {_VERSION}. Written from the register table; do not edit."
_SOFTWARE = {"ro": "r", "rw": "rw", "wo": "w"}
_XML_ACCESS = {"ro": "read-only", "rw": "read-write", "wo": "write-only"}


def bound_word(k: int, mode: str | None = None, codec: str = PAPER) -> int:
    """Return the value of PARAMETERS for an error bound of ``2**-k``; only the paper's codec has modes.

    The default mode is bounded. ``ValueError`` for any other k or mode.
    """
    return parameters_word(codec_spec(codec).parameters(k, mode))


def c_header(registers: NicRegisters = REGISTERS) -> str:
    """Write ``inceptionn_registers.h``: offsets, masks and shifts of registers and fields (C99, C++)."""
    lines = [
        "/* SPDX-License-Identifier: BSD-2-Clause */",
        f"/* {_WHAT}",
        " *",
        " * Offsets are bytes from the base of an engine pair; accesses are 32 bits wide. Of a 64-bit",
        " * counter read the low word, at the offset, first; the high word follows 4 bytes later. */",
        f"#ifndef {PREFIX}REGISTERS_H",
        f"#define {PREFIX}REGISTERS_H",
        "",
        "#include <stdint.h>",
        "",
        f"#define {PREFIX}MAP_VERSION_MAJOR {MAP_VERSION[0]}",
        f"#define {PREFIX}MAP_VERSION_MINOR {MAP_VERSION[1]}",
        f"#define {PREFIX}APERTURE {1 << ADDRESS_WIDTH:#x}u",
        "",
    ]
    for register in registers:
        name = f"{PREFIX}{register.name}"
        lines.append(f"/* {register.description} */")
        lines.append(f"#define {name} {register.offset:#05x}u")
        if register.fields:
            lines.append(f"#define {name}_RESET {register.reset:#010x}u")
        for part in register.fields:
            lines.append(f"#define {name}_{part.name}_SHIFT {part.lsb}")
            lines.append(f"#define {name}_{part.name}_MASK {part.mask:#010x}u")
    lines += [
        "",
        "/* A 32-bit register of the engine pair at `base`. */",
        "static inline uint32_t inceptionn_read(const volatile void *base, uint32_t offset)",
        "{",
        "    return *(const volatile uint32_t *)((const volatile char *)base + offset);",
        "}",
        "",
        "static inline void inceptionn_write(volatile void *base, uint32_t offset, uint32_t value)",
        "{",
        "    *(volatile uint32_t *)((volatile char *)base + offset) = value;",
        "}",
        "",
        "/* A 64-bit counter; the read of the low word keeps the high word of the same moment. */",
        "static inline uint64_t inceptionn_counter(const volatile void *base, uint32_t offset)",
        "{",
        "    uint32_t low = inceptionn_read(base, offset);",
        "    return (uint64_t)inceptionn_read(base, offset + 4) << 32 | low;",
        "}",
        "",
        f"#endif /* {PREFIX}REGISTERS_H */",
    ]
    return "\n".join(lines) + "\n"


def _quoted(text: str) -> str:
    """Quote a SystemRDL string."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _fields(register: Register) -> tuple[Field, ...]:
    """Return the register's fields; for a counter one, with all its bits."""
    return register.fields or (Field("COUNT", 0, register.width, 0, register.description),)


def systemrdl(registers: NicRegisters = REGISTERS) -> str:
    """Write ``inceptionn_registers.rdl``: one address map (SystemRDL 2.0)."""
    lines = [
        "// SPDX-License-Identifier: BSD-2-Clause",
        f"// {_WHAT}",
        "addrmap inceptionn_nic {",
        '    name = "inceptionn_nic";',
        f'    desc = "Registers of an engine pair, map version {_VERSION}.";',
        f"    default accesswidth = {DATA_WIDTH};",
    ]
    for register in registers:
        counter = not register.fields
        lines += [
            "    reg {",
            f"        desc = {_quoted(register.description)};",
            f"        regwidth = {register.width};",
        ]
        for part in _fields(register):
            hardware = {"ro": "w", "rw": "r", "wo": "r"}[register.access]
            constant = register.name in ("ID", "VERSION")
            properties = [f"sw = {_SOFTWARE[register.access]};", f"hw = {'na' if constant else hardware};"]
            if register.access == "wo":
                properties.append("singlepulse;")
            properties.append(f"desc = {_quoted(part.description)};")
            reset = "" if counter else f" = {part.reset:#x}"
            place = f"[{part.lsb + part.width - 1}:{part.lsb}]"
            lines.append(f"        field {{ {' '.join(properties)} }} {part.name}{place}{reset};")
        lines.append(f"    }} {register.name} @ {register.offset:#05x};")
    return "\n".join([*lines, "};"]) + "\n"


def ip_xact(registers: NicRegisters = REGISTERS) -> str:
    """Write ``inceptionn_registers.xml``: a component with a memory map (IP-XACT, IEEE 1685-2014).

    A 64-bit counter is one register of 64 bits.
    """

    def element(depth: int, name: str, text: object) -> str:
        return f"{'  ' * depth}<ipxact:{name}>{escape(str(text))}</ipxact:{name}>"

    def described() -> Iterator[str]:
        for register in registers:
            access = _XML_ACCESS[register.access]
            yield "        <ipxact:register>"
            yield element(5, "name", register.name)
            yield element(5, "description", register.description)
            yield element(5, "addressOffset", f"'h{register.offset:x}")
            yield element(5, "size", register.width)
            yield element(5, "volatile", str(register.access == "ro").lower())
            yield element(5, "access", access)
            for part in _fields(register):
                yield "          <ipxact:field>"
                yield element(6, "name", part.name)
                yield element(6, "description", part.description)
                yield element(6, "bitOffset", part.lsb)
                if register.fields:
                    yield "            <ipxact:resets>"
                    yield "              <ipxact:reset>"
                    yield element(8, "value", f"'h{part.reset:x}")
                    yield "              </ipxact:reset>"
                    yield "            </ipxact:resets>"
                yield element(6, "bitWidth", part.width)
                yield element(6, "access", access)
                yield "          </ipxact:field>"
            yield "        </ipxact:register>"

    return "\n".join(
        [
            '<?xml version="1.0" encoding="UTF-8"?>',
            f"<!-- {_WHAT} -->",
            '<ipxact:component xmlns:ipxact="http://www.accellera.org/XMLSchema/IPXACT/1685-2014"',
            '    xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance"',
            '    xsi:schemaLocation="http://www.accellera.org/XMLSchema/IPXACT/1685-2014',
            '        http://www.accellera.org/XMLSchema/IPXACT/1685-2014/index.xsd">',
            element(1, "vendor", "inceptionn"),
            element(1, "library", "nic"),
            element(1, "name", "inceptionn_nic"),
            element(1, "version", _VERSION),
            "  <ipxact:memoryMaps>",
            "    <ipxact:memoryMap>",
            element(3, "name", "s_axil"),
            "      <ipxact:addressBlock>",
            element(4, "name", "registers"),
            element(4, "baseAddress", 0),
            element(4, "range", 1 << ADDRESS_WIDTH),
            element(4, "width", DATA_WIDTH),
            element(4, "usage", "register"),
            *described(),
            "      </ipxact:addressBlock>",
            element(3, "addressUnitBits", 8),
            "    </ipxact:memoryMap>",
            "  </ipxact:memoryMaps>",
            "</ipxact:component>",
        ]
    ) + "\n"  # fmt: skip


FORMATS = {
    "inceptionn_registers.h": (c_header, "the register map as a C header"),
    "inceptionn_registers.rdl": (systemrdl, "the register map in SystemRDL 2.0"),
    "inceptionn_registers.xml": (ip_xact, "the register map in IP-XACT (IEEE 1685-2014)"),
}
"""File name to the function that makes its text, and what it is."""

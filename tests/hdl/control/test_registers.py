# SPDX-License-Identifier: BSD-2-Clause
"""The register table and the maps made from it; then registers, AXI4-Lite and counters in simulation."""

import json
from itertools import pairwise
from pathlib import Path

import pytest
from refusals import refused

from inceptionn.hdl.control.axi_lite import AXI4Lite
from inceptionn.hdl.control.config import DEFAULT_CONFIG, EngineConfig
from inceptionn.hdl.control.register_files import map_markdown, write_map_json, write_map_markdown
from inceptionn.hdl.control.register_map import Field, Register, RegisterMap
from inceptionn.hdl.control.registers import (
    ADDRESS_WIDTH,
    REGISTERS,
    VERDICTS,
    registers_of,
)
from inceptionn.wire import Tag, Verdict, parameters, planes_parameters

DOCUMENT = Path(__file__).parents[3] / "docs" / "registers.md"


def test_document_is_the_table() -> None:
    hint = "regenerate it: python -m inceptionn.hdl.control.register_files docs/registers.md"
    assert DOCUMENT.read_text(encoding="utf-8") == map_markdown(), hint


def test_markdown_names_every_register_and_field(tmp_path: Path) -> None:
    write_map_markdown(tmp_path / "map.md")
    text = (tmp_path / "map.md").read_text(encoding="utf-8")
    for register in (*REGISTERS, *registers_of("planes"), *registers_of("planes", bf16=True)):
        assert f"| `{register.offset:#05x}` | `{register.name}` |" in text
        for part in register.fields:
            assert f"| `{register.name}.{part.name}` | {part.bits} | `{part.reset:#x}` |" in text


@pytest.mark.parametrize(("codec", "bf16"), [("paper", False), ("planes", False), ("planes", True)])
def test_json_holds_the_table(codec: str, bf16: bool, tmp_path: Path) -> None:
    registers = registers_of(codec, bf16)
    write_map_json(tmp_path / "map.json", registers)
    found = json.loads((tmp_path / "map.json").read_text(encoding="utf-8"))
    assert found["address_width"] == ADDRESS_WIDTH
    rebuilt = tuple(
        Register(**{**entry, "fields": tuple(Field(**part) for part in entry["fields"])})
        for entry in ({k: v for k, v in r.items() if k != "reset"} for r in found["registers"])
    )
    assert (found["codec"], found.get("bf16", False)) == (codec, bf16)
    assert rebuilt == registers.registers
    assert [entry["reset"] for entry in found["registers"]] == [register.reset for register in registers]


def test_table_is_sorted_and_aligned() -> None:
    for codec in ("paper", "planes"):
        assert all(a.offset + a.width // 8 <= b.offset for a, b in pairwise(registers_of(codec)))
        assert max(register.offset + register.width // 8 for register in registers_of(codec)) <= 1024
    assert REGISTERS["TX_SYN"].offset == 0x100 + 8 * Verdict.SYN
    assert REGISTERS["RX_LENGTHS"].offset == 0x200 + 8 * Verdict.LENGTHS


def test_identity_and_defaults() -> None:
    assert REGISTERS["ID"].reset.to_bytes(4, "big") == b"INCP"
    numbers = parameters(10, "bounded")
    assert REGISTERS["PARAMETERS"].reset == numbers.e0 | numbers.t << 8 | numbers.b << 16 == 0x7A7A75
    assert REGISTERS["TOS"].reset == 0xFC28
    assert REGISTERS["PAYLOAD"].reset == 9216 << 16 | 64
    assert list(DEFAULT_CONFIG) == [name for name, _ in EngineConfig.as_shape()]


def test_codecs_differ_in_version_parameters_and_class_counters() -> None:
    planes = registers_of("planes")
    assert [planes["VERSION"]["WIRE"].reset, REGISTERS["VERSION"]["WIRE"].reset] == [2, 1]
    assert planes["PARAMETERS"].reset == planes_parameters(10).e0 == 0x75
    assert [part.name for part in planes["PARAMETERS"].fields] == ["E0"]
    assert [register.name for register in REGISTERS.class_counters] == [f"TX_LANES_{tag.name}" for tag in Tag]
    assert [(each.name, each.offset) for each in planes.class_counters] == [
        (f"TX_GROUPS_CODE_{code}", 0x380 + 8 * code) for code in range(16)
    ]
    assert planes["TX_LANES"].offset == REGISTERS["TX_LANES_ZERO"].offset == 0x320
    refused(ValueError, "codec must be one of paper, planes, not 'zip'", registers_of, "zip")


def test_bf16_lanes_add_registers() -> None:
    planes, bf16 = registers_of("planes"), registers_of("planes", bf16=True)
    assert bf16["VERSION"].reset ^ planes["VERSION"].reset == bf16["VERSION"]["BF16"].mask == 0x100
    assert bf16["TOS"].reset ^ planes["TOS"].reset == bf16["TOS"]["BF16"].put(0x2C) == 0x2C0000
    known = {register.name for register in planes}
    added = {register.name: register.offset for register in bf16 if register.name not in known}
    assert added == {"TX_COMPRESSED_BF16": 0x328, "TX_LANES_BF16": 0x330, "RX_RESTORED_BF16": 0x368}
    assert {r.name for r in bf16 if r.fields and r.reset != planes[r.name].reset} == {"VERSION", "TOS"}
    text = bf16["TX_GROUPS_CODE_3"].description
    assert text == "Groups of 8 fp32 or 16 bf16 lanes with code 3 in compressed frames."


def test_every_verdict_has_a_counter_where_it_can_happen() -> None:
    assert set(VERDICTS["tx"]) | set(VERDICTS["rx"]) == set(Verdict)
    transmit_only = set(VERDICTS["tx"]) - set(VERDICTS["rx"])
    assert transmit_only == {
        Verdict.COMPRESSED, Verdict.SHORT, Verdict.LONG, Verdict.ALIGNMENT, Verdict.PHASE, Verdict.EXPANDED,
        Verdict.AMBIGUOUS, Verdict.UNKNOWN_FLOW,
    }  # fmt: skip
    receive_only = set(VERDICTS["rx"]) - set(VERDICTS["tx"])
    assert receive_only == {Verdict.RESTORED, Verdict.NO_SHIM, Verdict.BAD_SHIM, Verdict.MALFORMED}
    for direction in ("tx", "rx"):
        names = {register.name for register in REGISTERS.counters(direction).values()}
        expected = {verdict.name for verdict in VERDICTS[direction]}
        expected |= {"FRAMES_IN", "FRAMES_OUT", "BYTES_IN", "BYTES_OUT"}
        expected |= {f"LANES_{tag.name}" for tag in Tag} if direction == "tx" else set()
        assert names == {f"{direction.upper()}_{name}" for name in expected}


def test_field_access() -> None:
    part = REGISTERS["PARAMETERS"]["T"]
    assert (part.mask, part.bits, part.get(0x00123456), part.put(0x12)) == (0xFF00, "15:8", 0x34, 0x1200)
    refused(ValueError, "field T takes 8 bits, not 256", part.put, 256)
    with pytest.raises(KeyError, match="register TOS has no field 'T'"):
        REGISTERS["TOS"]["T"]
    with pytest.raises(KeyError, match="NOTHING"):
        REGISTERS["NOTHING"]


@pytest.mark.parametrize(
    ("registers", "message"),
    [
        ((Register("A", 2, "rw", ""),), "register A is not aligned: 0x2"),
        ((Register("A", 4, "ro", "", width=64),), "register A is not aligned: 0x4"),
        ((Register("A", 0, "ro", "", width=64), Register("B", 4, "rw", "")), "register B has no room at 0x4"),
        ((Register("A", 4096, "rw", ""),), "register A has no room at 0x1000"),
        ((Register("A", 0, "rw", ""), Register("A", 4, "rw", "")), "register names must differ"),
        (
            (Register("A", 0, "rw", "", (Field("F", 31, 2, 0, ""),)),),
            "field A.F overlaps or does not fit: '32:31'",
        ),
        (
            (Register("A", 0, "rw", "", (Field("F", 0, 2, 0, ""), Field("G", 1, 1, 0, ""))),),
            "field A.G overlaps or does not fit: '1'",
        ),
    ],
)
def test_map_refuses(registers: tuple[Register, ...], message: str) -> None:
    refused(ValueError, message, RegisterMap, registers, 12)


def test_signature() -> None:
    assert AXI4Lite() == AXI4Lite(12, 32) != AXI4Lite(16)
    assert repr(AXI4Lite(16)) == "AXI4Lite(addr_width=16, data_width=32)"
    refused(ValueError, "data width must be 32 or 64, not 16", AXI4Lite, data_width=16)
    refused(ValueError, "address width must be 1..64, not 0", AXI4Lite, 0)
    refused(TypeError, "must be integers, not \\('12', 32\\)", AXI4Lite, "12")

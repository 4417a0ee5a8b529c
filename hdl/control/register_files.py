# SPDX-License-Identifier: BSD-2-Clause
"""The register map as JSON and as the page ``docs/registers.md``. Needs no Amaranth.

``python -m inceptionn.hdl.control.register_files FILE.md|FILE.json ...`` writes them.
"""

import json
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from inceptionn.wire import BF16_CODECS

from ..codec.codecs import CODECS, PAPER
from .register_map import DATA_WIDTH, Register
from .registers import (
    ADDRESS_WIDTH,
    DIRECTIONS,
    MAP_VERSION,
    REGISTERS,
    NicRegisters,
    registers_of,
)

ACCESS_TEXT = {"ro": "read only", "rw": "read/write", "wo": "write only"}


def map_json(registers: NicRegisters = REGISTERS) -> str:
    """Return the register map as JSON text."""
    described: list[dict[str, Any]] = []
    for register in registers:
        fields = [
            {"name": part.name, "lsb": part.lsb, "width": part.width, "reset": part.reset,
             "description": part.description}
            for part in register.fields
        ]  # fmt: skip
        described.append({
            "name": register.name, "offset": register.offset, "width": register.width,
            "access": register.access, "reset": register.reset, "description": register.description,
            "fields": fields,
        })  # fmt: skip
    head = {"name": "inceptionn_nic", "codec": registers.codec, **({"bf16": True} if registers.bf16 else {})}
    head |= {"version": ".".join(map(str, MAP_VERSION)), "bus": "AXI4-Lite"}
    widths = {"address_width": ADDRESS_WIDTH, "data_width": DATA_WIDTH}
    return json.dumps({**head, **widths, "registers": described}, indent=1) + "\n"


_MARKDOWN_HEAD = f"""# Registers of `inceptionn_nic`

<!-- Written by `python -m inceptionn.hdl.control.register_files docs/registers.md`; do not edit. -->

AXI4-Lite, {DATA_WIDTH}-bit data, {1 << ADDRESS_WIDTH} bytes; map version {".".join(map(str, MAP_VERSION))}.

- The two lowest address bits are ignored: every access is to a whole word, and `wstrb` selects the bytes
  that a write changes. `awprot` and `arprot` are ignored.
- A read of an address without a register returns zero and `SLVERR`. A write to one, or to a read-only
  register, has no effect and returns `SLVERR`. A write-only register reads as zero.
- Counters have 64 bits: low word at the offset, high word at the offset + 4. **Read the low word first**:
  that read stores the high word of the same moment, and the next read of any counter's high word returns it.
- A frame is in the counters at most 114 cycles after its verdict. Reset and `CLEAR_COUNTERS` set them to
  zero; a counter that is read meanwhile responds when that is done.
- When an engine is empty, `FRAMES_IN`, `FRAMES_OUT` and the sum of its verdict counters agree (unless frames
  were inside it when the counters were cleared).
"""


def _control_tables(registers: Iterable[Register]) -> list[str]:
    lines = ["| offset | register | access | reset | |", "|---|---|---|---|---|"]
    control = [register for register in registers if register.fields]
    for register in control:
        access = ACCESS_TEXT[register.access]
        row = (f"`{register.offset:#05x}`", f"`{register.name}`", access, f"`{register.reset:#010x}`")
        lines.append(f"| {' | '.join(row)} | {register.description} |")
    lines += ["", "| field | bits | reset | |", "|---|---|---|---|"]
    for register in control:
        for part in register.fields:
            name = f"`{register.name}.{part.name}`"
            lines.append(f"| {name} | {part.bits} | `{part.reset:#x}` | {part.description} |")
    return lines


def _counter_table(registers: Iterable[Register]) -> list[str]:
    lines = ["| offset | counter | |", "|---|---|---|"]
    for register in registers:
        lines.append(f"| `{register.offset:#05x}` | `{register.name}` | {register.description} |")
    return lines


def map_markdown() -> str:
    """Return the register map as Markdown: that of the paper's codec, then how the others differ."""
    lines = [_MARKDOWN_HEAD, "## Control", "", *_control_tables(REGISTERS)]
    for direction in DIRECTIONS:
        title = {"tx": "Transmit (host to wire)", "rx": "Receive (wire to host)"}[direction]
        lines += ["", f"## {title}: counters", "", *_counter_table(REGISTERS.counters(direction).values())]
    for codec in CODECS:
        if codec != PAPER:
            lines += _differences(codec)
    for codec in BF16_CODECS:
        new = _new(registers_of(codec, bf16=True), registers_of(codec))
        lines += ["", "## With bf16 lanes", "", *_bf16_head(codec), *_tables(new)]
    return "\n".join(lines) + "\n"


def _bf16_head(codec: str) -> list[str]:
    return [
        f"`VERSION.BF16` tells them. With `--bf16`, a NIC with the {codec} codec has the registers above, "
        "except:",
        "",
        "- A driver that writes 0 to the new byte of `TOS` has a NIC with fp32 lanes alone.",
        "- These differ or are new:",
        "",
    ]


def _new(registers: Iterable[Register], known: Iterable[Register]) -> list[Register]:
    old = set(known)
    return [register for register in registers if register not in old]


def _tables(registers: list[Register]) -> list[str]:
    counted = (register for register in registers if not register.fields)
    return [*_control_tables(registers), "", *_counter_table(counted)]


def _differences(codec: str) -> list[str]:
    """Return the section on how a codec's map differs from that of the paper's codec."""
    mine = registers_of(codec)
    gone = {register.name for register in REGISTERS} - {register.name for register in mine}
    names = ", ".join(f"`{register.name}`" for register in REGISTERS if register.name in gone)
    return [
        "",
        f"## With the {codec} codec",
        "",
        f"`VERSION.WIRE` tells the codec. A NIC with the {codec} codec has the registers above, except:",
        "",
        *([f"- It has no {names}."] if names else []),
        "- These differ or are new:",
        "",
        *_tables(_new(mine, REGISTERS)),
    ]


def write_map_json(path: Path | str, registers: NicRegisters = REGISTERS) -> None:
    """Write the register map as JSON to ``path``."""
    Path(path).write_text(map_json(registers), encoding="utf-8")


def write_map_markdown(path: Path | str) -> None:
    """Write the register map as Markdown to ``path``."""
    Path(path).write_text(map_markdown(), encoding="utf-8")


if __name__ == "__main__":
    for name in sys.argv[1:]:
        (write_map_json if name.endswith(".json") else write_map_markdown)(name)

# SPDX-License-Identifier: BSD-2-Clause
"""The pins of a board as a table (CSV), and the Vivado constraints that are written from it.

``python -m inceptionn.boards.pin_table DIR`` writes ``vc709_<function>.xdc`` for every function of
the VC709's table, as they lie in :mod:`inceptionn.constraints`.
"""

import csv
import re
import sys
from dataclasses import dataclass
from pathlib import Path

from inceptionn.constraints import read

PIN_TABLES = {"vc709": ("vc709_pins.csv", "vc709_ddr3_pins.csv"), "netfpga_sume": ("netfpga_sume_pins.csv",)}
"""Files of :mod:`inceptionn.constraints` by board."""

_PIN = re.compile(r"[A-Z]{1,2}[0-9]{1,2}")
_DIRECTIONS = ("in", "out", "inout")


@dataclass(frozen=True)
class Pin:
    """One package pin of the FPGA and what the board connects it to.

    Attributes
    ----------
    function : what it is for (``clocks``, ``leds``, ``sfp``, ...); one constraints file each.
    port : the net, as the HDL names its port; ``name[3]`` is bit 3 of a vector.
    pin : package pin, such as ``AB8``.
    iostandard : of Vivado; empty for the pins of a transceiver, which have none.
    direction : ``in``, ``out`` or ``inout``, seen from the FPGA.
    attributes : more Vivado properties of the port.
    period_ns : of a clock input, empty where no frequency is known.
    sources : where the pin was found, one key for each; none for the memory tables.
    note : what else is known.
    """

    function: str
    port: str
    pin: str
    iostandard: str
    direction: str
    attributes: tuple[tuple[str, str], ...] = ()
    period_ns: str = ""
    sources: str = ""
    note: str = ""


def _pin(row: dict[str, str], where: str) -> Pin:
    """Parse one row of a table; ``ValueError`` names the file and line of an invalid row."""
    if None in row or None in row.values():
        raise ValueError(f"{where}: wrong number of columns: {row!r}")
    if not _PIN.fullmatch(row["pin"]):
        raise ValueError(f"{where}: pin must be one or two letters and a number, not {row['pin']!r}")
    if row["direction"] not in _DIRECTIONS:
        raise ValueError(
            f"{where}: direction must be one of {', '.join(_DIRECTIONS)}, not {row['direction']!r}"
        )
    attributes = []
    for word in row.pop("attributes", "").split():
        name, equals, value = word.partition("=")
        if not equals:
            raise ValueError(f"{where}: attribute must be NAME=VALUE, not {word!r}")
        attributes.append((name, value))
    return Pin(**row, attributes=tuple(attributes))


def parse(text: str, name: str) -> list[Pin]:
    """Parse the pins of a table's text; errors begin with ``name``. A pin or port twice is an error."""
    pins: list[Pin] = []
    for line, row in enumerate(csv.DictReader(text.splitlines()), 2):
        pins.append(_pin(row, f"{name}:{line}"))
    for attribute in ("pin", "port"):
        seen: set[str] = set()
        for pin in pins:
            value = getattr(pin, attribute)
            if value in seen:
                raise ValueError(f"{name}: {attribute} {value!r} is there twice")
            seen.add(value)
    return pins


def pins(board: str) -> list[Pin]:
    """Return all pins of a board, one of :data:`PIN_TABLES`. Raise ``ValueError`` for any other."""
    if board not in PIN_TABLES:
        raise ValueError(f"board must be one of {', '.join(PIN_TABLES)}, not {board!r}")
    return [pin for name in PIN_TABLES[board] for pin in parse(read(name), name)]


_HEADERS = {
    "clocks": "Oscillators and clock connectors.",
    "sfp": "SFP+ cages. Net SFP1 is cage P3, SFP2 is P2, SFP3 is P4, SFP4 is P5.",
    "ddr3": "Two DDR3 SODIMM sockets: c0 (clock sysclk200) and c1 (sysclk233). A MIG core writes its own "
    "constraints; these are to check them against.",
    "pcie": "PCI Express edge connector, 8 lanes.",
    "flash": "BPI configuration flash.",
}


_SOURCES = {
    "vc709": (
        "Sources: B Xilinx's public board files, T the connectivity reference design, X taxi,",
        "F fpga-network-stack, N Netnod; A C D M U constraints of other open projects; recall: from memory.",
    ),
    "netfpga_sume": ("Source: the constraints of Corundum's port to the board (BSD-2-Clause).",),
}


def _properties(pin: Pin) -> str:
    """Write the ``-dict`` of one ``set_property``."""
    words = [f"PACKAGE_PIN {pin.pin}"]
    if pin.iostandard:
        words.append(f"IOSTANDARD {pin.iostandard}")
    return " ".join(words + [f"{name} {value}" for name, value in pin.attributes])


def xdc(board: str, function: str) -> str:
    """Write the constraints file of one function of a board.

    Raises ``ValueError`` for an unknown function.
    """
    found = [pin for pin in pins(board) if pin.function == function]
    if not found:
        known = ", ".join(dict.fromkeys(pin.function for pin in pins(board)))
        raise ValueError(f"function of {board} must be one of {known}, not {function!r}")
    tables = [name for name in PIN_TABLES[board] if found[0] in parse(read(name), name)]
    lines = [
        "# SPDX-License-Identifier: BSD-2-Clause",
        f"# {board.upper()}, {function}. {_HEADERS.get(function, '')}".rstrip(),
        f"# Written from {', '.join(tables)} by inceptionn.boards.pin_table: change the table,",
        "# not this file. Read by no Vivado yet.",
    ]
    if any(pin.sources for pin in found):
        lines += [f"# {line}" for line in _SOURCES[board]]
    for pin in found:
        comment = "; ".join(
            text for text in (pin.note, f"sources: {pin.sources}" if pin.sources else "") if text
        )
        if comment and pin.note:
            lines.append(f"# {pin.port}: {comment}")
        lines.append(f"set_property -dict {{{_properties(pin)}}} [get_ports {{{pin.port}}}]")
    for pin in found:
        if pin.period_ns:
            name = pin.port.removesuffix("_p")
            lines.append(f"create_clock -name {name} -period {pin.period_ns} [get_ports {{{pin.port}}}]")
    return "\n".join(lines) + "\n"


def write(board: str, folder: Path) -> list[Path]:
    """Write the constraints of every function of a board into ``folder``; return their paths."""
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    for function in dict.fromkeys(pin.function for pin in pins(board)):
        path = folder / f"{board}_{function}.xdc"
        path.write_text(xdc(board, function), encoding="utf-8")
        written.append(path)
    return written


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: python -m inceptionn.boards.pin_table DIR")
    for board_name in PIN_TABLES:
        for path in write(board_name, Path(sys.argv[1])):
            print(path)

# SPDX-License-Identifier: BSD-2-Clause
"""Steps on an ECP5 netlist that vendor tools perform by default, and Yosys and nextpnr do not.

A ``module`` is one of Yosys's JSON netlist after ``synth_ecp5``. It is changed in place.
"""

import json
import re
from collections import defaultdict
from collections.abc import Iterator
from itertools import count
from os.path import commonprefix
from pathlib import Path
from typing import Any

LEAST_BUFFERED = 4000
"""Flip-flops that a reset must serve to get a global net.

The way onto and along such a net takes 4 to 6 ns, so that a small and fast circuit is better without.
"""


def pack_output_registers(module: dict[str, Any]) -> int:
    """Move registers directly after block RAMs into the RAMs' own output registers.

    The result is the number of RAMs changed. A DP16KD holds an output register (clock-to-out 0.7 ns instead
    of 4.3 ns), as block RAMs of series 7 do; vendor tools move a register there, Yosys does not, nextpnr
    times it. Moved are registers without enable and reset, on the port's clock, that alone take the read
    data, and only for all used bits of a port at once.
    """
    cells = module["cells"]
    takers: dict[int, list[tuple[str, str]]] = {}
    for name, cell in cells.items():
        for port, bits in cell["connections"].items():
            if cell["port_directions"].get(port) != "output":
                for bit in bits:
                    takers.setdefault(bit, []).append((name, port))
    outside = {bit for port in module["ports"].values() for bit in port["bits"]}

    def register_behind(bit: int, clock: int) -> str | None:
        if bit in outside or len(takers.get(bit, ())) != 1:
            return None
        name, port = takers[bit][0]
        cell = cells[name]
        if cell["type"] != "TRELLIS_FF" or port not in ("DI", "M"):
            return None
        pins, settings = cell["connections"], cell["parameters"]
        enabled = settings.get("CEMUX", "CE").strip() == "1" or pins.get("CE") == ["1"]
        free = pins.get("LSR", ["0"]) == ["0"] and settings.get("REGSET", "RESET") == "RESET"
        same_clock = pins["CLK"] == [clock] and settings.get("CLKMUX", "CLK") == "CLK"
        return name if enabled and free and same_clock else None

    changed = 0
    for cell in [cell for cell in cells.values() if cell["type"] == "DP16KD"]:
        pins, settings = cell["connections"], cell["parameters"]
        # At 36 bits both halves are one read port, on clock B.
        wide = int(str(settings.get("DATA_WIDTH_B", "0")), 2) == 36
        packed = False
        for sides in ("AB",) if wide else ("A", "B"):
            outputs = [pin for pin in pins if pin[:2] == "DO" and pin[2] in sides]
            used = [pin for pin in outputs if takers.get(pins[pin][0]) or pins[pin][0] in outside]
            clock = pins[f"CLK{sides[-1]}"][0]
            registers = {pin: register_behind(pins[pin][0], clock) for pin in used}
            if not used or None in registers.values():
                continue
            for pin, register in registers.items():
                assert register is not None
                pins[pin] = cells.pop(register)["connections"]["Q"]
            for side in sides:
                settings[f"REGMODE_{side}"] = "OUTREG"
            packed = True
        changed += packed
    return changed


def tie_constant_registers(module: dict[str, Any]) -> int:
    """Replace registers whose input is a constant by that constant, and those after them.

    The result is their number. Only registers without reset and enable are replaced, whatever their initial
    value. That is for measurements alone: in a bitstream, such a register may tell the first cycle after
    power-up. Fields of which some bits are always 1 have registers that begin with 0, and Yosys merges all
    these to one, with a hundred loads all over the part.
    """
    cells = module["cells"]
    tied: dict[Any, str] = {}  # constants by the bits that they replace

    def constant(cell: dict[str, Any]) -> str | None:
        pins, settings = cell["connections"], cell["parameters"]
        (value,) = pins.get("DI") or pins.get("M") or ["x"]
        value = tied.get(value, value)
        enabled = settings.get("CEMUX", "CE").strip() == "1" or pins.get("CE") == ["1"]
        return value if value in ("0", "1") and enabled and pins.get("LSR", ["0"]) == ["0"] else None

    while found := {
        name: value
        for name, cell in cells.items()
        if cell["type"] == "TRELLIS_FF" and (value := constant(cell)) is not None
    }:
        for name, value in found.items():
            (bit,) = cells.pop(name)["connections"]["Q"]
            tied[bit] = value
    for cell in cells.values():
        for port, bits in cell["connections"].items():
            cell["connections"][port] = [tied.get(bit, bit) for bit in bits]
    for port in module["ports"].values():
        port["bits"] = [tied.get(bit, bit) for bit in port["bits"]]
    return len(tied)


def buffer_resets(module: dict[str, Any]) -> int:
    """Put each reset of at least :data:`LEAST_BUFFERED` flip-flops on a global net of its own.

    The result is their number. nextpnr makes only clocks global. A reset of the whole design then lies on
    ordinary wires: it pulls all cells towards its source, and whenever the router takes one of its wires for
    another net, it has to route hundreds of branches across the part again. Inputs of logic stay on
    ordinary wires, but those of each component get a register of their own (:func:`_copy_register`).
    """
    cells = module["cells"]
    served = defaultdict(list)
    for cell in cells.values():
        if cell["type"] == "TRELLIS_FF":
            (reset,) = cell["connections"].get("LSR", ["0"])
            if isinstance(reset, int):
                served[reset].append(cell)
    large = {reset: users for reset, users in served.items() if len(users) >= LEAST_BUFFERED}
    free = _free_nets(module)
    for reset, flip_flops in sorted(large.items()):
        bit = next(free)
        for cell in flip_flops:
            cell["connections"]["LSR"] = [bit]
        cells[f"global_reset_{bit}"] = {
            "type": "DCCA",
            "parameters": {},
            "attributes": {},
            "port_directions": {"CLKI": "input", "CE": "input", "CLKO": "output"},
            "connections": {"CLKI": [reset], "CE": ["1"], "CLKO": [bit]},
        }
        _copy_register(cells, reset, free)
    return len(large)


def spread_resets(module: dict[str, Any], clock: str) -> int:
    """Give each component a register of its own of the resets that are synchronised to this clock.

    ``clock`` is the end of its net's name. The result is the number of new registers. Without them, one net
    goes to all of a clock's flip-flops, and in a large part its way is the slowest path.

    The new registers are one more stage of the synchroniser. They are set with it and end in one cycle.
    """
    cells = module["cells"]
    nets = [net["bits"] for name, net in module["netnames"].items() if re.split(r"[$.]", name)[-1] == clock]
    clocked = [
        cell for cell in cells.values() if cell["type"] == "TRELLIS_FF" and cell["connections"]["CLK"] in nets
    ]
    resets = {
        bit
        for cell in clocked
        if cell["parameters"].get("SRMODE") != "ASYNC"
        for bit in cell["connections"].get("LSR", ())
    }
    synchronisers = {
        cell["connections"]["Q"][0]: cell
        for cell in clocked
        if cell["parameters"].get("SRMODE") == "ASYNC" and resets.issuperset(cell["connections"]["Q"])
    }
    free = _free_nets(module)
    made = 0
    for net, last in sorted(synchronisers.items()):
        pins = {name: bits for name, bits in last["connections"].items() if name not in ("DI", "M")}
        made += _stand_in(cells, net, last | {"connections": {**pins, "DI": [net]}}, free)
    return made


def _free_nets(module: dict[str, Any]) -> Iterator[int]:
    """Count up the numbers that no net has."""
    used = (bit for net in module["netnames"].values() for bit in net["bits"] if isinstance(bit, int))
    return count(1 + max(used))


def _copy_register(cells: dict[str, Any], net: int, free: Iterator[int]) -> None:
    """Let a copy of the register that drives ``net`` drive its inputs of logic in each component.

    A register with an asynchronous reset is not copied: it may be the last of a synchroniser, whose copies
    may differ.
    """
    source = next((cell for cell in cells.values() if cell["connections"].get("Q") == [net]), None)
    if source is not None and source["parameters"].get("SRMODE") != "ASYNC":
        _stand_in(cells, net, source, free)


def _stand_in(cells: dict[str, Any], net: int, register: dict[str, Any], free: Iterator[int]) -> int:
    """Let a register like this one drive the inputs on ``net`` in each component; return their number.

    Components are those in which the names of these inputs first differ.
    """
    loads = [
        (name.split("."), cell["connections"], port)
        for name, cell in cells.items()
        for port, bits in cell["connections"].items()
        if bits == [net] and port not in ("Q", "CLKI")
    ]
    depth = 1 + len(commonprefix([name for name, _, _ in loads]))
    copies = {component: next(free) for component in sorted({tuple(name[:depth]) for name, _, _ in loads})}
    for name, pins, port in loads:
        pins[port] = [copies[tuple(name[:depth])]]
    for component, bit in copies.items():
        pins = register["connections"] | {"Q": [bit]}
        cells[".".join((*component, f"reset_copy_{bit}"))] = register | {"connections": pins}
    return len(copies)


def reopen(file: Path) -> None:
    """Let nextpnr go on with a netlist that it packed and placed itself, and wrote.

    It would give each port a pin once more, and prefer the settings of the run that wrote it.
    """
    design = json.loads(file.read_text())
    for module in design["modules"].values():
        module["ports"] = {}
        module["settings"] = {}
    file.write_text(json.dumps(design))

# SPDX-License-Identifier: BSD-2-Clause
"""The bring-up design's commands and report as registers, over its serial line."""

import re

from inceptionn.hdl.control.register_map import Register
from inceptionn.wire import DEFAULT_MODE, parameters

from ..bring_up.registers import ACTIONS, REGISTERS, SETTINGS, VALUES, VERDICTS, Fault
from .bus import WORD_BYTES, Bus, BusError
from .uart import SerialLine

_REPORT = re.compile(
    " ".join(rf"{name}=(?P<{name}>\d{{1,20}})" for name in VALUES).encode()
    + rb" (?P<verdict>%s)\r\n" % b"|".join(verdict.upper().encode() for verdict in VERDICTS)
)
_DONE = re.compile(rb"\r\nok\r\n")
_REFUSED = re.compile(rb"(no such (?:number|command)[^\r]*)\r\n")


class BringUpBus(Bus):
    """The map `inceptionn.boards.bring_up.registers.REGISTERS`, by commands and reports.

    A read of a low word asks for a report; a read of the high word after it uses the same report.
    """

    registers = REGISTERS

    def __init__(self, line: SerialLine) -> None:
        self._line = line
        self._report: dict[str, int] = {}

    def read32(self, address: int) -> int:
        register = self._register(address)
        if address == register.offset:
            found = self._line.ask("report", _REPORT, _REFUSED)
            self._report = {name: int(found[name]) for name in VALUES}
            verdict = found["verdict"].decode().lower()
            self._report["verdict"] = 1 << VERDICTS.index(verdict)
        value = self._report.get(register.name.lower(), 0)  # commands read as zero
        return value >> 8 * (address - register.offset) & 0xFFFF_FFFF

    def write32(self, address: int, value: int) -> None:
        register = self._register(address)
        name = register.name.lower()
        if name in SETTINGS:
            commands = [f"{name} {value & register.mask}"]
        elif name == "command":
            commands = [action for bit, action in enumerate(ACTIONS) if value >> bit & 1]
        elif name == "inject":
            commands = [f"inject {fault:d}" for fault in Fault if value >> fault & 1]
        else:
            raise BusError(f"register {register.name} is read only")
        for command in commands:
            self._line.ask(command, _DONE, _REFUSED)

    def _register(self, address: int) -> Register:
        try:
            return self.registers.words[address]
        except KeyError:
            raise BusError(f"no register at {address:#x}, a multiple of {WORD_BYTES}") from None

    def set_bound(self, k: int, mode: str | None = None) -> None:
        parameters(k, mode or DEFAULT_MODE)
        if mode not in (None, DEFAULT_MODE):
            raise ValueError(f"mode of the bring-up design must be {DEFAULT_MODE}, not {mode!r}")
        self.write("BOUND", k)

    def close(self) -> None:
        self._line.close()

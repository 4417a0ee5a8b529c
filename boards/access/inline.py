# SPDX-License-Identifier: BSD-2-Clause
"""Registers over a serial line, of an inline device or of the bring-up design."""

import re
from pathlib import Path

from inceptionn.hdl.control.registers import IDENTITY, has_bf16
from inceptionn.hdl.inline.registers import inline_registers

from .bring_up import BringUpBus
from .bus import Bus, BusError
from .uart import BAUD, SerialLine

_VALUE = re.compile(rb"^([0-9a-f]{8})\r\n", re.MULTILINE)
_DONE = re.compile(rb"^(ok)\r\n", re.MULTILINE)
_REFUSED = re.compile(rb"^(error)\r\n", re.MULTILINE)


class InlineBus(Bus):
    """An inline device: the NIC's registers, if it has ``engines``, and the ports', by lines of text.

    :class:`~inceptionn.hdl.inline.console.RegisterConsole` has the lines. Raises `BusError` for another
    design.
    """

    def __init__(self, line: SerialLine, *, engines: bool = True) -> None:
        self._line = line
        if engines:
            self.identify()
        self.registers = inline_registers(self.codec or None, engines and has_bf16(self.read("VERSION")))

    def read32(self, address: int) -> int:
        return int(self._line.ask(f"r {address:x}", _VALUE, _REFUSED)[1], 16)

    def write32(self, address: int, value: int) -> None:
        self._line.ask(f"w {address:x} {value:x}", _DONE, _REFUSED)

    def close(self) -> None:
        self._line.close()


_EITHER = re.compile(rb"^(?:(?P<nic>%08x)|(?P<ports>error))\r\n|seconds=\d" % IDENTITY, re.MULTILINE)
_NEVER = re.compile(rb"(?!)")


def open_uart(path: Path, baud: int = BAUD) -> Bus:
    """Detect the design at a serial line, and return its bus.

    An inline device answers ``r 0`` with register 0, which the pass-through design lacks. The bring-up design
    answers with a report. The first answer may belong to a line that another program left unfinished.
    """
    line = SerialLine(path, baud)
    try:
        found = line.ask("r 0", _EITHER, _NEVER)
        if found["ports"]:
            found = line.ask("r 0", _EITHER, _NEVER)
        if found["nic"] or found["ports"]:
            return InlineBus(line, engines=bool(found["nic"]))
        return BringUpBus(line)
    except BusError:
        line.close()
        raise

# SPDX-License-Identifier: BSD-2-Clause
"""Registers over a serial line: of the bring-up design, or of an inline device."""

from __future__ import annotations

import os
import re
import select
import termios
import time
import tty
from pathlib import Path

from inceptionn.hdl.control.registers import IDENTITY
from inceptionn.hdl.inline.registers import inline_registers

from .bus import Bus, BusError

BAUD = 115_200
"""Bits per second of both designs as they are built."""
_PATIENCE = 5.0
"""Seconds for an answer; a report of 250 characters takes 22 ms at 115,200 baud."""


class SerialLine:
    """A serial device, raw, 8 data bits, no parity, 1 stop bit.

    ``ValueError`` for a speed that termios has not, `BusError` for a file that is no serial line.
    """

    def __init__(self, path: Path, baud: int = BAUD) -> None:
        self.path = path
        speed = getattr(termios, f"B{baud}", None)
        if speed is None:
            raise ValueError(f"baud must be a speed of termios such as {BAUD}, not {baud!r}")
        self._line = os.open(path, os.O_RDWR | os.O_NOCTTY | os.O_CLOEXEC)
        try:
            tty.setraw(self._line, termios.TCSANOW)
            settings = termios.tcgetattr(self._line)
            settings[4] = settings[5] = speed  # input and output
            termios.tcsetattr(self._line, termios.TCSANOW, settings)
        except termios.error as error:
            self.close()
            raise BusError(f"{str(path)!r} is not a serial line: {error.args[1]}") from None

    def ask(self, command: str, wanted: re.Pattern[bytes], refused: re.Pattern[bytes]) -> re.Match[bytes]:
        """Sends a command and returns its answer. `BusError` if it is refused or no answer comes."""
        termios.tcflush(self._line, termios.TCIFLUSH)
        os.write(self._line, f"{command}\r".encode())
        heard, deadline = b"", time.monotonic() + _PATIENCE
        while (left := deadline - time.monotonic()) > 0:
            if not select.select([self._line], [], [], left)[0]:
                break
            heard += os.read(self._line, 4096)
            if found := wanted.search(heard):
                return found
            if no := refused.search(heard):
                raise BusError(f"{command!r} at {str(self.path)!r}: {no[1].decode()}")
        raise BusError(
            f"no answer to {command!r} at {str(self.path)!r} within {_PATIENCE:g} s: {heard[-80:]!r}"
        )

    def close(self) -> None:
        """Gives the device back. Nothing at a second call."""
        if self._line >= 0:
            os.close(self._line)
            self._line = -1


_VALUE = re.compile(rb"^([0-9a-f]{8})\r\n", re.MULTILINE)
_DONE = re.compile(rb"^(ok)\r\n", re.MULTILINE)
_REFUSED = re.compile(rb"^(error)\r\n", re.MULTILINE)


class InlineBus(Bus):
    """An inline device: the NIC's registers, if it has ``engines``, and the ports', by lines of text.

    :class:`~inceptionn.hdl.inline.console.RegisterConsole` has the lines. `BusError` for another design.
    """

    def __init__(self, line: SerialLine, *, engines: bool = True) -> None:
        self._line = line
        if engines:
            self.identify()
        self.registers = inline_registers(self.codec or None)

    def read32(self, address: int) -> int:
        return int(self._line.ask(f"r {address:x}", _VALUE, _REFUSED)[1], 16)

    def write32(self, address: int, value: int) -> None:
        self._line.ask(f"w {address:x} {value:x}", _DONE, _REFUSED)

    def close(self) -> None:
        self._line.close()


_EITHER = re.compile(rb"^(?:(?P<nic>%08x)|(?P<ports>error))\r\n|seconds=\d" % IDENTITY, re.MULTILINE)
_NEVER = re.compile(rb"(?!)")


def open_uart(path: Path, baud: int = BAUD) -> Bus:
    """The bus of the design at a serial line; it is asked which it is.

    To an inline device ``r 0`` means register 0, which the pass-through design has not. To the bring-up
    design it means a report.
    """
    from .bring_up import BringUpBus

    line = SerialLine(path, baud)
    try:
        found = line.ask("r 0", _EITHER, _NEVER)
        if found["nic"] or found["ports"]:
            return InlineBus(line, engines=bool(found["nic"]))
        return BringUpBus(line)
    except BusError:
        line.close()
        raise

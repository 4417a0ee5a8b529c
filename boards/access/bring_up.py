# SPDX-License-Identifier: BSD-2-Clause
"""The bring-up design's commands and report as registers, over its serial line."""

from __future__ import annotations

import os
import re
import select
import termios
import time
import tty
from pathlib import Path

from inceptionn.hdl.control.register_map import Register
from inceptionn.wire import DEFAULT_MODE, parameters

from ..bring_up.registers import ACTIONS, REGISTERS, SETTINGS, VALUES, VERDICTS, Fault
from .bus import WORD_BYTES, Bus, BusError

BAUD = 115_200
"""Bits per second of the design as it is generated."""
_PATIENCE = 5.0
"""Seconds for an answer; a report of 250 characters takes 22 ms at 115,200 baud."""
_REPORT = re.compile(
    " ".join(rf"{name}=(?P<{name}>\d+)" for name in VALUES).encode()
    + rb" (?P<verdict>%s)\r\n" % b"|".join(verdict.upper().encode() for verdict in VERDICTS)
)
_REFUSED = re.compile(rb"(no such (?:number|command)[^\r]*)\r\n")


class BringUpBus(Bus):
    """The map `inceptionn.boards.bring_up.registers.REGISTERS`, by commands and reports.

    A read of a low word asks for a report; a read of the high word after it uses the same report.
    """

    registers = REGISTERS

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
            os.close(self._line)
            raise BusError(f"{str(path)!r} is not a serial line: {error.args[1]}") from None
        self._report: dict[str, int] = {}

    def _ask(self, command: str, wanted: re.Pattern[bytes]) -> re.Match[bytes]:
        """Sends a command and returns its answer. `BusError` if the command is refused or no answer comes."""
        termios.tcflush(self._line, termios.TCIFLUSH)
        os.write(self._line, f"{command}\r".encode())
        heard, deadline = b"", time.monotonic() + _PATIENCE
        while (left := deadline - time.monotonic()) > 0:
            if not select.select([self._line], [], [], left)[0]:
                break
            heard += os.read(self._line, 4096)
            if found := wanted.search(heard):
                return found
            if refused := _REFUSED.search(heard):
                raise BusError(f"{command!r} at {str(self.path)!r}: {refused[1].decode()}")
        raise BusError(
            f"no answer to {command!r} at {str(self.path)!r} within {_PATIENCE:g} s: {heard[-80:]!r}"
        )

    def read32(self, address: int) -> int:
        register = self._register(address)
        if address == register.offset:
            found = self._ask("report", _REPORT)
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
            self._ask(command, re.compile(rb"\r\nok\r\n"))

    def _register(self, address: int) -> Register:
        try:
            return self.registers.words[address]
        except KeyError:
            raise BusError(f"no register at {address:#x}, a multiple of {WORD_BYTES}") from None

    def set_bound(self, k: int, mode: str = DEFAULT_MODE) -> None:
        parameters(k, mode)
        if mode != DEFAULT_MODE:
            raise ValueError(f"mode of the bring-up design must be {DEFAULT_MODE}, not {mode!r}")
        self.write("BOUND", k)

    def close(self) -> None:
        if self._line >= 0:
            os.close(self._line)
            self._line = -1

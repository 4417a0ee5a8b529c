# SPDX-License-Identifier: BSD-2-Clause
"""A serial line to a design, which answers commands with lines of text."""

import os
import re
import select
import termios
import time
import tty
from pathlib import Path

from inceptionn.system.text import printable

from .bus import BusError

BAUD = 115_200
"""Default bits per second of both designs."""
_PATIENCE = 5.0
"""Seconds to wait for an answer. A report of 250 characters takes 22 ms at 115,200 baud."""


class SerialLine:
    """A serial device, raw, 8 data bits, no parity, 1 stop bit.

    Raises ``ValueError`` for a speed that termios does not support, and for a file that is not a serial line.
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
            settings[2] &= ~(termios.CSTOPB | termios.CRTSCTS)  # one stop bit, no flow control
            settings[4] = settings[5] = speed  # input and output
            termios.tcsetattr(self._line, termios.TCSANOW, settings)
        except termios.error as error:
            self.close()
            raise ValueError(f"{str(path)!r} is not a serial line: {error.args[1]}") from None

    def ask(self, command: str, wanted: re.Pattern[bytes], refused: re.Pattern[bytes]) -> re.Match[bytes]:
        """Send a command and return its answer.

        Raises `BusError` if it is refused or no answer arrives.
        """
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
                reason = printable(no[1].decode("ascii", "backslashreplace"))
                raise BusError(f"{command!r} at {str(self.path)!r}: {reason}")
        raise BusError(
            f"no answer to {command!r} at {str(self.path)!r} within {_PATIENCE:g} s: {heard[-80:]!r}"
        )

    def close(self) -> None:
        """Close the device. A second call does nothing."""
        if self._line >= 0:
            os.close(self._line)
            self._line = -1

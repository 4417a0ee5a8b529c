# SPDX-License-Identifier: BSD-2-Clause
"""Messages of the bring-up design on its serial line."""

from .registers import BOUNDS, VALUES, VERDICTS, Fault
from .traffic.patterns import PATTERNS

_PATTERNS = " ".join(f"{number} {pattern.name}" for number, pattern in enumerate(PATTERNS))
_FAULTS = " ".join(f"{fault.value} {fault.name.lower()}" for fault in Fault)

MESSAGES = {
    # What a report ends with.
    **{name: f"{name.upper()}\r\n" for name in VERDICTS},
    "ok": "\r\nok\r\n",
    "range": "\r\nno such number: help shows the choices\r\n",
    "unknown": "\r\nno such command: try help\r\n",
    "help": "\r\ninceptionn bring-up: compressor and decompressor back to back\r\n"
    "go | stop | clear | report | help: the first letter is enough\r\n"
    f"pattern N: {_PATTERNS}\r\n"
    f"bound K: 2^-K, {BOUNDS.start} to {BOUNDS.stop - 1}\r\n"
    f"inject N: {_FAULTS}\r\n",
    "report": "\r\n" + " ".join(f"{name}={{{name}}}" for name in VALUES) + " ",
}
"""By name, in the order in which they are printed if several wait."""

# SPDX-License-Identifier: BSD-2-Clause
"""The settings and results on the bring-up design's serial line, also as a register map. Needs no Amaranth.

The design has commands and a report, and no bus. The offsets are the host's own:
:class:`~inceptionn.boards.access.bring_up.BringUpBus` turns each access into a command or a report.
"""

from enum import IntEnum

from inceptionn.hdl.control.register_map import Field, Register, RegisterMap
from inceptionn.wire import DEFAULT_K, MAX_K, MIN_K

BOUNDS = range(MIN_K, MAX_K + 1)
"""The k of the error bounds 2^-k."""
VALUES = (
    "seconds", "pattern", "bound", "packets", "values", "wire", "values_rate", "wire_rate",
    "mismatched", "beyond_bound", "wrong_size", "wrong_format", "hangs",
)  # fmt: skip
"""The numbers of a report, in the order of its line; rates are of the last whole second."""
VERDICTS = ("fail", "pass", "idle")


class Fault(IntEnum):
    """The faults of the command ``inject``."""

    WIRE = 0
    """Bit 0 of the next block on the wire, in the first lane's tag: its group changes its size."""
    VALUE = 1
    """Bit 0 of the next restored beat: the last mantissa bit of one value."""
    BASE = 2
    """The decompressor is told a B that is one too high, until the next start: 8-bit values double."""
    STALL = 3
    """Nothing passes between the engines until the next start: a hang."""


ACTIONS = ("go", "stop", "clear")
"""The console's commands without a number, in the order of the bits of ``COMMAND``."""
SETTINGS = ("pattern", "bound")
"""The numbers of a report that are settings; the others are counts and rates."""
_RESETS = {"pattern": 0, "bound": DEFAULT_K}
_COUNTERS = 0x40

REGISTERS = RegisterMap(
    (
        *(
            Register(name.upper(), 4 * number, "rw", f"Command `{name}`; a write restarts.",
                     (Field("N", 0, 8, _RESETS[name], f"Number of the command `{name}`."),))
            for number, name in enumerate(SETTINGS)
        ),
        Register("COMMAND", 0x08, "wo", "Commands: write 1 to run one; 0 has no effect.",
                 tuple(Field(name.upper(), bit, 1, 0, f"Command `{name}`.")
                       for bit, name in enumerate(ACTIONS))),
        Register("INJECT", 0x0C, "wo", "Faults: write 1 to inject one; 0 has no effect.",
                 tuple(Field(fault.name, fault, 1, 0, f"Command `inject {fault:d}`.") for fault in Fault)),
        Register("VERDICT", 0x10, "ro", "Verdict of a report.",
                 tuple(Field(name.upper(), bit, 1, 0, f"The report ends with {name.upper()}.")
                       for bit, name in enumerate(VERDICTS))),
        *(
            Register(name.upper(), _COUNTERS + 8 * number, "ro", f"Number `{name}` of a report.", width=64)
            for number, name in enumerate(name for name in VALUES if name not in SETTINGS)
        ),
    ),
    address_width=8,
)  # fmt: skip
"""The registers that the serial line stands for."""

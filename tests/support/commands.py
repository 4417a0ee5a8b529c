# SPDX-License-Identifier: BSD-2-Clause
"""The commands of the command line, and registers that they can read."""

import struct

from inceptionn import cli
from inceptionn.hdl.control.registers import REGISTERS


def after_reset() -> bytes:
    """Return a memory that answers as the registers of a NIC after reset."""
    memory = bytearray(1 << 12)
    for register in REGISTERS:
        struct.pack_into("<I", memory, register.offset, register.reset)
    return bytes(memory)


def leaves() -> dict[str, cli.Command]:
    """Return every command that does something, by the words that call it."""
    found, stack = {}, list(cli.COMMANDS.items())
    while stack:
        name, command = stack.pop()
        if command.commands is None:
            found[name] = command
        else:
            stack += [(f"{name} {word}", below) for word, below in command.commands.items()]
    return dict(sorted(found.items()))

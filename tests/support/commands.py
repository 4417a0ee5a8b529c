# SPDX-License-Identifier: BSD-2-Clause
"""The commands of the command line."""

from inceptionn import cli


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

# SPDX-License-Identifier: BSD-2-Clause
"""Network namespaces, told from later ones of the same name, which other tests and other runs take."""

from collections.abc import Iterable

from inceptionn.netns import registry

Namespace = tuple[str, int, int]


def existing(names: Iterable[str]) -> set[Namespace]:
    """Return those of the names that exist, each with the inode and its time."""
    found = set()
    for name in names:
        try:
            place = (registry.NETNS / name).stat()
        except FileNotFoundError:
            continue
        found.add((name, place.st_ino, place.st_ctime_ns))
    return found

# SPDX-License-Identifier: BSD-2-Clause
"""The division of keys into partitions, and the server of each partition."""

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

WHOLE_BELOW = 256
"""Keys with fewer values are not divided, since their parts would cost more than a better balance gains."""

_GRID = 16
"""Keys are divided at multiples of 16 values, a cache line."""


@dataclass(frozen=True)
class Partition:
    """Values ``start`` to ``stop`` (exclusive) of the flattened array of a key.

    ``number`` is its place in the plan. ``server`` is the number of its server, 0..servers-1 (not a rank).
    """

    number: int
    key: str
    server: int
    start: int
    stop: int

    @property
    def size(self) -> int:
        """Number of values."""
        return self.stop - self.start


class Plan:
    """Assigns every value of every key to one server, in about equal shares.

    A key of at least ``whole_below`` values (and 16 per server) is divided into one range per server. The
    other keys stay whole. They are assigned in descending size, each to the server with the fewest values.
    The result depends only on the arguments, so every rank computes it independently. O(keys * servers).

    Raises ``ValueError`` for no key, no server, or a key without values.
    """

    def __init__(
        self, shapes: Mapping[str, Sequence[int]], servers: int, whole_below: int = WHOLE_BELOW
    ) -> None:
        if not shapes:
            raise ValueError("a parameter server needs at least one key")
        if servers < 1:
            raise ValueError(f"servers must be at least 1, not {servers!r}")
        self.shapes = {key: tuple(int(side) for side in shape) for key, shape in shapes.items()}
        self.servers, self.whole_below = servers, whole_below
        sizes = {key: math.prod(shape) for key, shape in self.shapes.items()}
        for key, size in sizes.items():
            if not size:
                raise ValueError(f"key {key!r} has no values: its shape is {self.shapes[key]}")
        cut = {key: size >= max(whole_below, servers * _GRID) and servers > 1 for key, size in sizes.items()}
        load = [0] * servers
        cuts: dict[str, list[tuple[int, int, int]]] = {}
        for key, size in sizes.items():
            if cut[key]:
                bounds = [round(i * size / servers / _GRID) * _GRID for i in range(servers)] + [size]
                cuts[key] = [(server, bounds[server], bounds[server + 1]) for server in range(servers)]
                for server, start, stop in cuts[key]:
                    load[server] += stop - start
        for key in sorted((key for key in sizes if not cut[key]), key=lambda key: (-sizes[key], key)):
            server = load.index(min(load))
            load[server] += sizes[key]
            cuts[key] = [(server, 0, sizes[key])]
        ranges = [(key, *part) for key in self.shapes for part in cuts[key]]
        self.partitions = tuple(Partition(number, *part) for number, part in enumerate(ranges))
        self.load = tuple(load)
        """Number of values at each server."""

    @property
    def keys(self) -> tuple[str, ...]:
        """All keys, in order."""
        return tuple(self.shapes)

    def of(self, server: int, keys: Collection[str] | None = None) -> tuple[Partition, ...]:
        """Return the partitions of one server, in order. With ``keys``, only those of these keys."""
        return tuple(p for p in self.partitions if p.server == server and (keys is None or p.key in keys))

# SPDX-License-Identifier: BSD-2-Clause
"""Bytes that a rank hands to its transport, by class."""

from __future__ import annotations

from collections import Counter
from typing import Any

from ..collectives import exchanged, is_whole
from ..system.text import LONGEST
from ..transport import Transport


class Traffic:
    """Counts of bytes by class, such as "push", "pull", "control".

    ``sent`` counts bytes handed to the transport. ``raw`` counts the bytes of the same values as fp32.
    Neither includes data that a rank passes to itself, the transport's framing (8 bytes per message over
    TCP), or TCP/IP headers. On marked connections ``sent`` counts floats with their size before the NIC.
    """

    def __init__(self) -> None:
        self.sent: Counter[str] = Counter()
        self.raw: Counter[str] = Counter()

    def count(self, kind: str, sent: int, raw: int | None = None) -> None:
        """Add bytes to the class ``kind``. ``raw`` equals ``sent`` if None."""
        self.sent[kind] += sent
        self.raw[kind] += sent if raw is None else raw

    @property
    def total(self) -> int:
        """Bytes sent in all classes."""
        return sum(self.sent.values())

    def of_all(self, transport: Transport) -> Traffic:
        """Sum over all ranks, with the result at every rank. Collective."""
        every = Traffic()
        for sent, raw in exchanged(transport, [dict(self.sent), dict(self.raw)], _are_counts):
            every.sent.update(sent)
            every.raw.update(raw)
        return every

    def per_step(self, steps: int) -> dict[str, float]:
        """Return bytes per step by class."""
        return {kind: sent / steps for kind, sent in sorted(self.sent.items())}

    def __repr__(self) -> str:
        return f"<Traffic {', '.join(f'{kind} {sent}' for kind, sent in sorted(self.sent.items()))}>"


def _are_counts(value: Any) -> bool:
    """Tell whether a rank's message holds the bytes of its classes, sent and raw."""
    return (
        isinstance(value, list)
        and len(value) == 2
        and all(isinstance(counts, dict) and all(map(_is_count, counts.items())) for counts in value)
    )


def _is_count(count: tuple[str, Any]) -> bool:
    kind, size = count
    return kind.isprintable() and len(kind) <= LONGEST and is_whole(size, range(1 << 62))

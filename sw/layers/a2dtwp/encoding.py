# SPDX-License-Identifier: BSD-2-Clause
"""Weights in AWP's current format, for the transfers from servers to workers."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ...collectives import StreamCodec
from ..fields import Fields
from ..parameters import Floats
from .adt import bitpack, bitunpack, truncate
from .awp import AWP, Oracle

_HEAD = 1
"""Length of the header of packed values, which holds the number of bytes of each."""
Precision = AWP | Oracle
"""What decides the format."""


class AdtEncoding:
    """The encoding of a parameter server's pulls: ``ParameterServer(..., encoding=AdtEncoding(AWP(...)))``.

    Every rank makes one with the same settings; those of the servers decide the formats. A part is one byte
    with the number of bytes per value, followed by the bytes from `bitpack`.

    AWP examines all weights of a message before the first of them is encoded. So keys of a layer that are
    pulled together have one format. If they are pulled separately, some may already have the next batch's
    format. Unchanged weights that are encoded again are not a new batch. If several servers hold parts of a
    key, each uses the norm of its own part, and formats may differ. AWP does not see a step whose weights
    nobody pulls.
    """

    def __init__(self, precision: Precision) -> None:
        self.precision = precision
        self.name = f"ADT, {precision.name}"
        self.sent: dict[str, int] = {}
        """Bytes per value in the last encoded part of each key."""
        self._seen: dict[str, tuple[float, float]] = {}

    def encode(self, key: str, values: Floats) -> memoryview:
        """Encode float32 values in 1 + round_to * size bytes."""
        return self.encode_all([(key, values)])[0]

    def encode_all(self, parts: Sequence[tuple[str, Floats]]) -> list[memoryview]:
        """Encode several keys of one batch, as `encode` does, after AWP has examined all of them."""
        flat = [(key, values.reshape(-1)) for key, values in parts]
        for key, values in flat:
            mark = (float(values.sum(dtype=np.float64)), float(np.dot(values, values)))
            if self._seen.get(key) != mark:
                self._seen[key] = mark
                self.precision.observe(key, values)
        return [self._packed(key, values) for key, values in flat]

    def _packed(self, key: str, values: Floats) -> memoryview:
        self.sent[key] = self.precision.round_to(key)
        return AdtCodec(self.sent[key]).compress(values)

    def decode(self, key: str, data: Any, count: int) -> Floats:
        """Decode float32[count]. Raise ``ValueError`` for anything that `encode` does not make."""
        return _unpacked(data, count, f"key {key!r}")

    def state_dict(self) -> dict[str, Any]:
        """Return the state for a checkpoint: marks of the last weights, and AWP's state."""
        return {
            "precision": self.precision.state_dict(),
            "seen": {key: [*mark] for key, mark in self._seen.items()},
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore a `state_dict`; ``ValueError`` that names the wrong field."""
        fields = Fields(state, ("precision", "seen"))
        marks = fields["seen"]
        if not isinstance(marks, dict) or not all(_is_mark(mark) for mark in marks.values()):
            raise ValueError("seen must hold two finite numbers by key")
        with fields.naming("precision") as precision:
            self.precision.load_state_dict(precision)
        self._seen = {key: (total, square) for key, (total, square) in marks.items()}


class AdtCodec(StreamCodec):
    """ADT as a codec of the collectives, for transfers of weights.

    ``compress`` keeps ``round_to`` bytes of each value and writes that number into a leading byte.
    ``decompress`` accepts every format, so the sender may change ``round_to`` at any time.
    """

    name = "ADT"

    def __init__(self, round_to: int = 4) -> None:
        self.round_to = round_to

    def max_compressed_size(self, count: int) -> int:
        """Return the size in bytes of ``count`` values in the widest format."""
        return _HEAD + 4 * count

    def compress(self, x: Any, out: Any = None) -> memoryview:
        """Return the stream of a float32 array, in the writable buffer ``out`` if given."""
        values = np.ascontiguousarray(x, np.float32).reshape(-1)
        size = _HEAD + self.round_to * values.size
        view = memoryview(bytearray(size) if out is None else out).cast("B")[:size]
        view[0] = self.round_to
        bitpack(values, self.round_to, view[_HEAD:])
        return view

    def decompress(self, stream: Any, count: int, out: Floats | None = None) -> Floats:
        """Decompress float32[count], into ``out`` if given.

        Raises ``ValueError`` if the stream has another length.
        """
        return _unpacked(stream, count, "the stream", out)

    def lossy(self, x: Any, out: Floats | None = None) -> Floats:
        """Return the values that a receiver of ``x`` gets, truncated, in the shape of ``x``.

        ``out`` may be ``x``.
        """
        return truncate(np.asarray(x, np.float32), self.round_to, out)


def _is_mark(mark: Any) -> bool:
    numbers = isinstance(mark, list | tuple) and len(mark) == 2
    return numbers and all(type(one) is float and math.isfinite(one) for one in mark)


def _unpacked(data: Any, count: int, what: str, out: Floats | None = None) -> Floats:
    view = memoryview(data).cast("B")
    round_to = view[0] if view.nbytes else 0
    if not 1 <= round_to <= 4 or view.nbytes != _HEAD + round_to * count:
        raise ValueError(f"{what}: {view.nbytes} bytes, the first {round_to}, are not {count} packed values")
    return bitunpack(view[_HEAD:], round_to, out)

# SPDX-License-Identifier: BSD-2-Clause
"""QSGD, stochastic quantisation (Alistarh et al., NIPS 2017), for GradiVeQ's sampling phases.

Each bucket of values is divided by its largest magnitude. Each value is then rounded up or down at random to
a multiple of 1/s. The mean of the result is exact to 2^-24 of a level, the resolution of the random numbers.
The scale is the maximum, as in that paper's experiments, not the 2-norm of its definition. With the maximum,
quantised values do not change when they are quantised again. The ring needs this so that all ranks hold the
same bits.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...collectives import StreamCodec
from ..fields import Fields
from ..parameters import Floats

_LEAST = np.float32(1e-30)
"""A bucket becomes zero if its largest magnitude is below this, since the inverse would exceed fp32's
range.
"""


class QSGD(StreamCodec):
    """A codec of the collectives. It sends ``bits`` per value, one of them the sign, and one fp32 per bucket.

    Parameters
    ----------
    bits
        2, 4 (as in the paper, s = 7 levels) or 8.
    bucket
        Number of values that share a scale; 512 in QSGD's experiments.
    seed
        Seed of the rounding. Ranks should have different ones.

    Raises ``ValueError`` for other ``bits``, or a bucket that is not a positive multiple of 8. Only one
    thread at a time may use an instance. The NumPy code reaches about 0.1 to 0.3 GB/s.
    """

    def __init__(self, bits: int = 4, bucket: int = 512, seed: int | tuple[int, ...] = 0) -> None:
        if bits not in (2, 4, 8):
            raise ValueError(f"bits must be 2, 4 or 8, not {bits!r}")
        if bucket < 8 or bucket % 8:
            raise ValueError(f"bucket must be a positive multiple of 8, not {bucket!r}")
        self.bits, self.bucket = bits, bucket
        self.levels = 2 ** (bits - 1) - 1
        self._random = np.random.default_rng(seed)
        codes = np.arange(2**bits)
        magnitudes = (codes & self.levels).astype(np.float32) / np.float32(self.levels)
        self._values = np.where(codes > self.levels, -magnitudes, magnitudes)

    @property
    def name(self) -> str:
        return f"QSGD, {self.bits} bits, buckets of {self.bucket}"

    def state_dict(self) -> dict[str, Any]:
        """Return the state of the random numbers, for a checkpoint."""
        return {"random": self._random.bit_generator.state}

    def load_state_dict(self, state: Any) -> None:
        """Restore the random numbers of a `state_dict`. Raise ``ValueError`` for anything else."""
        found = np.random.default_rng()
        try:
            found.bit_generator.state = Fields(state, ("random",))["random"]
        except (KeyError, TypeError, OverflowError) as error:
            raise ValueError(
                f"random is not a state of {type(found.bit_generator).__name__}: {error}"
            ) from None
        self._random = found

    def max_compressed_size(self, count: int) -> int:
        """Return the exact size in bytes of ``count`` values.

        It is 4 bytes per bucket, and ``bits`` bits per value.
        """
        return 4 * -(-count // self.bucket) + -(-count * self.bits // 8)

    def compress(self, x: Any, out: Any = None) -> memoryview:
        """Return the stream of a float32 array, scales before codes, in the writable buffer ``out`` if given.

        Raises ``ValueError`` if a value is not finite.
        """
        values = np.asarray(x, np.float32).reshape(-1)
        size = self.max_compressed_size(values.size)
        view = memoryview(bytearray(size) if out is None else out).cast("B")[:size]
        scales, codes = self._quantise(values)
        view[: scales.nbytes] = scales.tobytes()
        view[scales.nbytes :] = self._packed(codes)
        return view

    def decompress(self, stream: Any, count: int, out: Floats | None = None) -> Floats:
        """Decompress float32[count], into ``out`` if given.

        Raises ``ValueError`` if the stream has another length.
        """
        view = memoryview(stream).cast("B")
        if view.nbytes != self.max_compressed_size(count):
            size = self.max_compressed_size(count)
            raise ValueError(f"{count} values by {self.name} are {size} bytes, not {view.nbytes}")
        buckets = -(-count // self.bucket)
        scales = np.frombuffer(view[: 4 * buckets], np.float32)
        codes = self._unpacked(np.frombuffer(view[4 * buckets :], np.uint8), count)
        return self._restored(scales, codes, out)

    def lossy(self, x: Any, out: Floats | None = None) -> Floats:
        """Draw values that a receiver of ``x`` may get. Compressing them again does not change them."""
        values = np.asarray(x, np.float32)
        restored = self._restored(*self._quantise(values.reshape(-1)), out)
        return restored.reshape(values.shape)

    def _quantise(self, values: Floats) -> tuple[Floats, NDArray[np.uint8]]:
        """Return the scales of the buckets, and one code per value. The last bucket is padded with zeros."""
        count = values.size
        padded = np.zeros((-(-count // self.bucket), self.bucket), np.float32)
        padded.reshape(-1)[:count] = values
        negative = np.signbit(padded)
        np.abs(padded, out=padded)
        scales = padded.max(axis=1, initial=0)
        if not np.isfinite(scales).all():
            raise ValueError("values to be quantised must be finite")
        scales[scales < _LEAST] = 0
        with np.errstate(divide="ignore"):
            inverse = np.where(scales > 0, np.float32(self.levels) / scales, np.float32(0))
        levels = padded * inverse[:, np.newaxis]
        # A value that is exactly a level keeps it, even if the product is rounded.
        whole = np.rint(levels)
        exact = padded == whole / np.float32(self.levels) * scales[:, np.newaxis]
        codes = levels.astype(np.uint8)  # rounds down
        levels -= codes
        codes += self._random.random(levels.shape, np.float32) < levels
        np.minimum(codes, self.levels, out=codes)  # a product just below the largest level may exceed it
        np.copyto(codes, whole, where=exact, casting="unsafe")
        codes |= (negative & (codes > 0)).astype(np.uint8) << np.uint8(self.bits - 1)
        return scales, codes.reshape(-1)[:count]

    def _restored(self, scales: Floats, codes: NDArray[np.uint8], out: Floats | None) -> Floats:
        values = np.empty(codes.size, np.float32) if out is None else out.reshape(-1)
        np.take(self._values, codes, out=values, mode="clip")
        whole = codes.size // self.bucket * self.bucket
        head = values[:whole].reshape(-1, self.bucket)
        head *= scales[: len(head), np.newaxis]
        if whole < codes.size:
            values[whole:] *= scales[-1]
        return values if out is None else out

    def _packed(self, codes: NDArray[np.uint8]) -> bytes:
        per_byte = 8 // self.bits
        if codes.size % per_byte:
            codes = np.concatenate([codes, np.zeros(-codes.size % per_byte, np.uint8)])
        packed = codes[::per_byte].copy()
        for place in range(1, per_byte):
            packed |= codes[place::per_byte] << np.uint8(place * self.bits)
        return packed.tobytes()

    def _unpacked(self, packed: NDArray[np.uint8], count: int) -> NDArray[np.uint8]:
        per_byte = 8 // self.bits
        codes = np.empty(packed.size * per_byte, np.uint8)
        for place in range(per_byte):
            np.bitwise_and(
                packed >> np.uint8(place * self.bits), np.uint8(2**self.bits - 1), out=codes[place::per_byte]
            )
        return codes[:count]

# SPDX-License-Identifier: BSD-2-Clause
"""A codec of your own: float16, in an all-reduce and in the commands that compare codecs.

python examples/own_codec.py                               # or by mpirun or torchrun, with several ranks
inceptionn inspect gradients.npy --with examples.own_codec:Half
inceptionn bench codec --with examples.own_codec:Half
inceptionn bench equal-error --with examples.own_codec:Half
inceptionn reproduce fig14 --with examples.own_codec:Half
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from inceptionn.collectives import StreamCodec, allreduce_comp, examine
from inceptionn.transport import from_environment

Floats = NDArray[np.float32]
LARGEST = np.finfo(np.float16).max


class Half(StreamCodec):
    """Two bytes per value: the nearest float16. Larger magnitudes become the largest one."""

    name = "float16"

    def max_compressed_size(self, count: int) -> int:
        """Return the bytes of ``count`` values."""
        return 2 * count

    def compress(self, x: Any, out: Any = None) -> bytes | memoryview:
        """Return the float16 values of a float32 array, little-endian, in ``out`` if given."""
        stream = np.clip(x, -LARGEST, LARGEST).astype("<f2").tobytes()
        if out is None:
            return stream
        room = memoryview(out).cast("B")[: len(stream)]
        room[:] = stream
        return room

    def decompress(self, stream: Any, count: int, out: Floats | None = None) -> Floats:
        """Decompress float32[count], into ``out`` if given."""
        values = np.frombuffer(stream, "<f2")
        if values.size != count:
            raise ValueError(f"the stream has {values.size} values, not {count}")
        if out is None:
            return values.astype(np.float32)
        np.copyto(out, values.reshape(out.shape))
        return out


def main() -> None:
    """Sum values of all ranks, and let rank 0 print the error and the bytes."""
    examine(Half())
    with from_environment() as transport:
        ranks = [np.random.default_rng(rank).normal(size=100_000) for rank in range(transport.size)]
        total = np.empty(100_000, np.float32)
        before = transport.bytes_sent
        allreduce_comp(transport, ranks[transport.rank].astype(np.float32), total, codec=Half())
        error = np.abs(total - np.sum(ranks, axis=0)).max()
        if transport.rank == 0:
            sent = transport.bytes_sent - before
            print(f"{transport.size} ranks, largest error {error:.1e}, {sent} bytes sent by rank 0")


if __name__ == "__main__":
    main()

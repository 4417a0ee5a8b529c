# SPDX-License-Identifier: BSD-2-Clause
"""NumPy version of :mod:`inceptionn.native.codec`, for installations without a compiler.

The functions have the native module's names, arguments and results; :mod:`inceptionn.codec` has checked the
arguments. Values are float32, float16, or uint16, which are bf16. A coder's number is 0 for the paper's codec
(:mod:`.numpy_paper`), 1 for planes (:mod:`.numpy_planes`) and 2 for planes on the lattice
(:mod:`.numpy_lattice`). ``threads`` is ignored. Work goes block by block, so that memory stays small and in
the cache.
"""

from importlib import import_module
from typing import Any

import numpy as np

from .. import wire
from ..system.integers import integer, is_integer
from . import numpy_lattice
from .coder import LATTICE, NUMBERS, Coder
from .numpy_halves import store, values_of, widened
from .numpy_types import Bits, Bytes, malformed

_INFINITY = np.uint32(0x7F800000)
_CODERS: dict[int, Any] = {
    **{number: import_module(f".numpy_{name}", __package__) for name, number in NUMBERS.items()},
    LATTICE: numpy_lattice,
}


def _overlap(a: Any, b: Any) -> bool:
    """Tell whether two arrays of as many values share memory, but are not the same."""
    same = a.ctypes.data == b.ctypes.data and a.dtype == b.dtype
    return not same and np.may_share_memory(a, b)


def _runs(values: Any, scale: int) -> Any:
    """Yield the lanes of each block in turn, times ``2**scale``."""
    for first in range(0, len(values), wire.STREAM_LANES):
        yield _scaled(widened(values[first : first + wire.STREAM_LANES]), scale)


def _scaled(bits: Bits, scale: int, *, back: bool = False) -> Bits:
    """Multiply finite lanes by ``2**scale``, and raise ``OverflowError`` if one becomes infinite.

    ``back``: divide them, to whatever that gives.
    """
    if not is_integer(scale):
        raise TypeError(f"scale must be an integer, such as scale_exponent(x), not {scale!r}")
    if not integer("scale", scale, -126, 126):
        return bits
    finite = (bits & _INFINITY) != _INFINITY
    with np.errstate(all="ignore"):
        scaled = (bits.view(np.float32) * np.float32(2.0 ** (-scale if back else scale))).view(np.uint32)
    if not back and (finite & ((scaled & _INFINITY) == _INFINITY)).any():
        raise OverflowError(f"a value is too large to be scaled by 2**{scale}")
    return np.where(finite, scaled, bits)


def compress(x: Any, out: Any, coder: Coder, scale: int, threads: int) -> bytes | int:
    """Return the stream as bytes, or its size if it is written to ``out``."""
    blocks = (_CODERS[coder.codec].block(bits, coder) for bits in _runs(values_of(x), scale))
    if out is None:
        return b"".join(blocks)
    into = np.frombuffer(memoryview(out).cast("B"), np.uint8)
    if np.may_share_memory(into, values_of(x)):
        raise ValueError("out must not overlap the values")
    at = 0
    for block in blocks:
        if at + len(block) > len(into):
            raise ValueError(f"out is too small for the stream: {len(into)} bytes")
        into[at : at + len(block)] = np.frombuffer(block, np.uint8)
        at += len(block)
    return at


def decompress(
    stream: Any, out: Any, addend: Any, starts: Any, blocks: int,
    coder: Coder, scale: int, threads: int,
) -> None:  # fmt: skip
    """Decode into ``out``, plus ``addend`` unless that is None; it may be ``out``.

    ``starts`` (uint64, one for ``blocks`` blocks) is checked.
    """
    source = np.frombuffer(memoryview(stream).cast("B"), np.uint8)
    into = values_of(out)
    if np.may_share_memory(source, into):
        raise ValueError("out must not overlap the stream")
    if addend is not None:
        addend = values_of(addend)
        if len(addend) != len(into) or _overlap(addend, into):
            raise ValueError("out must be as large as the addend, and the same or elsewhere")
    starts = None if starts is None else np.frombuffer(starts, "<u8")
    run_lanes = blocks * wire.STREAM_LANES
    if starts is not None and len(starts) != -(-len(into) // run_lanes):
        raise ValueError("the index must hold one offset for each run of blocks")
    at = 0
    for first in range(0, len(into), wire.STREAM_LANES):
        lanes = into[first : first + wire.STREAM_LANES]
        if starts is not None and first % run_lanes == 0 and starts[first // run_lanes] != at:
            raise malformed(at, "the index does not fit the blocks")
        bits, at = _decoded(source, at, len(lanes), coder)
        if addend is not None and coder.codec == LATTICE:
            addends = _scaled(widened(addend[first : first + len(lanes)]), scale)
            store(_scaled(_lattice_sum(addends, bits, coder), scale, back=True), lanes)
            continue
        bits = _scaled(bits, scale, back=True)
        if addend is not None:
            addends = widened(addend[first : first + len(lanes)])
            with np.errstate(all="ignore"):
                bits = (addends.view(np.float32) + bits.view(np.float32)).view(np.uint32)
        store(bits, lanes)
    if at != len(source):
        raise malformed(at, "bytes are left over")


def _decoded(source: Bytes, at: int, lanes: int, coder: Coder) -> tuple[Bits, int]:
    """Decode the block at a byte of the stream; return its lanes and its end. ``ValueError`` if malformed."""
    module = _CODERS[coder.codec]
    data = at + module.table_bytes(lanes)
    end = data + (module.data_bytes(source[at:data], lanes) if data <= len(source) else 0)
    bits, fault = module.examine(source[at:end].tobytes(), lanes, coder)
    if fault is not None:
        raise malformed(at + fault.offset, fault.reason)
    return bits, end


def compress_sum(stream: Any, addend: Any, out: Any, coder: Coder, scale: int, threads: int) -> int:
    """Write the stream of ``addend`` plus a stream's values to ``out``; return its size."""
    into, source = (np.frombuffer(memoryview(x).cast("B"), np.uint8) for x in (out, stream))
    if np.may_share_memory(into, source) or np.may_share_memory(into, values_of(addend)):
        raise ValueError("out must not overlap the stream or the addend")
    if coder.codec == LATTICE:
        return _compress_lattice_sum(source, addend, out, coder, scale)
    total = np.empty(len(values_of(addend)), np.float32)
    decompress(stream, total, addend, None, 1, coder, scale, threads)
    size = compress(total, out, coder, scale, threads)
    assert isinstance(size, int)
    return size


def _lattice_sum(addends: Bits, arrived: Bits, p: Coder) -> Bits:
    """Return sums of lanes on the lattice."""
    with np.errstate(all="ignore"):
        total = numpy_lattice.lossy(addends, p).view(np.float32) + arrived.view(np.float32)
    return numpy_lattice.lossy(total.view(np.uint32), p)


def _compress_lattice_sum(source: Bytes, addend: Any, out: Any, p: Coder, scale: int) -> int:
    """Do `compress_sum` on the lattice: sums keep the scale, with which they are exact."""
    addends = values_of(addend)
    total = np.empty(len(addends), np.uint32)
    at = 0
    for first in range(0, len(addends), wire.STREAM_LANES):
        lanes = widened(addends[first : first + wire.STREAM_LANES])
        bits, at = _decoded(source, at, len(lanes), p)
        total[first : first + len(lanes)] = _lattice_sum(_scaled(lanes, scale), bits, p)
    if at != len(source):
        raise malformed(at, "bytes are left over")
    size = compress(total, out, p, 0, 1)
    assert isinstance(size, int)
    return size


def offsets(stream: Any, count: int, blocks: int, codec: int) -> bytes:
    """Return where each run of ``blocks`` blocks starts, as little-endian uint64."""
    source = np.frombuffer(memoryview(stream).cast("B"), np.uint8)
    coder = _CODERS[codec]
    starts = []
    at = 0
    for number, first in enumerate(range(0, count, wire.STREAM_LANES)):
        if number % blocks == 0:
            starts.append(at)
        lanes = min(count - first, wire.STREAM_LANES)
        data = at + coder.table_bytes(lanes)
        end = data + coder.data_bytes(source[at:data], lanes)
        if end > len(source):
            raise malformed(at, "it ends inside the data")
        at = end
    if at != len(source):
        raise malformed(at, "bytes are left over")
    return np.array(starts, "<u8").tobytes()


def lossy(x: Any, out: Any, coder: Coder, scale: int, threads: int) -> None:
    """Write to ``out``, which may be ``x``, what decompressing the compressed values gives."""
    source, into = values_of(x), values_of(out)
    if len(into) != len(source) or _overlap(into, source):
        raise ValueError("out must be as large as the values, and the same or elsewhere")
    for number, bits in enumerate(_runs(source, scale)):
        first = number * wire.STREAM_LANES
        seen = _scaled(_CODERS[coder.codec].lossy(bits, coder), scale, back=True)
        store(seen, into[first : first + len(bits)])


def _wanted(x: Any, residual: Any, decay: float) -> Any:
    """Return float32 values of ``x`` plus the decayed residual."""
    values, left = values_of(x), np.frombuffer(residual, np.float32)
    if len(left) != len(values) or np.may_share_memory(left, values):
        raise ValueError("the residual must be fp32, as large as the values, and elsewhere")
    with np.errstate(all="ignore"):
        return widened(values).view(np.float32) + left * np.float32(decay)


def feed_back(
    x: Any, residual: Any, out: Any, decay: float,
    coder: Coder, scale: int, threads: int,
) -> None:  # fmt: skip
    """Write to ``out``, which may be ``x``, what `lossy` keeps of ``x`` plus the decayed residual.

    The rest is the new residual, zero where that is not finite.
    """
    left, kept = np.frombuffer(residual, np.float32), values_of(out)
    wanted = _wanted(x, residual, decay)
    if kept.dtype != np.float32 or len(kept) != len(wanted) or np.may_share_memory(left, kept):
        raise ValueError("out must be fp32, as large as the values, the same or elsewhere")
    lossy(wanted, kept, coder, scale, threads)
    with np.errstate(all="ignore"):
        np.subtract(wanted, kept, out=left)
    left[~np.isfinite(left)] = 0


def histogram(x: Any, coder: Coder, scale: int, threads: int) -> tuple[int, ...]:
    """Count the values with each tag, or the groups with each code."""
    module = _CODERS[coder.codec]
    counts = np.zeros(module.CLASSES, np.int64)
    for bits in _runs(values_of(x), scale):
        counts += module.counts(bits, coder)
    return tuple(counts.tolist())


def convert(x: Any, out: Any) -> None:
    """Write to ``out`` the values of ``x``, or the nearest ones that its type has."""
    source, into = values_of(x), values_of(out)
    if len(source) != len(into) or np.may_share_memory(source, into):
        raise ValueError("out must be as large as the values, and elsewhere")
    for number, bits in enumerate(_runs(source, 0)):
        first = number * wire.STREAM_LANES
        store(bits, into[first : first + len(bits)])


def largest(x: Any, residual: Any, decay: float) -> int:
    """Return the bit pattern, in fp32, of the largest finite magnitude of ``x``; 0 if there is none.

    Of ``x`` plus the decayed residual, unless that is None.
    """
    found = 0
    for bits in _runs(values_of(x) if residual is None else _wanted(x, residual, decay), 0):
        magnitude = bits & np.uint32(0x7FFFFFFF)
        found = max(found, int(np.where(magnitude < _INFINITY, magnitude, np.uint32(0)).max()))
    return found

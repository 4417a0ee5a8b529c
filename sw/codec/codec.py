# SPDX-License-Identifier: BSD-2-Clause
"""The codecs of ``docs/wire-format.md`` sections 1, 2 and 9 on arrays in memory.

:class:`Codec` holds the settings. One of several bit-identical *paths* does the work: ``avx512-gfni``,
``avx512``, ``avx2`` and ``scalar`` in C, or ``numpy`` if the C extension was not built. The default,
``auto``, takes for each operation the fastest that the processor supports: the first use measures that, in
less than a millisecond, for the whole process. The environment variable ``INCEPTIONN_CODEC_PATH`` or
:func:`force_path` names one instead. Native paths release the GIL for 4096 lanes and more.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from copy import copy
from dataclasses import asdict, dataclass, field
from functools import cache, cached_property
from types import ModuleType
from typing import Any, overload
from zlib import crc32 as _zlib_crc32

import numpy as np
from numpy.typing import NDArray

from .. import wire
from ..system.integers import integer
from ..system.programs import MOST_THREADS, usable_processors
from ..system.warning import warn
from ..wire import CodecName, CodecParameters, CodecSpec, Mode
from . import numpy_kernel as _numpy_codec
from .coder import LATTICES, NUMBERS, Coder
from .paths import NUMPY, Paths
from .scaled import ScaledCodec
from .stream_codec import StreamCodec, least_exponent

try:
    from ..native import codec as _compiled
except ImportError:
    _compiled = None  # type: ignore[assignment]

__all__ = ["Codec", "active_path", "available_paths", "force_path", "operation_paths", "scale_exponent"]

Floats = NDArray[Any]
"""Of float32, float16 or bfloat16."""
WriteBuffer = bytearray | memoryview | NDArray[Any]
"""The buffers that `Codec.compress` can write into."""

_FLOAT32, _FLOAT16, _UINT16 = np.dtype(np.float32), np.dtype(np.float16), np.dtype(np.uint16)
_KINDS = "a float32, float16 or bfloat16 array"
_OTHER_SIZE = ", or it is not a stream of {} values, as the array holds"
_native: ModuleType | None = _compiled
PATH_VARIABLE = "INCEPTIONN_CODEC_PATH"
_paths = Paths("codec", _native, _numpy_codec, PATH_VARIABLE)
available_paths, active_path, force_path = _paths.available, _paths.active, _paths.force
using_path = _paths.using


def operation_paths() -> dict[str, str]:
    """Return each operation's path, by codec and operation, as ``{"bounded compress": "avx512", ...}``.

    ``literal`` is as ``bounded``. On the path ``"auto"`` the first call measures, if nothing has yet. What
    decompresses also adds; `Codec.compress_sum` uses both, and ``planes sum`` if its sums are exact.
    """
    in_numpy = _native is None or active_path() == NUMPY
    numpy = ((NUMPY,) * 3,) * len(wire.DEFAULTS)
    chosen = numpy if in_numpy else _native.chosen()  # type: ignore[union-attr]
    return {
        f"{variant.name} {operation}": path
        for variant, paths in zip(wire.DEFAULTS, chosen, strict=True)
        for operation, path in zip(("compress", "decompress", "sum"), paths, strict=True)
        if operation != "sum" or variant.codec in LATTICES
    }


@cache
def _say_that_it_is_slow() -> None:
    warn(
        "inceptionn was installed without its C extension (no compiler?); the NumPy codec in its place "
        "gives the same bytes some fifty times slower",
        RuntimeWarning,
    )


def crc32(data: Any, value: int = 0) -> int:
    """Return what ``zlib.crc32`` does, several times as fast with a carry-less multiplication instruction."""
    if _native is None or not _native.CRC32:
        return _zlib_crc32(data, value)
    checksum: int = _native.crc32(data, value)
    return checksum


def remedy(found: np.dtype[Any], taken: Sequence[Any] = (_FLOAT32, _FLOAT16), read: bool = True) -> str:
    """Return what to do about an array of a type that is not taken, where that is not plain.

    ``taken``: the types of NumPy that are. ``read``: the array is read, so a converted copy would do.
    """
    if found == _UINT16:
        return " (bfloat16 patterns? pass dtype='bfloat16')"
    if found == "V2":
        return " (bfloat16 of a .npy file? pass x.view('u2') and dtype='bfloat16')"
    if not found.isnative and found.newbyteorder("=") in taken:
        return f" (the byte order: pass x.astype('{found.str[1:]}'))"
    numbers = found.kind == "f" or (found.kind in "iu" and found.itemsize > 1)  # not bytes
    return " (pass x.astype('float32'))" if read and numbers else ""


def array_of(x: Any) -> str:
    """Return how to make an array of what is none, for an error about it."""
    if type(x).__module__.partition(".")[0] == "torch" and hasattr(x, "numpy"):
        if str(x.dtype) == "torch.bfloat16":
            return " (pass x.detach().cpu().view(torch.uint16).numpy() and dtype='bfloat16')"
        return " (pass x.detach().cpu().numpy())"
    return " (pass np.array(x, np.float32))" if isinstance(x, list | tuple | float | int) else ""


def _lanes(x: NDArray[Any], dtype: Any, name: str, read: bool = True) -> NDArray[Any]:
    """Return float32 and float16 arrays as they are, bfloat16 ones as uint16. ``TypeError`` for another type.

    ``dtype`` "bfloat16" takes uint16 as bfloat16 patterns; it may be the array's own type.
    """
    found = x.dtype
    if dtype not in (None, "bfloat16") and dtype != found:
        raise ValueError(f"dtype must be None or 'bfloat16' (of a uint16 array), not {dtype!r}")
    if found in (_FLOAT32, _FLOAT16) or (found == _UINT16 and dtype == "bfloat16"):
        return x
    if found.name == "bfloat16" and found.itemsize == 2:
        return x.view(_UINT16)
    raise TypeError(f"{name} must be {_KINDS}, not {found}{remedy(found, read=read)}")


def _values(x: Any, dtype: Any = None, name: str = "values") -> NDArray[Any]:
    """Return ``x`` as a C-contiguous array of a type that the kernels take. ``TypeError`` for another type.

    Copies only an array that is not contiguous.
    """
    if not isinstance(x, np.ndarray):
        try:
            x = np.asarray(memoryview(x))
        except TypeError:
            raise TypeError(f"{name} must be {_KINDS}, not {type(x)!r}{array_of(x)}") from None
    x = _lanes(x, dtype, name)
    return x if x.flags.c_contiguous else np.ascontiguousarray(x)


def _destination(x: Any, count: int | None, dtype: Any, name: str) -> NDArray[Any]:
    """Return a writable C-contiguous array of ``count`` values, as `_lanes` does. Raise otherwise."""
    if not isinstance(x, np.ndarray):
        raise TypeError(f"{name} must be {_KINDS}, not {type(x)!s}{array_of(x)}")
    flags = x.flags
    lanes = _lanes(x, dtype, name, read=False)
    if not (flags.c_contiguous and flags.writeable):
        raise ValueError(f"{name} must be C-contiguous and writable")
    if count is not None and x.size != count:
        raise ValueError(f"{name} must hold {count} values, not {x.size}")
    return lanes


def _empty(shape: int | tuple[int, ...], dtype: Any) -> NDArray[Any]:
    """Return a new array; "bfloat16" means uint16. ``TypeError`` for a type that values do not have."""
    if dtype is None:
        return np.empty(shape, _FLOAT32)
    if isinstance(dtype, str) and dtype == "bfloat16":  # the type of ml_dtypes equals its name, too
        return np.empty(shape, _UINT16)
    try:
        found = np.dtype(dtype)
    except TypeError:
        raise TypeError(f"dtype must be float32, float16 or bfloat16, not {dtype!r}") from None
    if found not in (_FLOAT32, _FLOAT16) and found.name != "bfloat16":
        raise TypeError(f"dtype must be float32, float16 or bfloat16, not {found}")
    return np.empty(shape, found)


def _room(out: Any) -> memoryview:
    """Return the bytes of a buffer that a stream is written to."""
    view = memoryview(out)
    if view.readonly or not view.c_contiguous:
        raise ValueError("out must be C-contiguous and writable")
    return view.cast("B") if view.nbytes else memoryview(bytearray())


def _count(count: Any) -> int:
    if type(count) is not int:
        count = integer("count", count)
    if count < 0:
        raise ValueError(f"count must not be negative: {count!r}")
    return int(count)


@dataclass(frozen=True)
class Index:
    """The places in a stream at which every ``blocks``-th block starts.

    ``offsets`` holds them as little-endian uint64, the first one 0.
    """

    offsets: bytes
    blocks: int


@dataclass(frozen=True)
class Codec(StreamCodec):
    """The lossy codec for arrays of float32, float16 and bfloat16, with its settings.

    Streams carry neither count nor settings: both ends agree on them by other means, or use
    :mod:`inceptionn.message`. Any number of threads may use one codec.

    ``scale``, wherever it appears, is the base-2 logarithm of a factor, -126..126. Values are multiplied by
    ``2**scale`` before compression and divided again afterwards. The error bound is then ``error_bound *
    2**-scale``. See :func:`scale_exponent`. ``OverflowError`` if a value grows too large.

    Streams hold float32 lanes, and sums are made in float32. float16 and bfloat16 are widened, and results
    rounded to the nearest value of their type, block by block in the processor's innermost cache. What a
    codec restores of bfloat16 values is exact in bfloat16, unless other values were added. NaNs and
    infinities keep their places; float16 becomes infinite beyond 65504. bfloat16 is the type of
    :mod:`ml_dtypes`, or uint16 patterns where ``dtype`` is "bfloat16". `decompress` without ``out`` returns
    ``dtype``, any of the three, where "bfloat16" means uint16 patterns.

    Parameters
    ----------
    error_bound
        2**-k with k = 1..14. With the paper's codec, in mode ``bounded``, every \\|x\\| < 1 is restored
        within it; others are exact. With ``planes``, every finite value is; magnitudes of ``2**(14 - k)`` and
        more are exact.
    codec
        ``"paper"``, or ``"planes"`` for the planes codec (wire format version 2), which needs about half the
        bytes at the same bound.
    mode
        Of the paper's codec: ``"bounded"`` (the default), or ``"literal"`` for exactly the paper's
        Algorithm 2. None with ``planes``, which has no modes.
    threads
        Maximum number of threads per call (about one per MiB of values); default: the processors that the
        process may use, at most four. Use 1 if other work needs the processors. Not part of the codec's
        identity.

    Raises ``ValueError`` or ``TypeError`` for other settings; the message ends with the value.
    ``ValueError`` also if ``INCEPTIONN_CODEC_PATH`` names no path that works here.
    """

    error_bound: float = 2.0**-wire.DEFAULT_K
    codec: CodecName = wire.DEFAULT_CODEC
    mode: Mode | None = None
    threads: int | None = field(default=None, compare=False, kw_only=True)
    parameters: CodecParameters = field(init=False, repr=False)
    """E0, T and B, or the E0 of ``planes``."""
    _coder: Coder = field(init=False, repr=False, compare=False)
    _threads: int = field(init=False, repr=False, compare=False)
    _kept: tuple[Any, ...] = field(default=(), repr=False, compare=False, kw_only=True)
    """Bound, codec, mode and parameters: by them ``dataclasses.replace`` tells a new codec what it keeps."""

    def __post_init__(self) -> None:
        wanted = self.error_bound, self.codec, self.mode
        before = self._kept
        if before and wanted == before[:3]:
            self._keep(before[0], before[3], before[2])
            return
        k = wire.error_bound_exponent(self.error_bound)
        kept = bool(before) and wanted[1] != before[1] and wanted[2] == before[2]
        spec, mode = _chosen(self.codec, None if kept else self.mode)
        self._keep(float(self.error_bound), spec.parameters(k, mode), mode)

    def _keep(self, error_bound: float, parameters: CodecParameters, mode: Mode | None) -> None:
        given = self.threads
        threads = min(usable_processors(), 4) if given is None else integer("threads", given, 1, MOST_THREADS)
        kept_ones = {
            "error_bound": error_bound,
            "codec": parameters.codec,
            "mode": mode,
            "parameters": parameters,
            "_coder": Coder.of(parameters),
            "_threads": threads,
            "_kept": (error_bound, parameters.codec, mode, parameters),
        }
        for name, value in kept_ones.items():
            object.__setattr__(self, name, value)
        _paths.check()
        if _native is None:
            _say_that_it_is_slow()

    def __repr__(self) -> str:
        codec = "" if self.codec == wire.DEFAULT_CODEC else f"codec={self.codec!r}, "
        mode = "" if self.mode is None else f"mode={self.mode!r}, "
        return f"Codec(error_bound={self.error_bound!r}, {codec}{mode}threads={self.threads!r})"

    @property
    def spec(self) -> CodecSpec:
        """The codec's record: its classes, modes and sizes."""
        return wire.CODECS[self.codec]

    @cached_property
    def name(self) -> str:
        """The settings as text. Two codecs with equal names make the same streams."""
        numbers = ", ".join(f"{name.upper()} {number}" for name, number in asdict(self.parameters).items())
        return f"{self.mode or self.codec} {self.error_bound!r} ({numbers})"

    @property
    def absolute_bound(self) -> float:
        """The error bound."""
        return self.error_bound

    @property
    def scales_streams(self) -> bool:
        """True: every method has the arguments ``scale`` and ``dtype``."""
        return True

    def largest_exponent(self, largest: float) -> int | None:
        """Return the least e of -126..126 with ``largest < 2**e``, or ``<=`` where it rounds; None for 0."""
        return exponent_of(largest, self.spec)

    def max_compressed_size(self, count: int) -> int:
        """Return the largest size in bytes of a stream of ``count`` values."""
        count = _count(count)
        spec = self.spec
        return spec.table_bytes(count) + spec.units(count) * spec.classes[-1].size

    @overload
    def compress(self, x: Any, out: None = None, *, scale: int = 0, dtype: Any = None) -> bytes: ...

    @overload
    def compress(self, x: Any, out: WriteBuffer, *, scale: int = 0, dtype: Any = None) -> memoryview: ...

    def compress(self, x: Any, out: Any = None, *, scale: int = 0, dtype: Any = None) -> bytes | memoryview:
        """Compress an array of any shape, in C order.

        Returns the stream as new ``bytes``, or, if ``out`` (a writable buffer) is given, as the part of it
        that holds the stream. Bytes after the stream may be overwritten. ``max_compressed_size`` bytes are
        always enough.

        An array that is not C-contiguous is copied first. ``TypeError`` for another type of value, byte order
        included, ``ValueError`` if ``out`` is too small or overlaps ``x``.
        """
        if type(x) is not np.ndarray or x.dtype is not _FLOAT32 or not x.flags.c_contiguous or dtype:
            x = _values(x, dtype)
        if out is None:
            stream: bytes = _paths.backend.compress(x, None, self._coder, scale, self._threads)
            return stream
        view = _room(out)
        return view[: _paths.backend.compress(x, view, self._coder, scale, self._threads)]

    def decompress(
        self,
        stream: Any,
        count: int,
        out: Floats | None = None,
        *,
        scale: int = 0,
        index: Index | None = None,
        dtype: Any = None,
    ) -> Floats:
        """Decompress the ``count`` values of a stream, any contiguous bytes, as float32 or ``dtype``.

        ``out``, a C-contiguous array of ``count`` values of any shape, is filled and returned if given. Other
        types than float32 get the nearest values, ties to even. ``ValueError``, with the byte offset, for a
        malformed stream, such as one of another count. The content of ``out`` is then unspecified. A wrong
        bound or mode cannot be detected from the stream.
        """
        count = _count(count)
        if out is None:
            self._check_size(stream, count)
            out, dtype = _empty(count, dtype), "bfloat16"
        into = _destination(out, count, dtype, "out")
        starts, blocks = (None, 1) if index is None else (index.offsets, index.blocks)
        try:
            _paths.backend.decompress(stream, into, None, starts, blocks, self._coder, scale, self._threads)
        except ValueError as error:
            raise self._refused(error, stream, count) from None
        return out

    def _refused(self, error: ValueError, stream: Any, count: int, more: str = "") -> ValueError:
        """Return the error about a stream; it says if the stream is one of another codec, else ``more``.

        Streams of less than a block may be another codec's by accident.
        """
        if not str(error).startswith("malformed"):
            return error
        for name, number in NUMBERS.items():
            if name != self.codec and count >= wire.STREAM_LANES:
                try:
                    _paths.backend.offsets(stream, count, 1, number)
                except ValueError:
                    continue
                return ValueError(f"{error} (it is one of codec={name!r})")
        return ValueError(f"{error}{more}")

    def decompress_add(
        self,
        stream: Any,
        accumulator: Floats,
        addend: Any = None,
        *,
        scale: int = 0,
        index: Index | None = None,
        dtype: Any = None,
    ) -> Floats:
        """Add a stream's values to a C-contiguous array of the same size; return the array.

        The sums are those of ``accumulator += decompress(stream, accumulator.size)``, without the memory for
        the right-hand side. They are made in float32, and other types get the nearest values. With
        ``addend``, an array of the same size and of any of the types, the accumulator becomes
        ``addend`` plus the stream's values, and its old content is ignored. ``ValueError`` as for
        `decompress`, or if the addend partly overlaps the accumulator; the accumulator is unspecified then.
        """
        into = _destination(accumulator, None, dtype, "accumulator")
        if addend is None:
            addend = into
        elif (addend := _values(addend, dtype, "addend")).size != accumulator.size:
            raise ValueError(f"addend must hold {accumulator.size} values, not {addend.size}")
        starts, blocks = (None, 1) if index is None else (index.offsets, index.blocks)
        try:
            _paths.backend.decompress(stream, into, addend, starts, blocks, self._coder, scale, self._threads)
        except ValueError as error:
            raise self._refused(error, stream, into.size, _OTHER_SIZE.format(into.size)) from None
        return accumulator

    def compress_sum(
        self, stream: Any, addend: Any, out: WriteBuffer, *, scale: int = 0, dtype: Any = None
    ) -> memoryview:
        """Compress the sum of an array and another stream's values; return its part of ``out``.

        A rank of a ring does this with most of what it receives. The bytes are those of `decompress_add` and
        `compress` in float32, but one thread works block by block and needs no memory for the sum. ``out``
        must not overlap the others. Errors as for `decompress` and `compress`.
        """
        fits = type(addend) is np.ndarray and addend.dtype is _FLOAT32 and addend.flags.c_contiguous
        if dtype or not fits:
            addend = _values(addend, dtype, "addend")
        view = _room(out)
        try:
            size = _paths.backend.compress_sum(stream, addend, view, self._coder, scale, self._threads)
        except ValueError as error:
            raise self._refused(error, stream, addend.size, _OTHER_SIZE.format(addend.size)) from None
        return view[:size]

    def _check_size(self, stream: Any, count: int) -> None:
        """Refuse a count that the stream cannot hold, before memory is allocated for it or C counts it."""
        size = memoryview(stream).nbytes
        spec = self.spec
        if count // spec.lanes_of_table_byte > size:
            raise ValueError(f"malformed stream at byte {size}: it ends inside the {spec.entry} table")

    def index(self, stream: Any, count: int, blocks: int = 32) -> Index:
        """Find where every ``blocks``-th block of a stream starts, for decoding in parallel.

        ``ValueError`` if the data that the stream's tags or codes announce do not fill it exactly.
        """
        if blocks < 1:
            raise ValueError(f"blocks must be at least 1, not {blocks!r}")
        count = _count(count)
        self._check_size(stream, count)
        return Index(_paths.backend.offsets(stream, count, blocks, self._coder.codec), blocks)

    def lossy(self, x: Any, out: Floats | None = None, *, scale: int = 0, dtype: Any = None) -> Floats:
        """Return what compressing and decompressing ``x`` would give, in its shape and type; make no stream.

        ``out``, of the same size and of any of the types, may be ``x`` itself.
        """
        values = _values(x, dtype)
        if out is None:
            out = np.empty(values.shape, getattr(x, "dtype", values.dtype))
        into = _destination(out, values.size, dtype, "out")
        _paths.backend.lossy(values, into, self._coder, scale, self._threads)
        return out

    def feed_back(
        self,
        x: Any,
        residual: Floats,
        out: Floats | None = None,
        *,
        scale: int = 0,
        decay: float = 1.0,
        dtype: Any = None,
    ) -> Floats:
        """Return `lossy` of ``x + decay * residual`` in float32, and make the residual what that loses.

        Error feedback in one pass over memory; the bits are those of the separate steps. ``x`` has any of the
        types. ``residual`` is a C-contiguous, writable float32 array of its size, of finite values, elsewhere
        in memory; zero is what infinities and NaNs leave. ``out`` may be ``x``; it is float32, since rounding
        to 16 bits would lose what no residual has. The residual is unspecified after an ``OverflowError``.
        """
        values = _values(x, dtype)
        if out is None:
            out = np.empty(values.shape, _FLOAT32)
        kinds = [getattr(each, "dtype", type(each).__name__) for each in (residual, out)]
        if kinds != [_FLOAT32, _FLOAT32]:
            raise TypeError(f"residual and out must be float32 arrays, not {kinds[0]} and {kinds[1]}")
        _destination(residual, values.size, None, "residual")
        _destination(out, values.size, None, "out")
        _paths.backend.feed_back(values, residual, out, decay, self._coder, scale, self._threads)
        return out

    def scaled(self, scale: int, dtype: str | None = None) -> Codec | ScaledCodec:
        """Return this codec with streams of values times ``2**scale``; itself for scale 0.

        ``scale`` is -126..126. The result is a codec for the collectives, a `StreamCodec`. ``dtype``
        "bfloat16": its methods take uint16 as bfloat16 patterns.
        """
        return ScaledCodec(self, scale, dtype) if scale or dtype else self

    def summing(self, scale: int = 0, dtype: str | None = None) -> Codec | ScaledCodec:
        """Return this codec for sums of several ranks' values, scaled as by `scaled`.

        With ``planes`` the sums are exact. The result brings a rank's own values onto the lattice, the
        multiples of the step ``D = 2 * error_bound`` of scaled values: `compress` and `lossy` do so with all,
        `compress_sum` and `decompress_add` with the addend. Large values, which the codec itself
        keeps, are rounded to a multiple too, so the bound holds for every finite value whose multiple fp32
        has. From ``2**128 - error_bound * 2**-scale`` on (with scales of ``-104 - k`` and less, for the
        bound 2^-k) magnitudes become infinite, as those that round to 2^128 do in fp32. NaNs become one.
        What arrives is on the lattice, and so are sums, which later compressions keep. So sums have the same
        bits in every order, as long as the magnitudes of a lane's values add up to at most 2^24 D; beyond,
        they are rounded as fp32 sums are.

        With ``scale="auto"`` they do not get there: N ranks scale the largest magnitude to at most 1/n, where
        n is the power of two from N on. With D = 2^(1-k), a value has at most 2^(k-1)/n steps. If that is 1
        or more, it is whole, and the sum has at most N 2^(k-1)/n <= 2^(k-1) steps. Else a value has at most
        one step, the sum N. Both are at most 2^24. (Scales end at -126, so values near the largest of fp32
        have up to 2^15 steps; 512 ranks may have such. The collectives keep the scale until a sum is whole:
        partial sums and values that round to 2^128 are infinite only if the sum is.)

        The paper's codec truncates by magnitude and has no lattice: its result is that of `scaled`.
        """
        if not self.sums_exactly:
            return self.scaled(scale, dtype)
        return ScaledCodec(self._on_lattice, scale, dtype)

    @property
    def sums_exactly(self) -> bool:
        """True if sums with `summing` are the same in every order."""
        return self.codec in LATTICES

    @property
    def sums_in_double(self) -> bool:
        """True if what `summing` restores has exact sums in float64."""
        return self.sums_exactly

    @cached_property
    def _on_lattice(self) -> Codec:
        codec = copy(self)
        object.__setattr__(codec, "_coder", self._coder._replace(codec=LATTICES[self.codec]))
        object.__setattr__(codec, "name", f"{self.name}, on the lattice")
        return codec

    def histogram(self, x: Any, *, scale: int = 0, dtype: Any = None) -> NDArray[np.int64]:
        """Count the values of ``x`` with each tag (the paper's Table III), as ``int64[4]``.

        With ``planes``, count the groups of 8 values, in blocks of 2048, with each code, as ``int64[16]``.
        """
        values = _values(x, dtype)
        return np.array(_paths.backend.histogram(values, self._coder, scale, self._threads), np.int64)

    @classmethod
    def from_parameters(cls, parameters: CodecParameters, threads: int | None = None) -> Codec:
        """Make a codec of any valid parameters: bound ``2**(E0 - 127)``, the codec's default mode.

        ``ValueError`` if they are not ``1 <= e0 <= t <= 127`` and ``t <= b <= 255``, or, for the E0 of
        ``planes``, 113..126.
        """
        spec = wire.CODECS[parameters.codec]
        if not parameters.valid:
            raise ValueError(f"{spec.name}: parameters must satisfy {spec.rule}, not {parameters!r}")
        codec = cls.__new__(cls)
        object.__setattr__(codec, "threads", threads)
        bound = math.ldexp(1.0, parameters.e0 - wire.EXPONENT_BIAS)
        codec._keep(bound, parameters, spec.mode_of(None))
        return codec


def _chosen(codec: str, mode: str | None) -> tuple[CodecSpec, Mode | None]:
    """Return the codec and the mode that the two arguments name; the second may be left out.

    Older spellings (a mode in place of the codec, and ``mode="planes"``) are accepted with a warning.
    ``ValueError`` for other words.
    """
    old: wire.Variant | None = None
    if mode is None and codec in wire.MODES:
        old = wire.variant(codec)
        remedy = f"mode is an argument of its own: pass mode={codec!r}"
    elif mode == wire.PLANES.name:
        old = wire.PLANES
        remedy = 'planes is a codec, not a mode: pass codec="planes"'
    if old is not None:
        warn(remedy, DeprecationWarning)
        return wire.CODECS[old.codec], old.mode
    spec = wire.codec_spec(codec)
    return spec, spec.mode_of(mode)


def converted(x: Any, dtype: Any = None, out: Floats | None = None, *, patterns: bool = False) -> Floats:
    """Return values of any of the three types as ``dtype``, in their shape: a new array, or ``out``.

    The nearest values, ties to even; NaNs stay NaNs, and float16 is infinite beyond 65504. ``dtype`` as in
    `Codec.decompress`, or that of ``out``, a C-contiguous array of the same size that does not overlap ``x``.
    ``patterns``: whether uint16 is taken as bfloat16; in ``out`` it is.
    """
    values = _values(x, "bfloat16" if patterns else None)
    if out is None:
        out = _empty(values.shape, dtype)
    _paths.backend.convert(values, _destination(out, values.size, "bfloat16", "out"))
    return out


def scale_exponent(
    x: Any, codec: str = wire.DEFAULT_CODEC, *, mode: str | None = None, dtype: Any = None
) -> int:
    """Return the ``scale`` (-126..126) that brings the largest finite magnitude of ``x`` into [0.5, 1).

    The error bound is then relative to that magnitude. Ranks that add each other's values must all use the
    same scale, the smallest of theirs. 0 if there is no finite value except zero.

    For ``codec="planes"``, which rounds to nearest, the range is (0.5, 1], so that lossy values get the same
    scale again, or a finer one. ``dtype`` as in :class:`Codec`. ``mode`` is accepted for one release.
    """
    spec, _ = _chosen(codec, mode)
    exponent = exponent_of(largest_magnitude(x, dtype=dtype), spec)
    return 0 if exponent is None else -exponent


def largest_magnitude(
    x: Any, residual: Floats | None = None, decay: float = 1.0, *, dtype: Any = None
) -> float:
    """Return the largest finite magnitude of ``x``, or of ``x + decay * residual`` in float32; 0 if none."""
    bits = _paths.backend.largest(_values(x, dtype), residual, decay)
    return float(np.uint32(bits).view(np.float32))


def exponent_of(largest: float, spec: CodecSpec) -> int | None:
    """Return the least e of -126..126 with ``largest < 2**e``, or ``<=`` where it rounds; None for 0."""
    return least_exponent(largest, spec.rounds)

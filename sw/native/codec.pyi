# SPDX-License-Identifier: BSD-2-Clause
from typing import Any

GROUP_LANES: int
STREAM_LANES: int
TAG_WORD_BYTES: int
CODE_WORD_BYTES: int
CODE_WORD_GROUPS: int
RAW_CODE: int
RAW_EXPONENT: int
EXPONENT_BIAS: int
MANTISSA_BITS: int
CRC32: bool

def compress(x: Any, out: Any, coder: tuple[int, int, int, int], scale: int, threads: int, /) -> Any: ...
def decompress(
    stream: Any,
    out: Any,
    addend: Any,
    starts: Any,
    blocks: int,
    coder: tuple[int, int, int, int],
    scale: int,
    threads: int,
    /,
) -> None: ...
def compress_sum(
    stream: Any, addend: Any, out: Any, coder: tuple[int, int, int, int], scale: int, threads: int, /
) -> int: ...
def offsets(stream: Any, count: int, blocks: int, codec: int, /) -> bytes: ...
def lossy(x: Any, out: Any, coder: tuple[int, int, int, int], scale: int, threads: int, /) -> None: ...
def feed_back(
    x: Any,
    residual: Any,
    out: Any,
    decay: float,
    coder: tuple[int, int, int, int],
    scale: int,
    threads: int,
    /,
) -> None: ...
def histogram(x: Any, coder: tuple[int, int, int, int], scale: int, threads: int, /) -> tuple[int, ...]: ...
def convert(x: Any, out: Any, /) -> None: ...
def largest(x: Any, residual: Any, decay: float, /) -> int: ...
def crc32(data: Any, value: int, /) -> int: ...
def paths() -> list[str]: ...
def use(name: str, /) -> None: ...
def automatic() -> None: ...
def chosen() -> tuple[tuple[str, ...], ...]: ...

# SPDX-License-Identifier: BSD-2-Clause
"""What is compared on slow links: DDP or local updates, and what carries the values. Needs no torch."""

import re
from typing import Any, NamedTuple

import numpy as np

from ..... import MAX_K, Codec
from .....collectives import Deflated, StreamCodec

BLOCK = 128
"""Values that share a scale of `Integers`."""
LEAST = np.float32(2.0**-100)
"""Below it a scale of `Integers` is zero, as are its values."""
WORDS = (
    "ddp:raw, ddp:fp16, ddp:powersgd1, ddp:powersgd2, ddp:powersgd4, ddp:int8, ddp:top1, ddp:k12, ddp:k10, "
    "ddp:k8, ddp:k10-plain, ddp:k10-tensor, ddp:k5-rms, ddp:k4-rms, h16:raw, h16:int8, h16:int4, h16:top3, "
    "h16:k10, h16:k8, h16:k6, h16:k5, h16:k4, h16:k6-plain, h16:k5-plain, h16:k5-tensor, h16:k6-deflated, "
    "h16:k5-deflated, h64:raw, h64:k8, h64:k6, h64:k5"
).split(", ")
FEW = ("ddp:raw", "ddp:fp16", "ddp:powersgd2", "ddp:k10", "h16:raw", "h16:int8", "h16:k6", "h16:k5")
_SYSTEM = re.compile(
    r"(?:ddp|h(?P<every>[1-9]\d{0,3})):"
    r"(?:raw|fp16|powersgd(?P<powersgd>[1-9]\d?)|int(?P<integers>[48])|top(?P<top>[1-9]\d?)"
    r"|k(?P<k>\d{1,2})(?:-(?P<variant>plain|tensor|rms|deflated))?)"
)


class System(NamedTuple):
    """A way to train. ``every``: inner steps between two exchanges of `DiLoCo`; 0 is DDP."""

    word: str
    every: int = 0
    powersgd: int = 0
    integers: int = 0
    top: int = 0
    k: int = 0
    variant: str = ""

    @classmethod
    def of(cls, word: str) -> "System":
        """Return the system of a word such as "ddp:fp16" or "h16:k5". ``ValueError`` for any other."""
        found = _SYSTEM.fullmatch(word)
        if not found:
            raise ValueError(
                "a system is ddp or h and its steps, then :raw, :fp16, :powersgd1, :int8, :int4, :top1 or "
                ":k5, -plain without feedback, -tensor with a scale for each tensor, -rms with one by the "
                f"root mean square, -deflated; not {word!r}"
            )
        variant = found["variant"] or ""
        system = cls(word, variant=variant, **{
            name: int(found[name] or 0) for name in ("every", "powersgd", "integers", "top", "k")
        })  # fmt: skip
        if system.every and (system.powersgd or word.endswith("fp16")):
            raise ValueError(f"fp16 and PowerSGD are hooks of DDP, so not {word!r}")
        if found["k"] and not 1 <= system.k <= MAX_K:
            raise ValueError(f"k must be 1..{MAX_K}, not {word!r}")
        return system

    @property
    def name(self) -> str:
        """The system as tables show it."""
        how = (
            f"PowerSGD {self.powersgd}" if self.powersgd else f"int{self.integers}" if self.integers
            else f"top {self.top} %" if self.top else f"2**-{self.k}" if self.k
            else self.word.partition(":")[2]
        )  # fmt: skip
        said = {"plain": "no feedback", "tensor": "scale by tensor", "rms": "scale by rms"}.get(
            self.variant, self.variant
        )
        return ", ".join(filter(None, [f"H = {self.every}" if self.every else "DDP", how, said]))

    @property
    def settings(self) -> dict[str, Any]:
        """Arguments of `CompressState`, which raw DDP has none of, or of `DiLoCo`."""
        if self.k:
            feedback = False if self.variant == "plain" else None
            scale = self.variant if self.variant in ("tensor", "rms") else "auto"
            planes = Codec(2.0**-self.k, "planes")
            codec = Deflated(planes) if self.variant == "deflated" else planes
            return {"codec": codec, "scale": scale, "error_feedback": feedback}
        if self.integers:
            return {"codec": Integers(self.integers), "error_feedback": False}
        if self.top:
            return {"codec": TopK(self.top), "error_feedback": True}
        return {"path": "off", "error_feedback": False}


def placed(stream: bytes, out: Any) -> bytes | memoryview:
    """Return a stream, in the buffer ``out`` if there is one."""
    if out is None:
        return stream
    out = memoryview(out).cast("B")[: len(stream)]
    out[:] = stream
    return out


class Integers(StreamCodec):
    """Signed integers of 4 or 8 bits, with a float32 scale for each 128 values: the usual quantiser.

    A scale has 16 significant bits, rounded up, so that the largest value is a multiple of it: values that
    were restored once stay as they are.
    """

    def __init__(self, bits: int) -> None:
        self.bits, self._levels = bits, np.float32(2 ** (bits - 1) - 1)

    @property
    def name(self) -> str:
        return f"int{self.bits}, blocks of {BLOCK}"

    def max_compressed_size(self, count: int) -> int:
        blocks = -(-count // BLOCK)
        return blocks * (4 + BLOCK * self.bits // 8)

    def compress(self, x: Any, out: Any = None) -> bytes | memoryview:
        blocks = np.pad(np.ravel(x), (0, -x.size % BLOCK)).reshape(-1, BLOCK)
        if not np.isfinite(blocks).all():
            raise ValueError("integers carry finite values alone")
        bits = (np.abs(blocks).max(axis=1, initial=0) / self._levels).view(np.uint32)
        scales = ((bits + 0xFF) & ~np.uint32(0xFF)).view(np.float32)
        scales[scales < LEAST] = 0
        steps = np.rint(blocks / np.where(scales > 0, scales, 1)[:, np.newaxis]).astype(np.int8)
        packed = steps if self.bits == 8 else (steps[:, ::2] & 15) | steps[:, 1::2] << 4
        stream = scales.tobytes() + packed.tobytes()
        return placed(stream, out)

    def decompress(self, stream: Any, count: int, out: Any = None) -> Any:
        if len(stream) != self.max_compressed_size(count):
            raise ValueError(f"{len(stream)} bytes are not those of {count} values")
        blocks = -(-count // BLOCK)
        scales = np.frombuffer(stream, np.float32, blocks)
        packed = np.frombuffer(stream, np.int8, offset=4 * blocks).reshape(blocks, BLOCK * self.bits // 8)
        if self.bits == 4:
            packed = np.stack([packed << 4 >> 4, packed >> 4], axis=-1).reshape(blocks, BLOCK)
        values = (packed * scales[:, np.newaxis]).astype(np.float32).reshape(-1)[:count]
        if out is None:
            return values
        np.copyto(out, values.reshape(out.shape))
        return out


class TopK(StreamCodec):
    """Some percent of an array's values, the largest magnitudes, each with its place; the others become 0."""

    def __init__(self, percent: int) -> None:
        self.percent = percent

    @property
    def name(self) -> str:
        return f"top {self.percent} %"

    def _kept(self, count: int) -> int:
        return min(count, max(1, count * self.percent // 100))

    def max_compressed_size(self, count: int) -> int:
        return 8 * self._kept(count)

    def compress(self, x: Any, out: Any = None) -> bytes | memoryview:
        flat = np.ravel(x)
        if not np.isfinite(flat).all():
            raise ValueError("top-k carries finite values alone")
        first = flat.size - self._kept(flat.size)
        places = np.sort(np.argpartition(np.abs(flat), first)[first:] if first else np.arange(flat.size))
        stream = places.astype(np.uint32).tobytes() + flat[places].astype(np.float32).tobytes()
        return placed(stream, out)

    def decompress(self, stream: Any, count: int, out: Any = None) -> Any:
        kept = self._kept(count)
        if len(stream) != 8 * kept:
            raise ValueError(f"{len(stream)} bytes are not those of {count} values")
        places = np.frombuffer(stream, np.uint32, kept)
        if kept and places.max() >= count:
            raise ValueError(f"a value at {places.max()} of {count}")
        values = np.empty(count, np.float32) if out is None else out
        values[...] = 0
        values.reshape(-1)[places] = np.frombuffer(stream, np.float32, kept, 4 * kept)
        return values

# SPDX-License-Identifier: BSD-2-Clause
"""Messages: by the published layout, every kind, every way to be malformed."""

import re
import struct
import zlib
from typing import Any

import numpy as np
import pytest
from refusals import refused

from inceptionn import Codec, wire
from inceptionn.codec import codec, converted, scale_exponent
from inceptionn.commands.speed import synthetic
from inceptionn.evaluate.bench.common.memory import peak_of
from inceptionn.message import Kind, pack, parse, unpack
from inceptionn.sim import golden


def sealed(message: bytes, **fields: tuple[str, int, int]) -> bytes:
    """Replace some fields (format, offset, value) of the message, and correct its checksum."""
    changed = bytearray(message)
    for kind, offset, value in fields.values():
        struct.pack_into("<" + kind, changed, offset, value)
    struct.pack_into("<I", changed, 36, zlib.crc32(changed[40:], zlib.crc32(changed[:36])))
    return bytes(changed)


def test_checksum_at_every_length() -> None:
    data = np.random.default_rng(1).integers(0, 256, 700, np.uint8)
    for size in range(700):
        for start in (0, 1, 7):
            assert codec.crc32(data[start:size], size) == zlib.crc32(data[start:size], size)
    assert codec.crc32(b"123456789") == 0xCBF43926  # the published check value
    assert codec.crc32(np.ones(10**6, np.uint8)) == zlib.crc32(np.ones(10**6, np.uint8))


def test_layout(path: str) -> None:
    x = np.array([[1.0, 0.5, -(2.0**-7)], [2.0**-11, 0, -2.0]], np.float32)
    stream = golden.compress(x)
    expected = struct.pack("<4sBBBBBBhIQQI", b"INCM", 1, 1, 117, 122, 122, 2, 0, 0, 6, len(stream), 0)
    tail = struct.pack("<QQ", 2, 3) + stream
    expected += struct.pack("<I", zlib.crc32(expected + tail)) + tail
    found = pack(x, Codec(), kind=Kind.INCEPTIONN)
    assert found == expected
    assert unpack(found).tobytes() == golden.lossy(x).tobytes()
    assert unpack(found).shape == (2, 3)


def test_a_codec_by_its_name() -> None:
    x = np.linspace(-1, 1, 100, dtype=np.float32)
    assert pack(x, "planes") == pack(x, Codec(codec="planes"))
    refused(ValueError, "plane", pack, x, "plane")


def test_layout_of_planes(path: str) -> None:
    x = np.array([1.0, 0.5, -(2.0**-7), 2.0**-11, 0, 0, 0, -2.0, 0.5], np.float32)
    stream = golden.planes.compress(x)
    expected = struct.pack("<4sBBBBBBhIQQI", b"INCM", 1, 3, 117, 0, 0, 1, 0, 0, 9, len(stream), 0)
    tail = struct.pack("<Q", 9) + stream
    expected += struct.pack("<I", zlib.crc32(expected + tail)) + tail
    for kind in (None, Kind.PLANES, Kind.INCEPTIONN):
        found = pack(x, Codec(codec="planes"), kind=kind)
        assert found == expected
    assert parse(found).codec == Codec(codec="planes")
    assert unpack(found).tobytes() == golden.planes.lossy(x).tobytes()


@pytest.mark.parametrize(
    ("shape", "scale"),
    [((), None), ((0,), "auto"), ((7,), -3), ((3, 0, 2), None), ((2048,), "auto"), ((5, 50_000), -3)],
)
@pytest.mark.parametrize("mode", ["literal", "planes"])
def test_streams(path: str, shape: tuple[int, ...], scale, mode: str, mixed) -> None:
    x = mixed(int(np.prod(shape))).reshape(shape)
    if scale == "auto":
        x = (np.random.default_rng(5).standard_normal(shape) * 1e-6).astype(np.float32)
    subject = Codec(2.0**-6, *wire.variant(mode))
    kind = Kind.PLANES if mode == "planes" else Kind.INCEPTIONN
    header = parse(pack(x, subject, scale, kind=kind))
    assert header.codec.parameters == subject.parameters
    assert (header.shape, header.count, header.kind) == (shape, x.size, kind)
    assert (header.index is not None) == (x.size > 32 * wire.STREAM_LANES)
    assert (header.scale == (scale or 0)) or scale == "auto"
    seen = unpack(pack(x, subject, scale, kind=kind))
    assert seen.shape == shape
    assert seen.tobytes() == subject.lossy(x, scale=header.scale).tobytes()


def test_other_kinds() -> None:
    x = np.array([1.0, 1 + 2.0**-8, 1 + 3 * 2.0**-8, -3e38, np.inf, 0.1], np.float32)
    nan = np.array([0x7F800001, 0xFFFFFFFF], np.uint32).view(np.float32)
    raw = pack(np.append(x, nan), None)
    assert parse(raw).kind is Kind.RAW
    assert unpack(raw).tobytes() == x.tobytes() + nan.tobytes()
    with pytest.raises(ValueError, match=r"^the payload is RAW, not a stream$"):
        parse(raw).codec  # noqa: B018

    half = pack(np.append(x, nan), None, kind=Kind.BFLOAT16)
    assert len(half) == 40 + 8 + 16
    found = unpack(half)
    bits = found[:6].view(np.uint32)
    # Ties go to even; the largest values round to infinity.
    assert bits.tolist() == [0x3F800000, 0x3F800000, 0x3F820000, 0xFF620000, 0x7F800000, 0x3DCD0000]
    assert np.isnan(found[6:]).all()

    # A stream of these would be longer than the values.
    assert parse(pack(np.full(100, 3, np.float32), Codec())).kind is Kind.RAW
    assert parse(pack(np.full(100, 0.3, np.float32), Codec())).kind is Kind.INCEPTIONN


def test_arguments() -> None:
    refused(TypeError, r"^values must be a float32, .* array, not float64 ", pack, np.ones(3), Codec())
    with pytest.raises(ValueError, match=r"^a stream needs a codec, not None$"):
        pack(np.ones(3, np.float32), None, kind=Kind.INCEPTIONN)
    with pytest.raises(OverflowError, match=r"too large to be scaled by 2\*\*126"):
        pack(np.full(3, 5, np.float32), Codec(), 126)


def test_damage() -> None:
    """Every cut and every flipped bit is refused."""
    message = pack((np.arange(40, dtype=np.float32) / 100).reshape(5, 8), Codec())
    for end in range(len(message)):
        refused(ValueError, r"^malformed message at byte \d+: ", unpack, message[:end])
    for bit in range(8 * len(message)):
        flipped = bytearray(message)
        flipped[bit // 8] ^= 1 << bit % 8
        refused(ValueError, r"^malformed message at byte \d+: ", unpack, flipped)
    with pytest.raises(ValueError, match=rf"^malformed message at byte {len(message)}: it has "):
        unpack(bytes(message) + b"\0")


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"version": ("B", 4, 3)}, "byte 4: the version is 3, not 1 or 2"),
        ({"version": ("B", 4, 2)}, "bytes, not"),
        ({"kind": ("B", 5, 5)}, "byte 5: the payload is of unknown kind 5"),
        ({"kind": ("B", 5, 3)}, "byte 6: the codec's parameters are not valid: PlanesParameters(e0=117)"),
        ({"kind": ("B", 5, 0)}, "byte 6: a payload of kind RAW has neither codec, scale nor index"),
        ({"e0": ("B", 6, 0)}, "byte 6: the codec's parameters are not valid"),
        ({"dimensions": ("B", 9, 33)}, "byte 9: it has 33 dimensions, 32 at most"),
        ({"scale": ("h", 10, -127)}, "byte 10: the scale exponent is -127, beyond 126"),
        ({"blocks": ("I", 12, 32)}, "byte 12: 0 index entries, one for 32 blocks, do not fit 40 values"),
        ({"count": ("Q", 16, 41)}, "byte 40: the dimensions (5, 8) do not make 41 values"),
        ({"count": ("Q", 16, 1 << 63), "d0": ("Q", 40, 1 << 60)}, "malformed stream at byte"),
        ({"count": ("Q", 16, 64), "d1": ("Q", 40, 8)}, "malformed stream at byte"),
        ({"entries": ("I", 32, 1)}, "bytes, not"),
    ],
)
def test_senders_of_another_mind(fields: dict[str, tuple[str, int, int]], text: str) -> None:
    """What no damage explains, since the checksum is right."""
    message = pack((np.arange(40, dtype=np.float32) / 100).reshape(5, 8), Codec())
    assert unpack(sealed(message)).shape == (5, 8)
    refused(ValueError, re.escape(text), unpack, sealed(message, **fields))


def test_packing_takes_no_hidden_copy() -> None:
    x = synthetic(8_000_000, seed=1)
    codec = Codec(threads=1)
    peak = peak_of(lambda: pack(x, codec))
    if peak is None:
        pytest.skip("this system does not tell a process's peak memory")
    assert x.nbytes + peak < 1.1 * (x.nbytes + len(pack(x, codec)))


_STREAM = {"paper": Kind.INCEPTIONN, "planes": Kind.PLANES}


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
@pytest.mark.parametrize("settings", [Codec(), Codec(codec="planes"), None])
@pytest.mark.parametrize("scale", [None, "auto"])
def test_values_of_16_bits(dtype: str, settings: Codec | None, scale: str | None) -> None:
    x = np.random.default_rng(1).normal(scale=0.01, size=(30, 100)).astype(np.float32)
    x[3, 5:8] = np.nan, np.inf, 1e3
    halves = converted(x, dtype)
    told = dtype if dtype == "bfloat16" else None
    wide = converted(halves, patterns=True)
    packed = pack(halves, settings, scale, dtype=told)
    if settings is not None:
        assert parse(packed).payload == parse(pack(wide, settings, scale)).payload
    assert parse(packed).dtype == dtype
    plain = Kind.BFLOAT16 if told else Kind.FLOAT16
    assert parse(packed).kind == (plain if settings is None else _STREAM[settings.codec])
    assert unpack(packed).tobytes() == unpack(pack(wide, settings, scale)).tobytes()
    back = unpack(packed, dtype)
    assert back.tobytes() == converted(unpack(packed), dtype).tobytes()
    assert back.shape == x.shape
    if settings is None:
        assert back.tobytes() == halves.tobytes()


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_every_pattern_of_16_bits_is_stored_as_it_is(dtype: str) -> None:
    """NaNs that signal included."""
    patterns = np.arange(1 << 16, dtype=np.uint16)
    values = patterns.view(np.float16) if dtype == "float16" else patterns
    packed = pack(values, None, dtype=None if dtype == "float16" else dtype)
    assert bytes(parse(packed).payload) == patterns.tobytes()
    assert unpack(packed, dtype).tobytes() == patterns.tobytes()


def test_incompressible_bfloat16_is_stored_exactly() -> None:
    halves = np.random.default_rng(1).integers(0x4000, 0x4700, 1000, np.uint16)
    packed = pack(halves, Codec(codec="planes"), dtype="bfloat16")
    assert parse(packed).kind == Kind.BFLOAT16
    assert (unpack(packed, "bfloat16") == halves).all()


@pytest.mark.parametrize("deviation", [8, 1000])
def test_incompressible_float16_is_stored_exactly(deviation: int) -> None:
    values = np.random.default_rng(1).normal(0, deviation, 10_000).astype(np.float16)
    values[:3] = np.nan, -np.inf, 2**-24
    packed = pack(values, Codec(codec="planes"))
    assert parse(packed).kind == Kind.FLOAT16
    assert len(packed) == values.nbytes + 40 + 8 + 8
    assert unpack(packed, np.float16).tobytes() == values.tobytes()
    assert np.array_equal(unpack(packed), values.astype(np.float32), equal_nan=True)
    assert unpack(packed, "bfloat16").tobytes() == converted(values, "bfloat16").tobytes()
    wide = pack(values.astype(np.float32) * 1e4, None, kind=Kind.FLOAT16)  # nearest values
    assert np.isinf(unpack(wide)).sum() > 100


SECTIONS = [300, 0, 1700, 3]


def tensors() -> np.ndarray:
    """Tensors of several magnitudes; one is empty, the last is zero."""
    x = np.random.default_rng(7).normal(size=2003).astype(np.float32)
    x *= np.repeat(np.float32([1e-6, 1, 1e20, 0]), SECTIONS)
    return x


@pytest.mark.parametrize("settings", [Codec(), Codec(2**-8, "planes")])
def test_a_scale_per_tensor(settings: Codec) -> None:
    x = tensors()
    packed = pack(x, settings, "tensor", sections=SECTIONS)
    header = parse(packed)
    assert header.scale is None
    assert (header.kind, header.dtype) == (_STREAM[settings.codec], "float32")
    parts = np.split(x, np.cumsum(SECTIONS)[:-1])
    wanted = [settings.lossy(part, scale=scale_exponent(part, settings.codec)) for part in parts]
    assert unpack(packed).tobytes() == np.concatenate(wanted).tobytes()
    assert unpack(packed, "bfloat16").tobytes() == converted(unpack(packed), "bfloat16").tobytes()


def test_layout_of_sections() -> None:
    """Hand-made: two tensors of which the second is scaled by 2**10, and bfloat16 values."""
    x = np.float32([1.0, -1.0, 2.0**-10, 2.0**-11, 2.0**-12])
    stream = golden.planes.compress(x * np.float32([1, 1, 2**10, 2**10, 2**10]))
    expected = struct.pack("<4sBBBBBBhIQQI", b"INCM", 2, 3, 117, 0, 0, 1, 0, 0, 5, len(stream), 0)
    tail = struct.pack("<HB5xQQQbb6x", 2, 2, 5, 2, 3, 0, 10) + stream
    expected += struct.pack("<I", zlib.crc32(expected + tail)) + tail
    halves, codec = converted(x, "bfloat16"), Codec(codec="planes")
    found = pack(halves, codec, "tensor", sections=[2, 3], kind=Kind.PLANES, dtype="bfloat16")
    assert found == expected
    assert parse(found).dtype == "bfloat16"
    assert unpack(found).tobytes() == x.tobytes()


def test_one_section_is_auto_and_many_lanes_have_an_index() -> None:
    x = np.random.default_rng(3).normal(scale=1e-5, size=(3, 40_000)).astype(np.float32)
    one = parse(pack(x, Codec(), "tensor", sections=[x.size]))
    assert one.payload == parse(auto := pack(x, Codec(), "auto")).payload
    assert (one.scale, one.index) == (parse(auto).scale, parse(auto).index)
    many = pack(x, Codec(), "tensor", sections=[1000] * 120)
    assert parse(many).index is not None
    assert unpack(many).shape == x.shape
    assert np.abs(unpack(many) - x).mean() < np.abs(unpack(auto) - x).mean()


def test_raw_values_have_no_sections() -> None:
    x = np.full(500, np.nan, np.float32)
    packed = pack(x, Codec(), "tensor", sections=[200, 300])
    assert parse(packed).kind is Kind.RAW
    assert packed == pack(x, None)


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ({"scale": "tensor"}, "scale 'tensor' needs sections, the lengths of the tensors in the array"),
        ({"scale": "auto", "sections": [5]}, "sections are for scale 'tensor', not 'auto'"),
        ({"scale": "tensor", "sections": [2, 2]}, "the sections have 4 values, the array has 5"),
        ({"scale": "tensor", "sections": [6, -1]}, "sections must be 0 or more values each, not [6, -1]"),
        ({"scale": "tensor", "sections": [1] * 4097}, "sections must be 4096 at most, not 4097"),
    ],
)
def test_wrong_sections(settings: dict[str, Any], text: str) -> None:
    refused(ValueError, re.escape(text), pack, np.ones(5, np.float32), Codec(), **settings)


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"sections": ("H", 40, 4097)}, "byte 40: it has 4097 sections; a stream has 4096 at most"),
        ({"sections": ("H", 40, 2)}, "bytes, not"),
        ({"sections": ("H", 40, 0)}, "bytes, not"),
        ({"type": ("B", 42, 3)}, "byte 42: the values are of unknown type 3"),
        ({"zero": ("B", 47, 1)}, "byte 43: reserved bytes are not zero"),
        ({"length": ("Q", 56, 301)}, "byte 56: the sections have 2004 values, not 2003"),
        ({"length": ("Q", 56, 1 << 63)}, "values, not 2003"),
        ({"exponent": ("b", 88, 127)}, "byte 88: a scale exponent is beyond 126"),
        ({"padding": ("B", 95, 1)}, "byte 92: the bytes after the sections are not zero"),
        ({"scale": ("h", 10, 3)}, "byte 10: the scale exponent is 3, which sections replace"),
        ({"kind": ("B", 5, 0)}, "byte 40: it has 4 sections; a stream has"),
        ({"version": ("B", 4, 1)}, "bytes, not"),
    ],
)
def test_senders_of_other_sections(fields: dict[str, tuple[str, int, int]], text: str) -> None:
    message = pack(tensors(), Codec(), "tensor", sections=SECTIONS)
    assert unpack(sealed(message)).size == 2003
    refused(ValueError, re.escape(text), unpack, sealed(message, **fields))


def test_damaged_sections() -> None:
    message = pack(tensors(), Codec(), "tensor", sections=SECTIONS)
    for place in [*range(140), len(message) - 1]:
        refused(ValueError, r"^malformed message at byte \d+: ", parse, message[:place])
        flipped = bytearray(message)
        flipped[place] ^= 1 << place % 8
        refused(ValueError, r"^malformed message at byte \d+: ", parse, flipped)


@pytest.mark.parametrize("codec", [None, Codec(codec="planes")])
def test_pack_refuses_a_type_that_it_would_ignore(codec: Codec | None) -> None:
    for scale, options in ((None, {}), ("tensor", {"sections": [4]})):
        with pytest.raises(ValueError, match="dtype must be None or 'bfloat16'"):
            pack(np.ones(4, np.float32), codec, scale, dtype="float16", **options)

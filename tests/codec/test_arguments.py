# SPDX-License-Identifier: BSD-2-Clause
"""What a Codec takes and refuses, where it writes, and what it costs."""

import array
import math
import pickle
import re
import sys
import threading
from collections.abc import Callable
from dataclasses import FrozenInstanceError, replace
from typing import get_overloads

import numpy as np
import pytest
from programs import said_by
from refusals import refused

from inceptionn import Codec, wire
from inceptionn.codec import codec, scale_exponent
from inceptionn.commands.speed import speed
from inceptionn.sim import golden
from inceptionn.wire import Parameters, PlanesParameters

KINDS = "a float32, float16 or bfloat16 array"
CODEC = Codec()


def test_settings() -> None:
    for bound in (0.001, 1.0, 2.0**-15, 0.0, -0.5, math.nan, math.inf, 3):
        refused(ValueError, rf"^error bound must be 2\*\*-k with .*, not {bound!r}$", Codec, bound)
    for bound in ("0.5", None, True):
        refused(TypeError, rf"^error bound must be .*, not {bound!r}$", Codec, bound)
    for word in ("planes", "bounded"):
        refused(TypeError, rf"^error bound must be .* \(codec='{word}'\?\), not '{word}'$", Codec, word)
    refused(ValueError, r"^mode must be one of literal, bounded, not 'exact'$", Codec, mode="exact")
    refused(ValueError, r"^codec must be one of paper, planes, not 'exact'$", Codec, 2**-10, "exact")
    with pytest.raises(ValueError, match=r"^the codec planes has no modes, so not 'literal'$"):
        Codec(2**-10, "planes", "literal")
    refused(ValueError, r"^threads must be 1..4096, not 0$", Codec, threads=0)
    refused(TypeError, r"^threads must be an integer, not 1.5$", Codec, threads=1.5)
    with pytest.raises(ValueError, match=r"1 <= E0 <= T <= 127 .*not Parameters\(e0=0, t=122, b=122\)$"):
        Codec.from_parameters(Parameters(0, 122, 122))
    with pytest.raises(ValueError, match=r"^planes: .* 113 <= E0 <= 126, not PlanesParameters\(e0=112\)$"):
        Codec.from_parameters(PlanesParameters(112))


def test_identity() -> None:
    assert Codec(0.5) == Codec(0.5, mode="bounded", threads=7)
    assert hash(Codec(0.5)) == hash(Codec(0.5, threads=7))
    assert Codec(0.5) != Codec(0.25)
    assert Codec(2.0**-10, mode="literal") != Codec()
    assert Codec.from_parameters(Parameters(117, 122, 122)) == Codec()
    assert Codec.from_parameters(Parameters(117, 122, 123)) != Codec()
    assert Codec.from_parameters(PlanesParameters(117)) == Codec(codec="planes") != Codec()
    assert Codec(0.5, "planes").parameters == PlanesParameters(126)
    assert repr(Codec()) == "Codec(error_bound=0.0009765625, mode='bounded', threads=None)"
    assert Codec().parameters == Parameters(117, 122, 122)
    assert repr(Codec(codec="planes")) == "Codec(error_bound=0.0009765625, codec='planes', threads=None)"
    for each in (Codec(), Codec(0.5, mode="literal"), Codec(0.25, "planes", threads=2)):
        assert eval(repr(each)) == pickle.loads(pickle.dumps(each)) == replace(each) == each  # noqa: S307
    assert Codec().name == "bounded 0.0009765625 (E0 117, T 122, B 122)"
    assert Codec(codec="planes").name == "planes 0.0009765625 (E0 117)"
    assert pickle.loads(pickle.dumps(Codec(0.5, mode="literal"))) == Codec(0.5, mode="literal")
    with pytest.raises(FrozenInstanceError):
        CODEC.mode = "literal"


def test_a_codec_with_another_setting() -> None:
    assert replace(CODEC, codec="planes") == Codec(codec="planes")
    assert replace(Codec(0.5, mode="literal"), codec="planes") == Codec(0.5, "planes")
    assert replace(Codec(codec="planes"), codec="paper", mode="literal") == Codec(mode="literal")
    assert replace(Codec(mode="literal"), error_bound=0.5) == Codec(0.5, mode="literal")
    assert replace(CODEC, threads=3).threads == 3
    with pytest.raises(ValueError, match="the codec planes has no modes, so not 'bounded'"):
        replace(Codec(codec="planes"), mode="bounded")
    own = Codec.from_parameters(Parameters(100, 110, 120))  # of no mode, and no bound that Codec takes
    assert replace(own, threads=3) == own
    assert replace(replace(own, threads=3), error_bound=0.5) == Codec(0.5)


def test_a_scaled_codec_shows_what_it_is() -> None:
    assert repr(CODEC.scaled(3)) == f"<ScaledCodec: {CODEC.name}, scale 3>"
    summing = Codec(codec="planes").summing(-1, "bfloat16")
    assert repr(summing) == f"<ScaledCodec: {Codec(codec='planes').name}, on the lattice, scale -1, bfloat16>"
    refused(TypeError, r"^scale must be an integer, not 'auto'$", CODEC.scaled, "auto")


@pytest.mark.parametrize(
    ("old", "new", "remedy"),
    [
        (lambda: Codec(0.5, "bounded"), Codec(0.5), "pass mode='bounded'"),  # type: ignore[arg-type]
        (lambda: Codec(0.5, "literal"), Codec(0.5, mode="literal"), "pass mode='literal'"),  # type: ignore[arg-type]
        (lambda: Codec(0.5, mode="planes"), Codec(0.5, "planes"), 'pass codec="planes"'),  # type: ignore[arg-type]
    ],
)
def test_spellings_of_before(old: Callable[[], Codec], new: Codec, remedy: str) -> None:
    """A mode in place of the codec, and planes in place of a mode, say what to write now."""
    with pytest.warns(DeprecationWarning, match=remedy) as said:
        assert old() == new
    assert [warning.filename for warning in said] == [__file__]


def test_scale_exponent_takes_the_spellings_of_before() -> None:
    x = np.array([0.5, 1], np.float32)
    assert (scale_exponent(x), scale_exponent(x, "planes")) == (-1, 0)
    with pytest.warns(DeprecationWarning, match='pass codec="planes"'):
        assert scale_exponent(x, mode="planes") == 0
    with pytest.warns(DeprecationWarning, match="pass mode='bounded'"):
        assert scale_exponent(x, "bounded") == -1


@pytest.mark.parametrize("call", [CODEC.compress, CODEC.lossy, CODEC.histogram, codec.scale_exponent])
def test_types_of_values(call) -> None:
    for dtype in ("float64", "int32", "uint8", "complex64", ">f4", "bool"):
        hint = r"($| \(the byte order: | \(pass x.astype\('float32'\)\)$)"
        refused(TypeError, rf"^values must be {KINDS}, not {dtype}{hint}", call, np.ones(8, dtype))
    with pytest.raises(
        TypeError, match=rf"^values must be {KINDS}, not <class 'list'> \(pass np.array\(x, np.float32\)\)$"
    ):
        call([1.0])
    refused(TypeError, rf"^values must be {KINDS}, not uint8$", call, bytes(8))
    call(array.array("f", [1, 2, 3]))
    call(memoryview(np.ones((2, 3), np.float32)))


@pytest.mark.parametrize("dtype", ["<f8", ">f8", ">f4", "i8"])
def test_what_an_array_of_another_type_needs_is_said_and_works(dtype: str) -> None:
    x = np.ones(8, dtype)
    with pytest.raises(TypeError, match=r"\(.*pass (x\.astype\('f.*'\))\)$") as caught:
        CODEC.compress(x)
    remedy = re.search(r"pass (.*)\)$", str(caught.value))[1]
    assert CODEC.compress(eval(remedy)) == CODEC.compress(np.ones(8, np.float32))  # noqa: S307
    with pytest.raises(TypeError, match=r"^out must be .*, not float64$"):  # a copy would not help
        CODEC.decompress(CODEC.compress(np.ones(8, np.float32)), 8, np.ones(8))


def test_what_a_list_or_a_tensor_needs_is_said_and_works() -> None:
    torch = pytest.importorskip("torch")
    wrong = ([1.0] * 4, (1, 1, 1, 1), torch.ones(4), torch.nn.Parameter(torch.ones(4)))
    for x in (*wrong, torch.ones(4, dtype=torch.bfloat16)):
        with pytest.raises(TypeError, match=r"\(pass .*\)$") as caught:
            CODEC.compress(x)
        remedy, _, dtype = str(caught.value).split("(pass ")[1][:-1].partition(" and dtype=")
        made = eval(remedy, {"np": np, "torch": torch, "x": x})  # noqa: S307
        assert CODEC.compress(made, dtype=dtype.strip("'") or None) == CODEC.compress(np.ones(4, np.float32))
    with pytest.raises(TypeError, match=r"^out must be .*Tensor'> \(pass x\..*\.numpy\(\)\)$"):
        CODEC.decompress(CODEC.compress(np.ones(4, np.float32)), 4, torch.ones(4))


def test_shapes_and_layouts(path: str, mixed, pair) -> None:
    x = mixed(4 * 6 * 500).reshape(4, 6, 500)
    x.flags.writeable = False
    for view in (
        x,
        x[::-1],
        x[:, ::2],
        x.T,
        x[0, 0, 3::7],
        x[1, 2, 5:6].reshape(()),
        np.asfortranarray(x[0]),
        x[:0],
    ):
        assert pair.codec.compress(view) == pair.compress(view)
        assert pair.codec.lossy(view).tobytes() == pair.lossy(view).tobytes()
        assert pair.codec.lossy(view).shape == np.shape(view)
        groups = sum(-(-min(2048, np.size(view) - first) // 8) for first in range(0, np.size(view), 2048))
        assert pair.codec.histogram(view).sum() == (groups if pair.mode == "planes" else np.size(view))
    unaligned = np.frombuffer(b"x" + x.tobytes(), np.float32, offset=1)
    if path != "numpy":
        assert unaligned.ctypes.data % 4
    assert pair.codec.compress(unaligned) == pair.compress(x)
    y = np.frombuffer(bytearray(x.nbytes + 1), np.float32, offset=1)
    stream = pair.codec.compress(x)
    seen = pair.codec.decompress(memoryview(b"x" + stream)[1:], x.size, y)
    assert seen.tobytes() == pair.lossy(x).tobytes()


def test_nothing(path: str, pair) -> None:
    empty = np.zeros(0, np.float32)
    assert pair.codec.compress(empty) == b""
    assert pair.codec.compress(empty, bytearray()) == b""
    assert pair.codec.max_compressed_size(0) == 0
    assert pair.codec.decompress(b"", 0).shape == (0,)
    assert pair.codec.decompress_add(b"", empty) is empty
    assert pair.codec.lossy(empty).shape == (0,)
    assert pair.codec.histogram(empty).tolist() == [0] * (16 if pair.mode == "planes" else 4)
    assert codec.scale_exponent(empty) == 0
    refused(ValueError, r"^malformed stream at byte 0: bytes are left over$", pair.codec.decompress, b"\0", 0)


def test_compress_into(path: str, mixed, pair) -> None:
    x = mixed(5000)
    stream = pair.compress(x)
    size = len(stream)
    for out in (
        bytearray(size),
        np.zeros(size, np.uint8),
        np.zeros((size + 7) // 4, np.float32),
        bytearray(99999),
    ):
        written = pair.codec.compress(x, out)
        assert isinstance(written, memoryview)
        assert written == stream
        assert memoryview(out).cast("B")[:size] == stream
    guarded = bytearray(b"\xa5" * (size + 20))
    pair.codec.compress(x, memoryview(guarded)[10:-10])
    assert guarded[:10] + guarded[-10:] == b"\xa5" * 20

    with pytest.raises(ValueError, match=rf"^out is too small for the stream: {size - 1} bytes$"):
        pair.codec.compress(x, bytearray(size - 1))
    refused(ValueError, r"^out must be C-contiguous and writable$", pair.codec.compress, x, bytes(99999))
    with pytest.raises(ValueError, match=r"^out must be C-contiguous and writable$"):
        pair.codec.compress(x, np.zeros(99999, np.uint8)[::2])
    refused(ValueError, r"^out must not overlap the values$", pair.codec.compress, x, x)
    with pytest.raises(TypeError):
        pair.codec.compress(x, 7)


def test_values_that_a_sample_misjudges(path: str, pair) -> None:
    """Memory for the stream is guessed from a few parts of the array: here all of them are zeros."""
    x = np.zeros(200_000, np.float32)
    x.reshape(-1, 250)[np.arange(800) % 25 > 3] = 25
    for first in range(0, 200_000, 200_000 // 32):
        x[first : first + 512] = 0
    stream = replace(pair.codec, threads=1).compress(x)
    assert len(stream) > 3 * x.size
    assert stream == pair.compress(x)


def test_decompress_into(path: str, mixed, pair) -> None:
    x = mixed(600)
    stream, seen = pair.compress(x), pair.lossy(x)
    out = np.empty((20, 30), np.float32)
    assert pair.codec.decompress(stream, 600, out) is out
    assert out.tobytes() == seen.tobytes()
    assert pair.codec.lossy(x, out) is out
    assert out.tobytes() == seen.tobytes()
    same = x.copy()
    assert pair.codec.lossy(same, same).tobytes() == seen.tobytes()

    for call in (
        lambda wrong: pair.codec.decompress(stream, 600, wrong),
        lambda wrong: pair.codec.lossy(x, wrong),
    ):
        refused(ValueError, r"^out must hold 600 values, not 601$", call, np.empty(601, np.float32))
        refused(TypeError, rf"^out must be {KINDS}, not float64$", call, np.empty(600))
        refused(TypeError, rf"^out must be {KINDS}, not <class 'bytearray'>$", call, bytearray(2400))
        refused(ValueError, r"^out must be C-contiguous and writable$", call, np.empty(1200, np.float32)[::2])
    with pytest.raises(ValueError, match=r"^accumulator must be C-contiguous and writable$"):
        pair.codec.decompress_add(stream, np.broadcast_to(np.float32(1), (600,)))
    total = np.ones(601, np.float32)
    with pytest.raises(ValueError, match=r"^addend must hold 600 values, not 601$"):
        pair.codec.decompress_add(stream, total[1:], total)
    with pytest.raises(TypeError, match=rf"^addend must be {KINDS}, not float64 "):
        pair.codec.decompress_add(stream, total[1:], np.ones(600))
    with pytest.raises(ValueError, match=r"^out must be as large as the addend, and the same or elsewhere$"):
        pair.codec.decompress_add(stream, total[1:], total[:-1])
    assert pair.codec.decompress_add(stream, total[1:], total[1:])[0] == 1 + pair.lossy(x)[0]
    room = bytearray(pair.codec.max_compressed_size(600))
    for wrong, error, message in (
        ((stream, x, bytes(room)), ValueError, "^out must be C-contiguous and writable$"),
        ((stream, x, bytearray(9)), ValueError, "^out is too small for the stream: 9 bytes$"),
        ((stream, x, memoryview(x).cast("B")), ValueError, "^out must not overlap the stream or the addend$"),
        ((memoryview(room)[: len(stream)], x, room), ValueError, "^out must not overlap the stream or the "),
        ((stream, np.ones(600), room), TypeError, f"^addend must be {KINDS}, not float64 "),
        ((stream[:-1], x, room), ValueError, f"^malformed stream at byte {len(stream) - 1}: it ends inside"),
        ((stream + b"1", x, room), ValueError, f"^malformed stream at byte {len(stream)}: bytes are left"),
    ):
        refused(error, message, pair.codec.compress_sum, *wrong)
    assert bytes(pair.codec.compress_sum(b"", x[:0], bytearray())) == b""
    raw = np.full(600, 3, np.float32)
    with pytest.raises(ValueError, match=r"^out must not overlap the stream$"):
        pair.codec.decompress(memoryview(raw).cast("B")[:300], 600, raw)
    with pytest.raises(ValueError, match=r"^out must be as large as the values, and the same or elsewhere$"):
        pair.codec.lossy(raw[:-1], raw[1:])


def test_counts(path: str, pair) -> None:
    stream = pair.codec.compress(np.ones(20, np.float32))
    for count in (True, 20.0, "20", None):
        with pytest.raises(TypeError, match=rf"^count must be an integer, not {count!r}$"):
            pair.codec.decompress(stream, count)
    refused(ValueError, r"^count must not be negative: -1$", pair.codec.max_compressed_size, -1)
    assert pair.codec.decompress(stream, np.int64(20)).shape == (20,)
    with pytest.raises(ValueError, match=rf"^malformed stream at byte {len(stream)}: it ends inside the"):
        pair.codec.decompress(stream, 10**15)
    # 21 to 24 would be right: lanes that are not there look like zeros; in planes up to four groups.
    for count in (19, 16, 0, 33 if pair.mode == "planes" else 25, 40):
        refused(ValueError, r"^malformed stream at byte \d+: ", pair.codec.decompress, stream, count)


def test_every_cut_and_every_flipped_bit(path: str, mixed, pair) -> None:
    """What the golden model refuses is refused, at the same byte; what it decodes decodes alike."""
    x = mixed(75)
    stream = bytes(pair.codec.compress(x))
    spoilt = [stream[:end] for end in range(len(stream))] + [stream + bytes(n) for n in (1, 2, 70)]
    for bit in range(8 * len(stream)):
        flipped = bytearray(stream)
        flipped[bit // 8] ^= 1 << bit % 8
        spoilt.append(bytes(flipped))
    malformed = 0
    for each in spoilt:
        try:
            expected = pair.decompress(each, 75)
        except golden.MalformedError as error:
            malformed += 1
            refused(ValueError, rf"^{error}$", pair.codec.decompress, each, 75)
        else:
            assert pair.codec.decompress(each, 75).tobytes() == expected.tobytes()
    assert malformed > 150


def test_faults_of_a_later_block(path: str, mixed, pair) -> None:
    """They are those of the block by itself, at a later byte."""
    x = mixed(75)
    before, stream = (bytes(pair.codec.compress(values)) for values in (mixed(wire.STREAM_LANES), x))
    spoilt = [stream[:end] for end in range(0, len(stream), 3)]
    for bit in range(8 * 20):
        flipped = bytearray(stream)
        flipped[bit // 8] ^= 1 << bit % 8
        spoilt.append(bytes(flipped))
    malformed = 0
    for each in spoilt:
        try:
            pair.codec.decompress(each, x.size)
        except ValueError as error:
            malformed += 1
            head, at, rest = re.split(r"(\d+)", str(error), maxsplit=1)
            later = f"{head}{len(before) + int(at)}{rest}"
            with pytest.raises(ValueError, match=f"^{re.escape(later)}$"):
                pair.codec.decompress(before + each, wire.STREAM_LANES + x.size)
    assert malformed > 30


# Scaling


@pytest.mark.parametrize("scale", [-126, -7, 1, 30, 126])
def test_scaling(path: str, scale: int, pair) -> None:
    source = np.random.default_rng(scale + 200)
    x = np.ldexp(source.standard_normal(3000) / 8, source.integers(-12, 1, 3000) - scale).astype(np.float32)
    x[7], x[8] = np.inf, np.frombuffer(b"\x01\0\x80\x7f", np.float32)[0]
    with np.errstate(all="ignore"):
        number = ~np.isnan(x)
        scaled = np.where(number, x * np.float32(2.0**scale), x)
        scaled.view(np.uint32)[~number] = x.view(np.uint32)[~number]
    stream = pair.codec.compress(x, scale=scale)
    assert stream == pair.compress(scaled)
    y = pair.codec.decompress(stream, x.size, scale=scale)
    assert y.tobytes() == pair.codec.lossy(x, scale=scale).tobytes()
    assert pair.codec.histogram(x, scale=scale).tolist() == pair.histogram(scaled).tolist()
    finite = np.isfinite(x)
    error = np.abs(y[finite].astype(np.float64) - x[finite])
    assert error.max() <= 2.0 ** (-10 - scale)
    assert y[~finite].tobytes() == x[~finite].tobytes()

    for apart in (None, np.zeros(3000, np.float32)):
        total = np.zeros(3000, np.float32)
        pair.codec.decompress_add(stream, total, apart, scale=scale)
        assert total[number].tobytes() == (y[number] + np.float32(0)).tobytes()
    room = bytearray(pair.codec.max_compressed_size(x.size))
    found = pair.codec.compress_sum(stream, np.zeros(3000, np.float32), room, scale=scale)
    assert found == pair.codec.compress(total, scale=scale)


def test_limits_of_scaling(path: str, pair) -> None:
    x = np.array([2.0**100], np.float32)
    for call in (pair.codec.compress, pair.codec.lossy, pair.codec.histogram):
        refused(OverflowError, r"^a value is too large to be scaled by 2\*\*28$", call, x, scale=28)
        call(x, scale=27)
        refused(ValueError, r"^scale must be -126..126, not 127$", call, x, scale=127)
    with pytest.raises(TypeError):
        pair.codec.compress(x, scale=0.5)


@pytest.mark.parametrize("scale", ["auto", None, 0.5])
def test_a_scale_that_is_no_exponent(path: str, scale: object, mixed, pair) -> None:
    x = mixed(20)
    stream = pair.codec.compress(x)
    said = rf"^scale must be an integer, such as scale_exponent\(x\), not {scale!r}$"
    for call in (
        lambda: pair.codec.compress(x, scale=scale),
        lambda: pair.codec.decompress(stream, 20, scale=scale),
        lambda: pair.codec.lossy(x, scale=scale),
    ):
        refused(TypeError, said, call)


@pytest.mark.parametrize("count", [15, 41])
def test_sums_of_another_size_say_the_size(path: str, count: int, mixed, pair) -> None:
    stream, x = pair.codec.compress(mixed(20)), np.zeros(count, np.float32)
    for call in (
        lambda: pair.codec.decompress_add(stream, x),
        lambda: pair.codec.compress_sum(stream, x, bytearray(400)),
    ):
        refused(ValueError, rf"^malformed .*, or it is not a stream of {count} values", call)


def test_scale_exponent(path: str) -> None:
    def of(*values: float) -> int:
        return codec.scale_exponent(np.array(values, np.float32))

    assert of(0.5, -0.25) == 0
    assert of(0.999, np.nan, np.inf, -np.inf) == 0
    assert of(-1.0, 0.5) == -1
    assert of(3e-6) == 18
    assert of(0.0, -0.0) == of(np.nan) == 0
    assert of(3e38) == -126
    assert of(1e-45) == 126
    planes = [codec.scale_exponent(np.array([x], np.float32), "planes") for x in (1.0, 0.999, 0.5, 3, 4)]
    assert planes == [0, 0, 1, -2, -2]
    for value in (1e-30, 7.5, 2.0**-20):
        assert 0.5 <= value * 2.0 ** of(value) < 1


# Threads


@pytest.mark.parametrize("threads", [2, 3, 5])
def test_threads_change_nothing(path: str, threads: int, mixed, pair) -> None:
    if path == "numpy":
        pytest.skip("one thread")
    one, several = (replace(pair.codec, threads=number) for number in (1, threads))
    for count in (1 << 20, (1 << 20) + 12345):
        x = mixed(count)
        stream = one.compress(x)
        assert several.compress(x) == stream
        assert several.compress(x, bytearray(len(stream))) == stream
        refused(ValueError, "too small", several.compress, x, bytearray(len(stream) - 1))
        y = one.decompress(stream, count)
        assert several.decompress(stream, count).tobytes() == y.tobytes()
        for blocks in (1, 32, 10**6):
            index = one.index(stream, count, blocks)
            assert several.decompress(stream, count, index=index).tobytes() == y.tobytes()
        a, b = np.ones(count, np.float32), np.ones(count, np.float32)
        one.decompress_add(stream, a)
        assert several.decompress_add(stream, np.empty_like(b), b).tobytes() == a.tobytes()
        assert several.decompress_add(stream, b).tobytes() == a.tobytes()
        room = bytearray(one.max_compressed_size(count))
        assert several.compress_sum(stream, np.ones_like(x), room) == one.compress(a)
        for cut in (len(stream) - 1, len(stream) // 3):
            with pytest.raises(ValueError, match=rf"^malformed stream at byte {cut}: it ends inside"):
                several.decompress(stream[:cut], count)
        with pytest.raises(ValueError, match=rf"^malformed stream at byte {len(stream)}: bytes are left"):
            several.decompress(stream + b"\0", count)


def test_index(path: str, mixed, pair) -> None:
    x = mixed(10 * wire.STREAM_LANES + 5)
    stream = bytes(pair.codec.compress(x))
    ends = [len(pair.compress(x[: n * wire.STREAM_LANES])) for n in range(12)]
    for blocks in (1, 3, 100):
        index = pair.codec.index(stream, x.size, blocks)
        assert np.frombuffer(index.offsets, "<u8").tolist() == ends[:11:blocks]
        assert pair.codec.decompress(stream, x.size, index=index).tobytes() == pair.lossy(x).tobytes()
    refused(ValueError, "malformed stream at byte", pair.codec.index, stream[:-1], x.size)
    refused(ValueError, "^blocks must be at least 1, not 0$", pair.codec.index, stream, x.size, 0)
    wrong = np.frombuffer(pair.codec.index(stream, x.size, 3).offsets, "<u8").copy()
    wrong[1] += 2
    with pytest.raises(ValueError, match=r"^malformed stream at byte \d+: "):
        pair.codec.decompress(stream, x.size, index=codec.Index(wrong.tobytes(), 3))
    with pytest.raises(ValueError, match=r"^the index must hold one offset for each run of blocks$"):
        pair.codec.decompress(stream, x.size, index=codec.Index(wrong.tobytes(), 2))


def test_index_ignores_codes_after_the_last_group(path: str, mixed) -> None:
    """It asks the groups' codes alone, in every path; decompression finds the fault."""
    planes = Codec(codec="planes")
    for count in (1, 9, 17, 41):
        stream = bytearray(planes.compress(mixed(count)))
        nibble = -(-count // wire.GROUP_LANES)
        stream[nibble // 2] |= 3 << 4 * (nibble % 2)
        assert planes.index(bytes(stream), count).offsets == bytes(8)
        refused(ValueError, "bytes are left over$", planes.index, bytes(stream) + bytes(3), count)
        with pytest.raises(ValueError, match=f"at byte {nibble // 2}: the code table goes on"):
            planes.decompress(bytes(stream), count)


def test_calls_from_several_threads(mixed) -> None:
    inputs = [mixed(200_000, seed) for seed in range(4)]
    expected = [bytes(CODEC.compress(x)) for x in inputs]
    failures = []

    def work(number: int) -> None:
        for _ in range(20):
            if CODEC.compress(inputs[number]) != expected[number]:
                failures.append(number)
            seen = CODEC.decompress(expected[number], 200_000)
            if seen.tobytes() != CODEC.lossy(inputs[number]).tobytes():
                failures.append(number)

    workers = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert not failures


# Costs

MEMORY = """
import resource, numpy as np
from inceptionn import Codec
codec = Codec(threads={threads})
small = np.ones(4096, np.float32)
codec.decompress_add(codec.compress(small), small)
x = np.full({count}, 0.01, np.float32)
x[::3] = 0
def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
before = peak()
stream = codec.compress(x)
print(len(stream), peak() - before)
before = peak()
y = codec.decompress(stream, x.size)
print(y.nbytes, peak() - before)
before = peak()
codec.decompress_add(stream, y)
codec.lossy(x, y)
codec.histogram(x)
print(0, peak() - before)
"""


@pytest.mark.parametrize("threads", [1, 2])
def test_memory(threads: int) -> None:
    """Of 64 MiB of values: 1.1 times input and output together at most, as the process grows."""
    if codec.available_paths()[0] == "numpy":
        pytest.skip("no native codec")
    count = 1 << 24
    said = said_by(sys.executable, "-c", MEMORY.format(threads=threads, count=count))
    rows = [tuple(map(int, line.split())) for line in said.splitlines()]
    assert len(rows) == 3
    for size, grown in rows:
        assert grown <= 1.1 * size + 0.05 * 4 * count, rows


def test_speed_measures_every_operation() -> None:
    measured = speed(1 << 14, repeats=1)
    assert set(measured) == {"memcpy", "compress", "decompress", "decompress_add", "lossy", "ratio"}
    assert all(value > 0 for value in measured.values())
    assert 3 < measured["ratio"] < 8


FALLBACK = """
import sys, warnings
sys.modules["inceptionn.native.codec"] = None
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    import inceptionn, numpy as np
    assert not caught
    for _ in range(3):
        codec = inceptionn.Codec()
x = np.linspace(-2, 2, 5000, dtype=np.float32)
print(inceptionn.codec.available_paths(), [w.category.__name__ for w in caught], caught[0].message)
print(bytes(codec.compress(x)).hex())
"""


def test_without_the_extension() -> None:
    """The NumPy path, and one warning, when a codec is made."""
    said, stream = said_by(sys.executable, "-c", FALLBACK).splitlines()
    assert said.startswith("['numpy'] ['RuntimeWarning'] inceptionn was installed without its C extension")
    assert bytes.fromhex(stream) == CODEC.compress(np.linspace(-2, 2, 5000, dtype=np.float32))


@pytest.mark.parametrize("k", [2, 10, 10.0, 14])
def test_an_exponent_in_place_of_a_bound_is_named(k: float) -> None:
    refused(ValueError, rf"in 1\.\.14 \(2\*\*-{k:g}\?\), not {k!r}$", Codec, k)


def test_type_checkers_know_what_compress_returns() -> None:
    """Without ``out`` bytes, with it a memoryview."""
    returned = [form.__annotations__["return"] for form in get_overloads(Codec.compress)]
    assert returned == ["bytes", "memoryview"]


@pytest.mark.parametrize(("made", "read"), [("paper", "planes"), ("planes", "paper")])
def test_a_stream_of_the_other_codec_is_named(made: str, read: str) -> None:
    x = np.random.default_rng(1).normal(scale=0.01, size=5000).astype(np.float32)
    stream = Codec(codec=made).compress(x)
    with pytest.raises(
        ValueError, match=rf"^malformed stream at byte \d+: .* \(it is one of codec='{made}'\)$"
    ):
        Codec(codec=read).decompress(stream, x.size)

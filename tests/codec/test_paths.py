# SPDX-License-Identifier: BSD-2-Clause
"""Every path gives what the golden model and the conformance vectors give, bit for bit."""

import json
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from programs import ended
from refusals import refused

from inceptionn import Codec, wire
from inceptionn.codec import Paths, codec, numpy_kernel
from inceptionn.sim import golden
from inceptionn.wire import Parameters

VECTORS = Path(__file__).resolve().parents[1] / "vectors"
VARIANTS = [each.name for each in wire.VARIANTS]
SETTINGS = [(k, mode) for mode in VARIANTS for k in range(wire.MIN_K, wire.MAX_K + 1)]
# Ends of groups, of what vector kernels take at a time, of blocks.
COUNTS = [0, 1, 7, 8, 9, 15, 16, 17, 31, 32, 33, 63, 64, 65, 1023, 2047, 2048, 2049, 4096, 5003]


def same(a: np.ndarray, b: np.ndarray) -> bool:
    """Equal bits, NaNs and zeros included."""
    return a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()


@pytest.mark.parametrize(("k", "mode"), SETTINGS)
def test_golden_model(path: str, k: int, mode: str, mixed, pair_of) -> None:
    pair = pair_of(mode, k)
    subject = pair.codec
    for count in COUNTS if k == wire.DEFAULT_K else COUNTS[-2:]:
        x = mixed(count, seed=k)
        stream = pair.compress(x)
        seen = pair.lossy(x)
        assert subject.compress(x) == stream
        assert len(stream) <= subject.max_compressed_size(count)
        assert same(subject.decompress(stream, count), seen)
        assert same(subject.lossy(x), seen)
        assert same(subject.histogram(x), pair.histogram(x))

        addend = np.linspace(-1, 1, count, dtype=np.float32)
        with np.errstate(invalid="ignore"):
            expected = addend + seen
        number = ~np.isnan(expected)
        for total, apart in ((addend.copy(), None), (np.full(count, 7, np.float32), addend)):
            assert subject.decompress_add(stream, total, apart) is total
            assert np.array_equal(total, expected, equal_nan=True)
            assert same(total[number], expected[number])
        room = bytearray(subject.max_compressed_size(count))
        assert subject.compress_sum(stream, addend, room) == pair.compress(total)


@pytest.mark.parametrize("tag", wire.Tag)
def test_one_class_only(path: str, tag: wire.Tag) -> None:
    """The smallest stream and the largest one that a count can have, and those between."""
    bits = {0: 0x00012345, 1: 0x3B123456, 2: 0xBE765432, 3: 0xC0FFEE11}[tag]
    for count in (40, 2048, 6001):
        x = np.full(count, bits, np.uint32).view(np.float32)
        stream = Codec().compress(x)
        assert stream == golden.compress(x)
        assert len(stream) == -(-count // 8) * 2 + wire.TAG_BYTES[tag] * count
        assert same(Codec().decompress(stream, count), golden.lossy(x))


def test_parameters_of_neither_mode(path: str, mixed) -> None:
    """Small bases take other code than the two modes' do; the largest ones reach the smallest units."""
    x = np.concatenate([mixed(300), np.arange(0, 512, dtype=np.uint32).repeat(9).view(np.float32)])
    x[300:].view(np.uint32)[:] <<= 23
    x[300:].view(np.uint32)[:] |= np.resize(np.array([0, 1, 0x7FFFFF, 0x400000], np.uint32), len(x) - 300)
    corners = [(1, 1, 1), (1, 1, 2), (1, 5, 7), (1, 8, 8), (3, 31, 31), (1, 32, 32), (1, 33, 33), (1, 1, 255)]
    corners += [(1, 127, 127)]
    corners += [(127, 127, 127), (127, 127, 255), (60, 90, 200), (1, 127, 255), (100, 100, 100)]
    for numbers in corners:
        parameters = Parameters(*numbers)
        subject = Codec.from_parameters(parameters)
        assert subject.parameters == parameters
        stream = golden.compress(x, params=parameters)
        assert subject.compress(x) == stream
        assert same(subject.decompress(stream, len(x)), golden.decompress(stream, len(x), params=parameters))
        assert same(subject.lossy(x), golden.lossy(x, params=parameters))


@pytest.mark.parametrize("code", range(wire.CODES))
def test_one_code_only(path: str, code: int) -> None:
    """The smallest stream and the largest one of planes, and those between; one group of another code."""
    z = 0 if code == 0 else 1 << min(code, 14) - 1
    value = 1e9 if code == wire.RAW_CODE else (-1.0 if z % 2 else 1.0) * (z + 1 >> 1) * 2.0**-9
    planes = Codec(codec="planes")
    for count in (40, 2048, 6001):
        x = np.full(count, value, np.float32)
        stream = bytes(planes.compress(x))
        groups = -(-count // 8)
        assert stream == golden.planes.compress(x)
        assert len(stream) == -(-groups // 4) * 2 + wire.CODE_BYTES[code] * groups
        assert same(planes.decompress(stream, count), golden.planes.lossy(x))
        for place in (0, 5, 32, count - 1):
            for other in (0.0, 2.0**-9, np.inf):
                x = np.full(count, value, np.float32)
                x[place] = other
                assert planes.compress(x) == golden.planes.compress(x)


def test_values_of_every_exponent_at_every_place(path: str, pair) -> None:
    """A vector kernel's lanes are not all alike: each exponent passes through each."""
    exponents = np.arange(512, dtype=np.uint32)
    for shift in range(33):
        bits = np.concatenate([exponents << 23 | 0x5A5A5A, np.zeros(8, np.uint32)])
        x = np.roll(bits, shift).view(np.float32)
        assert pair.codec.compress(x) == pair.compress(x)
        assert same(pair.codec.decompress(pair.compress(x), len(x)), pair.lossy(x))


# The published vectors


def load(name: str):
    return json.loads((VECTORS / name).read_text())


def codec_of(case: dict) -> Codec:
    if case["mode"] is None:
        return Codec.from_parameters(Parameters(case["e0"], case["t"], case["b"]))
    return Codec(2.0 ** -case["k"], *wire.variant(case["mode"]))


def words(text: str) -> np.ndarray:
    return np.array([int(word, 16) for word in text.split()], np.uint32).view(np.float32)


def test_lane_vectors(path: str) -> None:
    content = load("lanes.json")
    x = words(content["inputs"])
    assert len(content["compress"]) > 28
    for case in content["compress"]:
        subject = codec_of(case)
        stream = bytes(subject.compress(x))
        seen = subject.decompress(stream, len(x))
        assert same(seen, words(case["outputs"]))
        at = 0
        for first in range(0, len(x), wire.STREAM_LANES):
            tags = case["tags"][first : first + wire.STREAM_LANES]
            vectors = case["vectors"].split()[first : first + wire.STREAM_LANES]
            table = -(-len(tags) // 8) * 2
            data = b"".join(bytes.fromhex(vector)[::-1] for vector in vectors if vector != ".")
            numbers = np.unpackbits(np.frombuffer(stream, np.uint8, table, at), bitorder="little")
            found = (numbers[0::2] + 2 * numbers[1::2])[: len(tags)]
            assert "".join(map(str, found)) == tags
            assert stream[at + table : at + table + len(data)] == data
            at += table + len(data)
        assert at == len(stream)


def test_decoder_vectors(path: str) -> None:
    checked = 0
    for case in load("lanes.json")["decompress"]:
        if not case["b"]:
            continue  # no encoder's base
        base = case["b"]
        subject = Codec.from_parameters(Parameters(1, min(base, 127), base))
        size = {1: 1, 2: 2}[int(case["tag"])]
        for vector, output in zip(case["vectors"].split(), case["outputs"].split(), strict=True):
            stream = bytes([int(case["tag"]), 0]) + int(vector, 16).to_bytes(size, "little")
            if output == "-":
                with pytest.raises(ValueError, match=r"^malformed stream at byte 2: the exponent of"):
                    subject.decompress(stream, 1)
            else:
                assert same(subject.decompress(stream, 1), words(output))
            checked += 1
    assert checked > 1000


def test_block_vectors(path: str) -> None:
    content = load("blocks.json")
    checked = 0
    for case in [*content["blocks"], *content["streams"]]:
        if case["count"] > wire.STREAM_LANES and "block" in case:
            continue  # longer than a stream's blocks
        x = np.frombuffer(bytes.fromhex(case["input"]), np.float32)
        stream = bytes.fromhex(case.get("stream", case.get("block")))
        subject = codec_of(case)
        assert subject.compress(x) == stream
        assert subject.decompress(stream, case["count"]).tobytes().hex() == case["output"]
        if "histogram" in case:
            assert subject.histogram(x).tolist() == case["histogram"]
        checked += 1
    assert checked > 80


def test_malformed_vectors(path: str) -> None:
    checked = 0
    for case in load("blocks.json")["malformed"]:
        block = bytes.fromhex(case["block"])
        if not 1 <= case["b"] or case["count"] > wire.STREAM_LANES:
            continue
        subject = Codec.from_parameters(Parameters(1, min(case["b"], 127), case["b"]))
        with pytest.raises(ValueError, match=rf"^malformed stream at byte {case['offset']}: "):
            subject.decompress(block, case["count"])
        checked += 1
    assert checked >= 10


def test_planes_vectors(path: str) -> None:
    lanes, blocks = load("planes_lanes.json"), load("planes_blocks.json")
    x = words(lanes["inputs"])
    for case in lanes["compress"]:
        subject = Codec(2.0 ** -case["k"], "planes")
        assert same(subject.lossy(x), words(case["outputs"]))
        assert same(subject.decompress(subject.compress(x), len(x)), words(case["outputs"]))
    for case in lanes["decompress"]:
        subject = Codec(2.0 ** -case["k"], "planes")
        for z, word in zip(case["integers"].split(), words(case["outputs"]), strict=True):
            planes = bytes(int(z, 16) >> j & 1 for j in range(15))
            assert subject.decompress(b"\x0e\0" + planes, 1).tobytes() == word.tobytes()
    for case in [*blocks["blocks"], *blocks["streams"], *blocks["decompress"]]:
        stream = bytes.fromhex(case.get("stream", case.get("block")))
        subject = Codec(2.0 ** -case["k"], "planes")
        if case["count"] > wire.STREAM_LANES and "block" in case:
            continue  # longer than a stream's blocks
        assert subject.decompress(stream, case["count"]).tobytes().hex() == case["output"]
        if "input" in case:
            x = np.frombuffer(bytes.fromhex(case["input"]), np.float32)
            assert subject.compress(x) == stream
        if "histogram" in case:
            assert subject.histogram(x).tolist() == case["histogram"]
    for case in blocks["malformed"]:
        with pytest.raises(ValueError, match=rf"^malformed stream at byte {case['offset']}: "):
            Codec(codec="planes").decompress(bytes.fromhex(case["block"]), case["count"])


def test_names() -> None:
    paths = codec.available_paths()
    assert paths[-1] == "numpy"
    usual = "numpy" if paths == ["numpy"] else "auto"
    assert codec.active_path() == usual
    refused(ValueError, r"^codec path must be one of .*numpy, not 'mmx'$", codec.force_path, "mmx")
    assert codec.active_path() == usual


def test_a_path_for_a_while(path: str) -> None:
    with codec.using_path("numpy"):
        assert codec.active_path() == "numpy"
    assert codec.active_path() == path
    with pytest.raises(ValueError, match="codec path must be one of"), codec.using_path("mmx"):
        pass
    assert codec.active_path() == path


OPERATIONS = ("bounded compress", "bounded decompress", "planes compress", "planes decompress", "planes sum")


def test_operation_paths(path: str) -> None:
    """A forced path does everything. "auto" takes one that is available, and always the same."""
    chosen = codec.operation_paths()
    assert tuple(chosen) == OPERATIONS
    assert set(chosen.values()) <= set(codec.available_paths())
    if path != "auto":
        assert set(chosen.values()) == {path}
    codec.force_path("numpy")
    codec.force_path(path)
    assert codec.operation_paths() == chosen


def in_process(code: str, path: str) -> subprocess.CompletedProcess[str]:
    program = f"from inceptionn.codec import *\n{code}"
    return ended(sys.executable, "-c", program, timeout=60, INCEPTIONN_CODEC_PATH=path)


@pytest.mark.parametrize("path", codec.available_paths())
def test_the_environment_names_the_path(path: str) -> None:
    code = "print(active_path(), *operation_paths().values())\nforce_path(None)\nprint(active_path())"
    assert in_process(code, path).stdout.split() == [path] * 7


def test_the_environment_names_no_path() -> None:
    """The package can be imported, so that a program can say what is wrong; no codec is made."""
    done = in_process("print(1)\ntry:\n    Codec()\nexcept ValueError as error:\n    print(error)", "mmx")
    wanted = r"1\nINCEPTIONN_CODEC_PATH: codec path must be one of (\S+, )*numpy, not 'mmx'\n"
    assert re.fullmatch(wanted, done.stdout), done


def test_an_extension_of_another_version() -> None:
    """No kernel is called with arguments that it does not know."""
    old = ModuleType("old")
    old.__file__, old.paths = "old.so", lambda: ["avx2"]
    paths = Paths("codec", old, numpy_kernel)
    assert paths.available() == ["numpy"]
    refused(ValueError, r"^the C extension old\.so was built for another version of inc", paths.check)


def test_threads_choose_together() -> None:
    """The first calls come from many threads at once; the choice is made once."""
    code = """
import numpy as np
from concurrent.futures import ThreadPoolExecutor
x = np.linspace(-2, 2, 10_000, dtype=np.float32)
def work(number):
    return Codec(codec=("paper", "planes")[number % 2]).compress(x), tuple(operation_paths().items())
with ThreadPoolExecutor(16) as pool:
    found = list(pool.map(work, range(64)))
print(len({stream for stream, _ in found}), len({chosen for _, chosen in found}))
"""
    assert in_process(code, "auto").stdout.split() == ["2", "1"]


def test_constants_of_the_native_module() -> None:
    native = pytest.importorskip("inceptionn.native.codec")
    names = (
        "GROUP_LANES STREAM_LANES TAG_WORD_BYTES CODE_WORD_BYTES CODE_WORD_GROUPS RAW_CODE RAW_EXPONENT "
        "EXPONENT_BIAS MANTISSA_BITS"
    )
    for name in names.split():
        assert getattr(native, name) == getattr(wire, name)

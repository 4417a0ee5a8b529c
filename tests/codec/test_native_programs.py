# SPDX-License-Identifier: BSD-2-Clause
"""The C kernels without Python: the error bound over all values, and hostile streams under sanitizers.

``make test-exhaustive`` sets EXHAUSTIVE: all 2^32 values for every bound, and a longer fuzz.
"""

import hashlib
import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from missing import missing
from programs import ended, said_by

from inceptionn import wire
from inceptionn.codec import codec

HERE = Path(__file__).parent
NATIVE_FOLDER = HERE.parents[1] / "sw" / "native"
PARTS = ("kernels", "choose", "compress", "decompress", "half", "lanes", "sum", "threads")
STREAMS = [NATIVE_FOLDER / f"{part}.c" for part in PARTS]
SOURCES = [*STREAMS, *(NATIVE_FOLDER / "paper").glob("*.c"), *(NATIVE_FOLDER / "planes").glob("*.c")]
EXHAUSTIVE = bool(os.environ.get("EXHAUSTIVE"))
COMPILER = next(filter(None, map(shutil.which, ("cc", "gcc", "clang"))), None)
NATIVE = [path for path in codec.available_paths() if path != "numpy"]


Build = Callable[..., Path]


def texts(source: Path, native: Path) -> list[str]:
    """Return a file's text and those of the kernels' headers that it includes."""
    found = {source: source.read_text()}
    reached = [source]
    for file in reached:
        for name in re.findall(r'^#include "(.+)"', found[file], re.MULTILINE):
            header = next(path for path in (file.parent / name, native / name) if path.exists()).resolve()
            if header not in found:
                found[header] = header.read_text()
                reached.append(header)
    return list(found.values())


@pytest.fixture(scope="module")
def build(tmp_path_factory: pytest.TempPathFactory) -> Build:
    """``build(name, *flags, native=folder)``: the program ``name.c`` with the kernels in ``native``.

    A file that is the same in several programs is compiled once.
    """
    folder = tmp_path_factory.mktemp("native")

    def compiled(source: Path, native: Path, flags: tuple[str, ...]) -> Path:
        content = repr((flags, texts(source, native)))
        made = folder / f"{source.stem}-{hashlib.sha256(content.encode()).hexdigest()}.o"
        if not made.exists():
            command = [COMPILER, "-std=gnu11", "-Wall", "-Wextra", "-Werror", *flags, f"-I{native}"]
            done = ended(*command, "-c", "-o", made, source)
            assert done.returncode == 0, done.stderr
        return made

    def run(name: str, *flags: str, native: Path = NATIVE_FOLDER) -> Path:
        if COMPILER is None:
            missing("no C compiler")
        sources = [HERE / f"{name}.c", *(native / path.relative_to(NATIVE_FOLDER) for path in SOURCES)]
        objects = [compiled(source, native, flags) for source in sources]
        program = folder / f"{name}-{hashlib.sha256(repr(objects).encode()).hexdigest()}"
        if not program.exists():
            done = ended(COMPILER, *flags, "-o", program, *objects, "-lpthread", "-lm")
            if "fsanitize" in "".join(flags) and "cannot find" in done.stderr:
                missing("the compiler has no sanitizers")
            assert done.returncode == 0, done.stderr
        return program

    return run


def changed(folder: Path, changes: dict[str, tuple[str, Any]]) -> Path:
    """Return a copy of the kernels, changed at one place of some files: a pattern and what replaces it."""
    native = shutil.copytree(NATIVE_FOLDER, folder / "native")
    for file, (pattern, better) in changes.items():
        text, replaced = re.subn(pattern, better, (native / file).read_text())
        assert replaced == 1
        (native / file).write_text(text)
    return native


@pytest.mark.parametrize("mode", ["bounded", "planes"])
@pytest.mark.parametrize("kernel", NATIVE)
def test_error_bound(kernel: str, mode: str, build: Build) -> None:
    """Every bound on a sample of all values, or on all: the best kernel at every bound, others at one."""
    program = build("native_bound", "-O3")
    for k in range(wire.MIN_K, wire.MAX_K + 1):
        all_of_them = EXHAUSTIVE and (k == wire.DEFAULT_K or kernel == NATIVE[0])
        text = said_by(program, kernel, mode, k, 1 if all_of_them else 509)
        found = re.fullmatch(r"(\d+) values, largest error (\d\.\d+) of the bound\n", text)
        assert found, text
        # What is dropped comes close to the bound.
        assert (0.999 if all_of_them else 0.9) < float(found[2]) <= 1, text
        assert int(found[1]) == 2**32 if all_of_them else int(found[1]) >= 2**32 // 509, text


@pytest.mark.parametrize(
    ("mode", "file", "good", "bad"),
    [
        ("bounded", "paper/scalar.c", "((uint64_t)bytes <<", "((uint64_t)(bytes & ~1u) <<"),
        ("planes", "planes/scalar.c", "(float)steps * step_of(p)", "(float)(steps & ~1) * step_of(p)"),
        ("planes", "planes/planes.h", "* factor) + 1) >> 1", "* factor)) >> 1"),
    ],
)
def test_the_check_of_the_bound_can_fail(
    mode: str, file: str, good: str, bad: str, build: Build, tmp_path: Path
) -> None:
    """Against kernels that lose a last bit, or round down."""
    program = build("native_bound", "-O3", native=changed(tmp_path, {file: (re.escape(good), bad)}))
    done = ended(program, "scalar", mode, 10, 509)
    assert done.returncode == 1
    assert " comes back as " in done.stderr


@pytest.mark.parametrize("file", ["paper/avx512.c", "planes/avx512.c", "planes/gfni.c"])
def test_bytes_are_packed_in_registers(file: str) -> None:
    """With a memory operand, which compilers make of a load, VPEXPANDB and VPCOMPRESSB may be microcode."""
    if COMPILER is None or "avx2" not in NATIVE:
        pytest.skip("no C compiler for x86")
    text = said_by(COMPILER, "-std=gnu11", "-O3", "-S", "-o", "-", NATIVE_FOLDER / file)
    found = re.findall(r"vp(expand|compress)b\t(.*)", text)
    assert {name for name, _ in found} == {"expand", "compress"}
    assert not [operands for _, operands in found if "(" in operands]


SLOW = "    for (volatile unsigned wait = 0; wait < 100000; wait++)\n        ;\n"
COMPRESS = r"static size_t compress\(const lane_bits \*x, [^{]*\{\n"
DECODE = r"size_t decode\(const uint8_t \*block, [^{]*\{\n"


def test_slow_kernels_are_not_chosen(build: Build, tmp_path: Path) -> None:
    """Every operation has a path of its own: four kernels take a hundred times as long for one each."""
    if not {"avx2", "avx512"} <= set(NATIVE):
        pytest.skip("needs two vector kernels")
    slow = {
        "paper/avx512.c": DECODE, "paper/avx2.c": COMPRESS,
        "planes/avx512.h": DECODE, "planes/avx2.c": COMPRESS,
    }  # fmt: skip
    changes = {file: (function, lambda found: found[0] + SLOW) for file, function in slow.items()}
    program = build("native_choice", "-O3", native=changed(tmp_path, changes))
    chosen = dict(line.rsplit(" ", 1) for line in said_by(program).splitlines())
    assert [chosen[f"{mode} decompress"] for mode in ("bounded", "planes")] == ["avx2", "avx2"]
    assert [chosen[f"{mode} compress"][:6] for mode in ("bounded", "planes")] == ["avx512", "avx512"]


@pytest.mark.parametrize(
    ("seed", "rounds"),
    [
        (1, 1000),
        *(
            pytest.param(seed, 10_000 if EXHAUSTIVE else 1000, marks=pytest.mark.slow)
            for seed in range(2, 5 if EXHAUSTIVE else 4)
        ),
    ],
)
def test_hostile_streams(seed: int, rounds: int, build: Build) -> None:
    """No access outside of exactly fitting buffers; all kernels agree on every verdict; each one occurs."""
    program = build("native_fuzz", "-O1", "-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=all")
    lines = said_by(program, seed, rounds).splitlines()
    assert {line.split()[1] for line in lines if line.startswith("kernel")} == set(NATIVE)
    counts = {int(line.split()[1]): int(line.split()[2]) for line in lines if line.startswith("verdict")}
    listed = (NATIVE_FOLDER / "types.h").read_text().split("} status;")[0].rsplit("typedef enum {", 1)[1]
    names = re.findall(r"^    ([A-Z_]+),", listed, re.MULTILINE)
    assert len(counts) == len(names) > 10
    for verdict, name in enumerate(names):
        if name not in ("NO_ROOM", "OVERFLOWED", "WRONG_INDEX"):
            assert counts[verdict] > 3, (name, counts)


@pytest.mark.slow
def test_threads_do_not_race(build: Build) -> None:
    """The same under the thread sanitizer."""
    program = build("native_fuzz", "-O1", "-g", "-fsanitize=thread")
    done = ended(program, 9, 120)
    if "unexpected memory mapping" in done.stderr:
        pytest.skip("the thread sanitizer does not run on this kernel")
    assert done.returncode == 0, done.stderr

# SPDX-License-Identifier: BSD-2-Clause
"""The C kernels without Python: the error bound over all values, and hostile streams under sanitizers.

``make test-exhaustive`` sets EXHAUSTIVE: all 2^32 values for every bound, and a longer fuzz.
"""

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


@pytest.fixture(scope="module")
def build(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    folder = tmp_path_factory.mktemp("native")

    def run(name: str, *flags: str) -> Path:
        if COMPILER is None:
            missing("no C compiler")
        program = folder / f"{name}-{'-'.join(flags).replace('/', '').replace('=', '')}"
        if program.exists():
            return program
        command = [COMPILER, "-std=gnu11", "-Wall", "-Wextra", "-Werror", *flags, f"-I{NATIVE_FOLDER}"]
        command += ["-o", program, HERE / f"{name}.c", *SOURCES, "-lpthread", "-lm"]
        done = ended(*command)
        if "fsanitize" in "".join(flags) and "cannot find" in done.stderr:
            missing("the compiler has no sanitizers")
        assert done.returncode == 0, done.stderr
        return program

    return run


def changed(folder: Path, name: str, changes: dict[str, tuple[str, Any]]) -> Path:
    """Return a program of kernels changed at one place of some files: a pattern and what replaces it."""
    native = shutil.copytree(NATIVE_FOLDER, folder / "native")
    for file, (pattern, better) in changes.items():
        text, replaced = re.subn(pattern, better, (native / file).read_text())
        assert replaced == 1
        (native / file).write_text(text)
    files = [HERE / f"{name}.c", *(native / path.relative_to(NATIVE_FOLDER) for path in SOURCES)]
    said_by(COMPILER, "-o", folder / name, *files, "-std=gnu11", "-O1", f"-I{native}", "-lpthread", "-lm")
    return folder / name


@pytest.mark.parametrize("mode", ["bounded", "planes"])
@pytest.mark.parametrize("kernel", NATIVE)
def test_error_bound(kernel: str, mode: str, build: Callable[..., Path]) -> None:
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
    mode: str, file: str, good: str, bad: str, build: Callable[..., Path], tmp_path: Path
) -> None:
    """Against kernels that lose a last bit, or round down."""
    program = changed(tmp_path, "native_bound", {file: (re.escape(good), bad)})
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


def test_slow_kernels_are_not_chosen(tmp_path: Path) -> None:
    """Every operation has a path of its own: four kernels take a hundred times as long for one each."""
    if not {"avx2", "avx512"} <= set(NATIVE):
        pytest.skip("needs two vector kernels")
    slow = {
        "paper/avx512.c": DECODE, "paper/avx2.c": COMPRESS,
        "planes/avx512.h": DECODE, "planes/avx2.c": COMPRESS,
    }  # fmt: skip
    changes = {file: (function, lambda found: found[0] + SLOW) for file, function in slow.items()}
    program = changed(tmp_path, "native_choice", changes)
    chosen = dict(line.rsplit(" ", 1) for line in said_by(program).splitlines())
    assert [chosen[f"{mode} decompress"] for mode in ("bounded", "planes")] == ["avx2", "avx2"]
    assert [chosen[f"{mode} compress"][:6] for mode in ("bounded", "planes")] == ["avx512", "avx512"]


@pytest.mark.parametrize(
    "seed", [1, *(pytest.param(n, marks=pytest.mark.slow) for n in range(2, 5 if EXHAUSTIVE else 3))]
)
def test_hostile_streams(seed: int, build: Callable[..., Path]) -> None:
    """No access outside of exactly fitting buffers; all kernels agree on every verdict; each one occurs."""
    program = build("native_fuzz", "-O1", "-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=all")
    lines = said_by(program, seed, 10_000 if EXHAUSTIVE else 1000).splitlines()
    assert {line.split()[1] for line in lines if line.startswith("kernel")} == set(NATIVE)
    counts = {int(line.split()[1]): int(line.split()[2]) for line in lines if line.startswith("verdict")}
    listed = (NATIVE_FOLDER / "types.h").read_text().split("} status;")[0].rsplit("typedef enum {", 1)[1]
    names = re.findall(r"^    ([A-Z_]+),", listed, re.MULTILINE)
    assert len(counts) == len(names) > 10
    for verdict, name in enumerate(names):
        if name not in ("NO_ROOM", "OVERFLOWED", "WRONG_INDEX"):
            assert counts[verdict] > 3, (name, counts)


@pytest.mark.slow
def test_threads_do_not_race(build: Callable[..., Path]) -> None:
    """The same under the thread sanitizer."""
    program = build("native_fuzz", "-O1", "-g", "-fsanitize=thread")
    done = ended(program, 9, 120)
    if "unexpected memory mapping" in done.stderr:
        pytest.skip("the thread sanitizer does not run on this kernel")
    assert done.returncode == 0, done.stderr

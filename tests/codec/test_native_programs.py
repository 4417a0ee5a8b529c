# SPDX-License-Identifier: BSD-2-Clause
"""The C kernels without Python: the error bound over all values, and hostile streams under sanitizers.

``make test-exhaustive`` sets EXHAUSTIVE: all 2^32 values for every bound, and a longer fuzz.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from inceptionn import wire
from inceptionn.codec import codec

HERE = Path(__file__).parent
PARTS = ("codec_scalar", "codec_avx2", "codec_avx512", "compress", "decompress", "threads")
SOURCES = [HERE.parents[1] / "sw" / "native" / f"{part}.c" for part in PARTS]
EXHAUSTIVE = bool(os.environ.get("EXHAUSTIVE"))
NATIVE = [path for path in codec.available_paths() if path != "numpy"]


def give_up(reason: str) -> None:
    """A missing tool is a skip for a user and a failure under continuous integration."""
    if os.environ.get("CI"):
        pytest.fail(reason)
    pytest.skip(reason)


@pytest.fixture(scope="module")
def build(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    folder = tmp_path_factory.mktemp("native")
    compiler = next(filter(None, map(shutil.which, ("cc", "gcc", "clang"))), None)

    def run(name: str, *flags: str) -> Path:
        if compiler is None:
            give_up("no C compiler")
        program = folder / f"{name}-{'-'.join(flags).replace('/', '').replace('=', '')}"
        if program.exists():
            return program
        command = [compiler, "-std=gnu11", "-Wall", "-Wextra", "-Werror", *flags, f"-I{SOURCES[0].parent}"]
        command += ["-o", program, HERE / f"{name}.c", *SOURCES, "-lpthread", "-lm"]
        done = subprocess.run(list(map(str, command)), capture_output=True, text=True, check=False)
        if "fsanitize" in "".join(flags) and "cannot find" in done.stderr:
            give_up("the compiler has no sanitizers")
        assert done.returncode == 0, done.stderr
        return program

    return run


def output(*command: object) -> str:
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.parametrize("kernel", NATIVE)
def test_error_bound(kernel: str, build: Callable[..., Path]) -> None:
    """Every bound on a sample of all values, or on all: the best kernel at every bound, others at one."""
    program = build("native_bound", "-O3")
    for k in range(wire.MIN_K, wire.MAX_K + 1):
        all_of_them = EXHAUSTIVE and (k == wire.DEFAULT_K or kernel == NATIVE[0])
        text = output(program, kernel, k, 1 if all_of_them else 127)
        found = re.fullmatch(r"(\d+) values, largest error (\d\.\d+) of the bound\n", text)
        assert found, text
        # What is dropped comes close to the bound.
        assert (0.999 if all_of_them else 0.9) < float(found[2]) <= 1, text
        assert int(found[1]) == 2**32 if all_of_them else int(found[1]) >= 2**32 // 127, text


def test_the_check_of_the_bound_can_fail(build: Callable[..., Path], tmp_path: Path) -> None:
    """Against kernels whose 16-bit class lost its last bit."""
    source = SOURCES[0].read_text()
    shift = "bytes << (32 - 8 * tag_bytes[tag])"
    broken = source.replace(shift, shift.replace("bytes", "(bytes & ~1u)", 1))
    assert broken != source
    (tmp_path / "codec_scalar.c").write_text(broken)
    program = tmp_path / "broken"
    compiler = next(filter(None, map(shutil.which, ("cc", "gcc", "clang"))))
    files = [HERE / "native_bound.c", tmp_path / "codec_scalar.c", *SOURCES[1:]]
    flags = ["-std=gnu11", "-O1", f"-I{SOURCES[0].parent}", "-lpthread", "-lm"]
    output(compiler, "-o", program, *files, *flags)
    done = subprocess.run([program, "scalar", "10", "509"], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert " comes back as " in done.stderr


@pytest.mark.parametrize("seed", range(1, 5 if EXHAUSTIVE else 3))
def test_hostile_streams(seed: int, build: Callable[..., Path]) -> None:
    """No access outside of exactly fitting buffers; all kernels agree on every verdict; each one occurs."""
    program = build("native_fuzz", "-O1", "-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=all")
    lines = output(program, seed, 10_000 if EXHAUSTIVE else 600).splitlines()
    assert {line.split()[1] for line in lines if line.startswith("kernel")} == set(NATIVE)
    counts = {int(line.split()[1]): int(line.split()[2]) for line in lines if line.startswith("verdict")}
    good, cut_in_plane, cut_in_data, absent, impossible, left_over = 0, 3, 4, 5, 6, 7
    for verdict in (good, cut_in_plane, cut_in_data, absent, impossible, left_over):
        assert counts[verdict] > 3, counts


def test_threads_do_not_race(build: Callable[..., Path]) -> None:
    """The same under the thread sanitizer."""
    program = build("native_fuzz", "-O1", "-g", "-fsanitize=thread")
    done = subprocess.run([program, "9", "120"], capture_output=True, text=True, check=False)
    if "unexpected memory mapping" in done.stderr:
        pytest.skip("the thread sanitizer does not run on this kernel")
    assert done.returncode == 0, done.stderr

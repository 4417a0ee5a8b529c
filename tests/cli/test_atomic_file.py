# SPDX-License-Identifier: BSD-2-Clause
"""Files that are written completely or not at all."""

import errno
import os
import signal
import stat
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from full_disk import largest_file
from refusals import refused

from inceptionn.system import atomic_file


def test_a_new_file_has_the_mode_of_the_mask_and_nothing_stays_beside_it(tmp_path: Path) -> None:
    mask = os.umask(0o027)
    try:
        atomic_file.write(tmp_path / "new", "text\n")
    finally:
        os.umask(mask)
    assert stat.S_IMODE((tmp_path / "new").stat().st_mode) == 0o640
    assert [path.name for path in tmp_path.iterdir()] == ["new"]


def test_an_existing_file_keeps_its_mode_and_a_link_stays_a_link(tmp_path: Path) -> None:
    real, link = tmp_path / "real", tmp_path / "folder" / "link"
    real.write_text("old")
    real.chmod(0o604)
    link.parent.mkdir()
    link.symlink_to("../real")
    atomic_file.write(link, b"new")
    assert (link.is_symlink(), real.read_bytes()) == (True, b"new")
    assert stat.S_IMODE(real.stat().st_mode) == 0o604
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["folder", "link", "real"]


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_an_error_leaves_the_former_file_and_no_partial(tmp_path: Path, error: type[BaseException]) -> None:
    path = tmp_path / "kept"
    path.write_text("old")

    def fail_halfway() -> None:
        with atomic_file.writing(path) as file:
            file.write(b"half of the new ")
            raise error

    with pytest.raises(error):
        fail_halfway()
    assert path.read_text() == "old"
    assert [path.name for path in tmp_path.iterdir()] == ["kept"]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
@pytest.mark.parametrize("former", [None, "old"])
def test_a_killed_program_leaves_no_partial_file(
    tmp_path: Path, number: signal.Signals, former: str | None
) -> None:
    path = tmp_path / "file"
    if former is not None:
        path.write_text(former)
    program = (
        "import sys, time; from inceptionn.system import atomic_file\n"
        "with atomic_file.writing(sys.argv[1]) as file:\n"
        "    file.write(bytes(1 << 20)); file.flush(); print('half', flush=True); time.sleep(60)\n"
    )
    writer = subprocess.Popen([sys.executable, "-c", program, path], stdout=subprocess.PIPE, text=True)
    assert writer.stdout is not None
    with writer.stdout as lines:
        assert lines.readline() == "half\n"
        writer.send_signal(number)
        assert writer.wait(20) == -number
    assert {each.name: each.read_text() for each in tmp_path.iterdir()} == (former and {"file": former} or {})


IN_THE_LAST_STEP = """
import os, sys, time
from pathlib import Path
from inceptionn.system import atomic_file
Path.replace = lambda *_: (print("there", flush=True), time.sleep(60))
if sys.argv[2] == "named":
    atomic_file._DESCRIPTORS = Path("/missing")
atomic_file.write(sys.argv[1], "new")
"""


@pytest.mark.parametrize("kind", ["unnamed", "named"])
def test_what_a_program_killed_in_the_last_step_leaves_is_swept(tmp_path: Path, kind: str) -> None:
    """A live program's file stays, and so does what others call theirs."""
    path, theirs = tmp_path / "file", tmp_path / ".partial-theirs"
    for each in (path, theirs):
        each.write_text("old")
    (tmp_path / f".partial-{'0' * 16}").mkdir()
    program = [sys.executable, "-c", IN_THE_LAST_STEP, path, kind]
    with subprocess.Popen(program, stdout=subprocess.PIPE, text=True) as writer:
        assert writer.stdout is not None
        assert writer.stdout.readline() == "there\n"
        atomic_file.write(tmp_path / "other", "new")
        (partial,) = (each for each in tmp_path.glob(".partial-*") if each.is_file() and each != theirs)
        assert partial.read_text() == "new"
        writer.kill()
    assert partial.exists()
    atomic_file.write(path, "newer")
    names = {each.name for each in tmp_path.iterdir()}
    assert names == {"file", "other", ".partial-theirs", f".partial-{'0' * 16}"}
    assert path.read_text() == "newer"


def test_a_file_system_that_names_every_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(atomic_file, "_DESCRIPTORS", tmp_path / "missing")
    for text in ("new", "newer"):
        atomic_file.write(tmp_path / "file", text)
        assert {each.name: each.read_text() for each in tmp_path.iterdir()} == {"file": text}


@pytest.mark.parametrize("write", [np.save, np.savez], ids=["npy", "npz"])
def test_a_disk_that_is_full_names_the_file_and_leaves_no_partial(tmp_path: Path, write: object) -> None:
    path = tmp_path / "weights"
    path.write_text("old")

    def save() -> None:
        with largest_file(100_000), atomic_file.writing(path) as file:
            write(file, np.ones(1_000_000, np.float32))  # type: ignore[operator]

    with pytest.raises(OSError, match="File too large") as caught:
        save()
    assert caught.value.filename == str(path)
    assert path.read_text() == "old"
    assert [path.name for path in tmp_path.iterdir()] == ["weights"]


def test_a_device_is_written_not_replaced() -> None:
    atomic_file.write("/dev/null", b"x")
    assert stat.S_ISCHR(os.stat("/dev/null").st_mode)
    with pytest.raises(OSError, match="No space left") as caught:
        atomic_file.write("/dev/full", b"x" * 100_000)
    assert (caught.value.errno, caught.value.filename) == (errno.ENOSPC, "/dev/full")


def test_a_pipe_is_written_by_the_name_that_the_system_gives_it() -> None:
    """``/dev/stdout`` in a pipeline is such a link; what it leads to, ``pipe:[1234]``, is no path."""
    reader, writer = os.pipe()
    try:
        path = f"/dev/fd/{writer}"
        atomic_file.check(path, force=False)
        atomic_file.write(path, b"through")
        assert os.read(reader, 100) == b"through"
    finally:
        os.close(reader)
        os.close(writer)


def test_errors_name_the_file_that_was_asked_for(tmp_path: Path) -> None:
    for call in (lambda path: atomic_file.write(path, b""), atomic_file.check):
        refused(FileNotFoundError, "missing", call, tmp_path / "missing" / "file")
        with pytest.raises(IsADirectoryError) as caught:
            call(tmp_path)
        assert caught.value.filename == str(tmp_path)


def test_an_error_about_another_file_keeps_its_name(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError) as caught, atomic_file.writing(tmp_path / "file"):
        (tmp_path / "other").read_bytes()
    assert caught.value.filename == str(tmp_path / "other")
    assert not list(tmp_path.iterdir())


def test_an_existing_file_is_kept_unless_forced(tmp_path: Path) -> None:
    path = tmp_path / "file"
    atomic_file.check(path, force=False)
    path.write_text("old")
    refused(FileExistsError, r"--force overwrites it", atomic_file.check, path, force=False)
    atomic_file.check(path)
    atomic_file.check("/dev/null", force=False)


def test_threads_write_beside_each_other_with_the_process_s_mask(tmp_path: Path) -> None:
    """The mask belongs to all threads: none may set it, for an instant, to read it."""
    mask, interval = os.umask(0o022), sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(8) as pool:
            list(pool.map(lambda number: atomic_file.write(tmp_path / str(number), b""), range(400)))
        kept = os.umask(0o022)
    finally:
        os.umask(mask)
        sys.setswitchinterval(interval)
    modes = {stat.S_IMODE(path.stat().st_mode) for path in tmp_path.iterdir()}
    assert (kept, modes) == (0o022, {0o644})

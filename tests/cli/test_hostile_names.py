# SPDX-License-Identifier: BSD-2-Clause
"""Names and files from elsewhere: what is printed is one line of text that no terminal obeys."""

import io
import struct
import zipfile
from pathlib import Path

import numpy as np
import pytest

from inceptionn import Codec, cli, message
from inceptionn.boards import output_folder
from inceptionn.codec import crc32

NAME = "e\x1b[31m\n[red]:x:\x07$\\bad$.npy"
SHOWN = r"e\x1b[31m\n[red]:x:\x07$\bad$.npy"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    np.save("g.npy", np.full(64, 0.01, np.float32))
    return tmp_path


@pytest.mark.parametrize(
    ("words", "status", "said"),
    [
        (["encode", NAME], 0, f"{SHOWN}.inc: 256 bytes in 128, 1:2.00"),
        (["decode", NAME], 2, f"{SHOWN} is a .npy array, not a message"),
        (["decode", f"not {NAME}"], 2, f"not {SHOWN}: malformed message at byte 4: it ends inside"),
        (["encode", f"not {NAME}"], 2, f"not {SHOWN} is not a .npy file"),
        (["inspect", f"not {NAME}", "--with", "a:b"], 2, "ModuleNotFoundError"),
        (["inspect", "g.npy", "--with", f"{NAME}:b"], 2, f"--with {SHOWN}:b: ModuleNotFoundError"),
        (["inspect", "g.npy", "--with", "exits:b"], 2, "--with exits:b: SystemExit: 3"),
        (["replay", NAME], 2, "capture must be a pcap or pcapng file"),
        (["generate", "--board", NAME, "--out", "x"], 2, "board must be one of"),
    ],
)
def test_one_line_without_control_characters(
    words: list[str], status: int, said: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    np.save(NAME, np.full(64, 0.01, np.float32))
    Path(f"not {NAME}").write_bytes(b"text")
    Path("exits.py").write_text("import sys\nsys.exit(3)\n")
    assert cli.main(words) == status
    out, err = capsys.readouterr()
    text = out or err
    assert text.endswith("\n")
    assert text[:-1].isprintable(), text
    assert said in text


def test_a_chart_of_a_file_with_such_a_name(capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("matplotlib")
    np.save(NAME, np.full(64, 0.01, np.float32))
    assert cli.main(["inspect", NAME, "--plot", "x.svg"]) == 0, capsys.readouterr().err
    assert all(line.isprintable() for line in capsys.readouterr().out.splitlines())


@pytest.mark.parametrize("codec", ["paper", "planes"])
@pytest.mark.parametrize("count", [2**62, 2**63, 2**64 - 1])
def test_a_message_that_claims_more_values_than_there_are(
    codec: str, count: int, capsys: pytest.CaptureFixture[str]
) -> None:
    made = Codec(codec=codec)
    packed = bytearray(message.pack(np.zeros(8, np.float32), made, kind=message.Kind.INCEPTIONN))
    fields = list(message.HEADER.unpack(packed[: message.HEADER.size]))
    fields[9], fields[-1] = count, 0
    packed[: message.HEADER.size] = message.HEADER.pack(*fields)
    struct.pack_into("<Q", packed, message.HEADER.size, count)  # the only dimension
    checksum = crc32(packed[message.HEADER.size :], crc32(packed[: message.CHECKSUM_OFFSET]))
    struct.pack_into("<I", packed, message.CHECKSUM_OFFSET, checksum)
    Path("m.inc").write_bytes(packed)
    for command in ("inspect", "decode"):
        assert cli.main([command, "m.inc"]) == 2
        out, err = capsys.readouterr()
        assert not out
        assert err.startswith("inceptionn: m.inc: malformed stream at byte ")
        assert err.count("\n") == 1


@pytest.mark.parametrize("scale", [2**63, -(2**63), 10**30])
def test_a_scale_beyond_64_bits(scale: int, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["encode", "g.npy", f"--scale={scale}"]) == 2
    assert capsys.readouterr().err == f"inceptionn: scale must be -126..126, not {scale}\n"


def test_an_archive_of_a_later_version(capsys: pytest.CaptureFixture[str]) -> None:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr("a/data.pkl", b"")
    data = bytearray(packed.getvalue())
    struct.pack_into("<H", data, data.index(b"PK\x01\x02") + 6, 99)
    Path("z.npy").write_bytes(data)
    assert cli.main(["inspect", "z.npy"]) == 2
    assert capsys.readouterr().err.startswith("inceptionn: z.npy holds several arrays")


def test_an_array_of_format_3(capsys: pytest.CaptureFixture[str]) -> None:
    x = np.load("g.npy")
    with Path("v3.npy").open("wb") as file:
        np.lib.format.write_array(file, x, version=(3, 0))
    assert cli.main(["encode", "v3.npy"]) == 0, capsys.readouterr().err
    assert Path("v3.npy.inc").read_bytes() == message.pack(x, Codec())


def test_a_manifest_names_files_of_its_folder_alone(folder: Path) -> None:
    """Others that it names stay, and stop nothing."""
    out = folder / "out"
    (out / "sub").mkdir(parents=True)
    (out / "old.v").touch()
    names = ["..", ".", "sub", "../g.npy", "a\0b", "missing", "old.v"]
    (out / output_folder.MANIFEST).write_text(output_folder.manifest(dict.fromkeys(names, ""), {}))
    output_folder.write(out, {"new.v": "", output_folder.MANIFEST: "{}"})
    assert sorted(path.name for path in out.iterdir()) == ["manifest.json", "new.v", "sub"]
    assert (folder / "g.npy").exists()
    (out / output_folder.MANIFEST).write_text('{"files": ' + "[" * 10**5)
    output_folder.write(out, {"new.v": ""})

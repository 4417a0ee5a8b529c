# SPDX-License-Identifier: BSD-2-Clause
"""``inceptionn encode``, ``decode`` and ``inspect``."""

import json
import math
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest

from inceptionn import Codec, cli, message, wire
from inceptionn.codec import converted
from inceptionn.commands.choice import Errors


@pytest.fixture
def gradients(tmp_path: Path) -> Path:
    x = (np.random.default_rng(3).standard_normal((30, 5000)) * 5e-3).astype(np.float32)
    x[0, :3] = 0, np.nan, 2
    np.save(tmp_path / "g.npy", x)
    return tmp_path / "g.npy"


def test_standard_output_holds_the_message_alone(gradients: Path) -> None:
    x = np.load(gradients)
    program = "import sys; from inceptionn.cli import main; sys.exit(main())"
    command = [sys.executable, "-c", program, "encode", str(gradients), "--out", "/dev/stdout", "--force"]
    done = subprocess.run(command, capture_output=True, check=True, timeout=60)
    assert done.stdout == message.pack(x, Codec())
    assert done.stderr.startswith(b"/dev/stdout: ")


def test_there_and_back(gradients: Path, capsys: pytest.CaptureFixture[str]) -> None:
    x = np.load(gradients)
    encoded, decoded = gradients.with_name("g.npy.inc"), gradients.with_name("g.decoded.npy")
    assert cli.main(["encode", str(gradients)]) == 0
    assert encoded.read_bytes() == message.pack(x, Codec())
    ratio = x.nbytes / encoded.stat().st_size
    size = encoded.stat().st_size
    assert capsys.readouterr().out == f"{encoded}: {x.nbytes} bytes in {size}, 1:{ratio:.2f}\n"
    assert ratio > 3
    assert cli.main(["decode", str(encoded)]) == 0
    assert capsys.readouterr().out == f"{decoded}: 150000 values of shape (30, 5000), float32\n"
    assert np.load(decoded).tobytes() == Codec().lossy(x).tobytes()

    other = gradients.with_name("other")
    settings = "-k 6 --mode literal --scale -2".split()
    assert cli.main(["encode", str(gradients), "--out", str(other), *settings]) == 0
    header = message.parse(other.read_bytes())
    assert header.codec.parameters == Codec(2.0**-6, mode="literal").parameters
    assert header.scale == -2


def test_planes_as_a_mode_is_accepted_with_a_warning(
    gradients: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["encode", str(gradients), "--mode", "planes"]) == 0
    assert "inceptionn: warning: --mode planes is now --codec planes\n" in capsys.readouterr().err
    encoded = gradients.with_name("g.npy.inc").read_bytes()
    assert encoded == message.pack(np.load(gradients), Codec(codec="planes"))
    assert cli.main(["encode", str(gradients), "--codec", "planes", "--mode", "literal"]) == 2
    assert "--mode: the codec planes has no modes, so not 'literal'" in capsys.readouterr().err


def test_planes_there_and_back(gradients: Path, capsys: pytest.CaptureFixture[str]) -> None:
    x, codec = np.load(gradients), Codec(2.0**-12, "planes")
    encoded = gradients.with_name("g.npy.inc")
    assert cli.main(["encode", str(gradients), "--codec", "planes", "-k", "12"]) == 0
    assert encoded.read_bytes() == message.pack(x, codec)
    assert cli.main(["decode", str(encoded)]) == 0
    assert np.load(gradients.with_name("g.decoded.npy")).tobytes() == codec.lossy(x).tobytes()
    capsys.readouterr()
    assert cli.main(["inspect", str(encoded), "--json", str(gradients.with_suffix(".json"))]) == 0
    out = capsys.readouterr().out
    assert out.startswith(
        "message, planes, 150000 values of shape (30, 5000), float32\n2**-12 planes: E0 115; scale"
    )
    counts = codec.histogram(x)
    (line,) = (line for line in out.splitlines() if line.startswith("7 planes"))
    assert line.split()[2] == str(counts[7]) != "0"
    assert json.loads(gradients.with_suffix(".json").read_text())["classes"] == counts.tolist()


def test_bfloat16_there_and_back(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A file as ml_dtypes writes it, and as it reads it."""
    x = np.random.default_rng(1).normal(scale=0.01, size=(30, 500)).astype(np.float32)
    halves = converted(x, "bfloat16")
    np.save(tmp_path / "b.npy", halves.view("V2"))
    assert cli.main(["encode", str(tmp_path / "b.npy"), "--codec", "planes", "--scale", "auto"]) == 0
    packed = message.pack(halves, Codec(codec="planes"), "auto", dtype="bfloat16")
    assert (tmp_path / "b.npy.inc").read_bytes() == packed
    assert f"30000 bytes in {len(packed)}, " in capsys.readouterr().out
    assert cli.main(["inspect", str(tmp_path / "b.npy"), "--json", str(tmp_path / "b.json")]) == 0
    facts = json.loads((tmp_path / "b.json").read_text())
    said = capsys.readouterr().out
    assert "15000 bfloat16 values" in said
    assert f"stream: {facts['bytes']} bytes, 1:{30000 / facts['bytes']:.2f}" in said
    best = facts["recommended"]
    of_it = Codec(2.0 ** -best["k"], best["codec"]).compress(halves, scale=best["scale"], dtype="bfloat16")
    assert best["ratio"] == pytest.approx(30000 / len(of_it))
    for dtype, saved in (("float32", "f4"), ("float16", "f2"), ("bfloat16", "V2")):
        out = tmp_path / f"{dtype}.npy"
        assert cli.main(["decode", str(tmp_path / "b.npy.inc"), "--dtype", dtype, "--out", str(out)]) == 0
        back = np.load(out)
        assert back.dtype == saved
        assert capsys.readouterr().out.endswith(f", {dtype}\n")
        assert back.tobytes() == message.unpack(packed, dtype).tobytes()
    assert cli.main(["decode", str(tmp_path / "b.npy.inc")]) == 0  # the type is kept
    assert capsys.readouterr().out.endswith("15000 values of shape (30, 500), bfloat16\n")
    assert np.load(tmp_path / "b.decoded.npy").dtype == "V2"
    assert cli.main(["inspect", str(tmp_path / "b.npy.inc")]) == 0
    said = capsys.readouterr().out
    assert said.startswith("message, planes, 15000 values of shape (30, 500), bfloat16\n")
    payload = len(message.parse(packed).payload)
    assert f"payload: {payload} bytes, 1:{30000 / payload:.2f}\n" in said  # over bytes of bfloat16
    np.save(tmp_path / "u.npy", halves)
    assert cli.main(["encode", str(tmp_path / "u.npy")]) == 2
    assert (
        "bfloat16 values, not uint16: np.save('u.npy', np.load('u.npy').view('V2'))"
        in capsys.readouterr().err
    )


def test_a_bound_that_takes_most_of_the_energy_is_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    x = (np.random.default_rng(3).standard_normal(9000) * 5e-4).astype(np.float32)
    np.save(tmp_path / "small.npy", x)
    energy = np.square(x, dtype=np.float64)
    lost = energy[np.abs(x) < 2.0**-10].sum() / energy.sum()
    for codec in wire.CODECS:
        arguments = ["encode", str(tmp_path / "small.npy"), "--codec", codec, "--force"]
        assert cli.main(arguments) == 0
        assert capsys.readouterr().err == (
            f"inceptionn: warning: {math.floor(1000 * lost) / 1000:.1%} of the energy of the values becomes "
            "zero at the error bound 0.000977; --scale auto or a finer --bound, up to 14, keeps more\n"
        )
        assert cli.main([*arguments, "--scale", "auto"]) == 0
        assert not capsys.readouterr().err


def test_a_message_of_plain_values(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A stream would be longer: nothing is lost, and there are no classes to draw."""
    np.save(tmp_path / "one.npy", np.array([1e-4], np.float16))
    assert cli.main(["encode", str(tmp_path / "one.npy"), "--codec", "planes"]) == 0
    assert not capsys.readouterr().err
    chart = tmp_path / "chart.svg"
    assert cli.main(["inspect", str(tmp_path / "one.npy.inc"), "--plot", str(chart)]) == 2
    text = "--plot draws classes, and one.npy.inc holds plain float16 values"
    assert capsys.readouterr().err == f"inceptionn: {text}\n"
    assert not chart.exists()


def test_inspect_recommends(gradients: Path, capsys: pytest.CaptureFixture[str]) -> None:
    x = np.load(gradients)
    x[0, :3] = 0
    np.save(gradients, x)
    assert cli.main(["inspect", str(gradients), "--json", "-"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert {(each["codec"], each["mode"], each["scale"]) for each in found["choices"]} >= {
        ("paper", "bounded", 0),
        ("planes", None, 0),
    }
    for each in found["choices"]:
        codec, scale = Codec(2.0 ** -each["k"], each["codec"], each["mode"]), each["scale"]
        y = codec.lossy(x, scale=scale).astype(np.float64)
        assert each["ratio"] == x.nbytes / len(codec.compress(x, scale=scale))
        assert each["largest_error"] == np.abs(x - y).max()
        assert each["relative_error"] == pytest.approx(np.linalg.norm(x - y) / np.linalg.norm(x), rel=1e-6)
        energy = np.square(x, dtype=np.float64)
        assert each["energy_kept"] == pytest.approx(energy[y != 0].sum() / energy.sum())
        assert each["bias"] == pytest.approx(np.abs(y).sum() / np.abs(x, dtype=np.float64).sum() - 1)
    good = [each for each in found["choices"] if each["relative_error"] <= 0.1]
    assert found["recommended"] == max(good, key=lambda each: (each["ratio"], each["scale"] != 0))
    assert found["recommended"]["codec"] == "planes"


def test_force_writes_over_a_file_even_the_input_and_the_name_printed_is_the_file(
    gradients: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    x = np.load(gradients)
    assert cli.main(["encode", str(gradients), "--out", str(gradients), "--force"]) == 0
    assert gradients.read_bytes() == message.pack(x, Codec())
    capsys.readouterr()
    out = gradients.with_name("values")
    assert cli.main(["decode", str(gradients), "--out", str(out)]) == 0
    assert capsys.readouterr().out.startswith(f"{out}: ")
    assert np.load(out).tobytes() == Codec().lossy(x).tobytes()
    assert sorted(path.name for path in gradients.parent.iterdir()) == ["g.npy", "values"]


def test_an_array_that_is_cut_off_while_it_is_used_does_no_harm(gradients: Path) -> None:
    program = (
        "import os, sys; from pathlib import Path; from inceptionn.system import npy_file\n"
        "values = npy_file.load(Path(sys.argv[1])); os.truncate(sys.argv[1], 100); print(values.sum())"
    )
    done = subprocess.run([sys.executable, "-c", program, str(gradients)], timeout=60, check=False)
    assert done.returncode == 0


def test_inspect_an_array(gradients: Path, capsys: pytest.CaptureFixture[str]) -> None:
    x = np.load(gradients)
    picture = gradients.with_suffix(".png")
    assert cli.main(["inspect", str(gradients), "--plot", str(picture)]) == 0
    out = capsys.readouterr().out
    counts = Codec().histogram(x)
    for label, count in zip(("00 zero", "01 8 bits", "10 16 bits", "11 raw"), counts, strict=True):
        (line,) = (line for line in out.splitlines() if line.startswith(label))
        assert line.removeprefix(label).split()[0] == str(count)
    assert f"stream: {len(Codec().compress(x))} bytes" in out
    finite = np.isfinite(x)
    error = np.abs(x[finite].astype(np.float64) - Codec().lossy(x)[finite])
    bins = {line.split()[0]: int(line.split()[1]) for line in out.splitlines() if line.startswith("2**-")}
    in_bounds = error * 2.0**10
    assert bins["2**-1"] == ((in_bounds >= 0.5) & (in_bounds < 1)).sum()
    assert bins["2**-5"] == ((in_bounds >= 2.0**-5) & (in_bounds < 2.0**-4)).sum()
    (exact,) = (line for line in out.splitlines() if line.startswith("exact"))
    assert exact.split()[1] == str((error == 0).sum())
    assert f"largest error {error.max():.3g}, {in_bounds.max():.3f} of the bound 0.000977" in out
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_inspect_a_message_with_a_scale_per_tensor(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    x = np.repeat(np.float32([0.7, 2.0**-21]), 3000)
    (tmp_path / "t.inc").write_bytes(message.pack(x, Codec(), "tensor", sections=[3000, 3000]))
    assert cli.main(["inspect", str(tmp_path / "t.inc"), "--json", str(tmp_path / "t.json")]) == 0
    assert "; scale 2**0 to 2**20, by section\n" in capsys.readouterr().out
    assert json.loads((tmp_path / "t.json").read_text())["scale"] is None


def test_inspect_a_message(gradients: Path, capsys: pytest.CaptureFixture[str]) -> None:
    cli.main(["encode", str(gradients), "--scale", "auto"])
    capsys.readouterr()
    assert cli.main(["inspect", str(gradients) + ".inc"]) == 0
    out = capsys.readouterr().out
    x = np.load(gradients)
    assert out.startswith(
        "message, paper, 150000 values of shape (30, 5000), float32\n2**-10 bounded: E0 117, T 122"
    )
    assert "scale 2**-2" in out
    counts = Codec().histogram(x, scale=-2)
    (line,) = (line for line in out.splitlines() if line.startswith("01 8 bits"))
    assert line.split()[3] == str(counts[1])
    raw = gradients.with_name("raw.inc")
    raw.write_bytes(message.pack(x, None))
    assert cli.main(["inspect", str(raw)]) == 0
    assert capsys.readouterr().out.startswith("message, raw, 150000 values")


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["encode", "no.npy"], "does not exist"),
        (["encode", "g.npy", "-k", "15"], "--bound: error bound must be 2**-k with k in 1..14, not k = 15"),
        (["encode", "g.npy", "--mode", "exact"], "--mode: mode must be one of literal, bounded, not 'exact'"),
        (["encode", "g.npy", "--scale", "big"], "the scale must be a whole number or auto, not 'big'"),
        (
            ["encode", "wide.npy"],
            "wide.npy must hold float32, float16 or bfloat16 values, not float64: "
            "np.save('wide.npy', np.load('wide.npy').astype('float32')) converts it",
        ),
        (["inspect", "empty.npy"], "empty.npy holds no values: its shape is (0, 3)"),
        (["inspect", "weights.pt"], "weights.pt is a file of torch.save; of a tensor t in it, np.save("),
        (["inspect", "old.pt"], "old.pt is a file of torch.save"),
        (["encode", "text.npy"], "text.npy is not a .npy file, or its header is damaged"),
        (["inspect", "short.npy"], "short.npy ends too early: 599872 bytes of values, not 600000"),
        (["encode", "short.npy"], "short.npy ends too early: 599872 bytes of values, not 600000"),
        (["encode", "pickled.npy"], "pickled.npy must hold float32, float16 or bfloat16 values, not object"),
        (["encode", "g.npy", "--out", "wide.npy"], "file exists (--force overwrites it): 'wide.npy'"),
        (["encode", "g.npy", "--out", "g.npy"], "file exists (--force overwrites it): 'g.npy'"),
        (["encode", "g.npy", "--out", "no/g.inc"], "no such folder: '"),
        (["decode", "good.inc", "--out", "wide.npy"], "file exists (--force overwrites it): 'wide.npy'"),
        (["encode", "several.npz"], "several.npz holds several arrays; save them one by one"),
        (["decode", "g.npy"], "g.npy is a .npy array, not a message: inceptionn encode makes one of it"),
        (["decode", "text.npy"], "text.npy: malformed message at byte 4: it ends inside the header"),
        (["decode", "cut.inc"], "cut.inc: malformed message at byte 100: "),
        (["decode", "good.inc", "--dtype", "bf16"], "not 'bf16' (did you mean 'bfloat16'?)"),
    ],
)
def test_errors(
    arguments: list[str],
    text: str,
    gradients: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(gradients.parent)
    np.save("wide.npy", np.ones(3))
    np.savez("several.npz", np.ones(3, np.float32))
    np.save("pickled.npy", np.array([{}]), allow_pickle=True)
    np.save("empty.npy", np.empty((0, 3), np.float32))
    with zipfile.ZipFile("weights.pt", "w") as archive:
        archive.writestr("weights/data.pkl", b"")
    Path("old.pt").write_bytes(b"\x80\x02\x8a\nl\xfc\x9cF\xf9")
    Path("text.npy").write_text("text")
    Path("short.npy").write_bytes(gradients.read_bytes()[:-128])
    Path("good.inc").write_bytes(message.pack(np.load(gradients), Codec()))
    Path("cut.inc").write_bytes(message.pack(np.load(gradients), Codec())[:100])
    assert cli.main(arguments) == 2
    error = capsys.readouterr().err
    assert error.startswith("inceptionn: ")
    assert error.count("\n") == 1
    assert text in error


@pytest.mark.parametrize(
    "header",
    [
        "{'descr': '<f4', 'fortran_order': False, 'shape': (10, ",  # TokenError
        "{'descr': '<f4', 'fortran_order': False, 'shape': (0, 10000000000000000000), }",  # OverflowError
        "{'descr': '<f4', 'fortran_order': False, 'shape': (-4,), }",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (True,), }",
        "{'descr': '<f4', 'fortran_order': False, 'shape': 'ab', }",
        "{'descr': '<f4', 'fortran_order': 7, 'shape': (1,), }",
        "{'descr': [1], 'fortran_order': False, 'shape': (1,), }",
        "(" * 3000,
        "\x00" * 30,
        "{[]: 1}",
    ],
)
def test_a_damaged_header_names_the_file(
    header: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "d.npy"
    text = header.encode() + b"\n"
    file.write_bytes(b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text + bytes(64))
    assert cli.main(["inspect", str(file)]) == 2
    error = capsys.readouterr().err
    assert error == f"inceptionn: {file} is not a .npy file, or its header is damaged\n"


def test_inspect_says_what_strange_values_do_and_what_training_needs(
    gradients: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    x = np.load(gradients)
    x[0, :3] = np.nan, np.inf, -np.inf
    np.save(gradients, x)
    assert cli.main(["inspect", str(gradients)]) == 0
    out = capsys.readouterr().out
    assert "3 values are NaN or infinite: they are sent unchanged" in out
    (line,) = (line for line in out.splitlines() if line.startswith("in training, 4 ranks: CompressState("))
    found = re.fullmatch(r".*\(codec=Codec\(2\*\*-(\d+), '(\w+)'\), scale=(None|'auto')\)", line)
    assert found is not None
    bound = int(found[1]) - 2 * (found[3] == "'auto'")  # room for the sum of four
    assert f"recommended: --codec {found[2]} --bound {bound} " in out


def test_nothing_is_recommended_for_zeros(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    np.save(tmp_path / "g.npy", np.array([0, np.nan, 0, np.inf], np.float32))
    assert cli.main(["inspect", str(tmp_path / "g.npy")]) == 0
    out = capsys.readouterr().out
    assert "nothing to recommend: " in out
    assert "in training" not in out


def test_no_energy_is_kept_of_values_below_the_bound() -> None:
    """Exactly 0, which no rounding of the sums makes negative."""
    for seed in range(8):
        x = np.random.default_rng(seed).uniform(-1e-4, 1e-4, 5000).astype(np.float32)
        assert Errors(Codec(codec="planes"), x, 0).kept == 0


def test_scale_auto_is_recommended_where_it_is_the_same(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The largest magnitude is within (0.5, 1]: the scale is 0 today, and gradients shrink."""
    np.save(tmp_path / "g.npy", np.linspace(-0.9, 0.9, 5000, dtype=np.float32))
    assert cli.main(["inspect", str(tmp_path / "g.npy")]) == 0
    assert "scale='auto')" in capsys.readouterr().out


@pytest.mark.parametrize("scale", ["0", "auto"])
def test_scale_auto_is_recommended_although_the_bounds_of_the_table_lie_between(
    scale: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The scale 2**1 makes 2**-5 of what is 2**-6 without it."""
    x = np.random.default_rng(1).normal(scale=0.1, size=20_000).astype(np.float32)
    np.save(tmp_path / "g.npy", x)
    assert cli.main(["inspect", str(tmp_path / "g.npy"), "--scale", scale]) == 0
    out = capsys.readouterr().out
    ratio = x.nbytes / len(Codec(2**-6, "planes").compress(x))
    assert f"recommended: --codec planes --bound 5 --scale 1 (1:{ratio:.2f}, " in out
    assert "in training, 4 ranks: CompressState(codec=Codec(2**-7, 'planes'), scale='auto')" in out
    assert "planes 2**-5" not in out

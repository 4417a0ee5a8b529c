# SPDX-License-Identifier: BSD-2-Clause
"""What `inceptionn generate` writes: ports as documented, plain Verilog, the same bytes every time."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from inceptionn import cli

STREAM = {"tdata": 256, "tkeep": 32, "tuser": 1, "tlast": 1, "tvalid": 1, "tready": 1}
LITE = {
    "awaddr": None, "awprot": 3, "awvalid": 1, "awready": 1,
    "wdata": 32, "wstrb": 4, "wvalid": 1, "wready": 1,
    "bresp": 2, "bvalid": 1, "bready": 1, "araddr": None, "arprot": 3, "arvalid": 1, "arready": 1,
    "rdata": 32, "rresp": 2, "rvalid": 1, "rready": 1,
}  # fmt: skip
ANSWERS = {"tready", "awready", "wready", "bresp", "bvalid", "arready", "rdata", "rresp", "rvalid"}
"""Signals that the side called ``s_`` drives."""

Ports = dict[str, tuple[str, int | None]]


def bus(prefix: str, signals: dict[str, int | None]) -> Ports:
    return {
        f"{prefix}_{name}": ("output" if (name in ANSWERS) == prefix.startswith("s_") else "input", width)
        for name, width in signals.items()
    }


CLOCK: Ports = {"aclk": ("input", 1), "aresetn": ("input", 1)}
PORTS: dict[str, Ports] = {
    "inceptionn_nic": CLOCK
    | bus("s_axis_tx", STREAM) | bus("m_axis_tx", STREAM)
    | bus("s_axis_rx", STREAM) | bus("m_axis_rx", STREAM) | bus("s_axil", LITE),
    "inceptionn_compressor": CLOCK
    | bus("s_axis", STREAM) | bus("m_axis", STREAM)
    | {f"cfg_{name}": ("input", 8) for name in ("e0", "t", "b")},
    "inceptionn_decompressor": CLOCK
    | bus("s_axis", STREAM | {"tuser": 16}) | bus("m_axis", STREAM) | {"cfg_b": ("input", 8)},
}  # fmt: skip


@pytest.fixture(scope="module")
def generated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The VC709's files, written once."""
    out = tmp_path_factory.mktemp("generated") / "new" / "vc709"
    assert cli.main(["generate", "--board", "vc709", "--out", str(out)]) == 0
    return out


def test_files(generated: Path) -> None:
    assert {path.name for path in generated.iterdir()} == {
        *(f"{module}.v" for module in PORTS), "registers.json", "registers.md", "vc709.xdc",
    }  # fmt: skip


@pytest.mark.parametrize("module", PORTS)
def test_ports(module: str, generated: Path) -> None:
    text = (generated / f"{module}.v").read_text()
    head = re.search(rf"^module {module}\((.*?)\);\n(.*?)^endmodule", text, re.DOTALL | re.MULTILINE)
    assert head is not None
    names = [name.strip() for name in head[1].split(",")]
    found: Ports = {}
    declaration = re.compile(r"^  (input|output) (?:\[(\d+):0\] )?(\w+);$", re.MULTILINE)
    for direction, high, name in declaration.findall(head[2]):
        found[name] = (direction, int(high) + 1 if high else 1)
    assert names[:2] == ["aclk", "aresetn"]
    assert set(names) == set(found) == set(PORTS[module])
    for name, (direction, width) in PORTS[module].items():
        assert found[name][0] == direction, name
        assert width is None or found[name][1] == width, name


@pytest.mark.parametrize("module", PORTS)
def test_verilog_is_self_contained(module: str, generated: Path) -> None:
    text = (generated / f"{module}.v").read_text()
    defined = set(re.findall(r"^module (\\?\S+?) ?\(", text, re.MULTILINE))
    assert all(name.startswith(module) for name in defined)
    used = set(re.findall(r"^  (\w+) \S+ \($", text, re.MULTILINE))
    assert used
    assert used <= defined
    assert not re.search(r"always_ff|always_comb|\blogic\b", text)
    assert not re.search(r"/(home|root|work|usr|tmp)/", text)


def test_register_map(generated: Path) -> None:
    registers = json.loads((generated / "registers.json").read_text())["registers"]
    markdown = (generated / "registers.md").read_text()
    assert registers
    assert all(f"`{register['name']}`" in markdown for register in registers)


def test_same_bytes_again(generated: Path, tmp_path: Path) -> None:
    assert cli.main(["generate", "--board", "generic", "--out", str(tmp_path)]) == 0
    again = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    first = {path.name: path.read_bytes() for path in generated.iterdir() if path.suffix != ".xdc"}
    assert again == first

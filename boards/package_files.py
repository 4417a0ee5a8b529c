# SPDX-License-Identifier: BSD-2-Clause
"""The files of a board's folder, as texts."""

import json
import re
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from importlib.metadata import version as distribution_version
from typing import Any

from inceptionn.constraints import read
from inceptionn.hdl.attach.async_queue import CROSSING_ATTRIBUTE
from inceptionn.hdl.codec.codecs import PAPER, codec_of
from inceptionn.hdl.control.map_formats import FORMATS, bound_word
from inceptionn.hdl.control.register_files import map_json, map_markdown
from inceptionn.hdl.control.registers import MAP_VERSION, registers_of
from inceptionn.hdl.nic import Nic
from inceptionn.hdl.parts.top import Top
from inceptionn.hdl.tops import tops_of
from inceptionn.hdl.verilog import convert
from inceptionn.wire import DEFAULT_BF16_TOS, DEFAULT_K, DEFAULT_TOS, DEFAULT_TOS_MASK, GROUP_LANES

from .board import ENGINE, Board, Options, Target
from .module_names import DEFAULT_PREFIX, rename, renamed
from .output_folder import MANIFEST, manifest
from .port_attributes import with_interfaces
from .port_table import port_table
from .shell_parts import emit
from .standalone import standalone_modules
from .templates import render, text

ANY_PART = "xc7vx690tffg1761-2"
"""Default part of the projects if a board has none: the paper's."""

_WHAT_CORE = "FuseSoC: targets default, lint, lint_compressor, lint_decompressor, vivado"
_WHAT = {
    "README.md": "this page",
    MANIFEST: "versions, parameters, hashes",
    "ports.json": "every port, bus, clock and reset of the top; ports of the modules alone",
    "registers.json": "the register map for programs",
    "sources.json": "each Verilog module's Python file and class",
    "registers.md": "the register map for reading",
    **{name: what for name, (_, what) in FORMATS.items()},
    "lint.vlt": "the waivers of the lint target, with reasons",
    "package_ip.tcl": "packages the top as IP, IP-XACT, with its registers",
    "project.tcl": "opens as a Vivado project",
    "out_of_context.tcl": "synthesis without pads, for the Vivado projects",
    "mark_debug.tcl": "marks the streams' handshakes for Vivado's debug cores",
    "crossings.tcl": "timing of the paths between clocks",
    "patch_trd.py": "puts the shell into a copy of the reference design, and removes it again",
    "inceptionn_nic.v": "the engine pair with its registers",
    "inceptionn_compressor.v": "the compressor alone; not needed for the NIC",
    "inceptionn_decompressor.v": "the decompressor alone; not needed for the NIC",
    "inceptionn_engine_clock.v": "the engines' clock, from an MMCM",
    "mqnic_app_block.v": "Corundum's application block",
    "module.py": "the engine pair as a module of LiteX",
    "target.py": "a LiteX design with two LiteEth MACs, for --build and --load",
}


def register_context(codec: str, bf16: bool = False) -> dict[str, Any]:
    """Return the values for ``registers.md.j2``.

    They are every bound's value, and the counters of lanes or groups by class.
    """
    registers = registers_of(codec, bf16)
    return {
        "codec": codec_of(codec),
        "parameters_register": registers["PARAMETERS"],
        "parameters_8": bound_word(8, codec=codec),
        "bound_words": [f"`{bound_word(k, codec=codec):#010x}`" for k in range(1, 15)],
        "class_counters": registers.class_counters,
        "bf16": bf16,
    }


def _dump(value: Any) -> str:
    return json.dumps(value, indent=1) + "\n"


def arguments(board: Board, options: Options, target: Target) -> str:
    """Return the command line that writes the folder, without ``--out``."""
    words = [f"--board {board.name}"]
    if board.max_ports:
        words.append(f"--ports {target.parameters['ports']}")
    if options.clock_ratio is not None:
        words.append(f"--clock-ratio {options.clock_ratio}")
    if board.data_widths:
        words.append(f"--width {target.parameters['data_width']}")
    if options.engines != 1:
        words.append(f"--engines {options.engines}")
    if {board.min_lanes, board.max_lanes} != {GROUP_LANES}:
        words.append(f"--lanes {options.lanes}")
    if options.codec != PAPER:
        words.append(f"--codec {options.codec}")
    if options.bf16:
        words.append("--bf16")
    if options.prefix != DEFAULT_PREFIX:
        words.append(f"--prefix {options.prefix}")
    if options.clock_mhz is not None:
        words.append(f"--clock {options.clock_mhz}")
    if options.part and options.part != board.part:
        words.append(f"--part {options.part}")
    return " ".join(words)


def _with_parameters(verilog: str, board: Board, parameters: dict[str, Any], nic: Nic) -> str:
    """Add the parameters and reset settings to ``verilog``, as comments in its header."""
    stream = f"{nic.shape.bits * nic.engines} bits"
    chosen = {"board": board.name, **parameters, "stream": stream}
    words = ", ".join(f"{name} {value}" for name, value in chosen.items() if value is not None)
    licence, _, rest = verilog.partition("\n")
    bf16 = f" (bf16 {DEFAULT_BF16_TOS:#04x})" if nic.shape.bf16 else ""
    tos = f"ToS {DEFAULT_TOS:#04x}{bf16} under {DEFAULT_TOS_MASK:#04x}"
    codec = nic.shape.codec.spec
    reset = f"{codec.mode_of(None) or codec.name}, error bound 2^-{DEFAULT_K}, {tos}"
    formats = f"wire format {codec.version}, register map {'.'.join(map(str, MAP_VERSION))}"
    return f"{licence}\n// Parameters: {words}.\n// Out of reset: {reset}; {formats}.\n{rest}"


def _origin(nic: Nic, verilog: str) -> dict[str, Any]:
    """Describe this project, and the tools that wrote ``verilog``, for the manifest."""
    yosys = re.search(r"Yosys (\S+?)\.?[. ]*Do not edit", verilog)
    return {
        "generator": "inceptionn",
        "version": distribution_version("inceptionn"),
        "wire_format": nic.shape.codec.spec.version,
        "register_map": ".".join(map(str, MAP_VERSION)),
        "tools": {"amaranth": distribution_version("amaranth"), "yosys": yosys[1] if yosys else ""},
    }


def _sizes(options: Options) -> dict[str, Any]:
    """Return what the user chose, for the files; the last three only if they were chosen."""
    sizes: dict[str, Any] = {"engines": options.engines, "lanes": options.lanes, "codec": options.codec}
    if options.bf16:
        sizes["bf16"] = True
    if options.clock_mhz is not None:
        sizes["clock_mhz"] = options.clock_mhz
    if options.prefix != DEFAULT_PREFIX:
        sizes["prefix"] = options.prefix
    return sizes


def _context(board: Board, options: Options, target: Target) -> dict[str, Any]:
    """Return the values for the templates that follow from the choices alone."""
    vendor = sorted(name for name, content in target.sources.items() if "MMCME2_BASE" in content)
    sources = sorted({f"{target.engine}.v", f"{target.module}.v", *target.sources})
    return {
        "board": board, "target": target, "name": f"inceptionn_{board.name.replace('-', '_')}",
        "version": distribution_version("inceptionn"), "part": target.part or ANY_PART,
        "top": target.top or target.module, "sources": sources, "vendor_sources": vendor,
        "lint_sources": [source for source in sources if source not in vendor],
        "interfaces": () if target.top else target.interfaces,
        "reset_cycles": Top.RESET, "engine": target.engine,
        "registers": registers_of(options.codec, options.bf16),
        "arguments": arguments(board, options, target), **register_context(options.codec, options.bf16),
        **target.context,
    }  # fmt: skip


def package(
    board: Board, options: Options, step: Callable[[str], None] = lambda name: None
) -> dict[str, str]:
    """Map file names to texts; ``options`` as :meth:`Board.resolve` gives them.

    ``step`` gets the name of each slow file before it is made. The same call gives the same texts.
    """
    target = board.target(board, options)
    files: dict[str, str] = {}
    parameters = {**target.parameters, **_sizes(options)}

    def put(name: str, make: Callable[[], str]) -> None:
        step(name)
        files[name] = make()

    origins: dict[str, str] = {}
    shape = options.shape
    alone = replace(shape, bf16=False)  # their packets and counts are of fp32 lanes
    nic = Nic(shape, engines=options.engines)
    modules = {name: factory() for name, factory in tops_of(alone).items() if name != ENGINE}
    for module, component in {ENGINE: nic, **modules}.items():
        put(f"{module}.v", partial(convert, component, module, sources=origins))
    shell = target.make() if target.make is not None else None
    if shell is not None:
        put(f"{target.module}.v", lambda: emit(shell, target.module, origins))
    files = {name: _with_parameters(verilog, board, parameters, nic) for name, verilog in files.items()}
    if not target.top:
        files[f"{target.module}.v"] = with_interfaces(files[f"{target.module}.v"], target)
    files |= target.sources
    top = shell if shell is not None else nic
    registers = registers_of(options.codec, options.bf16)
    put("registers.json", partial(map_json, registers))
    put("registers.md", map_markdown)
    for name, (make, _) in FORMATS.items():
        put(name, partial(make, registers))
    standalone = standalone_modules(modules, alone)
    metadata = {
        "module": target.module, **target.metadata(), "ports": port_table(top, shell is not None),
        "standalone": standalone,
    }  # fmt: skip
    files["ports.json"] = _dump(metadata)
    files["sources.json"] = _dump(dict(sorted(origins.items())))

    crossings = any(CROSSING_ATTRIBUTE in content for content in files.values())
    context = _context(board, options, target) | {"crossings": crossings, "standalone": standalone}
    core, ooc, instance = f"{context['name']}.core", f"{target.module}_ooc.xdc", f"{target.module}.veo"
    if not target.top:
        put(instance, lambda: render("instance.veo.j2", {**context, "ports": metadata["ports"]}))
    put("mark_debug.tcl", lambda: render("mark_debug.tcl.j2", context))
    put(ooc, lambda: render("ooc.xdc.j2", context))
    put("project.tcl", lambda: render("project.tcl.j2", context))
    put("package_ip.tcl", lambda: render("package_ip.tcl.j2", context))
    put(core, lambda: render("core.j2", context))
    files |= {name: text(name) for name in ("lint.vlt", "out_of_context.tcl")}
    if crossings:
        files["crossings.tcl"] = read("crossings.tcl")
    files |= target.extras
    what = _WHAT | {core: _WHAT_CORE, ooc: "clocks for synthesis out of context"}
    what[instance] = "an instance of the top, to copy"
    what |= {} if shell is None else {f"{target.module}.v": "the shell"}
    listed = sorted({*files, "README.md", MANIFEST})
    put("README.md", lambda: render("readme.md.j2", {**context, "files": [(n, what[n]) for n in listed]}))

    head = _origin(nic, files[f"{ENGINE}.v"]) | {
        "board": board.name,
        "part": target.part,
        "top": rename(context["top"], options.prefix),
        "parameters": parameters,
    }
    files = renamed(files, options.prefix)
    return dict(sorted(files.items())) | {MANIFEST: manifest(files, head)}

# SPDX-License-Identifier: BSD-2-Clause
"""Puts the shell inceptionn_vc709 into your copy of the VC709 reference design's top file.

For the Virtex-7 XT Connectivity Targeted Reference Design, version 2014.3, in NIC mode. No part of that
design is in here: the script looks for its nets by name, in statements of the form `assign a = b;`:

    px_axi_str_wr_{tdata,tkeep,tvalid,tlast}[2n]  = axi_str_s2c{n}_*     to the wire, tready back
    axi_str_c2s{n}_{tdata,tkeep,tvalid,tlast}     = px_axi_str_rd_*[2n+1]  to the host, tready back

On port 0 the nets are those of the application's side, with `_app` in their names. In each statement the
right-hand side becomes a net of the shell, and the shell takes what stood there. A file in which one of them
is missing or comes twice is refused and left alone. If the path is a link, its target is patched.
"""

import argparse
import hashlib
import json
import os
import re
import shutil
import sys
from pathlib import Path
from typing import NamedTuple, TextIO

MARK = "// inceptionn:"
KEPT = ".before-inceptionn"
NEVER = "1'b1"
"""An active-low reset that is never active."""
SIGNALS = {"tdata": 256, "tkeep": 32, "tvalid": 1, "tlast": 1}
AXIL_INPUTS = {
    "awaddr": 12, "awprot": 3, "awvalid": 1, "wdata": 32, "wstrb": 4, "wvalid": 1, "bready": 1,
    "araddr": 12, "arprot": 3, "arvalid": 1, "rready": 1,
}  # fmt: skip
AXIL_OUTPUTS = {
    "awready": 1, "wready": 1, "bresp": 2, "bvalid": 1, "arready": 1, "rdata": 32, "rresp": 2, "rvalid": 1,
}  # fmt: skip


class Unrecognised(Exception):
    """The file differs from what the script expects; the text says where."""


class Cut(NamedTuple):
    """One statement to change: the net that the shell drives, and its port that takes the old source."""

    start: int
    end: int
    old: str
    new: str
    port: str


def without_comments(text: str) -> str:
    """Blank comments and strings in ``text``, every other character keeping its place."""
    pattern = re.compile(r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"', re.DOTALL)
    return pattern.sub(lambda match: re.sub(r"[^\n]", " ", match[0]), text)


class Net(NamedTuple):
    """A net of the reference design: the pattern of its spellings, and a name to be told to people."""

    pattern: str
    name: str


def dma_net(port: int, way: str, signal: str) -> Net:
    """Return a net on the DMA's side. Port 0 has its multiplexer between, hence ``_app``."""
    base = f"axi_str_{way}{port}"
    if port == 0:
        return Net(rf"\b(?:{base}_app_{signal}|{base}_{signal}_app)\b", f"{base}_app_{signal}")
    return Net(rf"\b{base}_{signal}\b", f"{base}_{signal}")


def fifo_net(port: int, way: str, signal: str) -> Net:
    """Return a net on the virtual FIFO's side. Element 2n goes to the wire, 2n + 1 to the host."""
    kind, index = ("wr", 2 * port) if way == "s2c" else ("rd", 2 * port + 1)
    product = rf"2\s*\*\s*{port}" + ("" if way == "s2c" else r"\s*\+\s*1")
    base = f"px_axi_str_{kind}_{signal}"
    return Net(rf"\b{base}\s*\[\s*(?:{index}|{product})\s*\]", f"{base}[{index}]")


def find_cut(code: str, target: Net, source: Net, net: str, port: str) -> Cut:
    """Find the one statement that assigns ``source`` to ``target``."""
    statement = re.compile(rf"\bassign\s+(?P<to>{target.pattern})\s*=\s*(?P<from>{source.pattern})\s*;")
    found = list(statement.finditer(code))
    if len(found) != 1:
        count = "no statement assigns" if not found else f"{len(found)} statements assign"
        raise Unrecognised(f"{count} {source.name} to {target.name}")
    return Cut(found[0].start("from"), found[0].end("from"), found[0]["from"], net, port)


def find_cuts(code: str, ports: int) -> list[Cut]:
    """Find all statements to change, with the names of the generated shell's ports."""
    cuts = []
    for n in range(ports):
        for way in ("s2c", "c2s"):
            for signal in (*SIGNALS, "tready"):
                dma, fifo = dma_net(n, way, signal), fifo_net(n, way, signal)
                net = f"inceptionn_{way}{n}_{signal}"
                forward = signal != "tready"
                if (way == "s2c") == forward:  # from the DMA to the FIFO
                    target, source = fifo, dma
                else:
                    target, source = dma, fifo
                side = "s" if forward else "m"
                cuts.append(find_cut(code, target, source, net, f"{side}_axis_{way}{n}_{signal}"))
    return cuts


def declarations(cuts: list[Cut]) -> str:
    """Declare the nets that the shell drives, before their first use."""
    lines = [f"{MARK} nets of the shell"]
    for cut in cuts:
        width = SIGNALS.get(cut.new.rpartition("_")[2], 1)
        span = f" [{width - 1}:0]" if width > 1 else ""
        lines.append(f"wire{span} {cut.new};")
    lines.append(f"{MARK} registers: connect these to a master of the AXI4-Lite crossbar, base 0xA000, 4 KiB")
    for name, width in AXIL_INPUTS.items():
        span = f"[{width - 1}:0] " if width > 1 else ""
        lines.append(f"wire {span}inceptionn_axil_{name} = {width}'b0;  {MARK} idle until then")
    for name, width in AXIL_OUTPUTS.items():
        lines.append(f"wire {f'[{width - 1}:0] ' if width > 1 else ''}inceptionn_axil_{name};")
    return "\n".join(lines) + "\n\n"


def instance(
    cuts: list[Cut], ports: int, engine_clock: bool, clock: str, resets: dict[str, str], bus_reset: str
) -> str:
    """Instantiate the shell, with every port connected by name."""
    connections = {"user_clk": clock, **resets}
    # Not in reset with the DMA engines, which stay in reset until the driver has loaded: an access must be
    # answered.
    connections |= {"s_axil_aclk": clock, "s_axil_aresetn": bus_reset}
    lines = [f"{MARK} the shell"]
    if engine_clock:
        connections |= {"engine_clk": "inceptionn_engine_clk", "engine_aresetn": "inceptionn_engine_aresetn"}
        lines += [
            "wire inceptionn_engine_clk, inceptionn_engine_aresetn;",
            f"inceptionn_engine_clock inceptionn_engine_clock_i (.user_clk({clock}),",
            "    .engine_clk(inceptionn_engine_clk), .engine_aresetn(inceptionn_engine_aresetn));",
        ]
    for cut in cuts:
        connections[cut.port] = cut.old
        # The shell's output of the same path.
        other = {"s": "m", "m": "s"}[cut.port[0]] + cut.port[1:]
        connections[other] = cut.new
    for n in range(ports):
        connections[f"s_axis_s2c{n}_tuser"] = "64'b0"
    for name in (*AXIL_INPUTS, *AXIL_OUTPUTS):
        connections[f"s_axil_{name}"] = f"inceptionn_axil_{name}"
    lines.append("inceptionn_vc709 inceptionn_vc709_i (")
    lines.append(",\n".join(f"    .{port}({net})" for port, net in connections.items()))
    return "\n".join(lines) + "\n);\n\n"


def patched(text: str, ports: int, engine_clock: bool, clock: str, reset: str, bus_reset: str) -> str:
    """Return ``text`` with the shell in it; raise :class:`Unrecognised`."""
    if MARK in text:
        raise Unrecognised("it holds the shell already (--undo removes it)")
    code = without_comments(text)
    cuts = find_cuts(code, ports)
    resets = {}
    for n in range(ports):
        for way in ("s2c", "c2s"):
            resets[f"{way}{n}_aresetn"] = reset.replace("{way}", way).replace("{n}", str(n))
    for name in (clock, *resets.values(), *((bus_reset,) if bus_reset != NEVER else ())):
        if not re.search(rf"\b{re.escape(name)}\b", code):
            raise Unrecognised(f"there is no net {name} (see --clock, --reset and --bus-reset)")
    first, last = min(cut.start for cut in cuts), max(cut.end for cut in cuts)
    begin = code.rfind("assign", 0, first)
    begin = code.rfind("\n", 0, begin) + 1
    close = code.find("endmodule", last)
    if close < 0 or "endmodule" in code[first:last]:
        raise Unrecognised("the nets are not all in one module")
    pieces, at = [text[:begin], declarations(cuts)], begin
    for cut in sorted(cuts):
        pieces += [text[at : cut.start], cut.new]
        at = cut.end
    pieces += [text[at:close], instance(cuts, ports, engine_clock, clock, resets, bus_reset), text[close:]]
    return "".join(pieces)


def changes(text: str, data: str) -> list[str]:
    """Return the statements that differ, before and after, in the order of the file."""
    old, new = (
        [line.strip() for line in whole.splitlines() if line.strip().startswith("assign")]
        for whole in (text, data)
    )
    pairs = ((a, b) for a, b in zip(old, new, strict=True) if a != b)
    return [line for a, b in pairs for line in (f"- {a}", f"+ {b}")]


def top_file(path: Path) -> Path:
    """Return the file, or in a folder the one Verilog file with the nets of the virtual FIFO."""
    if not path.is_dir():
        return path
    net = fifo_net(0, "s2c", "tdata").name.partition("[")[0].encode()
    found = [file for file in sorted(path.rglob("*.v")) if file.is_file() and net in file.read_bytes()]
    if len(found) != 1:
        names = ": " + ", ".join(file.name for file in found) if found else ""
        raise Unrecognised(f"{len(found)} Verilog files in it have nets {net.decode()}{names}; name the file")
    return found[0]


def digest(data: bytes) -> str:
    """Return the SHA-256 in hexadecimal."""
    return hashlib.sha256(data).hexdigest()


def replace(path: Path, data: bytes, like: Path) -> None:
    """Write a file as a whole, with the mode of the file ``like``."""
    unfinished = path.with_name(f".{path.name}.part")
    try:
        unfinished.write_bytes(data)
        shutil.copymode(like, unfinished)
        os.replace(unfinished, path)
    finally:
        unfinished.unlink(missing_ok=True)


def shell_ports(path: Path) -> set[str]:
    """Return the names of the shell's ports, from the list that was generated with it."""
    try:
        names = {str(port["name"]) for port in json.loads(path.read_text(encoding="utf-8"))["ports"]}
    except (ValueError, KeyError, TypeError, RecursionError):
        raise Unrecognised(f"{path.name} beside this script is damaged: generate the folder again") from None
    if "s2c0_aresetn" not in names:
        raise Unrecognised(f"{path.name} beside this script is not of the VC709's shell")
    return names


def undo(path: Path, kept: Path, note: Path) -> None:
    """Restore the kept file, if nobody has changed the patched one since."""
    if not kept.exists() or not note.exists():
        raise Unrecognised(f"nothing to undo: there is no {kept.name} beside it")
    if digest(path.read_bytes()) != note.read_text(encoding="latin-1").strip():
        raise Unrecognised(f"it was changed after the patch; the original is in {kept.name}")
    os.replace(kept, path)
    note.unlink()


def say(text: str, file: TextIO = sys.stdout) -> None:
    """Print one line. What a terminal would obey, in the name of a file, becomes an escape."""
    print("".join(each if each.isprintable() else ascii(each)[1:-1] for each in text), file=file)


def main() -> int:
    """Run the command line; return the exit status."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument(
        "file",
        type=Path,
        help="top file of the reference design, version 2014.3, or the folder of its sources",
    )  # fmt: skip
    parser.add_argument("--dry-run", action="store_true", help="print what would change, and change nothing")
    parser.add_argument("--undo", action="store_true", help="put the original back")
    parser.add_argument("--clock", default="user_clk", help="net of the streams' clock (%(default)s)")
    parser.add_argument(
        "--reset", default="{way}{n}_aresetn",
        help="nets of the DMA engines' resets, active low, {way} is s2c or c2s (%(default)s)",
    )  # fmt: skip
    parser.add_argument(
        "--bus-reset", default=NEVER,
        help="net of the register bus's own reset, active low; none: in reset at configuration alone",
    )  # fmt: skip
    options = parser.parse_args()
    path = Path(os.path.realpath(options.file))
    try:
        path = top_file(path)
        kept = path.with_name(path.name + KEPT)
        note = path.with_name(path.name + KEPT + ".sha256")
        if options.undo:
            undo(path, kept, note)
            say(f"{path}: original put back")
            return 0
        names = shell_ports(Path(__file__).resolve().parent / "ports.json")
        ports = sum(f"s2c{n}_aresetn" in names for n in range(4))
        original = path.read_bytes()
        text = original.decode("latin-1")  # keeps every byte as it is
        nets = options.clock, options.reset, options.bus_reset
        data = patched(text, ports, "engine_clk" in names, *nets).encode("latin-1")
        lines = len(data.splitlines()) - len(original.splitlines())
        what = f"{ports} ports, {ports * 2 * (len(SIGNALS) + 1)} statements, {lines} lines more"
        if options.dry_run:
            say(f"{path}: would be patched: {what}")
            for line in changes(text, data.decode("latin-1")):
                say(line)
            return 0
        replace(kept, original, path)
        replace(note, f"{digest(data)}\n".encode(), path)
        replace(path, data, path)
        say(f"{path}: patched: {what}; original in {kept.name}")
    except Unrecognised as reason:
        say(f"{path}: not recognised: {reason}", sys.stderr)
        return 1
    except OSError as error:
        say(f"{error.filename or path}: {error.strerror or error}", sys.stderr)
        return 1
    except KeyboardInterrupt:
        say(f"{path}: interrupted", sys.stderr)
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())

# SPDX-License-Identifier: BSD-2-Clause
"""Proves that a mutant never differs from its component, by induction with Yosys's ``equiv_induct``.

The two are compared at all wires and registers of the same name, and at the inputs of each memory. Proved is:
if all agreed in a cycle, they agree in the next, whatever comes in. That they agree at first is what the
bench has seen of a survivor. The module that holds the change is tried first, with all that it may be given;
then the component.
"""

import re
import resource
import subprocess
import sys

from inceptionn.hdl.yosys import yosys_path

LIMIT_S = 120
"""Processor time of one proof."""
_INPUTS = "RD_CLK RD_EN RD_ARST RD_SRST RD_ADDR WR_CLK WR_EN WR_ADDR WR_DATA"
_MEMORY = re.compile(r"cell \$mem_v2 .*?^  end$", re.MULTILINE | re.DOTALL)


def yosys(*commands: str, options: str = "-q", limit_s: int = 0) -> str:
    """Return what Yosys prints; an empty text if it takes ``limit_s`` seconds of processor time, if given."""

    def limit() -> None:
        if limit_s:
            resource.setrlimit(resource.RLIMIT_CPU, (limit_s, limit_s))

    done = subprocess.run(
        [yosys_path(), options, "-"], input="\n".join(commands), capture_output=True, text=True, check=False,
        preexec_fn=limit,
    )  # fmt: skip
    if done.returncode and not limit_s:
        raise RuntimeError(f"Yosys: {done.stderr[-400:]}")
    if done.returncode > 0:  # not ended by the limit
        print(f"no proof, since Yosys fails: {done.stderr[-400:].strip()}", file=sys.stderr)
    return "" if done.returncode else done.stdout


def equivalent(rtlil: str, change: str, top: str) -> bool:
    """Whether a proof is found that the command ``change`` alters no output of ``top``."""
    read = f"read_rtlil <<rtlil\n{rtlil}\nrtlil"
    if yosys(read, "write_rtlil") == yosys(read, change, "write_rtlil"):
        return True  # a constant, fixed at its own value
    module = re.findall(r"-module (\S+)", change)[0]
    tries = dict.fromkeys([(module, ""), (top, _BITS), (top, "")])
    return any(_proved(rtlil, change, name, passes) for name, passes in tries)


_BITS = "simplemap; opt_clean -purge; setundef -undriven -zero;"
"""Without the single bits that nothing reads, at which the two may differ."""


def _cut(rtlil: str) -> list[str]:
    """Return commands that make ports of memories: an input of each output, and an output of each input.

    Both sides then get the same words, and what they give to a memory is compared. ``expose`` gives a port
    the width that the black box has, so that must be no less than any memory's.
    """
    sizes = [
        int(width) * int(ports)
        for cell in _MEMORY.findall(rtlil)
        for width in re.findall(r"parameter \\WIDTH (\d+)", cell)
        for ports in re.findall(r"parameter \\(?:RD|WR)_PORTS (\d+)", cell)
    ]
    wire = f"wire width {max(sizes, default=0) + 32}"  # and any address
    inputs = [f"{wire} input {number} \\{name}" for number, name in enumerate(_INPUTS.split(), 1)]
    box = ["attribute \\blackbox 1", "module \\memory_box", *inputs, f"{wire} output 10 \\RD_DATA", "end"]
    return [
        "memory_map -rom-only; chtype -set memory_box t:$mem_v2",
        "read_rtlil <<box", *box, "box", "expose -evert t:memory_box; delete =memory_box",
    ]  # fmt: skip


def _proved(rtlil: str, change: str, top: str, passes: str) -> bool:
    read = f"read_rtlil <<rtlil\n{rtlil}\nrtlil"
    flat = [f"hierarchy -check -top {top}; flatten; setattr -unset init w:*; {passes}", *_cut(rtlil)]
    gold, gate = ([*flat, f"rename {top} {name}"] for name in ("gold", "gate"))
    answer = yosys(
        read, *gold, "design -stash gold", read, change, *gate,
        "design -copy-from gold gold", "equiv_make gold gate miter", "hierarchy -top miter",
        "opt_clean; async2sync; equiv_struct; equiv_simple -undef; equiv_induct -undef; equiv_status",
        options="-QT", limit_s=LIMIT_S,
    )  # fmt: skip
    return "Equivalence successfully proven!" in answer

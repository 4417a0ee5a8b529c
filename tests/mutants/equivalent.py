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

from inceptionn.hdl.yosys import yosys_path

LIMIT_S = 40
"""Processor time of one proof."""


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


def _proved(rtlil: str, change: str, top: str, passes: str) -> bool:
    read = f"read_rtlil <<rtlil\n{rtlil}\nrtlil"
    flat = f"hierarchy -check -top {top}; flatten; {passes} rename {top}"
    answer = yosys(
        read, f"{flat} gold", "design -stash gold", read, change, f"{flat} gate",
        "design -copy-from gold gold", "equiv_make gold gate miter", "hierarchy -top miter",
        "opt_clean; async2sync; equiv_struct; equiv_simple -undef; equiv_induct -undef; equiv_status",
        options="-QT", limit_s=LIMIT_S,
    )  # fmt: skip
    return "Equivalence successfully proven!" in answer

# SPDX-License-Identifier: BSD-2-Clause
"""Exposes the engines' clocks of ``inceptionn_nic``'s Verilog, so that a simulation can stop an idle engine.

A model spends its time in evaluating engines, busy or idle. On a link that is busy in one direction, one of
the two engines is always idle. The Verilog is that of the board except for the clock pins of the two engine
instances, which become the inputs `CLOCKS` of the top module. The harness toggles all clocks together, but
omits that of an engine that has been empty for longer than its pipeline's depth. The state of such an engine
no longer changes, so its cycles can be skipped without a difference (``tests/sim/test_gated.py`` compares the
two, beat for beat).
"""

import re

CLOCKS = ("aclk_tx", "aclk_rx")
"""New inputs of the top module: the clocks of the transmit and of the receive engine."""

_ENGINES = ("compression_engine", "decompression_engine")


def gate(verilog: str, top: str = "inceptionn_nic") -> str | None:
    """Return the Verilog with the engines' clocks as inputs; None if it is not built as the NIC is.

    The NIC's ``top`` holds one instance ``core``, whose instances ``compression_engine`` and
    ``decompression_engine`` are clocked by its port ``clk``.
    """
    core = re.search(r"^  (\S+) core \($", _module(verilog, top) or "", re.MULTILINE)
    if core is None:
        return None
    inner = _module(verilog, core[1])
    if inner is None:
        return None
    gated = inner
    for clock, engine in zip(CLOCKS, _ENGINES, strict=True):
        instance = re.compile(rf"^(  \S+ {engine} \(\n)    \.clk\(clk\)", re.MULTILINE)
        gated, found = instance.subn(rf"\1    .clk({clock})", gated)
        if found != 1:
            return None
    outer = _module(verilog, top)
    assert outer is not None
    pins = ", ".join(f".{clock}({clock})" for clock in CLOCKS)
    with_pins = outer.replace(f"{core[1]} core (\n", f"{core[1]} core (\n    {pins},\n")
    return verilog.replace(inner, _with_inputs(gated)).replace(outer, _with_inputs(with_pins))


def _module(verilog: str, name: str) -> str | None:
    """Return the text of a module, from its first word to its last."""
    found = re.search(rf"^module {re.escape(name)}\(.*?^endmodule$", verilog, re.MULTILINE | re.DOTALL)
    return found[0] if found else None


def _with_inputs(module: str) -> str:
    """Return a module with the clocks as its first ports."""
    module = module.replace("(", f"({', '.join(CLOCKS)}, ", 1)
    head, end, body = module.partition(");\n")
    return head + end + "".join(f"  input {clock};\n  wire {clock};\n" for clock in CLOCKS) + body

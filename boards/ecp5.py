# SPDX-License-Identifier: BSD-2-Clause
"""Synthesis for the Lattice ECP5, and names in its netlists."""

import re

LEAST_ENABLED = 16
"""Flip-flops that a clock enable must serve to be wired to their own pins; otherwise it becomes logic."""
LEAST_RESET = 96
"""The same for a synchronous reset.

Vivado's ``-control_set_opt_threshold`` does the same. The flip-flops of a slice share these pins, and those
of a tile have only two resets. The NIC with planes had 267 different resets. nextpnr spent 53 of 67 minutes
on finding legal places for them, and its nets became 1.7 times as long on the way.
"""
SMALL_ENABLED, SMALL_RESET = 8, 32
"""`LEAST_ENABLED` and `LEAST_RESET` in a small part, which has no look-up tables to spare."""
LEAST_CHAIN = 10
"""In a small part, a comparison of at least so many bits is a carry chain, and a narrower one gates.

The two ends of a chain take four look-up tables beside its bits.
"""
_SAVING = (
    "proc",
    # Yosys merges equal synchronisers of a reset. The one left is far from one of the two ports.
    "setattr -set keep 1 *_caught*/t:$*dff*",
    "flatten",
    "opt_expr",
    "opt_clean",
    "select -set comparisons t:$lt t:$le t:$gt t:$ge",
    f"techmap @comparisons r:A_WIDTH<{LEAST_CHAIN} %i r:B_WIDTH<{LEAST_CHAIN} %i",
)

# The kinds of flip-flop of the ECP5, with the initial values they support, as in `map_ffs` of `synth_ecp5`.
_FLIP_FLOPS = (
    "$_DFF_?_ 01", "$_DFF_?P?_ r", "$_SDFF_?P?_ r", "$_DFFE_??_ 01", "$_DFFE_?P??_ r", "$_SDFFE_?P??_ r",
    "$_DLATCH_?_ x",
)  # fmt: skip


def synthesis(top: str, netlist: str, *, small: bool = False) -> str:
    """Write the Yosys commands that map the loaded design, with module ``top``.

    They write the file ``netlist``. ``small`` saves look-up tables, for a part that the design may fill.
    """
    cells = " ".join(f"-cell {kind}" for kind in _FLIP_FLOPS)
    enabled, reset = (SMALL_ENABLED, SMALL_RESET) if small else (LEAST_ENABLED, LEAST_RESET)
    return "; ".join(
        (
            *(_SAVING if small else ()),
            f"synth_ecp5 -top {top} -run begin:map_ffs",
            f"dfflegalize {cells} -mince {enabled} -minsrst {reset}",
            f"synth_ecp5 -top {top} -run map_ffs: -json {netlist}",
        )
    )


def register_name(cell: str) -> str:
    """Return the signal's name within a cell's name: ``"port.state_TRELLIS_FF_Q_1"`` is port.state."""
    return re.split(r"_(?:TRELLIS|LUT4|PFUMX|CCU2C|DPR16X4)", cell)[0]

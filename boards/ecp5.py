# SPDX-License-Identifier: BSD-2-Clause
"""Synthesis for the Lattice ECP5."""

CONTROL_SET = 96
"""Flip-flops that a clock enable or a synchronous reset must serve to be wired to the flip-flops' own pins.

One that serves fewer becomes logic at the data inputs, as with Vivado's ``-control_set_opt_threshold``. The
flip-flops of a slice share those pins. The NIC with planes had 477 combinations of them: nextpnr spent 53 of
67 minutes on finding legal places, and its nets became 1.7 times as long on the way.
"""

# The kinds of flip-flop of the ECP5, with the initial values they support, as in `map_ffs` of `synth_ecp5`.
_FLIP_FLOPS = (
    "$_DFF_?_ 01", "$_DFF_?P?_ r", "$_SDFF_?P?_ r", "$_DFFE_??_ 01", "$_DFFE_?P??_ r", "$_SDFFE_?P??_ r",
    "$_DLATCH_?_ x",
)  # fmt: skip


def synthesis(top: str, netlist: str) -> str:
    """Yosys commands that map the design it holds, with module ``top``, and write the file ``netlist``."""
    cells = " ".join(f"-cell {kind}" for kind in _FLIP_FLOPS)
    return "; ".join(
        (
            f"synth_ecp5 -top {top} -run begin:map_ffs",
            f"dfflegalize {cells} -mince {CONTROL_SET} -minsrst {CONTROL_SET}",
            f"synth_ecp5 -top {top} -run map_ffs: -json {netlist}",
        )
    )

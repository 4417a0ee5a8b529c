# SPDX-License-Identifier: BSD-2-Clause
"""Digilent NetFPGA-SUME with the reference NIC of the NetFPGA project: the VC709's die, one grade faster."""

from ..board import Board, Clock, Interface, Options, RegisterAccess, Reset, Target
from .shell import NetfpgaSumeShell

_USER = "length 15:0, source port 23:16, destination ports 31:24; first beat"


def _target(board: Board, options: Options) -> Target:
    stream, bus = ("axis_aclk", ("axis_resetn",)), ("s_axi_aclk", ("s_axi_aresetn",))
    return Target(
        module="inceptionn_netfpga_sume",
        make=NetfpgaSumeShell,
        clocks=(
            Clock("axis_aclk", board.clock_mhz, "streams and engines"),
            Clock("s_axi_aclk", 100, "registers; any clock"),
        ),
        resets=(
            Reset("axis_resetn", "low", "streams and engines"),
            Reset("s_axi_aresetn", "low", "registers' bus"),
        ),
        interfaces=(
            Interface("s_axis", "axis", "slave", *stream, "from output port lookup", _USER),
            Interface("m_axis", "axis", "master", *stream, "to the output queues", f"{_USER}, kept on all"),
            Interface("s_axi", "axil", "slave", *bus, "registers"),
        ),
        part=options.part or board.part,
        parameters={},
    )


BOARD = Board(
    name="netfpga-sume",
    description="NetFPGA-SUME, Virtex-7 690T",
    target=_target,
    access=RegisterAccess(
        None,
        "No BAR leads to the reference NIC's AXI4-Lite bus: its driver makes the accesses, and the "
        "project's program `rwaxi` asks for them. The base is the one that step 2 of the integration gives.",
    ),  # fmt: skip
    part="xc7vx690tffg1761-3",
    clock_mhz=160,
)

# SPDX-License-Identifier: BSD-2-Clause
"""LiteX: the engine pair as a ``LiteXModule``, and a design with two LiteEth MACs around it."""

from inceptionn.hdl.control.registers import ADDRESS_WIDTH

from ..board import ENGINE, Board, Clock, Interface, Options, RegisterAccess, Reset, Target
from ..templates import render
from .shell import STORE_BYTES, LitexShell

_BAD = "bit 0 with any beat: bad frame"
_NEVER = "always 0"
_MODULE = "inceptionn_litex"


def _target(board: Board, options: Options) -> Target:
    on = ("clk", ("rst",))
    shape = options.shape
    context = {
        "width": shape.bits,
        "lanes": shape.lanes,
        "address_width": ADDRESS_WIDTH,
        "longest": STORE_BYTES - shape.bytes,
    }
    return Target(
        module=_MODULE,
        make=lambda: LitexShell(shape),
        clocks=(Clock("clk", board.clock_mhz, "everything"),),
        resets=(Reset("rst", "high", "everything"),),
        interfaces=(
            Interface("s_axis_tx", "axis", "slave", *on, "frames from the host", _BAD),
            Interface("m_axis_tx", "axis", "master", *on, "frames to the wire", _NEVER),
            Interface("s_axis_rx", "axis", "slave", *on, "frames from the wire", _BAD),
            Interface("m_axis_rx", "axis", "master", *on, "frames to the host", _NEVER),
            Interface("s_axil", "axil", "slave", *on, "registers"),
        ),
        part=options.part or "",
        parameters={},
        engine=_MODULE if shape.serial else ENGINE,
        extras={name: render(f"litex/{name}.j2", context) for name in ("module.py", "target.py")},
        context=context,
    )


BOARD = Board(
    name="litex",
    description="LiteX, between two LiteEth MACs",
    target=_target,
    access=RegisterAccess(
        None, "The region `inceptionn` of `csr.csv` holds them; `litex_server` and `RemoteClient` reach it."
    ),
    min_lanes=1,
    max_lanes=8,
    default_lanes=1,
)

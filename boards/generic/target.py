# SPDX-License-Identifier: BSD-2-Clause
"""Any FPGA: the engine pair itself, with plain AXI4-Stream on both sides."""

from ..board import ENGINE, Board, Clock, Interface, Options, RegisterAccess, Reset, Target

_BAD = "bit 0 at tlast: bad frame"


def _target(board: Board, options: Options) -> Target:
    del board

    def stream(name: str, mode: str, text: str) -> Interface:
        return Interface(name, "axis", mode, "aclk", ("aresetn",), text, _BAD)  # type: ignore[arg-type]

    return Target(
        module=ENGINE,
        make=None,
        clocks=(Clock("aclk", options.clock_mhz or 0, "of everything"),),
        resets=(Reset("aresetn", "low", "of everything"),),
        interfaces=(
            stream("s_axis_tx", "slave", "frames from the host"),
            stream("m_axis_tx", "master", "frames to the wire"),
            stream("s_axis_rx", "slave", "frames from the wire"),
            stream("m_axis_rx", "master", "frames to the host"),
            Interface("s_axil", "axil", "slave", "aclk", ("aresetn",), "registers"),
        ),
        part=options.part or "",
        parameters={},
        context={
            "cuts_through": options.engines == 1 and not options.shape.serial,
            "stream_bytes": options.engines * options.shape.bytes,
        },
    )


BOARD = Board(
    name="generic",
    description="any FPGA, modules alone",
    target=_target,
    access=RegisterAccess(None, "The BAR and the offset are those that your design gives `s_axil`."),
    max_engines=4,
    min_lanes=1,
    max_lanes=16,
)

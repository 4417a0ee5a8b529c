# SPDX-License-Identifier: BSD-2-Clause
"""What the modules have in common that a design instantiates."""

from amaranth.lib import wiring


class Top(wiring.Component):
    """A component with AXI ports that a design instantiates as a Verilog module: how the module is reset.

    ``aresetn`` is sampled by ``aclk``; one cycle suffices. In every cycle in which it is low, and for
    :attr:`RESET` cycles after it, no input is ready and no output valid. Meanwhile all control registers are
    in reset, for longer than the longest row of data registers without one, so nothing of what was inside is
    left. Everything in flight is lost: frames, packets, and AXI4-Lite accesses, which get no answer.

    A packet that was leaving ends without ``tlast``. A source that is not reset, too, may go on within a
    packet: what it sends after the reset up to ``tlast`` is then a packet of its own. Such a source, or such
    a sink, needs a guard (:class:`~inceptionn.hdl.attach.frame_guard.FrameGuard`).
    """

    RESET = 32

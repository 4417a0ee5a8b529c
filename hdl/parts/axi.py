# SPDX-License-Identifier: BSD-2-Clause
"""AXI4-Stream as all components use it (Arm IHI 0051A)."""

from amaranth.hdl import Cat, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from inceptionn.wire import BURST_BYTES


def keep_of(last: Value, ending: Value) -> Value:
    """Return ``tkeep`` of a beat of ``2 ** len(ending)`` bytes: all; if ``last``, ``ending`` (0: all)."""
    return Cat(~last | (ending == 0) | (ending > place) for place in range(1 << len(ending)))


class AXIStream(wiring.Signature):
    """AXI4-Stream, seen from the transmitter; use ``In(AXIStream())`` for a receiver.

    Byte lane 0 (``tdata[7:0]``) is the first byte on the wire. Every beat but a packet's last has
    all ``tkeep`` bits set; the last has its low bits set, at least one. ``tvalid`` never waits for
    ``tready``, and the payload holds until it is accepted.

    Parameters
    ----------
    data_bytes : :class:`int`
        Width of ``tdata`` in bytes.
    user_width : :class:`int`
        Width of ``tuser`` in bits.
    """

    def __init__(self, data_bytes: int = BURST_BYTES, user_width: int = 1):
        if not isinstance(data_bytes, int) or not isinstance(user_width, int):
            raise TypeError(f"stream widths must be integers, not {(data_bytes, user_width)!r}")
        if data_bytes < 1 or user_width < 1:
            raise ValueError(f"stream widths must be positive, not {(data_bytes, user_width)!r}")
        self.data_bytes = data_bytes
        self.user_width = user_width
        super().__init__(
            {
                "tdata": Out(8 * data_bytes),
                "tkeep": Out(data_bytes),
                "tuser": Out(user_width),
                "tlast": Out(1),
                "tvalid": Out(1),
                "tready": In(1),
            }
        )

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, AXIStream)
            and self.data_bytes == other.data_bytes
            and self.user_width == other.user_width
        )

    def __repr__(self) -> str:
        return f"AXIStream(data_bytes={self.data_bytes}, user_width={self.user_width})"

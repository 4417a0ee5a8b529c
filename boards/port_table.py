# SPDX-License-Identifier: BSD-2-Clause
"""The ports of an emitted module as plain data."""

from typing import Any

from inceptionn.hdl.verilog import flat_ports


def port_table(top: Any, has_clocks: bool = False) -> list[dict[str, Any]]:
    """List name, direction and width of every port of an Amaranth component as it is emitted.

    ``has_clocks``: as for :func:`~inceptionn.hdl.verilog.to_rtlil`.
    """
    clocked = () if has_clocks else ("aclk", "aresetn")
    ports = [{"name": name, "direction": "input", "width": 1} for name in clocked]
    for name, (signal, direction) in flat_ports(top).items():
        ports.append({"name": name, "direction": direction.value, "width": len(signal)})
    return ports

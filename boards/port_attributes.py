# SPDX-License-Identifier: BSD-2-Clause
"""Attributes by which Vivado recognises the buses, clocks and resets of a module's ports (UG994)."""

import re

from .board import Interface, Target

_KINDS = {"axis": "axis", "axil": "aximm"}
_PORT = re.compile(r"^  (?:input|output) (?:\[\d+:0\] )?(\w+);$", re.MULTILINE)


def _attributes(target: Target, port: str) -> dict[str, str]:
    for clock in target.clocks:
        if port == clock.port:
            buses = [bus for bus in target.interfaces if bus.clock == port]
            resets = sorted({name for bus in buses for name in bus.resets})
            told = {"ASSOCIATED_BUSIF": [bus.name for bus in buses], "ASSOCIATED_RESET": resets}
            if clock.mhz:
                told["FREQ_HZ"] = [str(round(1e6 * clock.mhz))]
            words = ", ".join(f"{name} {':'.join(values)}" for name, values in told.items() if values)
            return {
                "X_INTERFACE_INFO": f"xilinx.com:signal:clock:1.0 {port} CLK",
                "X_INTERFACE_PARAMETER": words,
            }
    for reset in target.resets:
        if port == reset.port:
            return {
                "X_INTERFACE_INFO": f"xilinx.com:signal:reset:1.0 {port} RST",
                "X_INTERFACE_PARAMETER": f"POLARITY ACTIVE_{reset.active.upper()}",
            }
    for bus in target.interfaces:
        if port.startswith(f"{bus.name}_"):
            return {"X_INTERFACE_INFO": _signal(bus, port)}
    return {}


def _signal(bus: Interface, port: str) -> str:
    signal = port.removeprefix(f"{bus.name}_").upper()
    return f"xilinx.com:interface:{_KINDS[bus.kind]}:1.0 {bus.name} {signal}"


def with_interfaces(verilog: str, target: Target) -> str:
    """Put the attributes before the ports of the target's module."""
    begin = verilog.index(f"module {target.module}(")
    end = verilog.index("endmodule", begin)

    def attributed(match: re.Match[str]) -> str:
        words = ", ".join(f'{name} = "{value}"' for name, value in _attributes(target, match[1]).items())
        return f"  (* {words} *)\n{match[0]}" if words else match[0]

    return verilog[:begin] + _PORT.sub(attributed, verilog[begin:end]) + verilog[end:]

# SPDX-License-Identifier: BSD-2-Clause
"""The common resources of boards with a Virtex-7 XC7VX690T in package FFG1761, for Amaranth platforms.

Pins of transceivers must be requested with ``dir="-"``: no I/O buffer belongs to them.
"""

from amaranth.build import Attrs, Clock, DiffPairs, Pins, PinsN, Resource, Subsignal


def sfp(
    number: int,
    mgt: str,
    *,
    tx_disable: str,
    tx_fault: str,
    mod_detect: str,
    los: str,
    rate_select: str,
    inputs: Attrs,
    outputs: Attrs,
) -> Resource:
    """Describe one SFP+ cage. ``mgt``: the transceiver's pins TX P, TX N, RX P, RX N."""
    tx_p, tx_n, rx_p, rx_n = mgt.split()
    return Resource(
        "sfp",
        number,
        Subsignal("tx", DiffPairs(tx_p, tx_n, dir="o")),
        Subsignal("rx", DiffPairs(rx_p, rx_n, dir="i")),
        Subsignal("tx_disable", Pins(tx_disable, dir="o"), outputs),
        Subsignal("tx_fault", Pins(tx_fault, dir="i"), inputs),
        Subsignal("mod_detect", Pins(mod_detect, dir="i"), inputs),
        Subsignal("los", Pins(los, dir="i"), inputs),
        Subsignal("rate_select", Pins(rate_select, dir="o"), outputs),
    )


def pcie(perst: str) -> Resource:
    """Describe PCI Express x8 at GTHE2_CHANNEL_X1Y23 down to X1Y16.

    Its lanes are those of hard block PCIE_X0Y1.
    """
    return Resource(
        "pcie",
        0,
        Subsignal("clk", DiffPairs("AB8", "AB7", dir="i"), Clock(100e6)),
        Subsignal("perst", PinsN(perst, dir="i"), Attrs(IOSTANDARD="LVCMOS18", PULLUP="TRUE")),
        Subsignal(
            "tx", DiffPairs("W2 AA2 AC2 AE2 AG2 AH4 AJ2 AK4", "W1 AA1 AC1 AE1 AG1 AH3 AJ1 AK3", dir="o")
        ),
        Subsignal(
            "rx", DiffPairs("Y4 AA6 AB4 AC6 AD4 AE6 AF4 AG6", "Y3 AA5 AB3 AC5 AD3 AE5 AF3 AG5", dir="i")
        ),
    )

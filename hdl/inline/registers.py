# SPDX-License-Identifier: BSD-2-Clause
"""The inline device's registers: the NIC's, and a page of its two ports. Needs no Amaranth."""

from dataclasses import replace
from functools import cache

from ..codec.codecs import PAPER
from ..control.register_map import Field, Register, RegisterMap
from ..control.registers import registers_of

PORTS = ("host", "network")
PAGE_WIDTH = 12
"""Address bits of a page; page 0 is the NIC's, page 1 the ports'."""
ADDRESS_WIDTH = PAGE_WIDTH + 1
COUNTERS = 0x100
"""Offset of the first port's counters in the page; the second port's follow."""
SLOTS = 16
COUNTER_BYTES = 8

EVENTS = {
    "good": "Received frames that are whole and correct; some may be lost after that (OVERFLOW).",
    "error": "Received frames that the PHY calls damaged, or whose preamble or last octet is; dropped.",
    "short": "Received frames of fewer than 64 octets; dropped.",
    "fcs": "Received frames with a wrong frame check sequence; dropped.",
    "control": "Received MAC control frames (PAUSE); dropped.",
    "overflow": "Good frames lost whole for want of room, and frames cut by a reset of the engines.",
    "unsent": "Frames from the engines that were not sent: marked bad, or longer than the queue.",
    "underrun": "Frames cut while they were sent, with an inverted check sequence.",
    "sent": "Frames that have left, those cut (UNDERRUN) included.",
}
"""A port's counters in the order of their slots: name and meaning."""


def _ports() -> tuple[Register, ...]:
    """Return the ports' page, from its own first byte on."""
    fields = tuple(
        field
        for place, port in enumerate(PORTS)
        for field in (
            Field(f"{port.upper()}_UP", 8 * place, 1, 0, f"The {port}'s link is up, at full duplex."),
            Field(f"{port.upper()}_MANAGED", 8 * place + 1, 1, 0, f"The {port}'s PHY answers over MDIO."),
            Field(f"{port.upper()}_SPEED", 8 * place + 4, 2, 0, "0: 10, 1: 100, 2: 1000 Mbit/s."),
        )
    )
    links = Register("LINKS", 0x000, "ro", "State of the links.", fields)
    counters = (
        Register(
            f"{port.upper()}_{name.upper()}",
            COUNTERS + COUNTER_BYTES * (SLOTS * place + slot),
            "ro",
            text,
            width=64,
        )
        for place, port in enumerate(PORTS)
        for slot, (name, text) in enumerate(EVENTS.items())
    )
    return (links, *counters)


PORT_PAGE = RegisterMap(_ports(), PAGE_WIDTH)
"""The ports' page alone. Its counters count from configuration on; nothing clears them."""


@cache
def inline_registers(codec: str | None = PAPER, bf16: bool = False) -> RegisterMap:
    """Return all registers of an inline device with this codec; None: of the pass-through design.

    ``bf16``: with bf16 lanes.
    """
    nic = () if codec is None else registers_of(codec, bf16).registers
    ports = (replace(register, offset=register.offset + (1 << PAGE_WIDTH)) for register in PORT_PAGE)
    return RegisterMap((*nic, *ports), ADDRESS_WIDTH)

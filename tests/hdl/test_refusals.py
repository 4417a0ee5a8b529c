# SPDX-License-Identifier: BSD-2-Clause
"""What components refuse in their constructors, in one line each: the wrong value is at its end."""

from collections.abc import Callable
from typing import Any

import pytest
from amaranth.lib import data

from inceptionn.hdl.attach.async_queue import AsyncQueue
from inceptionn.hdl.attach.axi_lite_decoder import AXI4LiteDecoder
from inceptionn.hdl.attach.frame_queue import FrameQueue
from inceptionn.hdl.attach.width_adapter import Narrower, Widener
from inceptionn.hdl.codec.shape import EngineShape
from inceptionn.hdl.control.counters import FrameCounters
from inceptionn.hdl.frame.frame_input import FrameInput
from inceptionn.hdl.mac.mdio import Mdio
from inceptionn.hdl.mac.octets import Speed
from inceptionn.hdl.mac.phy_monitor import PhyMonitor
from inceptionn.hdl.parallel.packet_dispatch import PacketDispatch
from inceptionn.hdl.parts.elastic_register import ElasticRegister
from inceptionn.hdl.parts.memory import BlockRam, LutRam
from inceptionn.hdl.parts.queue import PushQueue
from inceptionn.hdl.parts.width import Width


def async_queue(depth: int) -> AsyncQueue:
    return AsyncQueue(8, depth, write_domain="write", read_domain="read")


def decoder(slaves: int, page: int, address: int) -> AXI4LiteDecoder:
    return AXI4LiteDecoder(slaves, page_width=page, addr_width=address)


def in_ram(names: set[str]) -> ElasticRegister:
    return ElasticRegister(data.StructLayout({"tdata": 64, "last": 1}), in_ram=names)


DEPTH_OF_8, DEPTH_OF_4 = (f"power of two of at least {least}, not {{}}" for least in (8, 4))
MEMORIES = [(0, 16), (8, 0), (8, 1), (8, 12), (-1, 16)]
WIDTHS = [(8, 8), (32, 8), (8, 20), (8, 24), (0, 8)]
REFUSALS: list[tuple[Callable[..., Any], str, list[Any]]] = [
    (async_queue, DEPTH_OF_8, [0, 4, 12]),
    (lambda depth: FrameQueue(8, depth=depth), DEPTH_OF_8, [0, 4, 48]),
    (lambda depth: PushQueue(8, depth, 1), DEPTH_OF_4, [0, 1, 2, 12, 48, -16]),
    (
        lambda *sizes: PushQueue(8, *sizes), "slack must leave room in its depth, not {}",
        [(16, 14), (4, 2), (32, -1), (32, 40)],
    ),
    (decoder, "not {}", [(0, 10, 12), (5, 10, 12), (2, 12, 12)]),
    (Widener, "not {}", WIDTHS),
    (lambda narrow, wide: Narrower(wide, narrow), "not {}", WIDTHS),
    (BlockRam, "power-of-two depth, not {}", MEMORIES),
    (LutRam, "power-of-two depth, not {}", MEMORIES),
    (in_ram, "in_ram names fields that an item lacks: data, keep", [{"keep", "tdata", "data"}]),
    (lambda pace: FrameInput(pace=pace), "pace must be 1 or more, not {}", [0]),
    (lambda size: FrameInput(data_bytes=size), "stream width must be a power of two of bytes, not {}", [48]),
    (lambda codec: EngineShape.of(8, codec, bf16=True), "lanes need the codec planes, not {!r}", ["paper"]),
    (FrameCounters, "direction must be one of tx, rx, not {!r}", ["up"]),
    (
        lambda engines: PacketDispatch(engines, flows=False), "engines side by side must be 2 or 4, not {!r}",
        [0, 1, 3, 8, "2"],
    ),
    (Width, "lanes must be 1, 8 or 16, not {!r}", [0, 4, 32, "8", True]),
    (lambda phy: PhyMonitor(20_000, phy=phy, fastest=Speed.MBIT_100), "0..31, not {}", [32]),
    (Mdio, "at least 2 cycles, not {}", [1]),
]  # fmt: skip


@pytest.mark.parametrize(
    ("make", "text", "value"), [(make, text, value) for make, text, values in REFUSALS for value in values]
)
def test_refused(make: Callable[..., Any], text: str, value: Any) -> None:
    with pytest.raises(ValueError, match=".") as raised:
        make(*value) if isinstance(value, tuple) else make(value)
    assert str(raised.value).endswith(text.format(value))

# SPDX-License-Identifier: BSD-2-Clause
"""A verilated inline device, driven through its media interfaces and its serial line."""

import ctypes
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from inceptionn.hdl.control.register_map import DATA_WIDTH, RegisterMap
from inceptionn.hdl.inline.registers import PORTS, inline_registers
from inceptionn.wire import GROUP_LANES

from ..models.in_process import LIBRARY, LoadedModel, library_kind
from ..models.verilator import Step, build
from ..nic_codec import NIC_VARIANTS
from ..runner import emit

NS, US, MS = 1_000, 1_000_000, 1_000_000_000
"""A nanosecond, a microsecond and a millisecond, in picoseconds."""
SYNC, MAC, HOST_RX, NETWORK_RX = range(4)
"""Clock domains, for `InlineModel.reset`."""
SPEEDS = {10: 0, 100: 1, 1000: 2}
"""Mbit/s to RGMII's encoding."""
_RECEIVE_PERIODS = {10: 400 * NS, 100: 40 * NS, 1000: 8 * NS}
_DIVISOR = 4
_CLOCK_HZ = 50_000_000
_PATIENCE = 40_000 * 20 * NS
_POINTER, _INT, _U64, _TEXT = ctypes.c_void_p, ctypes.c_int, ctypes.c_uint64, ctypes.c_char_p
_FUNCTIONS = {
    "new": (_POINTER, _U64, _POINTER, _INT, _INT),
    "run": (None, _U64),
    "time": (_U64,),
    "cycles": (_U64,),
    "reset": (None, _INT, _INT),
    "link": (None, _INT, _INT, _U64),
    "send": (None, _INT, _TEXT, ctypes.c_uint32, _U64, _INT),
    "idle": (_INT, _INT),
    "waiting": (ctypes.c_int64, _INT),
    "take": (_INT, _INT, _POINTER, _POINTER),
    "say": (None, _TEXT),
    "hear": (None, _POINTER),
}
"""The functions of ``inline.cpp``."""
_HARNESS = tuple(Path(__file__).parents[1] / "models" / name for name in ("inline.cpp", "inline_phy.h"))


class NoAnswer(RuntimeError):
    """The device's serial line stayed silent, or refused an access. The text has the request."""


class Arrived(NamedTuple):
    """A frame that left a port: bytes without FCS, whether preamble and FCS were right, and times in ps."""

    data: bytes
    good: bool
    start: int
    end: int


class InlineModel(LoadedModel):
    """A device out of reset with its links up. Simulated time does not advance between calls.

    The model contains everything except pads, clock generators and MDIO. The host is on RGMII and the network
    on ``network``, each with a PHY model inside the pads' flip-flops. The serial line is faster than on a
    board, 4 cycles per bit, to save simulation time.

    Parameters
    ----------
    codec : :class:`str` or None
        Codec and type of the lanes, of `NIC_VARIANTS`; None: the pass-through design.
    lanes : :class:`int`
        Of each engine: 1 or 8.
    network : :class:`str`
        "rmii" (100 Mbit/s) or "rgmii".
    host_mbit, network_mbit : :class:`int`
        Speeds of the links, Mbit/s.
    offsets : :class:`tuple` of :class:`int`
        Offsets of the periods of the four clocks, in ps, since no two crystals are equal.
    step : callable
        Called with the current build step as text.

    Raises `ToolMissing` if Verilator or a C++ compiler is missing.
    """

    def __init__(
        self,
        codec: str | None = "paper",
        *,
        lanes: int = GROUP_LANES,
        network: str = "rmii",
        host_mbit: int = 1000,
        network_mbit: int = 100,
        seed: int = 1,
        offsets: tuple[int, int, int, int] = (0, 0, 1, -1),
        step: Step = lambda text: None,
    ):
        if network == "rmii" and network_mbit != 100:
            raise ValueError(f"the PHY at RMII runs at 100 Mbit/s, not {network_mbit!r}")
        self.codec = codec
        self.registers: RegisterMap = inline_registers(*_codec_and_bf16(codec))
        self.network = network
        self.network_mbit = network_mbit
        library = _build(codec, lanes, network, step)
        nominal = (
            (16 if lanes == 1 else 20) * NS,
            8 * NS,
            _RECEIVE_PERIODS[host_mbit],
            20 * NS if network == "rmii" else _RECEIVE_PERIODS[network_mbit],
        )
        self._offsets = offsets
        periods = (ctypes.c_uint64 * 4)(*(a + b for a, b in zip(nominal, offsets, strict=True)))
        speeds = SPEEDS[host_mbit], SPEEDS[network_mbit]
        super().__init__(library, "inline", _FUNCTIONS, "inline device", seed, periods, *speeds)
        self.run(10 * US)  # the in-band status is believed, and the transmit engine's flow table is empty
        self.run(20 * US)

    @property
    def now(self) -> int:
        """Simulated time in ps."""
        return int(self._call("time"))

    @property
    def cycles(self) -> int:
        """Cycles of the engines' clock so far."""
        return int(self._call("cycles"))

    def run(self, picoseconds: int) -> None:
        """Advance the simulated time."""
        self._call("run", self.now + picoseconds)

    def reset(self, domain: int, on: bool) -> None:
        """Assert or release the reset of one clock domain."""
        self._call("reset", domain, on)

    def link(self, port: str, mbit: int | None) -> None:
        """Change the speed of a port's link, or take the link away (None), whatever is on the line.

        The port is on RGMII: "host", and "network" of a device that has it there. Without a link its receive
        clock is that of 10 Mbit/s.
        """
        if self.network == "rmii" and port == "network":
            raise ValueError("the PHY at RMII keeps its link")
        speed = -1 if mbit is None else SPEEDS[mbit]
        domain = HOST_RX if port == "host" else NETWORK_RX
        period = _RECEIVE_PERIODS[mbit or 10] + self._offsets[domain]
        self._call("link", PORTS.index(port), speed, period)

    def send(self, port: str, frame: bytes, *, start: int = 0, good: bool = True) -> None:
        """Queue a frame without FCS at the PHY of a port, to be sent at ``start`` or later.

        Unless ``good``, its FCS is wrong.
        """
        self._call("send", PORTS.index(port), frame, len(frame), start, good)

    def idle(self, port: str) -> bool:
        """Tell whether the PHY of a port has nothing more to send to the device."""
        return bool(self._call("idle", PORTS.index(port)))

    def taken(self, port: str) -> list[Arrived]:
        """Return the frames that have left a port since the last call."""
        frames, number = [], PORTS.index(port)
        while (length := self._call("waiting", number)) >= 0:
            data, times = ctypes.create_string_buffer(max(1, length)), (ctypes.c_uint64 * 2)()
            good = self._call("take", number, data, times)
            frames.append(Arrived(data.raw[:length], bool(good), times[0], times[1]))
        return frames

    # The serial line.

    def say(self, text: str) -> None:
        """Send characters to the device, which takes simulated time."""
        self._call("say", text.encode())

    def hear(self) -> str:
        """Return the characters that the device has sent since the last call, at most 255."""
        text = ctypes.create_string_buffer(256)
        self._call("hear", text)
        return text.value.decode("ascii", "replace")

    def ask(self, line: str) -> str:
        """Send a line and return the answer, without its newline. Raise `NoAnswer` after 0.8 ms."""
        self.say(f"{line}\r")
        heard, limit = "", self.now + _PATIENCE
        while not heard.endswith("\n"):
            if self.now > limit:
                raise NoAnswer(f"no answer to {line!r}, but {heard!r}")
            self.run(5 * US)
            heard += self.hear()
        return heard.strip()

    def read(self, name: str) -> int:
        """Read a register or a 64-bit counter by its name in `inline_registers`, over the serial line."""
        register = self.registers[name]
        offsets = range(register.offset, register.offset + register.width // 8, DATA_WIDTH // 8)
        return sum(self.read_word(at) << 8 * (at - register.offset) for at in offsets)

    def read_word(self, address: int) -> int:
        """Read the 32 bits at a byte address."""
        answer = self.ask(f"r {address:x}")
        if answer == "error":
            raise NoAnswer(f"the device refuses the read of {address:#x}")
        return int(answer, 16)

    def write_word(self, address: int, value: int) -> None:
        """Write the 32 bits at a byte address."""
        if self.ask(f"w {address:x} {value:x}") != "ok":
            raise NoAnswer(f"the device refuses the write to {address:#x}")

    def counters(self) -> dict[str, int]:
        """Read every 64-bit counter by name."""
        return {
            register.name: self.read(register.name) for register in self.registers if register.width == 64
        }


def _codec_and_bf16(variant: str | None) -> tuple[str | None, bool]:
    """Return codec and bf16 lanes of a word of `NIC_VARIANTS`, or of the pass-through design."""
    return (None, False) if variant is None else (NIC_VARIANTS[variant].name, NIC_VARIANTS[variant].bf16)


def _build(codec: str | None, lanes: int, network: str, step: Callable[[str], None]) -> Path:
    from inceptionn.hdl.inline.device import InlineDevice

    from .pins import InlinePins

    top = f"inline_{codec or 'pass'}_{network}{'' if lanes == GROUP_LANES else f'_{lanes}'}".replace("-", "_")
    step("writing the Verilog")

    def pins() -> InlinePins:
        baud = _CLOCK_HZ // _DIVISOR
        name, bf16 = _codec_and_bf16(codec)
        device = InlineDevice(
            network=network, codec=name, lanes=lanes, bf16=bf16, clock_hz=_CLOCK_HZ, baud=baud
        )
        return InlinePins(device)

    header = '#include "Vmodel.h"\n#define TOP Vmodel\n'
    header += f"#define NETWORK_RGMII {int(network == 'rgmii')}\n#define DIVISOR {_DIVISOR}\n"
    files = {
        f"{top}.v": emit(pins, top, has_clocks=True, known_as=top),
        "top.h": header,
        **{path.name: path.read_text() for path in _HARNESS},
    }
    return build(library_kind(), top, files, step=step) / LIBRARY

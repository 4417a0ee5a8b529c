# SPDX-License-Identifier: BSD-2-Clause
"""Verilated modules in this process: frames in, frames out, with the cycles they took.

A model is Verilog compiled by `inceptionn.sim.models.in_process` and driven by the C++ of ``harness.cpp``:
hundreds of thousands of cycles per second, against a few thousand of a cocotb bench. It checks the rules of
AXI4-Stream (Arm IHI 0051A) on every output beat and raises an error if a module hangs. Inputs that a module
must ignore carry noise: an idle bus, absent byte lanes, ``tuser`` where it has no meaning.

    with VerilatedNic(Path("build/vc709/inceptionn_nic.v")) as nic:
        wire, restored = nic.loopback(frames)
"""

from __future__ import annotations

import ctypes
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from types import TracebackType
from typing import NamedTuple, Self, TypedDict, Unpack

import numpy as np

from inceptionn.wire import BURST_BYTES, GROUP_LANES, LANE_BYTES, MAX_LANES

from .gated import CLOCKS, gate
from .models.cache import keep_source
from .models.in_process import INTERFACES, Interface, build_model
from .models.tools import ToolError, ToolMissing
from .models.verilator import Step
from .models.waves import wave_format
from .nic_codec import NicCodec, read_codec
from .nic_verilog import nic_module

__all__ = [
    "BusError",
    "HangError",
    "ToolMissing",
    "ModelError",
    "Output",
    "Pause",
    "ProtocolError",
    "Timing",
    "ToolError",
    "VerilatedModule",
    "VerilatedNic",
]

_DONE, _RUNNING, _HUNG = 0, 1, 2
_SLICE = 20_000  # cycles between two looks at progress and limit
_QUIET = 64
_MOST_OUTPUT_BEATS = 2 + MAX_LANES * 4 // BURST_BYTES + 4  # of one frame that is short on the wire

_RECORD = np.dtype(
    [
        ("first_in", "<u8"), ("last_in", "<u8"), ("first_out", "<u8"), ("last_out", "<u8"),
        ("bytes", "<u4"), ("user", "<u4"),
    ]
)  # fmt: skip

Packet = bytes | tuple[bytes, int]
"""A frame, alone or with its ``tuser``: the bad flag (0/1), or a decompressor's number of lanes."""
Progress = Callable[[int], None]
"""Called from time to time with the number of frames emitted since the last call."""


class ModelError(RuntimeError):
    """A model failed; `VerilatedModule.reset` makes it usable again."""


class ProtocolError(ModelError):
    """A rule of AXI4-Stream or AXI4-Lite was broken on an output; the text names port and cycle."""


class HangError(ModelError):
    """No beat moved for too long, or the cycle limit came first; the text says what was outstanding."""


class BusError(ModelError):
    """An AXI4-Lite transfer was answered with something other than OKAY."""


class Timing(NamedTuple):
    """Cycles, since the model began, in which a frame's first and last beat moved, in and out."""

    first_in: int
    last_in: int
    first_out: int
    last_out: int


class Output(NamedTuple):
    """An output frame: its bytes, ``tuser`` at ``tlast`` (bad or malformed), and when."""

    data: bytes
    bad: bool
    timing: Timing


@dataclass(frozen=True)
class Pause:
    """Random pauses of one end of a stream.

    Before each beat (source) or in each cycle (sink) a pause begins with ``probability``, at most 0.99,
    and lasts 1 to ``longest`` cycles, all equally likely.
    """

    probability: float = 0.0
    longest: int = 1

    def __post_init__(self) -> None:
        if not 0 <= self.probability <= 0.99:
            raise ValueError(f"probability of a pause must be 0..0.99, not {self.probability!r}")
        if not 1 <= self.longest <= 1_000_000:
            raise ValueError(f"longest pause must be 1..1000000 cycles, not {self.longest!r}")

    @property
    def cost(self) -> float:
        """Expected cycles per beat."""
        return 1 + self.probability / (1 - self.probability) * (1 + self.longest) / 2


NO_PAUSE = Pause()


class RunOptions(TypedDict, total=False):
    """``idle`` pauses the inputs, ``back_pressure`` the outputs; the cycle limit is ample by default.

    ``quiet``: cycles without a beat after the last frame, in which a stray one would show; 64 by default.
    """

    idle: Pause
    back_pressure: Pause
    cycle_limit: int
    progress: Progress
    quiet: int


def _library(path: Path) -> ctypes.CDLL:
    """The library with the types of its functions declared."""
    lib = ctypes.CDLL(str(path))
    pointer, integer, u32, u64 = ctypes.c_void_p, ctypes.c_int, ctypes.c_uint32, ctypes.c_uint64
    for name, result, *arguments in (
        ("model_new", pointer, u64),
        ("model_delete", None, pointer),
        ("model_reset", None, pointer),
        ("model_cycle", u64, pointer),
        ("model_error", ctypes.c_char_p, pointer),
        ("model_loopback", None, pointer, integer),
        ("model_trace", integer, pointer, ctypes.c_char_p),
        ("model_input", integer, pointer, ctypes.c_char_p, u64),
        ("model_pause", None, pointer, integer, integer, u32, u32),
        ("model_send", None, pointer, integer, ctypes.c_char_p, pointer, pointer, u64),
        ("model_run", integer, pointer, u64, u64, u64),
        ("model_frames", u64, pointer, integer),
        ("model_bytes", u64, pointer, integer),
        ("model_collect", None, pointer, integer, pointer, pointer),
        ("model_bus", integer, pointer, integer, u32, u32, u32, pointer, pointer),
    ):
        function = getattr(lib, name)
        function.restype, function.argtypes = result, arguments
    return lib


class VerilatedModule:
    """A Verilog module of known `Interface`, verilated, reset and ready.

    Parameters
    ----------
    verilog : :class:`pathlib.Path`
        File that holds the module and all that it instantiates.
    top : :class:`str`
        Name of the module. Its interface is taken from `INTERFACES` unless ``interface`` is given.
    seed : :class:`int`
        Seed of pauses and noise; equal seeds and calls give equal runs.
    waves : :class:`pathlib.Path`, optional
        ``*.vcd`` or ``*.fst`` to write from the first cycle; time is in half cycles. Slower, and built apart.
    step : callable, optional
        Called with the current build step as text.
    short_runs : :class:`bool`
        For some 100,000 cycles: built sooner, slower then.

    Raises `ToolMissing` where Verilator or a C++ compiler is missing, `ToolError` where one fails.
    """

    def __init__(
        self,
        verilog: Path,
        top: str,
        *,
        interface: Interface | None = None,
        seed: int = 1,
        waves: Path | None = None,
        short_runs: bool = False,
        step: Step = lambda text: None,
    ):
        kind = None if waves is None else wave_format(waves, "verilator")
        library = build_model(verilog, top, interface=interface, waves=kind, short_runs=short_runs, step=step)
        self.top = top
        self.interface = interface or INTERFACES[top]
        self._lib = _library(library)
        self._model: int | None = self._lib.model_new(seed)
        if waves is not None:
            self._check(self._lib.model_trace(self._model, str(waves).encode()))

    def close(self) -> None:
        """Frees the model and ends its waveform; it cannot be used any more."""
        if self._model is not None:
            self._lib.model_delete(self._model)
            self._model = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __del__(self) -> None:
        if getattr(self, "_model", None) is not None:
            self.close()

    @property
    def _open(self) -> int:
        if self._model is None:
            raise ValueError(f"{self.top} is closed")
        return self._model

    def _check(self, status: int) -> int:
        if status > _HUNG or status < 0:
            raise ProtocolError(f"{self.top}: {self._lib.model_error(self._open).decode()}")
        return status

    @property
    def cycle(self) -> int:
        """Cycles simulated so far, those in reset included."""
        return int(self._lib.model_cycle(self._open))

    def reset(self) -> None:
        """Asserts ``aresetn`` for 16 cycles and forgets every frame inside; registers are lost."""
        self._lib.model_reset(self._open)

    def set(self, **inputs: int) -> None:
        """Sets plain inputs (``cfg_e0=...``) from the next cycle on."""
        for name, value in inputs.items():
            if name not in self.interface.inputs:
                raise ValueError(f"input must be one of {', '.join(self.interface.inputs)}, not {name!r}")
            self._check(self._lib.model_input(self._open, name.encode(), value))

    def read(self, address: int) -> int:
        """Reads a 32-bit register over AXI4-Lite; raises `BusError` if the answer is not OKAY."""
        return self._bus(False, address, 0, 0)

    def write(self, address: int, value: int, strobes: int = 0xF) -> None:
        """Writes a 32-bit register over AXI4-Lite; raises `BusError` if the answer is not OKAY."""
        self._bus(True, address, value, strobes)

    def _bus(self, write: bool, address: int, value: int, strobes: int) -> int:
        if not self.interface.axi_lite:
            raise ValueError(f"{self.top} has no AXI4-Lite port")
        if address < 0 or address % 4:
            raise ValueError(f"register address must be a multiple of 4, not {address!r}")
        data, response = ctypes.c_uint32(), ctypes.c_uint32()
        references = ctypes.byref(data), ctypes.byref(response)
        self._check(
            self._lib.model_bus(self._open, write, address, value & 0xFFFF_FFFF, strobes, *references)
        )
        if response.value:
            name = {1: "EXOKAY", 2: "SLVERR", 3: "DECERR"}[response.value]
            raise BusError(f"{self.top}: {name} for the {'write to' if write else 'read of'} {address:#05x}")
        return data.value

    def run(
        self, *packets: Sequence[Packet], loopback: bool = False, **options: Unpack[RunOptions]
    ) -> list[list[Output]]:
        """Sends one list of packets into each pipe, back to back, and returns the output of each.

        With ``loopback`` the first pipe's output feeds the second pipe's input too, beat by beat through
        a short queue. The call ends 64 quiet cycles after the last frame. Raises `ProtocolError`; and
        `HangError` when the cycle limit is reached or nothing moves.
        """
        pipes = len(self.interface.pipes)
        if len(packets) != pipes:
            raise ValueError(f"{self.top} needs {pipes} lists of packets, not {len(packets)}")
        if loopback and (pipes != 2 or packets[1]):
            raise ValueError(f"loopback takes packets of the first pipe alone, and two pipes, not {pipes}")
        model = self._open
        idle, back_pressure = options.get("idle", NO_PAUSE), options.get("back_pressure", NO_PAUSE)
        progress, quiet = options.get("progress"), options.get("quiet", _QUIET)
        beats = 0
        for pipe, batch in enumerate(packets):
            beats += self._send(pipe, batch)
            self._pause(pipe, idle, back_pressure)
        expected = [len(batch) for batch in packets]
        if loopback:
            expected[1] = expected[0]
        cost = max(idle.cost, back_pressure.cost)
        limit = options.get("cycle_limit") or int(
            20_000 + 4 * cost * (beats + _MOST_OUTPUT_BEATS * sum(expected))
        )
        patience = int(5_000 + 100 * max(idle.longest, back_pressure.longest) * cost)
        end, told = self.cycle + limit, 0
        self._lib.model_loopback(model, loopback)
        status = _RUNNING
        while status == _RUNNING:
            cycles = min(_SLICE, end - self.cycle)
            if cycles <= 0:
                raise HangError(f"{self.top}: cycle limit of {limit} reached; {self._outstanding(expected)}")
            status = self._check(self._lib.model_run(model, cycles, patience, quiet))
            if progress is not None:
                out = sum(self._lib.model_frames(model, pipe) for pipe in range(pipes))
                progress(out - told)
                told = out
        if status == _HUNG:
            raise HangError(
                f"{self.top}: no beat moved for {patience} cycles until cycle {self.cycle}; "
                f"{self._outstanding(expected)}"
            )
        return [self._collect(pipe) for pipe in range(pipes)]

    def _send(self, pipe: int, batch: Sequence[Packet]) -> int:
        """Queues packets; returns their beats."""
        pairs = [(packet, 0) if isinstance(packet, bytes) else packet for packet in batch]
        lengths = np.array([len(data) for data, _ in pairs], np.uint32)
        if len(lengths) and not lengths.all():
            raise ValueError(f"packet must have at least one byte: number {int(np.argmin(lengths))!r}")
        users = np.array([int(user) for _, user in pairs], np.uint32)
        data = b"".join(data for data, _ in pairs)
        self._lib.model_send(self._open, pipe, data, lengths.ctypes.data, users.ctypes.data, len(pairs))
        return int((lengths // BURST_BYTES + 1).sum())

    def _pause(self, pipe: int, idle: Pause, back_pressure: Pause) -> None:
        for source, pause in ((1, idle), (0, back_pressure)):
            probability = int(pause.probability * 2**32)
            self._lib.model_pause(self._open, pipe, source, probability, pause.longest)

    def _outstanding(self, expected: Sequence[int]) -> str:
        return "; ".join(
            f"{self._lib.model_frames(self._open, pipe)} of {count} frames left {names.output}"
            for pipe, (count, names) in enumerate(zip(expected, self.interface.pipes, strict=True))
        )

    def _collect(self, pipe: int) -> list[Output]:
        records = np.empty(self._lib.model_frames(self._open, pipe), _RECORD)
        data = np.empty(self._lib.model_bytes(self._open, pipe), np.uint8)
        self._lib.model_collect(self._open, pipe, data.ctypes.data, records.ctypes.data)
        raw, at, outputs = data.tobytes(), 0, []
        for first_in, last_in, first_out, last_out, length, user in records.tolist():
            timing = Timing(first_in, last_in, first_out, last_out)
            outputs.append(Output(raw[at : at + length], bool(user), timing))
            at += length
        return outputs

    def process(self, packets: Sequence[Packet], **options: Unpack[RunOptions]) -> list[Output]:
        """`run` for a module with one pipe."""
        return self.run(packets, **options)[0]


class _Size(NamedTuple):
    """Engines per direction of a NIC, and lanes of each."""

    engines: int
    lanes: int


def _size(verilog: str) -> _Size:
    """A NIC's size: its engines are counted, and share the streams' width; ``ValueError`` if they cannot."""
    found = re.search(r"input \[(\d+):0\] s_axis_tx_tdata", verilog)
    engines = len(re.findall(r"^module \S+_compression_engine_engine\d+\(", verilog, re.MULTILINE)) or 1
    lanes, rest = divmod(int(found[1]) + 1 if found else 8 * BURST_BYTES, 8 * LANE_BYTES * engines)
    if rest or lanes < GROUP_LANES:
        raise ValueError(
            f"streams of a NIC must have room for {GROUP_LANES} lanes per engine, not {(engines, lanes)!r}"
        )
    return _Size(engines, lanes)


class VerilatedNic(VerilatedModule):
    """``inceptionn_nic``: the transmit engine, the receive engine, and their registers.

    Parameters and ``options`` are those of `VerilatedModule` and its `run`. ``engines`` per direction and the
    ``lanes`` of each are read from the Verilog, and give the streams' width. A packet's ``tuser`` is its bad
    flag. ``gated`` stops the clock of an engine while it is empty (`inceptionn.sim.gated`): same frames in
    the same cycles, in about two thirds of the time where one direction is busy. It has no waveform.
    """

    def __init__(
        self,
        verilog: Path,
        *,
        seed: int = 1,
        waves: Path | None = None,
        short_runs: bool = False,
        step: Step = lambda text: None,
        gated: bool = False,
    ):
        text = verilog.read_text()
        top = nic_module(text) or "inceptionn_nic"
        self.engines, self.lanes = _size(text)
        interface = replace(INTERFACES["inceptionn_nic"], data_bytes=self.engines * self.lanes * LANE_BYTES)
        if gated:
            if waves is not None:
                raise ValueError(f"a gated model writes no waveform: {str(waves)!r}")
            gated_text = gate(text, top)
            if gated_text is not None:
                verilog = keep_source(gated_text, "inceptionn_nic-gated")
                interface = replace(interface, clocks=CLOCKS)
        super().__init__(
            verilog, top, interface=interface,
            seed=seed, waves=waves, short_runs=short_runs, step=step,
        )  # fmt: skip

    @cached_property
    def codec(self) -> NicCodec:
        """The codec that the registers tell; ``ValueError`` if they are not those of an INCEPTIONN NIC."""
        return read_codec(self.read)

    @property
    def beat_bytes(self) -> int:
        """Bytes of a beat of the streams."""
        return self.interface.data_bytes

    def exchange(
        self, transmit: Sequence[Packet], receive: Sequence[Packet], **options: Unpack[RunOptions]
    ) -> tuple[list[Output], list[Output]]:
        """Both engines at a time: what leaves on the wire, and what reaches the host."""
        wire, host = self.run(transmit, receive, **options)
        return wire, host

    def transmit(self, frames: Sequence[Packet], **options: Unpack[RunOptions]) -> list[Output]:
        """Frames from the host through the transmit engine alone: what leaves on the wire."""
        return self.run(frames, [], **options)[0]

    def receive(self, frames: Sequence[Packet], **options: Unpack[RunOptions]) -> list[Output]:
        """Frames from the wire through the receive engine alone: what reaches the host."""
        return self.run([], frames, **options)[1]

    def loopback(
        self, frames: Sequence[Packet], **options: Unpack[RunOptions]
    ) -> tuple[list[Output], list[Output]]:
        """Frames from the host through both engines: what was on the wire, what reached the host."""
        wire, host = self.run(frames, [], loopback=True, **options)
        return wire, host

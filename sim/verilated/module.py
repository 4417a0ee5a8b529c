# SPDX-License-Identifier: BSD-2-Clause
"""A verilated module of AXI4-Stream pipes, registers and plain inputs."""

import ctypes
from collections.abc import Sequence
from pathlib import Path
from typing import Unpack

import numpy as np

from inceptionn.wire import BURST_BYTES, LANE_BYTES, MAX_LANES

from ..models.in_process import INTERFACES, Interface, LoadedModel, build_model
from ..models.verilator import Step
from ..models.waves import wave_format
from .packets import NO_PAUSE, BusError, HangError, Output, Packet, Pause, ProtocolError, RunOptions, Timing

_DONE, _RUNNING, _HUNG = 0, 1, 2
_SLICE = 20_000  # cycles between two looks at progress and limit
_QUIET = 64
_MOST_OUTPUT_BYTES = MAX_LANES * LANE_BYTES + 6 * BURST_BYTES  # of one frame that is short on the wire

_RECORD = np.dtype(
    [
        ("first_in", "<u8"), ("last_in", "<u8"), ("first_out", "<u8"), ("last_out", "<u8"),
        ("bytes", "<u4"), ("user", "<u4"),
    ]
)  # fmt: skip

_POINTER, _TEXT, _INT = ctypes.c_void_p, ctypes.c_char_p, ctypes.c_int
_U32, _U64 = ctypes.c_uint32, ctypes.c_uint64
_FUNCTIONS = {
    "new": (_POINTER, _U64),
    "reset": (_INT, _U32, _INT),
    "cycle": (_U64,),
    "error": (_TEXT,),
    "loopback": (None, _INT),
    "trace": (_INT, _TEXT),
    "input": (_INT, _TEXT, _U64),
    "pause": (None, _INT, _INT, _U32, _U32),
    "send": (None, _INT, _TEXT, _POINTER, _POINTER, _U64),
    "run": (_INT, _U64, _U64, _U64),
    "frames": (_U64, _INT),
    "bytes": (_U64, _INT),
    "collect": (None, _INT, _POINTER, _POINTER),
    "bus": (_INT, _INT, _U32, _U32, _U32, _POINTER, _POINTER),
}
"""Of ``harness.cpp``."""


class VerilatedModule(LoadedModel):
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
        self._beat_bytes = min(BURST_BYTES, self.interface.data_bytes)
        super().__init__(library, "model", _FUNCTIONS, top, seed)
        if waves is not None:
            self._check(self._call("trace", str(waves).encode()))

    def _check(self, status: int) -> int:
        if status > _HUNG or status < 0:
            raise ProtocolError(f"{self.top}: {self._call('error').decode()}")
        return status

    @property
    def cycle(self) -> int:
        """Cycles simulated so far, those in reset included."""
        return int(self._call("cycle"))

    def reset(self, low: int = 16, *, strict: bool = False) -> None:
        """Assert ``aresetn`` for ``low`` cycles and forget every frame inside; registers are lost.

        Nothing is offered or accepted meanwhile, and for as many cycles after it. ``strict``: not after it,
        and `ProtocolError` is raised if an input is ready or an output valid while ``aresetn`` is low.
        """
        self._check(self._call("reset", low, strict))

    def set(self, **inputs: int) -> None:
        """Set plain inputs (``cfg_e0=...``) from the next cycle on."""
        for name, value in inputs.items():
            if name not in self.interface.inputs:
                raise ValueError(f"input must be one of {', '.join(self.interface.inputs)}, not {name!r}")
            self._check(self._call("input", name.encode(), value))

    def read(self, address: int) -> int:
        """Read a 32-bit register over AXI4-Lite; raise `BusError` if the answer is not OKAY."""
        return self._bus(False, address, 0, 0)

    def write(self, address: int, value: int, strobes: int = 0xF) -> None:
        """Write a 32-bit register over AXI4-Lite; raise `BusError` if the answer is not OKAY."""
        self._bus(True, address, value, strobes)

    def _bus(self, write: bool, address: int, value: int, strobes: int) -> int:
        if not self.interface.axi_lite:
            raise ValueError(f"{self.top} has no AXI4-Lite port")
        if address < 0 or address % 4:
            raise ValueError(f"register address must be a multiple of 4, not {address!r}")
        data, response = ctypes.c_uint32(), ctypes.c_uint32()
        references = ctypes.byref(data), ctypes.byref(response)
        self._check(self._call("bus", write, address, value & 0xFFFF_FFFF, strobes, *references))
        if response.value:
            name = {1: "EXOKAY", 2: "SLVERR", 3: "DECERR"}[response.value]
            raise BusError(f"{self.top}: {name} for the {'write to' if write else 'read of'} {address:#05x}")
        return data.value

    def run(
        self, *packets: Sequence[Packet], loopback: bool = False, **options: Unpack[RunOptions]
    ) -> list[list[Output]]:
        """Send one list of packets into each pipe, back to back, and return the output of each.

        With ``loopback`` the first pipe's output feeds the second pipe's input too, beat by beat through
        a short queue. The call ends 64 quiet cycles after the last frame. Raises `ProtocolError`; and
        `HangError` when the cycle limit is reached or nothing moves.
        """
        pipes = len(self.interface.pipes)
        if len(packets) != pipes:
            raise ValueError(f"{self.top} needs {pipes} lists of packets, not {len(packets)}")
        if loopback and (pipes != 2 or packets[1]):
            raise ValueError(f"loopback takes packets of the first pipe alone, and two pipes, not {pipes}")
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
            20_000 + 4 * cost * (beats + _MOST_OUTPUT_BYTES // self._beat_bytes * sum(expected))
        )
        patience = int(5_000 + 100 * max(idle.longest, back_pressure.longest) * cost)
        end, told = self.cycle + limit, 0
        self._call("loopback", loopback)
        status = _RUNNING
        while status == _RUNNING:
            cycles = min(_SLICE, end - self.cycle)
            if cycles <= 0:
                raise HangError(f"{self.top}: cycle limit of {limit} reached; {self._outstanding(expected)}")
            status = self._check(self._call("run", cycles, patience, quiet))
            if progress is not None:
                out = sum(self._call("frames", pipe) for pipe in range(pipes))
                progress(out - told)
                told = out
        if status == _HUNG:
            raise HangError(
                f"{self.top}: no beat moved for {patience} cycles until cycle {self.cycle}; "
                f"{self._outstanding(expected)}"
            )
        return [self._collect(pipe) for pipe in range(pipes)]

    def _send(self, pipe: int, batch: Sequence[Packet]) -> int:
        """Queue packets; return their beats."""
        pairs = [(packet, 0) if isinstance(packet, bytes) else packet for packet in batch]
        lengths = np.array([len(data) for data, _ in pairs], np.uint32)
        if len(lengths) and not lengths.all():
            raise ValueError(f"packet must have at least one byte: number {int(np.argmin(lengths))!r}")
        users = np.array([int(user) for _, user in pairs], np.uint32)
        data = b"".join(data for data, _ in pairs)
        self._call("send", pipe, data, lengths.ctypes.data, users.ctypes.data, len(pairs))
        return int((lengths // self._beat_bytes + 1).sum())

    def _pause(self, pipe: int, idle: Pause, back_pressure: Pause) -> None:
        for source, pause in ((1, idle), (0, back_pressure)):
            probability = int(pause.probability * 2**32)
            self._call("pause", pipe, source, probability, pause.longest)

    def _outstanding(self, expected: Sequence[int]) -> str:
        return "; ".join(
            f"{self._call('frames', pipe)} of {count} frames left {names.output}"
            for pipe, (count, names) in enumerate(zip(expected, self.interface.pipes, strict=True))
        )

    def _collect(self, pipe: int) -> list[Output]:
        records = np.empty(self._call("frames", pipe), _RECORD)
        data = np.empty(self._call("bytes", pipe), np.uint8)
        self._call("collect", pipe, data.ctypes.data, records.ctypes.data)
        raw, at, outputs = data.tobytes(), 0, []
        for first_in, last_in, first_out, last_out, length, user in records.tolist():
            timing = Timing(first_in, last_in, first_out, last_out)
            outputs.append(Output(raw[at : at + length], bool(user), timing))
            at += length
        return outputs

    def process(self, packets: Sequence[Packet], **options: Unpack[RunOptions]) -> list[Output]:
        """Do `run` for a module with one pipe."""
        return self.run(packets, **options)[0]

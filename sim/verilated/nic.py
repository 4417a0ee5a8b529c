# SPDX-License-Identifier: BSD-2-Clause
"""The verilated NIC: both engines and their registers."""

import re
from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import NamedTuple, Unpack

from inceptionn.wire import BURST_BYTES, GROUP_LANES, LANE_BYTES

from ..models.cache import keep_source
from ..models.in_process import INTERFACES
from ..models.verilator import Step
from ..nic_codec import NicCodec, read_codec
from ..nic_verilog import nic_module
from .gated import CLOCKS, gate
from .module import VerilatedModule
from .packets import Output, Packet, RunOptions

DRAIN = 128
"""Cycles after which the counters include every frame, and the engines use every setting."""


class _Size(NamedTuple):
    """Engines per direction of a NIC, and lanes of each."""

    engines: int
    lanes: int


def _size(verilog: str) -> _Size:
    """Return a NIC's size: its engines are counted, and share the streams' width.

    Raises ``ValueError`` if they cannot.
    """
    found = re.search(r"input \[(\d+):0\] s_axis_tx_tdata", verilog)
    engines = len(re.findall(r"^module \S+_compression_engine_engine\d+\(", verilog, re.MULTILINE)) or 1
    lanes, rest = divmod(int(found[1]) + 1 if found else 8 * BURST_BYTES, 8 * LANE_BYTES * engines)
    if rest or (lanes < GROUP_LANES and (engines, lanes) != (1, 1)):
        raise ValueError(
            f"streams of a NIC must have room for {GROUP_LANES} lanes per engine, not {(engines, lanes)!r}"
        )
    return _Size(engines, lanes)


class VerilatedNic(VerilatedModule):
    """``inceptionn_nic``: the transmit engine, the receive engine, and their registers.

    Parameters and ``options`` are those of `VerilatedModule` and its `run`. ``engines`` per direction and the
    ``lanes`` of each are read from the Verilog, and give the streams' width. A packet's ``tuser`` is its bad
    flag. ``gated`` stops the clock of an engine while it is empty (`inceptionn.sim.verilated.gated`): same
    frames in the same cycles, in about two thirds of the time where one direction is busy, and without
    waveform.
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
        """The codec that the registers tell.

        Raises ``ValueError`` if they are not those of an INCEPTIONN NIC.
        """
        return read_codec(self.read)

    @property
    def beat_bytes(self) -> int:
        """Bytes of a beat of the streams."""
        return self.interface.data_bytes

    def drain(self) -> None:
        """Run until the counters include every frame, and the engines use every setting."""
        end = self.cycle + DRAIN
        while self.cycle < end:
            self.read(self.codec.registers["ID"].offset)

    def exchange(
        self, transmit: Sequence[Packet], receive: Sequence[Packet], **options: Unpack[RunOptions]
    ) -> tuple[list[Output], list[Output]]:
        """Run both engines at a time; return what leaves on the wire, and what reaches the host."""
        wire, host = self.run(transmit, receive, **options)
        return wire, host

    def transmit(self, frames: Sequence[Packet], **options: Unpack[RunOptions]) -> list[Output]:
        """Send frames from the host through the transmit engine alone; return what leaves on the wire."""
        return self.run(frames, [], **options)[0]

    def receive(self, frames: Sequence[Packet], **options: Unpack[RunOptions]) -> list[Output]:
        """Send frames from the wire through the receive engine alone; return what reaches the host."""
        return self.run([], frames, **options)[1]

    def loopback(
        self, frames: Sequence[Packet], **options: Unpack[RunOptions]
    ) -> tuple[list[Output], list[Output]]:
        """Send frames from the host through both engines.

        Returns what was on the wire, and what reached the host.
        """
        wire, host = self.run(frames, [], loopback=True, **options)
        return wire, host

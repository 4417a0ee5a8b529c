# SPDX-License-Identifier: BSD-2-Clause
"""The NIC between a host and the wire: the verilated RTL, the golden model, or none.

All are subclasses of `Nic`. They take and return batches of frames, and have the registers of
``docs/registers.md``. A lock separates register accesses from frames, so any thread may access registers.
"""

import logging
import threading
import time
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from inceptionn.hdl.control.register_map import Register
from inceptionn.hdl.control.registers import VERDICTS, parameters_word
from inceptionn.system.text import nearest
from inceptionn.wire import BURST_BYTES, DEFAULT_MAX_PAYLOAD

from ..golden import EngineConfig, FlowTable, Result, receive, transmit
from ..nic_codec import NIC_CODECS, NIC_VARIANTS, NicCodec
from ..verilated import VerilatedNic
from .network.switch import WireFrame

_log = logging.getLogger(__name__)
KINDS = ("rtl", "inline", "golden", "none")


class Nic(ABC):
    """A NIC. ``kind`` is one of `KINDS`, and ``codec`` that of its engines.

    Attributes: ``seconds``, processor time spent in the model; ``cycles``, simulated; ``tx_beats`` and
    ``rx_beats``, 32-byte beats on the host side of the engines.
    """

    kind = "none"
    registers = False
    """True if the NIC has registers."""
    codec: NicCodec = NIC_CODECS["paper"]

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.seconds = 0.0
        self.cycles = 0
        self.tx_beats = self.rx_beats = 0

    def exchange(self, tx: Sequence[bytes], rx: Sequence[WireFrame]) -> tuple[list[bytes], list[WireFrame]]:
        """Pass frames from the host and from the wire through both engines concurrently.

        Returns the frames for the wire, and those for the host with their bad marks.
        """
        with self.lock:
            begin = time.thread_time()
            wire, host = self._exchange(tx, rx)
            self.seconds += time.thread_time() - begin
        self.tx_beats += sum(-(-len(frame) // BURST_BYTES) for frame in tx)
        self.rx_beats += sum(-(-len(frame) // BURST_BYTES) for frame, _ in host)
        return wire, host

    @abstractmethod
    def _exchange(
        self, tx: Sequence[bytes], rx: Sequence[WireFrame]
    ) -> tuple[list[bytes], list[WireFrame]]: ...

    def read(self, name: str) -> int:
        """Read a register or a 64-bit counter of its codec over AXI4-Lite.

        Raises ``KeyError`` for an unknown name.
        """
        return self.read_all([name])[name]

    def read_all(self, names: Sequence[str] | None = None) -> dict[str, int]:
        """Read registers by name, by default every counter. Empty if the NIC has no registers."""
        if not self.registers:
            return {}
        known = self.codec.registers
        wanted = [r for r in known if r.width == 64] if names is None else [known[n] for n in names]
        with self.lock:
            self._drain()
            return {register.name: self._register(register) for register in wanted}

    def write(self, name: str, value: int) -> None:
        """Write a register over AXI4-Lite."""
        register = self.codec.registers[name]
        if register.access == "ro" or not self.registers:
            raise ValueError(f"register {name} cannot be written at a NIC of kind {self.kind!r}")
        self.write_word(register.offset, value)

    def read_word(self, address: int) -> int:
        """Read the 32 bits at a byte address."""
        with self.lock:
            self._drain()
            return self._read_word(address)

    def write_word(self, address: int, value: int) -> None:
        """Write the 32 bits at a byte address."""
        _log.info("%s NIC: write %#x to %#05x", self.kind, value, address)
        with self.lock:
            self._write_word(address, value)
            self._drain()

    def _register(self, register: Register) -> int:
        low = self._read_word(register.offset)
        return low if register.width == 32 else self._read_word(register.offset + 4) << 32 | low

    def _drain(self) -> None:
        return

    def _read_word(self, address: int) -> int:
        raise ValueError(f"a NIC of kind {self.kind!r} has no register at {address:#x}")

    def _write_word(self, address: int, value: int) -> None:
        raise ValueError(f"a NIC of kind {self.kind!r} has no register at {address:#x}")

    def close(self) -> None:
        """Free the model."""
        return


class PlainNic(Nic):
    """No engines: frames pass unchanged in both directions."""

    def _exchange(self, tx: Sequence[bytes], rx: Sequence[WireFrame]) -> tuple[list[bytes], list[WireFrame]]:
        return list(tx), list(rx)


class RtlNic(Nic):
    """``inceptionn_nic``, compiled to C++ by Verilator. Each host has its own model."""

    kind = "rtl"
    registers = True

    def __init__(self, verilog: Path, seed: int, step: Callable[[str], None] = lambda text: None) -> None:
        super().__init__()
        self._model = VerilatedNic(verilog, seed=seed, step=step, gated=True)
        self.codec = self._model.codec
        self._begin = self._model.cycle

    def _exchange(self, tx: Sequence[bytes], rx: Sequence[WireFrame]) -> tuple[list[bytes], list[WireFrame]]:
        wire, host = self._model.exchange(tx, rx, quiet=0)
        self.cycles = self._model.cycle - self._begin
        return [output.data for output in wire], [(output.data, output.bad) for output in host]

    def _drain(self) -> None:
        self._model.drain()

    def _read_word(self, address: int) -> int:
        return self._model.read(address)

    def _write_word(self, address: int, value: int) -> None:
        self._model.write(address, value)

    def close(self) -> None:
        with self.lock:
            self._model.close()


class GoldenNic(Nic):
    """The golden model in Python, with the same registers; ``codec`` is one of `NIC_VARIANTS`."""

    kind = "golden"
    registers = True

    def __init__(self, codec: str = "paper") -> None:
        super().__init__()
        self.codec = NIC_VARIANTS[codec]
        self._flows = FlowTable()
        self._values = {r.offset: r.reset for r in self.codec.registers if r.fields}
        self._counts: Counter[int] = Counter()
        self._configure()

    def _configure(self) -> None:
        control, tos, payload = (self._field(name) for name in ("CONTROL", "TOS", "PAYLOAD"))
        lane = self._field("PARAMETERS")
        numbers = {part.name.lower(): lane(part.name) for part in self.codec.registers["PARAMETERS"].fields}
        settings: dict[str, Any] = {
            "tos": tos("VALUE"),
            "tos_mask": tos("MASK"),
            "bf16_tos": tos("BF16") if self.codec.bf16 else None,
            "parameters": self.codec.spec.type(**numbers),
            "min_payload": payload("MIN"),
            "max_payload": min(payload("MAX"), DEFAULT_MAX_PAYLOAD),
        }
        learn = bool(control("LEARN_PHASES"))
        self._tx = EngineConfig(enable=bool(control("TX_ENABLE")), learn_phases=learn, **settings)
        self._rx = EngineConfig(enable=bool(control("RX_ENABLE")), **settings)

    def _field(self, name: str) -> Callable[[str], int]:
        register = self.codec.registers[name]
        return lambda field: register[field].get(self._values[register.offset])

    def _exchange(self, tx: Sequence[bytes], rx: Sequence[WireFrame]) -> tuple[list[bytes], list[WireFrame]]:
        wire, host = [], []
        for frame in tx:
            out = transmit(frame, self._tx, self._flows)
            self._count("TX", frame, out)
            if out.counts:
                for name, count in zip(self.codec.counters, out.counts, strict=True):
                    self._add(name, count)
                if not self.codec.spec.counts_lanes:
                    self._add("TX_LANES_BF16" if out.bf16 else "TX_LANES", out.lanes)
            wire.append(out.frame)
        for frame, bad in rx:
            back = receive(frame, self._rx, bad)
            self._count("RX", frame, back)
            host.append((back.frame, back.bad))
        return wire, host

    def _count(self, direction: str, frame: bytes, result: Result) -> None:
        assert result.verdict in VERDICTS["tx" if direction == "TX" else "rx"]
        amounts = {
            result.verdict.name: 1, "FRAMES_IN": 1, "FRAMES_OUT": 1,
            "BYTES_IN": len(frame), "BYTES_OUT": len(result.frame),
        }  # fmt: skip
        if result.bf16 and result.counts:
            amounts[f"{result.verdict.name}_BF16"] = 1
        for name, amount in amounts.items():
            self._add(f"{direction}_{name}", amount)

    def _add(self, name: str, amount: int) -> None:
        self._counts[self.codec.registers[name].offset] += amount

    def _read_word(self, address: int) -> int:
        if address in self._values:
            return self._values[address]
        return self._counts[address & ~7] >> (32 if address & 4 else 0) & 0xFFFF_FFFF

    def _write_word(self, address: int, value: int) -> None:
        register = next(r for r in self.codec.registers if r.offset == address)
        if register.name == "COMMAND":
            self._counts.clear()
        else:
            self._values[address] = value & register.mask
            self._configure()


def set_bound(nic: Nic, k: int, mode: str | None = None) -> None:
    """Write the parameters of a bound 2^-k. ``mode`` applies to NICs whose codec has modes.

    Raises ``ValueError`` for an unknown k or mode.
    """
    settings = nic.codec.spec.parameters(k, mode if nic.codec.spec.modes else None)
    if nic.registers:
        nic.write("PARAMETERS", parameters_word(settings))


def _one_or_each(text: str, hosts: int, known: Sequence[str], what: str) -> list[str]:
    """Split a list of words with commas, one for all hosts or one per host.

    ``what`` is a noun for messages.
    """
    words = [word.strip() for word in text.split(",")]
    for word in words:
        if word not in known:
            raise ValueError(f"{what} must be one of {', '.join(known)}, not {word!r}{nearest(word, known)}")
    if len(words) == 1:
        words *= hosts
    if len(words) != hosts:
        raise ValueError(f"{what} must be one word, or one for each of the {hosts} hosts, not {text!r}")
    return words


def parse_kinds(text: str, hosts: int) -> list[str]:
    """Return the kind of each host's NIC, from "rtl" (for all) or "rtl,none,golden" (one per host)."""
    return _one_or_each(text, hosts, KINDS, "NIC")


def parse_codecs(text: str, hosts: int) -> list[str]:
    """Return codec and lanes of each host's NIC, of `NIC_VARIANTS`, from "planes" or "paper,planes-bf16"."""
    return _one_or_each(text, hosts, list(NIC_VARIANTS), "codec")

# SPDX-License-Identifier: BSD-2-Clause
"""The registers of a NIC in a replay: its codec, its settings, and a check of its counters."""

from dataclasses import replace

from inceptionn.hdl.control.registers import VERDICTS, Direction, parameters_word

from ..golden import EngineConfig
from ..nic_codec import NIC_CODECS, NicCodec, codec_of, read_codec
from ..verilated import VerilatedNic
from .totals import ReplayError, Totals


def read_counter(nic: VerilatedNic, name: str, codec: NicCodec = NIC_CODECS["paper"]) -> int:
    """Read a 64-bit counter, low word first; ``codec`` tells which counters there are."""
    register = codec.registers[name]
    low = nic.read(register.offset)
    return nic.read(register.offset + 4) << 32 | low


def reconcile(nic: VerilatedNic, totals: Totals) -> int:
    """Check the counters of a NIC that has seen only this replay; return their number.

    It checks all counters but ``RX_BYTES_OUT``. Raises `ReplayError` naming the first one that disagrees.
    """
    expected: dict[str, int] = {}
    directions: tuple[tuple[Direction, dict[str, int], int, int | None], ...] = (
        ("tx", totals.transmit, totals.host_bytes, totals.wire_bytes),
        ("rx", totals.receive, totals.wire_bytes, None),
    )
    for direction, verdicts, before, after in directions:
        prefix = direction.upper()
        expected |= {f"{prefix}_{v.name}": verdicts.get(v.name, 0) for v in VERDICTS[direction]}
        expected |= {f"{prefix}_FRAMES_IN": totals.frames, f"{prefix}_FRAMES_OUT": totals.frames}
        expected[f"{prefix}_BYTES_IN"] = before
        if after is not None:
            expected[f"{prefix}_BYTES_OUT"] = after
    codec = replace(NIC_CODECS[totals.codec], bf16=totals.bf16)
    expected |= totals.classes
    if not codec.spec.counts_lanes:
        expected["TX_LANES"] = totals.lanes
    if totals.bf16:
        expected |= {"TX_COMPRESSED_BF16": totals.bf16_frames, "TX_LANES_BF16": totals.bf16_lanes}
        expected["RX_RESTORED_BF16"] = totals.bf16_frames
    nic.drain()
    for name, count in expected.items():
        found = read_counter(nic, name, codec)
        if found != count:
            raise ReplayError(f"register {name} reads {found}, but {count} were counted outside")
    return len(expected)


def identify(nic: VerilatedNic) -> NicCodec:
    """Read the codec from the NIC's registers. Raise `ReplayError` if this is no INCEPTIONN NIC."""
    try:
        return read_codec(nic.read)
    except ValueError as error:
        raise ReplayError(str(error)) from error


def configure(nic: VerilatedNic, config: EngineConfig) -> None:
    """Write the codec's settings, and `learn_phases`. Raise `ReplayError` if the NIC has another codec."""
    found, wanted = identify(nic), codec_of(config.parameters)
    if found.name != wanted.name:
        raise ReplayError(f"the NIC has the codec {found.name}, not {wanted.name}")
    nic.write(found.registers["PARAMETERS"].offset, parameters_word(config.parameters))
    if config.learn_phases:
        control = found.registers["CONTROL"]
        nic.write(control.offset, control.reset | control["LEARN_PHASES"].put(1))

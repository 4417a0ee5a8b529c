# SPDX-License-Identifier: BSD-2-Clause
"""Every component of the catalogue on its cocotb bench; `make test` runs its usual size.

It leaves out the engines, and those of their parts that are proved; the vectors on the NIC run both. Of other
variants `make test-all` runs those of quick parts, the engines of 16 lanes with the paper's codec, which are
made of the other parts, and the two parts whose gaps and cycles depend on the width most; `make
test-exhaustive` runs all.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from amaranth.hdl import Module, Signal

from inceptionn.hdl.catalogue import CATALOGUE, Entry
from inceptionn.hdl.parts.memory import BlockRam
from inceptionn.sim.runner import run_bench

FOLDER = Path(__file__).parent
ELSEWHERE = {"nic"}  # test_nic.py runs it on two simulators, since it takes minutes
ENGINES = {
    *("serial_compression_engine", "serial_decompression_engine"),
    *("bf16_serial_compression_engine", "bf16_serial_decompression_engine"),
    *("compression_engine", "decompression_engine"),
    *("bf16_compression_engine", "bf16_decompression_engine"),
}
WIDE = {"compression_engine", "decompression_engine", "receive_assembler", "front_end"}
SLOW = {
    *ENGINES,
    *("standalone_decompressor", "planes_standalone_decompressor"),
    *("compressor", "planes_compressor", "standalone_compressor", "planes_standalone_compressor"),
    *("decompressor", "planes_decompressor"),
    *("flow_sharing", "packet_dispatch", "packet_collect"),
}
"""Up to a minute each; without them, the vectors on the NIC still run."""
PROVED = {
    *("compression_block", "compression_unit", "decompression_unit", "shifter_tree", "alignment_unit"),
    *("plane_unit", "dequantisation_unit", "checksum", "event_counters", "flow_table"),
    *("elastic_queue", "direct_queue", "forward_queue", "staged_queue"),
    *("elastic_register", "elastic_register_in_ram"),
}
"""Parts of the engines that `tests/prove` proves by induction."""
WITH_RAM = {
    **dict.fromkeys(
        (
            *("frame_queue", "flow_table", "block_store", "raw_ring", "packet_dispatch", "packet_collect"),
            *("compression_engine", "serial_compression_engine", "bf16_serial_compression_engine"),
            *("serial_decompression_engine", "bf16_serial_decompression_engine"),
        ),
        0,
    ),
    "counters": 5,
}
"""What has block RAM itself, or in parts that have no bench; and the variant that has it."""
FEW = {"counters": (0, 4, 5), "registers": (0,)}
"""Variants of the counters that `make test-all` runs: both directions, with few and most, and one lane."""


def marks_of(entry: Entry, variant: int) -> tuple[pytest.MarkDecorator, ...]:
    """When this variant runs."""
    rare = entry.variants[variant].get("lanes") == 16 or entry.name in SLOW
    rare = rare and entry.name not in WIDE or variant not in FEW.get(entry.name, (variant,))
    if variant and rare:
        return pytest.mark.slow, pytest.mark.exhaustive
    return (pytest.mark.slow,) if variant or entry.name in SLOW | PROVED else ()


def variants() -> Iterator[object]:
    for entry in CATALOGUE.values():
        for variant, arguments in enumerate(entry.variants):
            if entry.bench and entry.name not in ELSEWHERE:
                name = "-".join([entry.name, *map(str, arguments.values())])
                yield pytest.param(entry, variant, id=name, marks=marks_of(entry, variant))


@pytest.mark.parametrize(("entry", "variant"), list(variants()))
def test_bench(entry: Entry, variant: int) -> None:
    (bench,) = FOLDER.rglob(f"bench_{entry.bench}.py")
    run_bench(entry.make(variant), entry.name, bench, parameters=entry.parameters(variant))


@pytest.mark.slow
@pytest.mark.parametrize(("name", "variant"), WITH_RAM.items())
def test_no_word_counts_that_is_read_while_it_is_written(
    name: str, variant: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A block RAM's word is then undefined; here it is inverted."""
    elaborate = BlockRam.elaborate

    def inverting(ram: BlockRam, platform: Any) -> Module:
        m = elaborate(ram, platform)
        struck = Signal()
        m.d.sync += struck.eq(ram.write & (ram.write_address == ram.read_address))
        with m.If(struck):
            m.d.sync += ram.probes["output"].eq(~ram.probes["found"])
        return m

    monkeypatch.setattr(BlockRam, "elaborate", inverting)
    test_bench(CATALOGUE[name], variant)


def test_every_bench_runs() -> None:
    assert {path.stem.removeprefix("bench_") for path in FOLDER.rglob("bench_*.py")} == {
        entry.bench for entry in CATALOGUE.values() if entry.bench
    }

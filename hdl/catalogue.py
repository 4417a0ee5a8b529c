# SPDX-License-Identifier: BSD-2-Clause
"""Every component of the NIC with the sizes that are checked: one table for tests, commands, reports."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from inspect import signature
from typing import Any

from amaranth.lib import data, wiring

from .codec.shape import EngineShape
from .parts.width import Width

Arguments = Mapping[str, Any]

_BOTH_WIDTHS: tuple[Arguments, ...] = ({"lanes": 8}, {"lanes": 16})

_PLANES: Arguments = {"codec": "planes"}
_BF16: Arguments = {"codec": "planes", "bf16": True}

_FULL = 2**64 - 60
"""A counter that a bench sees run over."""

_QUEUE: tuple[Arguments, ...] = ({"shape": 33, "depth": 16, "slack": 5},)

_REGISTER: Arguments = {"depth": 2, "slack": 0, "registers": 0, "latency": 1}

_WIDE_AND_NARROW = data.StructLayout({"narrow": 13, "wide": 200})


def _both_widths(**arguments: Any) -> tuple[Arguments, ...]:
    return tuple({**arguments, **width} for width in _BOTH_WIDTHS)


_BOTH_TYPES = _BOTH_WIDTHS + _both_widths(**_BF16)


@dataclass(frozen=True)
class Entry:
    """A component by name.

    ``path`` is its module below ``inceptionn.hdl``, with ``:Class`` unless the class has the module's name
    (``header_sum``: ``HeaderSum``). ``variants`` are the constructor arguments of the sizes that are checked,
    the usual one first, with ``lanes`` and ``codec`` in place of a width or a shape; ``built`` are those of
    the part within the NIC, if no variant has them. ``bench`` names the file ``bench_*.py`` below
    ``tests/hdl``, which reads a variant's arguments and ``facts`` as its parameters. It is empty for a part
    that is checked only within another: ``within``, of the catalogue, if its bench shows this part.
    """

    name: str
    path: str
    variants: tuple[Arguments, ...] = ({},)
    bench: str | None = None
    facts: Arguments = field(default_factory=dict)
    built: Arguments | None = None
    within: str = ""

    def __post_init__(self) -> None:
        if self.bench is None:
            object.__setattr__(self, "bench", "" if self.within else self.name)

    @property
    def factory(self) -> Callable[..., wiring.Component]:
        """The component's class, imported on first use."""
        module, _, attribute = self.path.partition(":")
        named = attribute or module.rpartition(".")[2].title().replace("_", "")
        found: Callable[..., wiring.Component] = getattr(import_module(f"inceptionn.hdl.{module}"), named)
        return found

    def parameters(self, variant: int = 0) -> Arguments:
        """Return the parameters of the bench for this variant; ``part`` is the component's name."""
        return {"part": self.name, **self.variants[variant], **self.facts}

    def make(self, variant: int = 0) -> wiring.Component:
        """Make a component of this variant."""
        return self._of_sizes(self.variants[variant])

    def make_built(self) -> wiring.Component:
        """Make a component as the NIC has it, for figures of area and clock."""
        return self._of_sizes(self.variants[0] if self.built is None else self.built)

    def _of_sizes(self, sizes: Arguments) -> wiring.Component:
        """Make a component; lanes, codec and bf16 become the record that it takes."""
        taken = signature(self.factory).parameters
        fields = sizes.keys() & {"lanes", "codec", "bf16"} - taken.keys()
        chosen = {name: sizes[name] for name in fields}
        arguments = {name: value for name, value in sizes.items() if name not in chosen}
        if chosen:
            (name,) = (name for name, parameter in taken.items() if isinstance(parameter.default, Width))
            arguments[name] = EngineShape.of(**chosen)
        return self.factory(**arguments)


CATALOGUE = {
    entry.name: entry
    for entry in (
        # The paper's Fig. 9: compression.
        Entry("compression_block", "codec.paper.compression_block", bench="units"),
        Entry("compression_unit", "codec.paper.compression_unit", _BOTH_WIDTHS, bench="units"),
        Entry("shifter_tree", "codec.paper.shifter_tree", _BOTH_WIDTHS, bench="units"),
        Entry("alignment_unit", "codec.alignment_unit", _BOTH_WIDTHS, "leaves"),
        Entry("tag_table", "codec.paper.tag_table", _BOTH_WIDTHS, within="compressor"),
        Entry("block_store", "codec.block_store", _BOTH_WIDTHS),
        Entry("block_statistics", "codec.paper.block_statistics", _BOTH_WIDTHS, within="compressor"),
        Entry("compressor", "codec.paper.compressor", _both_widths(statistics=True)),
        Entry("standalone_compressor", "codec.standalone_compressor", _BOTH_WIDTHS, "standalone"),
        # The paper's Fig. 10: decompression.
        Entry("block_splitter", "codec.block_splitter", _both_widths(word_lanes=8), within="decompressor"),
        Entry(
            "group_issue",
            "codec.group_issue",
            ({"marks": ("tags", 16), "lanes": 8}, {"marks": ("tags", 32), "lanes": 16}),
            within="decompressor",
        ),
        Entry("burst_buffer", "codec.paper.burst_buffer", _BOTH_WIDTHS, within="decompressor"),
        Entry("tag_decoder", "codec.paper.tag_decoder", _BOTH_WIDTHS, within="decompressor"),
        Entry("decompression_block", "codec.paper.decompression_block", within="decompressor"),
        Entry("decompression_unit", "codec.paper.decompression_unit", _BOTH_WIDTHS, bench="units"),
        Entry("decompressor", "codec.paper.decompressor", _BOTH_WIDTHS),
        Entry("standalone_decompressor", "codec.standalone_decompressor", _BOTH_WIDTHS, "standalone"),
        # The planes codec.
        Entry("plane_unit", "codec.planes.plane_unit", _BOTH_TYPES, "units", _PLANES),
        Entry("code_table", "codec.planes.code_table", _BOTH_WIDTHS, within="planes_compressor"),
        Entry("planes_statistics", "codec.planes.block_statistics", _BOTH_TYPES, within="planes_compressor"),
        Entry(
            "planes_compressor",
            "codec.planes.compressor",
            _both_widths(statistics=True) + _both_widths(statistics=True, **_BF16),
            bench="compressor",
            facts=_PLANES,
        ),
        Entry(
            "planes_standalone_compressor",
            "codec.standalone_compressor",
            _both_widths(**_PLANES),
            bench="standalone",
        ),
        Entry("code_decoder", "codec.planes.code_decoder", _BOTH_TYPES, within="planes_decompressor"),
        Entry("plane_buffer", "codec.planes.plane_buffer", _BOTH_TYPES, within="planes_decompressor"),
        Entry(
            "lane_dequantiser",
            "codec.planes.lane_dequantiser",
            ({}, {"bf16": True}),
            within="planes_decompressor",
        ),
        Entry("dequantisation_unit", "codec.planes.dequantisation_unit", _BOTH_TYPES, "units"),
        Entry(
            "planes_decompressor",
            "codec.planes.decompressor",
            _BOTH_TYPES,
            bench="decompressor",
            facts=_PLANES,
        ),
        Entry(
            "planes_standalone_decompressor",
            "codec.standalone_decompressor",
            _both_widths(**_PLANES) + _both_widths(**_BF16),
            bench="standalone",
        ),
        # From a frame to its payload.
        Entry(
            "frame_input",
            "frame.frame_input",
            tuple(
                {"pace": pace, "data_bytes": data_bytes}
                for pace, data_bytes in ((4, 32), (1, 32), (2, 32), (7, 32), (2, 64), (1, 128))
            ),
        ),
        Entry(
            "header_parser",
            "frame.header_parser",
            _both_widths(transmit=True) + _both_widths(transmit=False),
            within="front_end",
        ),
        Entry("header_walk", "frame.header_walk", _BOTH_WIDTHS, within="transmit_assembler"),
        Entry("tos_matcher", "frame.tos_matcher"),
        Entry("payload_realigner", "frame.payload_realigner", _BOTH_WIDTHS, within="front_end"),
        Entry("front_end", "frame.front_end", _both_widths(transmit=True) + _both_widths(transmit=False)),
        Entry("header_sum", "frame.header_sum", _BOTH_WIDTHS),
        Entry("flow_table", "frame.flow_table"),
        Entry("checksum", "parts.checksum:OnesComplementSum", _BOTH_WIDTHS, "leaves"),
        # The engines.
        Entry("raw_ring", "engine.raw_ring", _both_widths(depth=64), "leaves", built={}),
        Entry("frame_recorder", "engine.frame_recorder", _BOTH_WIDTHS),
        Entry("transmit_judging", "engine.transmit_judging", _BOTH_WIDTHS, within="transmit_decision"),
        Entry("transmit_resolving", "engine.transmit_resolving", _BOTH_WIDTHS, within="transmit_decision"),
        Entry("transmit_decision", "engine.transmit_decision", _BOTH_WIDTHS),
        Entry(
            "transmit_assembler",
            "engine.transmit_assembler",
            _both_widths(ring_depth=64),  # small, so that a bench fills it
            built={},
        ),
        Entry("compression_engine", "engine.compression_engine", _BOTH_WIDTHS, "engine"),
        Entry("planes_compression_engine", "engine.compression_engine", _both_widths(**_PLANES), bench=""),
        Entry("bf16_compression_engine", "engine.compression_engine", _both_widths(**_BF16), "engine"),
        Entry("receive_decision", "engine.receive_decision", _BOTH_WIDTHS),
        Entry("receive_layout", "engine.receive_layout", _BOTH_WIDTHS, within="receive_assembler"),
        Entry("payload_merge", "engine.payload_merge", _BOTH_WIDTHS, within="receive_assembler"),
        Entry("receive_assembler", "engine.receive_assembler", _BOTH_WIDTHS),
        Entry("decompression_engine", "engine.decompression_engine", _BOTH_WIDTHS, "engine"),
        Entry(
            "planes_decompression_engine", "engine.decompression_engine", _both_widths(**_PLANES), bench=""
        ),
        Entry("bf16_decompression_engine", "engine.decompression_engine", _both_widths(**_BF16), "engine"),
        # Several engines side by side.
        Entry("flow_sharing", "parallel.flow_sharing", ({}, {"bf16": True})),
        Entry("dispatch_queue", "parallel.dispatch_queue", ({"engines": 2},), within="packet_dispatch"),
        Entry(
            "packet_dispatch",
            "parallel.packet_dispatch",
            ({"engines": 2, "flows": True}, {"engines": 2, "flows": True, **_BF16}),
        ),
        Entry("collect_queue", "parallel.collect_queue", ({"engines": 2},), within="packet_collect"),
        Entry("packet_collect", "parallel.packet_collect", ({"engines": 2},)),
        Entry("report_merge", "parallel.report_merge", ({"engines": 2},), bench=""),
        Entry(
            "parallel_engines",
            "parallel.parallel_engines",
            ({"engines": 2, "transmit": True}, {"engines": 2, "transmit": False}),
            bench="",
        ),
        # Registers and counters.
        Entry(
            "counters",
            "control.counters:FrameCounters",
            (
                *({"direction": "tx", "start": _FULL}, {"direction": "rx"}, {"direction": "tx", **_PLANES}),
                *({"direction": "tx", **_BF16}, {"direction": "rx", **_BF16}),
                {"direction": "tx", "lanes": 1, "start": _FULL, **_BF16},
            ),
            built={"direction": "tx"},
        ),
        Entry("registers", "control.management", ({}, _PLANES, _BF16)),
        # At the edge of a board's design: frames, widths.
        Entry("frame_guard", "attach.frame_guard"),
        Entry(
            "frame_queue",
            "attach.frame_queue",
            tuple(
                {"data_bytes": 8, "depth": 32, "frames": 16, "word_width": 8, "drop_bad": lost, "lossy": lost}
                for lost in (False, True)
            ),
        ),
        Entry(
            "width_adapter",
            "attach.width_adapter:Widener",
            ({"narrow_bytes": 8, "wide_bytes": 32},),
            facts={"widens": True},
        ),
        Entry(
            "narrower",
            "attach.width_adapter:Narrower",
            ({"wide_bytes": 32, "narrow_bytes": 8},),
            bench="width_adapter",
            facts={"widens": False},
        ),
        # The inline device's own.
        Entry(
            "event_counters",
            "inline.event_counters",
            ({"slots": 16, "start": _FULL},),
            "leaves",
            built={"slots": 16},
        ),
        Entry("port_page", "inline.port_page", ({"start": _FULL},), built={}),
        Entry("register_console", "inline.console:RegisterConsole", ({"divisor": 4, "addr_width": 13},)),
        # Parts that all others use.
        Entry(
            "queue",
            "parts.queue:PushQueue",
            (
                {"shape": 33, "depth": 32, "slack": 9},
                {"shape": 1, "depth": 4, "slack": 1},  # the smallest, with the most slack it can have
            ),
        ),
        Entry("elastic_queue", "parts.queue:ElasticQueue", _QUEUE, "queue", {"registers": 2}),
        Entry("staged_queue", "parts.queue:StagedQueue", _QUEUE, "queue", {"registers": 3, "latency": 3}),
        Entry("direct_queue", "parts.queue:DirectQueue", _QUEUE, "queue", {"registers": 0, "latency": 1}),
        Entry(
            "forward_queue",
            "parts.queue:ForwardQueue",
            ({"shape": 100, "depth": 16, "slack": 5},),
            "queue",
            {"registers": 0, "latency": 1, "forward": True},
        ),
        Entry("output_queue", "parts.output_queue", _both_widths(slack=11)),
        Entry("elastic_register", "parts.elastic_register", ({"shape": 33},), "queue", _REGISTER),
        Entry(
            "elastic_register_in_ram",
            "parts.elastic_register",
            (
                {"shape": _WIDE_AND_NARROW, "in_ram": ["wide"]},
                {"shape": _WIDE_AND_NARROW, "in_ram": ["narrow", "wide"]},
            ),
            "queue",
            {"shape": 213, **_REGISTER},
        ),
        Entry("memory", "parts.memory:BlockRam", ({"width": 36, "depth": 64},), "leaves", {"latency": 2}),
        Entry("lut_ram", "parts.memory:LutRam", ({"width": 19, "depth": 32},), "leaves", {"latency": 0}),
        # Engines of one lane a cycle.
        *(
            Entry(f"{prefix}serial_{engine}", f"serial.{engine}", ({"lanes": 1, **sizes},), bench)
            for engine in ("compression_engine", "decompression_engine")
            for prefix, sizes, bench in (
                ("", {}, "engine"),
                ("planes_", _PLANES, ""),
                ("bf16_", _BF16, "engine"),
            )
        ),
        # The whole NIC.
        Entry("nic", "nic", ({}, {"lanes": 16}, {"engines": 2}, {"engines": 4})),
        Entry("planes_nic", "nic", ({"codec": "planes"}, {"codec": "planes", "lanes": 16}), bench=""),
        Entry("bf16_nic", "nic", (_BF16, {"engines": 2, **_BF16}), bench=""),
    )
}

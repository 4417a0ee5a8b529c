# SPDX-License-Identifier: BSD-2-Clause
"""The meaning of the ports of compressor and decompressor alone, for ``ports.json`` and a README."""

from collections.abc import Mapping
from dataclasses import fields
from itertools import zip_longest
from typing import Any

from inceptionn.hdl.codec.codecs import PAPER
from inceptionn.hdl.codec.shape import EngineShape
from inceptionn.wire import (
    DEFAULT_K,
    DEFAULT_MODE,
    EXPONENT_BIAS,
    MAX_K,
    MAX_LANES,
    MIN_K,
    CodecSpec,
    parameters,
)

from .port_table import port_table

COMPRESSOR, DECOMPRESSOR = "inceptionn_compressor", "inceptionn_decompressor"
_FIGURE = {COMPRESSOR: "the paper's Fig. 9: ", DECOMPRESSOR: "the paper's Fig. 10: "}
_NUMBERS = ("cfg_e0", "cfg_t", "cfg_b")
"""The ports for a codec's parameters, in the order of their fields."""
_DEFAULT = parameters(DEFAULT_K, DEFAULT_MODE)
_AFTER_E0 = {
    PAPER: (
        f"T = E0 + (k + 1) / 2, rounded down; {_DEFAULT.t} for 2^-{DEFAULT_K}",
        f"B = T (mode `bounded`) or {EXPONENT_BIAS} (mode `literal`)",
    )
}
"""Texts of a codec's parameters after E0 that are longer than those of its record."""


def _clocked(packet: str) -> dict[str, str]:
    return {
        "aclk": "clock of all other ports",
        "aresetn": "reset, active low, sampled by `aclk`; one cycle suffices, packets inside are lost",
        "s_axis_tlast": f"last beat of {packet}",
        "s_axis_tvalid": "the beat is there; it may pause anywhere in a packet",
        "m_axis_tvalid": "the beat is there; it and the beat hold until accepted",
        "m_axis_tready": "the beat is accepted; it may be low at any time",
    }


def _numbers(codec: CodecSpec) -> dict[str, str]:
    error = f"for an error bound of 2^-k (k = {MIN_K} to {MAX_K})"
    e0 = f"E0 = {EXPONENT_BIAS} - k {error}; {codec.parameters(DEFAULT_K).e0} for 2^-{DEFAULT_K}"
    others = _AFTER_E0.get(codec.name, [text.rstrip(".") for text in codec.parameter_texts[1:]])
    held = "constant from a packet's first beat until one cycle after its last"
    texts = [f"{text}; {held}" for text in (e0, *others)]
    return dict(zip_longest(_NUMBERS, texts, fillvalue="not used by this codec"))


def _compressor(lanes: int, codec: CodecSpec) -> dict[str, str]:
    bits = 4 * lanes
    return {
        **_clocked(f"a packet of 1 to {MAX_LANES} lanes"),
        "s_axis_tdata": f"{lanes} fp32 lanes, lane 0 in bits 31:0",
        "s_axis_tkeep": f"4 bits per lane; all {bits} before `tlast`, there the low 4 times the lanes left",
        "s_axis_tuser": "ignored",
        "s_axis_tready": "the beat is accepted"
        + ("; low for the cycle after a packet's last beat" if lanes == 8 else ""),
        "m_axis_tdata": "the block, first byte in bits 7:0; its length is that of the packet that goes out",
        "m_axis_tkeep": "1 bit per byte; all before `tlast`, there the low ones",
        "m_axis_tuser": f"1 at `tlast`: the packet had more than {MAX_LANES} lanes, and the block holds the "
        f"first {MAX_LANES}",
        "m_axis_tlast": "last beat of a block; one block per packet, in order",
        **_numbers(codec),
    }


def _decompressor(lanes: int, codec: CodecSpec) -> dict[str, str]:
    port = _NUMBERS[[field.name for field in fields(codec.type)].index(codec.base)]
    return {
        **_clocked("a block"),
        "s_axis_tdata": "one block per packet, first byte in bits 7:0",
        "s_axis_tkeep": "1 bit per byte; all before `tlast`, there the low ones",
        "s_axis_tuser": f"lanes of the block, 1 to {MAX_LANES}, on its first beat; ignored on others",
        "s_axis_tready": "the beat is accepted; low only when a buffer fills up",
        "m_axis_tdata": f"{lanes} fp32 lanes, lane 0 in bits 31:0",
        "m_axis_tkeep": "4 bits per lane; all before `tlast`, there those of the lanes left",
        "m_axis_tuser": "1 at `tlast`: the block was malformed, and lanes from the fault on are arbitrary; a "
        f"lane count of 0 or above {MAX_LANES} gives one such beat",
        "m_axis_tlast": "last beat of a packet; one per block, in order, of exactly the announced lanes",
        "cfg_b": f"{codec.base.upper()}, the compressor's `{port}`; read with every block's first beat",
    }


def standalone_modules(modules: Mapping[str, Any], shape: EngineShape) -> dict[str, dict[str, Any]]:
    """Describe each module: its ``text``, and ``ports``, each with name, direction, width and ``text``.

    ``modules`` are the components by their Verilog names, of this shape.
    """
    lanes, codec = shape.lanes, shape.codec.spec
    known = {
        COMPRESSOR: ("one packet of fp32 lanes in, one block out", _compressor(lanes, codec)),
        DECOMPRESSOR: ("one block in, one packet of fp32 lanes out", _decompressor(lanes, codec)),
    }
    return {
        module: {
            "text": f"{_FIGURE[module] if codec.name == PAPER else ''}{text}",
            "ports": [{**port, "text": texts[port["name"]]} for port in port_table(modules[module])],
        }
        for module, (text, texts) in known.items()
        if module in modules
    }

# SPDX-License-Identifier: BSD-2-Clause
"""The settings that the register bank hands to both engines."""

from amaranth.lib import data

from inceptionn.wire import (
    DEFAULT_K,
    DEFAULT_MAX_PAYLOAD,
    DEFAULT_MIN_PAYLOAD,
    DEFAULT_MODE,
    DEFAULT_TOS,
    DEFAULT_TOS_MASK,
    parameters,
)


class EngineConfig(data.Struct):
    """Run-time settings of one engine: levels, directly from flip-flops.

    They may change in any cycle, between two frames or inside one. An engine samples them once per frame, so
    that no frame sees half of an update.
    """

    enable: 1  #: Compress or restore; while 0, every frame passes with verdict ``DISABLED``.
    tos: 8  #: A frame is tagged when ``(ToS & tos_mask) == (tos & tos_mask)`` (wire-format.md, section 3).
    tos_mask: 8  #: See ``tos``.
    #: :class:`inceptionn.wire.paper.Parameters`, in units of the biased exponent; with the planes codec
    #: only e0 is used. The receive engine takes what it needs from the shim and ignores all three.
    e0: 8
    t: 8  #: See ``e0``.
    b: 8  #: See ``e0``.
    parameters_valid: 1  #: ``Parameters.valid`` of e0, t and b; changes in the same cycle.
    min_payload: 16  #: Least payload, in bytes, that is compressed; for the transmit engine alone.
    #: Largest payload, in bytes, that is compressed or restored; at most
    #: ``inceptionn.wire.DEFAULT_MAX_PAYLOAD``.
    max_payload: 16
    #: A segment of a flow that the flow-phase table does not hold sets its phase; for the transmit engine
    #: alone.
    learn_phases: 1


DEFAULT_CONFIG = {
    "enable": 1,
    "tos": DEFAULT_TOS,
    "tos_mask": DEFAULT_TOS_MASK,
    "e0": parameters(DEFAULT_K, DEFAULT_MODE).e0,
    "t": parameters(DEFAULT_K, DEFAULT_MODE).t,
    "b": parameters(DEFAULT_K, DEFAULT_MODE).b,
    "parameters_valid": 1,
    "min_payload": DEFAULT_MIN_PAYLOAD,
    "max_payload": DEFAULT_MAX_PAYLOAD,
    "learn_phases": 0,
}
"""Reset value of an :class:`EngineConfig`: enabled, ToS 0x28 / 0xFC, ``bounded``, error bound 2^-10."""

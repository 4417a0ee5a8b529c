# SPDX-License-Identifier: BSD-2-Clause
"""What the header parser must make of a frame, for its own bench and those of the decisions after it."""

import random

from engine_bench import Stimulus, bits

from inceptionn.hdl.frame.header_judge import ParsedHeader
from inceptionn.sim.golden.parse import Headers, parse
from inceptionn.wire import LANE_BYTES, PROTOCOL_TCP, SHIM_BYTES, Verdict


def objection(stimulus: Stimulus, *, transmit: bool) -> tuple[int, Headers | None]:
    """Return the first objection to the headers, or 0, and what they hold where they hold anything."""
    config = stimulus.config
    verdict, _ = parse(stimulus.frame, (config.tos,), config.tos_mask, whole=False)
    _, headers = parse(stimulus.frame, (0,), 0, whole=False)  # those of untagged frames, too
    if not config.enable or (transmit and not config.parameters.valid):
        return Verdict.DISABLED, headers
    if headers is None or verdict is not None:
        assert verdict is not None
        return verdict, headers
    size = headers.payload_bytes
    if not transmit:
        return (Verdict.NO_SHIM if size < SHIM_BYTES else 0), headers
    if size < max(1, config.min_payload):
        return Verdict.SHORT, headers
    if size > config.max_payload:
        return Verdict.LONG, headers
    return (Verdict.ALIGNMENT if size % LANE_BYTES else 0), headers


def fields(headers: Headers | None, stimulus: Stimulus) -> dict[str, int]:
    """Return the members of ``ParsedHeader`` that the headers fix; without any, the flow table stays."""
    if headers is None:
        return {"opens": 0, "closes": 0}
    tcp_ = headers.protocol == PROTOCOL_TCP
    marked = stimulus.config.marks(headers.tos)
    found = {
        "tcp": int(tcp_),
        "vlan": int(headers.l3 == 18),
        "payload_at": headers.payload,
        "frame_length": headers.end,
        "total_length": headers.total_length,
        "payload_length": headers.payload_bytes,
        "ip_checksum": headers.ip_checksum,
        "checksum": headers.checksum,
        "source": headers.flow.source,
        "destination": headers.flow.destination,
        "source_port": headers.flow.source_port,
        "destination_port": headers.flow.destination_port,
        "config": bits(stimulus.config),
        "opens": int(headers.syn and marked and not headers.ends),
        "closes": int(headers.ends or (headers.syn and not marked)),
    }
    return found | ({"phase": headers.sequence % 4} if tcp_ else {})


def header_word(stimulus: Stimulus, *, transmit: bool) -> int:
    """Return what the parser says of a frame, with noise in all that its headers leave open."""
    verdict, headers = objection(stimulus, transmit=transmit)
    layout = ParsedHeader.as_shape()
    known = {name: random.getrandbits(field.width) for name, field in layout} | fields(headers, stimulus)
    return sum(value << layout[name].offset for name, value in (known | {"verdict": int(verdict)}).items())

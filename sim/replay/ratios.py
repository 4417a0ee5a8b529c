# SPDX-License-Identifier: BSD-2-Clause
"""What each codec would make of a capture's tagged payloads, by bound: the golden model's blocks."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from inceptionn.wire import SHIM_BYTES, Verdict

from ..golden import EngineConfig, FlowTable, transmit
from ..golden.parse import parse
from ..nic_codec import NIC_CODECS

BOUNDS = (6, 8, 10, 12, 14)
"""The k of the bounds 2^-k that are compared."""
_ELIGIBLE = {Verdict.COMPRESSED, Verdict.EXPANDED, Verdict.AMBIGUOUS}


@dataclass(frozen=True)
class Ratio:
    """Bytes of all eligible payloads, and of what is sent for them with shims; raw where that is shorter."""

    codec: str
    k: int
    payload_bytes: int
    wire_bytes: int

    @property
    def ratio(self) -> float:
        """Payload over wire; 1 if nothing is eligible."""
        return self.payload_bytes / self.wire_bytes if self.wire_bytes else 1.0


def payloads(frames: Iterable[bytes]) -> list[bytes]:
    """Return the payloads that an engine out of reset would compress, or send raw only for their size."""
    config, flows, found = EngineConfig(), FlowTable(), []
    for frame in frames:
        if transmit(frame, config, flows).verdict in _ELIGIBLE:
            _, headers = parse(frame, config.tags, config.tos_mask, whole=True)
            assert headers is not None
            found.append(frame[headers.payload : headers.end])
    return found


def ratios(frames: Sequence[bytes], bounds: Sequence[int] = BOUNDS) -> list[Ratio]:
    """Return the ratio of each codec at each bound, paper in mode ``bounded``."""
    found, sent = [], payloads(frames)
    for name, codec in NIC_CODECS.items():
        for k in bounds:
            form = EngineConfig(parameters=codec.spec.parameters(k)).format
            sizes = [
                min(len(payload), SHIM_BYTES + len(form.pack(np.frombuffer(payload, "<u4")).block))
                for payload in sent
            ]
            found.append(Ratio(name, k, sum(map(len, sent)), sum(sizes)))
    return found

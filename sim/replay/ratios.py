# SPDX-License-Identifier: BSD-2-Clause
"""The golden model's blocks of a capture's tagged payloads, for each codec and bound."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from inceptionn import wire
from inceptionn.wire import Verdict

from ..golden import EngineConfig, FlowTable, transmit
from ..golden.formats import Format, Planes, format_of
from ..golden.parse import parse
from ..nic_codec import NIC_CODECS

BOUNDS = (6, 8, 10, 12, 14)
"""The k of the bounds 2^-k that are compared."""
BF16 = "planes, bf16"
"""`Ratio.codec` of planes with bf16 lanes."""
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


def payloads(frames: Iterable[bytes], tos: int = wire.DEFAULT_TOS) -> list[bytes]:
    """Return the payloads that an engine out of reset would compress, or send raw only for their size.

    ``tos`` tags them.
    """
    config, flows, found = EngineConfig(tos=tos), FlowTable(), []
    for frame in frames:
        if transmit(frame, config, flows).verdict in _ELIGIBLE:
            _, headers = parse(frame, config.tags, config.tos_mask, whole=True)
            assert headers is not None
            found.append(frame[headers.payload : headers.end])
    return found


def ratios(frames: Sequence[bytes], bounds: Sequence[int] = BOUNDS, *, half: bool = False) -> list[Ratio]:
    """Return the ratio of each codec at each bound, paper in mode ``bounded``.

    ``half``: also that of `BF16` over the payloads tagged as bf16.
    """
    found = []
    sent = payloads(frames)
    for name, codec in NIC_CODECS.items():
        parameters = {k: codec.spec.parameters(k) for k in bounds}
        found += [_ratio(name, k, format_of(numbers), sent) for k, numbers in parameters.items()]
    if half:
        tagged = payloads(frames, wire.DEFAULT_BF16_TOS)
        forms = {k: Planes(wire.planes_parameters(k), wire.BF16_LANES) for k in bounds}
        found += [_ratio(BF16, k, form, tagged) for k, form in forms.items()]
    return found


def _ratio(name: str, k: int, form: Format, sent: Sequence[bytes]) -> Ratio:
    sizes = [
        min(len(payload), wire.SHIM_BYTES + len(form.pack(np.frombuffer(payload, form.word)).block))
        for payload in sent
    ]
    return Ratio(name, k, sum(map(len, sent)), sum(sizes))

# SPDX-License-Identifier: BSD-2-Clause
"""The golden model's blocks of a capture's tagged payloads, for each codec and bound."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from inceptionn import wire
from inceptionn.wire import Verdict

from ..golden import FlowTable, transmit
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


def payloads(
    frames: Iterable[bytes], bf16: bool = False, learn_phases: bool = False
) -> dict[wire.LaneType, list[bytes]]:
    """Return the payloads that an engine out of reset would compress, or send raw only for their size.

    ``bf16``: it has bf16 lanes, too. ``learn_phases``: it takes flows without a SYN.
    """
    codec = replace(NIC_CODECS["planes"], bf16=bf16)
    config, flows = replace(codec.config(), learn_phases=learn_phases), FlowTable()
    found: dict[wire.LaneType, list[bytes]] = {form.kind: [] for form in config.forms.values()}
    for frame in frames:
        if transmit(frame, config, flows).verdict in _ELIGIBLE:
            _, headers = parse(frame, config.tags, config.tos_mask, whole=True)
            assert headers is not None
            found[config.form_of(headers.tos).kind].append(frame[headers.payload : headers.end])
    return found


def ratios(
    frames: Sequence[bytes],
    bounds: Sequence[int] = BOUNDS,
    *,
    bf16: bool = False,
    learn_phases: bool = False,
) -> list[Ratio]:
    """Return the ratio of each codec at each bound, paper in mode ``bounded``.

    ``bf16``: also that of `BF16` over the payloads tagged as bf16. ``learn_phases`` as for `payloads`.
    """
    found = []
    sent = payloads(frames, bf16, learn_phases)
    for name, codec in NIC_CODECS.items():
        parameters = {k: codec.spec.parameters(k) for k in bounds}
        found += [
            _ratio(name, k, format_of(numbers), sent[wire.FP32_LANES]) for k, numbers in parameters.items()
        ]
    if bf16:
        forms = {k: Planes(wire.planes_parameters(k), wire.BF16_LANES) for k in bounds}
        found += [_ratio(BF16, k, form, sent[wire.BF16_LANES]) for k, form in forms.items()]
    return found


def _ratio(name: str, k: int, form: Format, sent: Sequence[bytes]) -> Ratio:
    sizes = [
        min(len(payload), wire.SHIM_BYTES + len(form.pack(np.frombuffer(payload, form.word)).block))
        for payload in sent
    ]
    return Ratio(name, k, sum(map(len, sent)), sum(sizes))

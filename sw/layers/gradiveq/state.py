# SPDX-License-Identifier: BSD-2-Clause
"""The state of `GradiVeQ` between two steps, for checkpoints."""

import zlib
from collections import Counter
from collections.abc import Callable
from copy import copy
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ..fields import Fields
from ..parameters import Floats
from .compressed_domain import MOST_SCALE, Run
from .compressors import Slices
from .pca import Compressor

if TYPE_CHECKING:
    from .system import GradiVeQ

Apply = Callable[[], None]
Samples = tuple[list[Floats], NDArray[np.float64] | None]


def state_of(exchange: "GradiVeQ") -> dict[str, Any]:
    """Copy everything that the next steps depend on, and the counters."""
    quantiser = exchange.quantiser
    return {
        "settings": dict(exchange.settings),
        "rank": exchange.transport.rank,
        "ranks": exchange.transport.size,
        "step": exchange.step,
        "loss": exchange.loss,
        "phases": exchange.phases.state_dict(),
        "quantiser": None if quantiser is None else quantiser.state_dict(),
        "slices": [_sampled(slices) for slices in exchange.slices],
        "runs": [
            {
                "components": run.compressor.components.copy(),
                "whitening": run.compressor.whitening.copy(),
                "scale": run.scale,
            }
            for run in exchange.runs
        ],
        "traffic": {"sent": dict(exchange.traffic.sent), "raw": dict(exchange.traffic.raw)},
    }


def _sampled(slices: Slices) -> dict[str, Any]:
    size = slices.slicing.size
    samples = np.stack(slices.samples) if slices.samples else np.empty((0, size), np.float32)
    return {"samples": samples, "total": None if slices.total is None else slices.total.copy()}


def checked(exchange: "GradiVeQ", state: Any) -> tuple[dict[str, Any], Apply]:
    """Check a state.

    Returns the terms that must be equal at all ranks, and a function that applies the state. Raises
    ``ValueError`` naming the field if the state has other settings or wrong content. Nothing is changed
    before the function is called.
    """
    names = (
        "settings", "rank", "ranks", "step", "loss", "phases", "quantiser", "slices", "runs", "traffic"
    )  # fmt: skip
    fields = Fields(state, names)
    settings = fields.within("settings", exchange.settings)
    for name, value in exchange.settings.items():
        settings.same(name, value)
    fields.same("rank", exchange.transport.rank)
    fields.same("ranks", exchange.transport.size)
    step, loss = fields.integer("step"), fields.number("loss")
    phases, quantiser = copy(exchange.phases), copy(exchange.quantiser)
    with fields.naming("phases") as kept:
        phases.load_state_dict(kept)
    if quantiser is None:
        fields.same("quantiser", None)
    else:
        with fields.naming("quantiser") as kept:
            quantiser.load_state_dict(kept)

    samples = _samples_in(fields, exchange.slices, phases.sampled)
    runs = _runs_in(fields, exchange.slices, phases.phase == "compressed" or bool(fields["runs"]))
    traffic = fields.within("traffic", ("sent", "raw"))
    counts = []
    for name in ("sent", "raw"):
        kinds = traffic[name] if isinstance(traffic[name], dict) else ()
        kept = traffic.within(name, kinds)
        counts.append(Counter({kind: kept.integer(kind) for kind in kinds}))

    def apply() -> None:
        exchange.step, exchange.loss, exchange.runs = step, loss, runs
        exchange.phases, exchange.quantiser = phases, quantiser
        exchange.traffic.sent, exchange.traffic.raw = counts
        for slices, (rows, total) in zip(exchange.slices, samples, strict=True):
            slices.samples, slices.total = rows, total

    shared = [array for rows, total in samples for array in (*rows, total) if array is not None]
    shared += [array for run in runs for array in (run.compressor.components, run.compressor.whitening)]
    checksum = 0
    for array in shared:
        checksum = zlib.crc32(array.tobytes(), checksum)
    terms = {
        "step": step,
        "phase": [phases.phase, phases.left],
        "scales": [run.scale for run in runs],
        "checksum of samples and compressors": checksum,
    }
    return terms, apply


def _samples_in(fields: Fields, slices: list[Slices], count: int) -> list[Samples]:
    """Read the ``count`` samples of each run of slices, and their sum."""
    found: list[Samples] = []
    for number, state in enumerate(fields.items("slices", len(slices))):
        fields, slicing = Fields(state, ("samples", "total"), f"slices/{number}/"), slices[number].slicing
        rows = list(fields.array("samples", (count, slicing.size)))
        if not count:
            fields.same("total", None)
        shape = (slices[number].count, slicing.size)
        found.append((rows, fields.array("total", shape, np.float64) if count else None))
    return found


def _runs_in(fields: Fields, slices: list[Slices], there: bool) -> list[Run]:
    """Read the compressors, one for each run of slices; none unless ``there``."""
    found = []
    for number, state in enumerate(fields.items("runs", len(slices) if there else 0)):
        fields = Fields(state, ("components", "whitening", "scale"), f"runs/{number}/")
        count, size = slices[number].count, slices[number].slicing.size
        compressor = Compressor(
            fields.array("components", (size, None)), fields.array("whitening", (count, size))
        )  # fmt: skip
        found.append(Run(compressor, count, fields.integer("scale", -MOST_SCALE, MOST_SCALE)))
    return found

# SPDX-License-Identifier: BSD-2-Clause
"""All-reduces measured between shaped hosts of this machine with the bench's ranks. Needs root."""

from collections.abc import Sequence

import numpy as np

from ....netns import Network, NetworkError, require
from ...bench.collective.pays import measured
from ...bench.collective.variants import PAPERS
from ...training import Floats
from ..artefact import Artefact

BOUND = 2.0**-10


def available(made: Artefact) -> bool:
    """Tell whether hosts can be made here; if not, note why."""
    try:
        if made.network:
            require()
            return True
        made.notes.append("measured parts were left out (--no-network)")
    except NetworkError as error:
        made.notes.append(f"not measured: {error}")
    return False


def times(
    gradients: Sequence[Floats], rate: float, variants: Sequence[str], repeats: int
) -> dict[str, float]:
    """Measure median seconds of an all-reduce by variant.

    There is one host per worker's gradient (float32[n] each). The paper's aggregator is one more host.
    """
    apart = [name for name in variants if name.startswith(PAPERS)]
    together = [name for name in variants if name not in apart]
    found = _times(gradients, rate, together, repeats) if together else {}
    return found | (_times([gradients[0], *gradients], rate, apart, repeats) if apart else {})


def _times(
    gradients: Sequence[Floats], rate: float, variants: Sequence[str], repeats: int
) -> dict[str, float]:
    with Network(len(gradients), rate) as network:
        paths = [network.folder / f"gradient-{rank}.npy" for rank in range(len(gradients))]
        for path, gradient in zip(paths, gradients, strict=True):
            np.save(path, gradient)
        files = {("gradient", 0): [str(path) for path in paths]}
        lines = measured(network, files, BOUND, repeats, tuple(variants))
        return {variant: seconds for (_, _, variant), seconds in lines}

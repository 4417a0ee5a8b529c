# SPDX-License-Identifier: BSD-2-Clause
"""All-reduces measured between shaped hosts of this machine with the bench's ranks. Needs root."""

from collections.abc import Sequence

from ....netns import Network, NetworkError, require
from ...bench.collective.pays import measured
from ...bench.collective.variants import PAPERS
from ...bench.common.data import saved
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
    found = {}
    for apart in (False, True):
        names = tuple(name for name in variants if name.startswith(PAPERS) == apart)
        held = [gradients[0], *gradients] if apart else gradients
        if not names:
            continue
        with Network(len(held), rate) as network:
            files = {("gradient", 0): saved(network.folder, "gradient", held)}
            for (_, _, variant), seconds in measured(network, files, BOUND, repeats, names):
                found[variant] = seconds
    return found

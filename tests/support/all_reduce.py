# SPDX-License-Identifier: BSD-2-Clause
"""All-reduces among the ranks of a group, for tests that look at the results alone."""

from typing import Any

import numpy as np
from outcomes import Group, returned

from inceptionn import Codec
from inceptionn.collectives import SUM, ErrorFeedback, Op, allreduce_comp
from inceptionn.transport import Transport


def sums(group: Group, x: Any, op: Op = SUM, nic: Codec | None = None, **settings: Any) -> list[Any]:
    """Return what each rank gets, in an array of NaNs before; rank ``r`` gives ``x[r]``."""

    def run(t: Transport) -> Any:
        y = np.full_like(x[t.rank], np.nan)
        allreduce_comp(t, x[t.rank], y, op, **settings)
        return y

    return returned(group(len(x), run, nic=nic))


def fed_sums(group: Group, x: Any, codec: Any, **settings: Any) -> list[tuple[Any, Any]]:
    """Return what each rank gets with error feedback, and its residual; rank ``r`` gives ``x[r]``."""

    def run(t: Transport) -> tuple[Any, Any]:
        y, feedback = np.full_like(x[t.rank], np.nan), ErrorFeedback(codec)
        allreduce_comp(t, x[t.rank], y, codec=codec, feedback=(feedback, "w"), **settings)
        return y, feedback.residual("w")

    return returned(group(len(x), run))

# SPDX-License-Identifier: BSD-2-Clause
"""Payloads of every ratio that a codec can reach at a bound of 2^-10, from the highest to the lowest."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from inceptionn.wire import GROUP_LANES, RAW_CODE, SHIM_BYTES

Values = Callable[[np.random.Generator, int], NDArray[np.float32]]
"""A function from a number to this number of values."""

_STEP = 2.0**-9
"""The step of the planes codec."""


def repeated(lanes: Sequence[float]) -> Values:
    """A payload that repeats these values."""
    return lambda random, n: np.resize(np.array(lanes, "<f4"), n)


def gradients(random: np.random.Generator, n: int) -> NDArray[np.float32]:
    """Values with the heavy-tailed spread of a gradient."""
    return (random.standard_t(3, n) * 3e-3).astype("<f4")


def _of_code(code: int) -> list[float]:
    """A group of this code, 0..14: its largest integer has that many bits."""
    largest = 2.0 ** (code - 2) * _STEP if code > 1 else -_STEP * code
    return [0.0] * (GROUP_LANES - 1) + [largest]


LITTLE_SAVED = "less than a beat saved"


def _saving_little(random: np.random.Generator, n: int) -> NDArray[np.float32]:
    """For the paper's codec: a block that with its shim is 4 bytes shorter than the payload."""
    values = np.full(n, 1.5, "<f4")
    values[: -(-n // GROUP_LANES) + SHIM_BYTES // 2 + 2] = 0.3  # two bytes saved each
    return values


PAYLOADS: dict[str, dict[str, Values]] = {
    "paper": {
        "zeros": repeated([0.0]),
        "gradients": gradients,
        "8 bits": repeated([0.0015]),
        "16 bits": repeated([0.3]),
        "nearly raw": repeated([1.5] * 6 + [0.3] * 2),
        LITTLE_SAVED: _saving_little,
    },
    "planes": {
        "gradients": gradients,
        **{f"code {code}": repeated(_of_code(code)) for code in range(RAW_CODE)},
        f"code {RAW_CODE}, 7 of 8 groups": repeated([64.0] * GROUP_LANES * 7 + _of_code(0)),
    },
}
"""By codec: compressible payloads. With "8 bits" and the like every group has the same size."""
RAW = repeated([64.0])
"""Values that every codec keeps whole."""

# SPDX-License-Identifier: BSD-2-Clause
"""Payloads of every ratio that a codec can reach at a bound of 2^-10, from the highest to the lowest."""

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from inceptionn.wire import BURST_BYTES, CODECS, GROUP_LANES, LANE_BYTES, RAW_CODE, SHIM_BYTES

Values = Callable[[np.random.Generator, int], NDArray[np.float32]]
"""A function from a number to this number of values."""

_STEP = 2.0**-9
"""The step of the planes codec."""


def table_bytes(codec: str, payload: int) -> int:
    """Return the bytes of a block's tag table, or code table, for a payload of this many bytes."""
    return CODECS[codec].table_bytes(-(-payload // LANE_BYTES))


def repeated(lanes: Sequence[float]) -> Values:
    """Make a payload that repeats these values."""
    return lambda random, n: np.resize(np.array(lanes, "<f4"), n)


def gradients(random: np.random.Generator, n: int) -> NDArray[np.float32]:
    """Draw values with the heavy-tailed spread of a gradient."""
    return (random.standard_t(3, n) * 3e-3).astype("<f4")


def _of_code(code: int) -> list[float]:
    """Make a group of this code, 0..14: its largest integer has that many bits."""
    largest = 2.0 ** (code - 2) * _STEP if code > 1 else -_STEP * code
    return [0.0] * (GROUP_LANES - 1) + [largest]


def _little_saved(random: np.random.Generator, n: int) -> NDArray[np.float32]:
    """Draw a block of the paper's codec that with its shim is 4 bytes shorter than the payload."""
    values = np.full(n, 1.5, "<f4")
    values[: -(-n // GROUP_LANES) + SHIM_BYTES // 2 + 2] = 0.3  # two bytes saved each
    return values


def _little_saved_planes(random: np.random.Generator, n: int) -> NDArray[np.float32]:
    """Draw a block of the planes codec that with its shim is 1 to 32 bytes shorter than the payload."""
    raw = BURST_BYTES * -(-n // GROUP_LANES)
    grown = SHIM_BYTES + table_bytes("planes", LANE_BYTES * n) + raw - LANE_BYTES * n
    values = np.full(n, 64.0, "<f4")
    values[: GROUP_LANES * (grown // BURST_BYTES + 1)] = 0.0  # 32 bytes saved by each group
    return values


PAYLOADS: dict[str, dict[str, Values]] = {
    "paper": {
        "zeros": repeated([0.0]),
        "gradients": gradients,
        "8 bits": repeated([0.0015]),
        "16 bits": repeated([0.3]),
        "nearly raw": repeated([1.5] * 6 + [0.3] * 2),
        "less than a beat saved": _little_saved,
    },
    "planes": {
        "gradients": gradients,
        **{f"code {code}": repeated(_of_code(code)) for code in range(RAW_CODE)},
        f"code {RAW_CODE}, 7 of 8 groups": repeated([64.0] * GROUP_LANES * 7 + _of_code(0)),
        "less than a beat saved": _little_saved_planes,
    },
}
"""By codec: compressible payloads. With "8 bits" and the like every group has the same size."""
RAW = repeated([64.0])
"""Values that every codec keeps whole."""

# SPDX-License-Identifier: BSD-2-Clause
"""bfloat16 in NumPy has the codec's bits, with NaNs that do not signal."""

import numpy as np
import pytest

from inceptionn.codec import converted
from inceptionn.collectives import BFloat16
from inceptionn.collectives.building import from_bfloat16, to_bfloat16


@pytest.mark.parametrize("given", [False, True])
def test_rounding_of_every_kind_of_value(given: bool) -> None:
    """Ties to even, NaNs that round to none, and the largest values, among any bits."""
    bits = np.random.default_rng(1).integers(0, 2**32, 50_000, np.uint32)
    bits[:20_000] &= 0xFFFF8000
    bits[:4] = 0x7F800001, 0xFF80FFFF, 0x7F7FFFFF, 0x80000000
    x = bits.view(np.float32)
    found = to_bfloat16(x, np.empty(x.size, np.uint16) if given else None)
    wanted = converted(x, "bfloat16")
    wanted[np.isnan(x)] |= 0x40
    assert np.array_equal(found, wanted)
    back = from_bfloat16(found, np.empty(x.size, np.float32) if given else None)
    assert np.array_equal(back.view(np.uint32), found.astype(np.uint32) << 16)


def test_a_stream_of_another_length() -> None:
    with pytest.raises(ValueError, match=r"^3 bfloat16 values are 6 bytes, not 5$"):
        BFloat16().decompress(bytes(5), 3)

# SPDX-License-Identifier: BSD-2-Clause
"""The settings of a call: as the keyword arguments of each collective, and as a record."""

from typing import Any, get_args, get_type_hints

import pytest

from inceptionn.collectives.settings import (
    ALGORITHMS,
    BlockKeywords,
    GradientKeywords,
    Keywords,
    RingAlgorithm,
    Settings,
    SumKeywords,
)


def fields() -> dict[str, Any]:
    """Return the settings and their types, but for ``op``, which calls take by position."""
    found = get_type_hints(Settings)
    del found["op"]
    return found


def test_an_all_reduce_takes_every_setting() -> None:
    assert get_type_hints(SumKeywords) == fields()


@pytest.mark.parametrize("keywords", [GradientKeywords, Keywords, BlockKeywords])
def test_other_calls_take_some_settings_with_the_same_types(keywords: Any) -> None:
    """The algorithms of a reduce-scatter or all-gather alone are fewer: rings."""
    found, wanted = get_type_hints(keywords), fields()
    if keywords is BlockKeywords:
        assert found.pop("algorithm") == RingAlgorithm
        assert set(get_args(RingAlgorithm)) < set(ALGORITHMS)
    assert found
    assert found == {name: wanted.get(name) for name in found}

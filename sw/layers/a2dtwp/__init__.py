# SPDX-License-Identifier: BSD-2-Clause
"""A2DTWP sends only the leading bytes of each layer's weights that training needs (Zhuang et al., 2020).

`adt` packs and unpacks bytes, and `awp` decides on their number. `encoding` combines the two for the
parameter server and the collectives. `weight_aggregator` trains with workers and an aggregator.
`host_to_device` copies weights to a GPU.
"""

from .adt import bitpack, bitunpack
from .awp import AWP, Oracle, residual_blocks, weight_keys
from .encoding import AdtCodec, AdtEncoding
from .weight_aggregator import WeightAggregator

__all__ = [
    "AWP", "AdtCodec", "AdtEncoding", "Oracle", "WeightAggregator", "bitpack", "bitunpack", "residual_blocks",
    "weight_keys",
]  # fmt: skip

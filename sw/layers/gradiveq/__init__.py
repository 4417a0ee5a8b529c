# SPDX-License-Identifier: BSD-2-Clause
"""GradiVeQ sums gradients of convolutions in compressed form (Yu et al., NeurIPS 2018).

`slicing` cuts a layer's gradient, `pca` has the linear compressors, `phases` decides when to compress, and
`qsgd` quantises in sampling phases. `compressed_domain` is Algorithm 1. `system` combines them all.
"""

from .compressed_domain import CompressedDomain, Run
from .pca import Compressor, dimension_of, principal_components
from .phases import Phases
from .qsgd import QSGD
from .slicing import SliceParts, Slicing
from .system import GradiVeQ

__all__ = [
    "QSGD", "CompressedDomain", "Compressor", "GradiVeQ", "Phases", "Run", "SliceParts", "Slicing",
    "dimension_of", "principal_components",
]  # fmt: skip

# SPDX-License-Identifier: BSD-2-Clause
"""GradiVeQ: gradients of convolutions, compressed linearly, are summed as they are (Yu et al., NeurIPS 2018).

`slicing` (how a layer's gradient is cut), `pca` (compressors), `phases` (when to compress), `qsgd` (the
quantiser of the sampling phases), `compressed_domain` (Algorithm 1), and `system`, which puts them together.
"""

from .compressed_domain import CompressedDomain, Run
from .pca import Compressor, dimension_of, principal_components
from .phases import Phases
from .qsgd import QSGD
from .slicing import SliceParts, Slicing
from .system import GradiVeQ

__all__ = [
    "QSGD",
    "CompressedDomain",
    "Compressor",
    "GradiVeQ",
    "Phases",
    "Run",
    "SliceParts",
    "Slicing",
    "dimension_of",
    "principal_components",
]

# SPDX-License-Identifier: BSD-2-Clause
"""GradiVeQ: gradients of convolutions, compressed linearly, are summed as they are (Yu et al., NeurIPS 2018).

`slicing` (how a layer's gradient is cut), `pca` (compressors), `phases` (when to compress), `qsgd` (the
quantiser of the sampling phases), `compressed_domain` (Algorithm 1), and `system`, which puts them together.
"""

from inceptionn.layers.gradiveq.compressed_domain import CompressedDomain, Run
from inceptionn.layers.gradiveq.pca import Compressor, dimension_of, principal_components
from inceptionn.layers.gradiveq.phases import Phases
from inceptionn.layers.gradiveq.qsgd import QSGD
from inceptionn.layers.gradiveq.slicing import SliceParts, Slicing
from inceptionn.layers.gradiveq.system import GradiVeQ

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

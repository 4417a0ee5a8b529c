# SPDX-License-Identifier: BSD-2-Clause
"""Does compression pay? Times of a training step by an alpha-beta-gamma model with codec terms.

`predict` takes a `Scenario` and gives a `Prediction`; ``inceptionn pays`` prints it. The model is that of
Thakur, Rabenseifner and Gropp (2005), which the INCEPTIONN paper uses in Sec. VIII-D, with packets, codecs,
sub-blocks that overlap, and hosts whose processors are the limit. ``inceptionn bench pays`` compares it with
measured all-reduces.
"""

from .costs import Coder, Form, Host, Link, Where
from .exchange import Exchange, hierarchical, parameter_server, ring, worker_aggregator
from .ratios import Ratio, constant, of_file, of_values, published
from .scenario import Prediction, Scenario, Topology, predict

__all__ = [
    "Coder",
    "Exchange",
    "Form",
    "Host",
    "Link",
    "Prediction",
    "Ratio",
    "Scenario",
    "Topology",
    "Where",
    "constant",
    "hierarchical",
    "of_file",
    "of_values",
    "parameter_server",
    "predict",
    "published",
    "ring",
    "worker_aggregator",
]

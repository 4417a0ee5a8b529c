# SPDX-License-Identifier: BSD-2-Clause
"""Parameter server: servers hold keys, workers push gradients and pull weights, by steps.

Modules: `plan` (which server holds what), `optimizer` (what an update is), `server` (its state), `serving`
(waiting pulls, finished workers), `worker`, `node` (the rank's thread), `links` and `envelope` (messages),
`legs` (forms of values), `checkpoint`, and `group`, which joins them.
"""

from .exchange.handle import Handle
from .exchange.legs import Encoding
from .group import ParameterServer
from .optimizer import Constant, Cosine, MomentumSGD, Optimizer, Schedule, StepDecay, WarmUp
from .plan import Partition, Plan
from .server import Server
from .worker import NonFiniteGradient, Worker

__all__ = [
    "Constant",
    "Cosine",
    "Encoding",
    "Handle",
    "MomentumSGD",
    "NonFiniteGradient",
    "Optimizer",
    "ParameterServer",
    "Partition",
    "Plan",
    "Schedule",
    "Server",
    "StepDecay",
    "WarmUp",
    "Worker",
]

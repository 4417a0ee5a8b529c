# SPDX-License-Identifier: BSD-2-Clause
"""Parameter server: servers hold keys, workers push gradients and pull weights, by steps.

`plan` (which server holds what), `optimizer` (what an update is), `server` (its state), `serving` (pulls that
wait, workers that end), `worker`, `node` (the rank's thread), `links` and `envelope` (messages), `legs` (how
values travel), `checkpoint`, and `group`, which puts them together.
"""

from inceptionn.layers.parameter_server.group import ParameterServer
from inceptionn.layers.parameter_server.handle import Handle
from inceptionn.layers.parameter_server.legs import Encoding
from inceptionn.layers.parameter_server.optimizer import (
    Constant,
    Cosine,
    MomentumSGD,
    Optimizer,
    Schedule,
    StepDecay,
    WarmUp,
)
from inceptionn.layers.parameter_server.plan import Partition, Plan
from inceptionn.layers.parameter_server.server import Server
from inceptionn.layers.parameter_server.worker import NonFiniteGradient, Worker

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

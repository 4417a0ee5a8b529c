# SPDX-License-Identifier: BSD-2-Clause
"""Parameter server: servers hold weights by key; in each step, workers push gradients and pull weights.

`plan` assigns keys to servers, `optimizer` defines updates, `server` holds a server's state, and `serving`
handles waiting pulls and finished workers. `worker` is the worker's interface, and `node` the thread of a
rank. `exchange` has the messages and the forms of their values. `group` combines all of these, with
`checkpoint`.
"""

from ..checks import NonFiniteGradient
from .exchange.handle import Handle
from .exchange.legs import Encoding
from .group import ParameterServer
from .optimizer import Constant, Cosine, MomentumSGD, Optimizer, Schedule, StepDecay, WarmUp
from .plan import Partition, Plan
from .server import Server
from .worker import Worker

__all__ = [
    "Constant", "Cosine", "Encoding", "Handle", "MomentumSGD", "NonFiniteGradient", "Optimizer",
    "ParameterServer", "Partition", "Plan", "Schedule", "Server", "StepDecay", "WarmUp", "Worker",
]  # fmt: skip

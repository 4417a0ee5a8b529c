# SPDX-License-Identifier: BSD-2-Clause
"""inceptionn for PyTorch: compressed gradients for DDP and FSDP, local updates, process groups, layers.

``docs/torch.md`` shows how to use it. Without torch, the import raises ``ModuleNotFoundError`` with the
command that installs it.
"""

from importlib.util import find_spec

from ..system.extras import pip_install

if find_spec("torch") is None:
    raise ModuleNotFoundError(f"torch is not installed: {pip_install('torch')}", name="torch")

from .backend import BACKEND, compressed
from .fsdp import CompressedReduceScatter, all_reduce_hook, fsdp_hook
from .gradiveq import GradiVeQState, gradiveq_hook
from .hook import CompressState, compress_hook
from .local_updates.diloco import DiLoCo
from .module import gradients_of, parameters_of, set_parameters
from .optimizer import TorchOptimizer
from .transport import TorchTransport

__all__ = [
    "BACKEND", "CompressState", "CompressedReduceScatter", "DiLoCo", "GradiVeQState", "TorchOptimizer",
    "TorchTransport", "all_reduce_hook", "compress_hook", "compressed", "fsdp_hook", "gradients_of",
    "gradiveq_hook", "parameters_of", "set_parameters",
]  # fmt: skip

# SPDX-License-Identifier: BSD-2-Clause
"""A job of one rank, as programs run on one device: hook and compressed group work there, too."""

from typing import Any

import torch
import torch.distributed as dist
from ranks import trained

from inceptionn import Codec
from inceptionn.torch import CompressState, compress_hook, compressed


def main() -> dict[str, Any]:
    dist.init_process_group("inceptionn")
    plain = trained(lambda ddp: None)
    state = CompressState(codec=Codec(2**-14), error_feedback=True)
    hook = trained(lambda ddp: ddp.register_comm_hook(state, compress_hook))
    group = dist.new_group(backend="inceptionn")
    compressed(group, Codec(2**-14))
    values = torch.linspace(-1, 1, 5000)
    dist.all_reduce(values, group=group)
    kept = torch.allclose(values, torch.linspace(-1, 1, 5000), atol=2**-13)
    return {"plain": plain["loss"], "hook": hook["loss"], "compressed": state.compressed, "kept": kept}

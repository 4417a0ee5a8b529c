# SPDX-License-Identifier: BSD-2-Clause
"""Each host of `test_nic`: DDP with the hook, which looks for NICs, and without it."""

import json

import torch.distributed as dist
from ranks import trained

from inceptionn.torch import CompressState, compress_hook
from inceptionn.torch.link import link_of

STEPS = range(12)


def main() -> None:
    dist.init_process_group("gloo")
    plain = trained(lambda ddp: None, STEPS)
    state = CompressState()
    found = trained(lambda ddp: ddp.register_comm_hook(state, compress_hook), STEPS)
    transport = link_of(None).transport
    codec = transport.nic_codec
    print(json.dumps({
        "nic": transport.nic, "mode": codec and (codec.mode or codec.codec), "compressed": state.compressed,
        "plain": plain, "hook": found,
    }))  # fmt: skip
    dist.destroy_process_group()


if __name__ == "__main__":
    main()

# SPDX-License-Identifier: BSD-2-Clause
"""Checks of what calls a communication hook, and with what."""

from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist

from .host_copy import lanes_of


def check_call(hook: Callable[..., Any], kind: type, state: Any, bucket: Any) -> None:
    """Raise ``TypeError`` unless DDP calls its hook, with a state of this kind."""
    if isinstance(bucket, torch.Tensor):
        raise TypeError(f"{hook.__name__} is for DDP: FSDP's register_comm_hook takes fsdp_hook")
    if not isinstance(state, kind):
        raise TypeError(f"{hook.__name__} needs a {kind.__name__}, not {state!r}")


def check_size(bucket: dist.GradBucket) -> None:
    """Raise ``ValueError`` unless a bucket has as many values as its parameters."""
    count, expected = lanes_of(bucket.buffer()), sum(map(lanes_of, bucket.parameters()))
    if count != expected:
        raise ValueError(
            f"bucket {bucket.index()} has {count} values, its parameters have {expected}: a hook around this "
            "one must keep the bucket's size"
        )

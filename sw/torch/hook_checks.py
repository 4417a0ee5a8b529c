# SPDX-License-Identifier: BSD-2-Clause
"""Checks of settings, and of what calls a communication hook, and with what."""

from collections.abc import Callable
from numbers import Real
from typing import Any

import numpy as np
import torch
import torch.distributed as dist

from ..system.text import brief
from .host_copy import lanes_of


def check_number(name: str, value: Any, most: float) -> float:
    """Return a setting as a float. Raise ``TypeError`` or ``ValueError`` unless it is 0..``most``."""
    if isinstance(value, bool) or not isinstance(value, Real):
        raise TypeError(f"{name} must be a number, not {brief(value)}")
    if not 0 <= float(value) <= most:
        raise ValueError(f"{name} must be 0..{most}, not {brief(value)}")
    return float(value)


def decay_of(error_feedback: Any) -> float:
    """Return the decay that a setting asks for: that of None and True is 1. Raises as `check_number`."""
    if error_feedback is None or isinstance(error_feedback, bool | np.bool_):
        return float(error_feedback is None or bool(error_feedback))
    return check_number("error_feedback", error_feedback, 1)


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

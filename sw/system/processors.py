# SPDX-License-Identifier: BSD-2-Clause
"""The host's processors."""

from __future__ import annotations

import os


def usable_processors() -> int:
    """Processors that this process may use. With ``taskset`` they are fewer than the host has."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1

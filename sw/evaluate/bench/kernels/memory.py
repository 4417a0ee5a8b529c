# SPDX-License-Identifier: BSD-2-Clause
"""The memory that a call takes at its peak, as Linux counts resident pages."""

import ctypes
import gc
from collections.abc import Callable
from pathlib import Path

_RESET_PEAK = "5"
"""To /proc/self/clear_refs: the peak starts from now (proc(5))."""


def peak_of(call: Callable[[], object]) -> int | None:
    """Measure by how many bytes the process grew at most during a call, its result included.

    None where unknown. Counted in pages of up to 2 MiB, so it says little about small arrays. Memory that the
    process had freed and kept is given back first. Memory that other threads take meanwhile is counted too.
    """
    status = Path("/proc/self/status")
    gc.collect()
    try:
        ctypes.CDLL(None).malloc_trim(0)
        Path("/proc/self/clear_refs").write_text(_RESET_PEAK)
        before = _kilobytes(status, "VmRSS")
    except (OSError, AttributeError, KeyError):
        return None
    result = call()
    peak = _kilobytes(status, "VmHWM")
    del result
    return max(0, peak - before) * 1024


def _kilobytes(status: Path, name: str) -> int:
    fields = dict(line.split(":", 1) for line in status.read_text().splitlines())
    return int(fields[name].split()[0])

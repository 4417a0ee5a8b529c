# SPDX-License-Identifier: BSD-2-Clause
"""Sizes of arrays that a bench must time, out of caches and within memory; the memory that a call takes."""

import ctypes
import gc
import os
from collections.abc import Callable
from pathlib import Path

CACHES = Path("/sys/devices/system/cpu/cpu0/cache")
UNKNOWN = 32 << 20
"""Bytes of the last-level cache where the system does not tell."""
TIMES = 4
"""An array of as many last-level caches is out of cache, also beside a second one."""
_SHARE = 16
"""Part of the available memory that one array may take; compressors take some more of its size."""
_UNITS = {"K": 10, "M": 20, "G": 30}
_RESET_PEAK = "5"
"""To /proc/self/clear_refs: the peak starts from now (proc(5))."""


def last_level_cache(folder: Path = CACHES) -> int:
    """Return the bytes of the first processor's last-level cache, by sysfs; `UNKNOWN` if it is unknown."""
    found: list[tuple[int, int]] = []
    for index in folder.glob("index*"):
        try:
            level, size = (int((index / "level").read_text()), (index / "size").read_text().strip())
            found.append((level, int(size.rstrip("KMG")) << _UNITS.get(size[-1:], 0)))
        except (OSError, ValueError):
            continue
    return max(found)[1] if found else UNKNOWN


def available_memory() -> int:
    """Return the bytes of memory that programs can still get."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_AVPHYS_PAGES")


def timed_bytes(real: float, quick: bool = False) -> int:
    """Return the size of the array to time for one of ``real`` bytes.

    It is ``real``, as far as memory allows, as a multiple of 4. ``quick``: no more than `TIMES` last-level
    caches, where rates no longer depend on the size.
    """
    most = TIMES * last_level_cache() if quick else real
    return int(min(real, most, available_memory() / _SHARE)) // 4 * 4


def cache_text(size: int) -> str:
    """Describe an array's size beside the cache's, for the conditions of a measurement."""
    cache = last_level_cache()
    inside = "" if size > cache else ", WITHIN it: rates are too high"
    return f"{size / 1e6:.0f} MB (last-level cache {cache / 1e6:.0f} MB{inside})"


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

# SPDX-License-Identifier: BSD-2-Clause
"""Place and time of a measurement, for the JSON of the figures."""

import os
import platform
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from ..codec import active_path, operation_paths
from ..system.programs import usable_processors

PACKAGES = (
    "inceptionn", "numpy", "scikit-learn", "mpi4py", "openmpi",
    "zfpy", "pysz", "blosc2", "lz4", "cramjam", "torch",
)  # fmt: skip


def environment(seed: int | None) -> dict[str, Any]:
    """Return processor, processors, kernel, load, versions, time, and the seed of the data."""
    return {
        "time": datetime.now(UTC).isoformat(timespec="seconds"),
        "processor": _processor(),
        "processors": usable_processors(),
        "memory_bytes": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        "kernel": f"{platform.system()} {platform.release()} {platform.machine()}",
        "load_average": [round(load, 2) for load in os.getloadavg()],
        "python": platform.python_version(),
        "packages": {name: found for name in PACKAGES if (found := installed(name)) is not None},
        "codec_path": active_path(),
        "codec_paths": operation_paths(),
        "seed": seed,
    }


def installed(package: str) -> str | None:
    """Return the version of a distribution, or None."""
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def conditions(facts: dict[str, Any]) -> str:
    """Format the conditions as one line above a table."""
    load, seed = facts["load_average"][0], facts["seed"]
    return (
        f"{facts['processor']}, {facts['processors']} processors, {facts['kernel']}; "
        f"load {load:.1f} at the start" + ("" if seed is None else f"; seed {seed}")
    )


def _processor() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            name, _, value = line.partition(":")
            if name.strip() in ("model name", "Model"):
                return value.strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()

# SPDX-License-Identifier: BSD-2-Clause
"""Formats of waveforms, and what the models need to write them."""

import os
import subprocess
from functools import cache
from pathlib import Path
from typing import Literal

from .tools import ToolMissing, find_compiler

Simulator = Literal["verilator", "icarus"]
WaveFormat = Literal["vcd", "fst"]


@cache
def fst_available() -> bool:
    """Tell whether Verilator's FST writer can be compiled. It needs the headers of zlib and lz4."""
    probe = "#include <zlib.h>\n#include <lz4.h>\n"
    try:
        compiler = find_compiler()
    except ToolMissing:
        return False
    command = [compiler, "-E", "-x", "c++", "-", "-o", os.devnull]
    return subprocess.run(command, input=probe, text=True, capture_output=True, check=False).returncode == 0


def wave_format(path: Path, simulator: Simulator) -> WaveFormat:
    """Return the format of a wave file by its suffix.

    Raises ``ValueError`` for a suffix other than .vcd and .fst, and
    :class:`~inceptionn.sim.models.tools.ToolMissing` for FST with Verilator where its headers are missing.
    """
    match path.suffix:
        case ".vcd":
            return "vcd"
        case ".fst":
            if simulator == "verilator" and not fst_available():
                raise ToolMissing(
                    "FST from Verilator needs the headers of zlib and lz4 (Debian: apt install zlib1g-dev "
                    "liblz4-dev); VCD needs neither"
                )
            return "fst"
        case suffix:
            raise ValueError(f"wave file must end in .vcd or .fst, not {suffix!r}")

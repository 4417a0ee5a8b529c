# SPDX-License-Identifier: BSD-2-Clause
"""The Verilog of the NIC that replay and cluster simulate."""

import re
from collections.abc import Callable
from functools import partial
from pathlib import Path

from inceptionn.wire import GROUP_LANES


def nic_module(verilog: str) -> str | None:
    """Return the name of the NIC's module; None if there is none.

    It is ``inceptionn_nic``, or that with another prefix.
    """
    found = re.search(r"^\s*module\s+(\w+_nic)\b", verilog, re.MULTILINE)
    return found and found[1]


def emit_nic(codec: str, lanes: int = GROUP_LANES, engines: int = 1, bf16: bool = False) -> str:
    """Emit the NIC of these sizes as ``inceptionn_nic``, or read it from the cache; ``bf16``: with bf16."""
    from inceptionn.hdl.codec.shape import EngineShape
    from inceptionn.hdl.nic import Nic

    from .runner import emit

    make = partial(Nic, EngineShape.of(lanes, codec, bf16), engines=engines)
    known_as = f"{engines} of {lanes} lanes, {codec}{', bf16' if bf16 else ''}"
    return emit(make, "inceptionn_nic", known_as=known_as)


def nic_verilog(
    given: Path | None, scratch: Path, step: Callable[[str], None], codec: str = "paper", bf16: bool = False,
    lanes: int = GROUP_LANES,
) -> Path:  # fmt: skip
    """Return the file ``given``, or write the Verilog of a NIC with this codec to the folder ``scratch``.

    ``bf16``: with bf16 lanes. ``lanes``: of its engines.

    ``FileNotFoundError`` and ``ValueError`` for a given file that is missing or has no ``inceptionn_nic``.
    """
    if given is not None:
        if not given.is_file():
            raise FileNotFoundError(f"no such Verilog file; inceptionn generate writes it: {str(given)!r}")
        if nic_module(given.read_text(errors="replace")) is None:
            raise ValueError(f"no module inceptionn_nic in {str(given)!r}; it is in inceptionn_nic.v")
        return given
    step("writing the Verilog")
    scratch.mkdir(parents=True, exist_ok=True)
    size = "" if lanes == GROUP_LANES else f"_{lanes}"
    path = scratch / f"inceptionn_nic_{codec}{'_bf16' if bf16 else ''}{size}.v"
    path.write_text(emit_nic(codec, lanes, bf16=bf16))
    return path

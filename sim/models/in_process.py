# SPDX-License-Identifier: BSD-2-Clause
"""Models in this process: shared libraries of a Verilog module and a harness of this package."""

import ctypes
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from inceptionn.wire import BURST_BYTES

from .verilator import Kind, Step, build
from .waves import WaveFormat

_PACKAGE = Path(__file__).parent
LIBRARY = "model.so"


class LoadedModel:
    """A model of a shared library, freed by `close`, at the end of a ``with`` block, or with the object.

    Parameters
    ----------
    library : :class:`pathlib.Path`
        The shared library.
    prefix : :class:`str`
        Of its functions: ``<prefix>_new`` makes a model, ``<prefix>_delete`` frees it.
    functions : mapping
        By name without prefix: type of the result (None: none), then of the arguments after the model's
        pointer. Of ``new`` all arguments, since it has no pointer.
    name : :class:`str`
        The module's, for messages.
    arguments
        Of ``<prefix>_new``.
    """

    def __init__(
        self, library: Path, prefix: str, functions: Mapping[str, tuple[Any, ...]], name: str, *arguments: Any
    ):
        self._name = name
        self._functions = {}
        lib = ctypes.CDLL(str(library))
        for each, (result, *types) in {"delete": (None,), **functions}.items():
            function = self._functions[each] = getattr(lib, f"{prefix}_{each}")
            function.restype = result
            function.argtypes = types if each == "new" else [ctypes.c_void_p, *types]
        self._model: int | None = self._functions["new"](*arguments)

    def _call(self, function: str, *arguments: Any) -> Any:
        """Call a function of the library for this model; ``ValueError`` after `close`."""
        if self._model is None:
            raise ValueError(f"{self._name} is closed")
        return self._functions[function](self._model, *arguments)

    def close(self) -> None:
        """Free the model and end its waveform; it cannot be used any more."""
        if self._model is not None:
            self._call("delete")
            self._model = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def __del__(self) -> None:
        if getattr(self, "_model", None) is not None:
            self.close()


@dataclass(frozen=True)
class Pipe:
    """An AXI4-Stream input of a module and the output that its frames leave by."""

    input: str
    output: str
    user_at: str = "kLast"
    """The beat in which the input's ``tuser`` counts: ``kLast`` (with ``tlast``) or ``kFirst``."""


@dataclass(frozen=True)
class Interface:
    """The ports of a module that the harness drives, beside ``aclk`` and ``aresetn``.

    Streams are ``data_bytes`` wide, a multiple of 32; ``inputs`` are plain inputs that hold a value between
    calls.
    """

    pipes: tuple[Pipe, ...]
    inputs: tuple[str, ...] = ()
    axi_lite: bool = False
    clocks: tuple[str, ...] = ()
    """Clocks of the pipes' engines, stopped while they are empty (`inceptionn.sim.verilated.gated`)."""
    data_bytes: int = BURST_BYTES

    def header(self, waves: WaveFormat | None) -> str:
        """Return the text of ``top.h`` for the harness, which writes ``waves``."""
        pipes = " ".join(f"PIPE({p.input}, {p.output}, {p.user_at})" for p in self.pipes)
        inputs = " ".join(f"INPUT({name})" for name in self.inputs)
        lines = ['#include "Vmodel.h"', "#define TOP Vmodel", f"#define PIPES(PIPE) {pipes}"]
        lines += [f"#define INPUTS(INPUT) {inputs}", f"#define STREAM_BYTES {self.data_bytes}"]
        lines += ["#define AXI_LITE"] * self.axi_lite
        if waves is not None:
            lines += [f"#define TRACE Verilated{waves.capitalize()}C", f'#include "verilated_{waves}_c.h"']
        if self.clocks:
            lines += ["#define CLOCKS(CLOCK) " + " ".join(f"CLOCK({name})" for name in self.clocks)]
        return "\n".join(lines) + "\n"


INTERFACES = {
    "inceptionn_nic": Interface(
        (Pipe("s_axis_tx", "m_axis_tx"), Pipe("s_axis_rx", "m_axis_rx")), axi_lite=True
    ),
    "inceptionn_compressor": Interface((Pipe("s_axis", "m_axis"),), ("cfg_e0", "cfg_t", "cfg_b")),
    "inceptionn_decompressor": Interface((Pipe("s_axis", "m_axis", "kFirst"),), ("cfg_b",)),
}


def library_kind(waves: WaveFormat | None = None, short_runs: bool = False) -> Kind:
    """Describe a shared library of a model with prefix ``Vmodel`` and a harness in C++.

    The arguments are those of `build_model`.
    """
    return Kind(
        keep=(LIBRARY,),
        verilate=("--prefix", "Vmodel", *[f"--trace-{waves}"] * bool(waves)),
        # -fno-gnu-unique keeps two models in one process apart.
        compile=("-fPIC", "-fno-gnu-unique", "-DVL_TIME_CONTEXT"),
        level="-O0" if short_runs else "-O1",
        runtime=("verilated.cpp", "verilated_threads.cpp", *[f"verilated_{waves}_c.cpp"] * bool(waves)),
        link=("-shared", "-Wl,--no-undefined", *["-lz", "-llz4"] * (waves == "fst")),
    )


def build_model(
    verilog: Path,
    top: str,
    *,
    interface: Interface | None = None,
    waves: WaveFormat | None = None,
    short_runs: bool = False,
    step: Step = lambda text: None,
) -> Path:
    """Build the shared library for module ``top`` of the file ``verilog``, unless it is in the cache.

    Returns its path. ``interface`` defaults to the one of `INTERFACES`; ``waves`` makes the model able to
    write that format (and slower); ``short_runs`` leaves out optimisation, so that it is built sooner and
    runs slower; ``step`` gets the current step as text. Raises `ToolMissing` or `ToolError` for a missing or
    failing tool, ``FileNotFoundError`` for missing Verilog, ``ValueError`` for a module of unknown interface.
    """
    if interface is None:
        if top not in INTERFACES:
            raise ValueError(
                f"interface must be given for a module other than {', '.join(INTERFACES)}: {top!r}"
            )
        interface = INTERFACES[top]
    files = {f"{verilog.stem}.v": verilog.read_text(), "top.h": interface.header(waves)}
    files |= {name: (_PACKAGE / name).read_text() for name in ("harness.cpp", "harness.h")}
    return build(library_kind(waves, short_runs), top, files, step=step) / LIBRARY

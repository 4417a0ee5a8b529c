# SPDX-License-Identifier: BSD-2-Clause
"""``inceptionn reproduce``: one subcommand for each table and figure, and ``all``."""

import time
from collections.abc import Callable
from importlib import import_module
from inspect import signature
from operator import attrgetter
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import typer

from ...commands import report
from ...commands.console import Console, JsonFile, Output, new_progress, tracked
from ...commands.environment import environment
from ...commands.study import Columns, tabulated
from ...commands.user_codec import UserCodec, user_codec
from ..training.data import require_digits
from .artefact import Artefact

OUT = Path("build/reproduce")


class Source(NamedTuple):
    """An artefact: its name, the module of the function that makes it, its place in a paper, its needs."""

    name: str
    module: str
    help: str
    time: str
    """With ``--quick``, alone, on two processors that are busy with other work."""
    network: bool = False
    torch: bool = False
    codec: bool = False
    """True if it takes a codec of the user's own."""

    @property
    def text(self) -> str:
        """The command's help, with the parts that need more than scikit-learn."""
        needs = ["root (hosts with shaped links)"] * self.network + ["torch"] * self.torch
        missing = f" Parts need {' and '.join(needs)}; what is missing is named." if needs else ""
        return f"{self.help} Prints paper | here | difference. Takes {self.time} with --quick.{missing}"

    def make(self, artefact: Artefact) -> None:
        """Make the artefact, and count its seconds."""
        module = import_module(f".artefacts.{self.module}", __package__)
        began = time.perf_counter()
        getattr(module, self.name.replace("-", "_"))(artefact)
        artefact.seconds = time.perf_counter() - began


SECONDS, HALF, MINUTE, MINUTES = "a few seconds", "half a minute", "a minute", "one to two minutes"

SOURCES = (
    Source("fig4", "trainings", "Fig. 4: truncation of g, w and both, and accuracy.", HALF),
    Source("fig5", "gradients", "Fig. 5: distribution of gradients over a training.", MINUTE, torch=True),
    Source("table2", "systems", "Table II: time breakdown of a worker-aggregator step.", MINUTES,
           network=True, torch=True),
    Source("table3", "gradients", "Table III: shares of compressed widths.", MINUTES, torch=True),
    Source("fig7", "software", "Fig. 7: what compression in software costs.", SECONDS),
    Source("fig12", "systems", "Fig. 12: WA, WA+C, INC, INC+C.", HALF, network=True),
    Source("fig13", "trainings", "Fig. 13: epochs to equal accuracy.", HALF),
    Source("fig14", "trainings", "Fig. 14: ratio and accuracy by method.", MINUTES, torch=True, codec=True),
    Source("fig15", "systems", "Fig. 15: scaling, measured to 8 and modelled to 1,024 nodes.", HALF,
           network=True),
    Source("ssd-sgd", "related", "SSD-SGD, Table 2: accuracy by delay.", SECONDS),
    Source("a2dtwp", "related", "A2DTWP, Table II: parts of a batch.", SECONDS),
    Source("parallax", "related", "Parallax, Table 4: throughput by architecture.", MINUTE, network=True),
    Source("gradiveq", "related", "GradiVeQ, Sec. 4: ratio, accuracy, aggregation.", MINUTES, network=True),
)  # fmt: skip
ARTEFACTS = {source.name: source for source in SOURCES}

Out = Annotated[Path, typer.Option(metavar="DIR", file_okay=False, help="Folder for JSON, CSV and figure.")]
Quick = Annotated[bool, typer.Option("--quick", help="Fewer steps, seeds and rounds, for a first look.")]
WithTorch = Annotated[
    bool, typer.Option("--torch/--no-torch", help="Compute the ImageNet networks if torch is installed.")
]
WithNetwork = Annotated[
    bool, typer.Option("--network/--no-network", help="Measure between hosts if run as root.")
]


def _artefact(out: Path, name: str, console: Console, seed: int, **settings: Any) -> Artefact:
    """Return an artefact that will write NAME.json, .csv and .png."""
    require_digits()
    json_file, csv_file, plot = (out / f"{name}.{ending}" for ending in ("json", "csv", "png"))
    files = Output(json_file, csv_file, plot)
    files.console = console
    return Artefact(files, environment(seed), name=name, seed=seed, **settings)


def _command(source: Source) -> Callable[..., None]:
    def command(
        out: Out = OUT,
        seed: report.Seed = 1,
        quick: Quick = False,
        torch: WithTorch = True,
        network: WithNetwork = True,
        json_file: JsonFile = None,
        given: UserCodec = None,
    ) -> None:
        output = Output(json_file)
        settings = {"quick": quick, "torch": torch, "network": network, "codec": user_codec(given)}
        made = _artefact(out, source.name, output.console, seed, **settings)
        with new_progress(output.console, bar=False) as progress:
            task = progress.add_task(source.name, total=None)
            made.step = lambda text: progress.update(task, description=text)
            source.make(made)
        made.finish()
        output.console.print(f"{made.seconds:.0f} s; {out / source.name}.json, .csv, .png")
        output.write(made.json())

    if not source.codec:  # the option is not for this artefact
        shown = signature(command, eval_str=True)
        parameters = [each for each in shown.parameters.values() if each.name != "given"]
        command.__signature__ = shown.replace(parameters=parameters)  # type: ignore[attr-defined]
    command.__doc__ = source.text
    return command


def everything(
    out: Out = OUT,
    only: Annotated[str, report.listed(f"Of {', '.join(ARTEFACTS)}.")] = ",".join(ARTEFACTS),
    seed: report.Seed = 1,
    quick: Quick = False,
    torch: WithTorch = True,
    network: WithNetwork = True,
    json_file: JsonFile = None,
) -> None:
    """Make all artefacts in sequence; if one fails, the others still run, and the exit status is 1."""
    chosen, output = report.choices(only, tuple(ARTEFACTS), "--only"), Output(json_file)
    settings = {"quick": quick, "torch": torch, "network": network}
    artefacts = [_artefact(out, name, output.console, seed, **settings) for name in chosen]
    done: list[Artefact] = []
    failed: list[str] = []
    for made in tracked(output.console, artefacts, attrgetter("name")):
        try:
            ARTEFACTS[made.name].make(made)
            made.finish()
            done.append(made)
        except (OSError, RuntimeError, ValueError, ModuleNotFoundError) as error:
            failed.append(f"{made.name}: {type(error).__name__}: {error}")
    columns = {**SUMMARY, "files": lambda made: f"{out / made.name}.*"}
    output.console.print(tabulated("Artefacts", columns, done))
    output.write({"command": "reproduce all", "artefacts": [made.json() for made in done], "failed": failed})
    if failed:
        raise RuntimeError("; ".join(failed))


SUMMARY: Columns[Artefact] = {
    "": lambda made: made.name,
    "seconds": lambda made: f"{made.seconds:.0f}",
    "rows": lambda made: str(len(made.rows)),
    "claims that hold": lambda made: f"{sum(check.holds for check in made.checks)} of {len(made.checks)}",
}


def __getattr__(name: str) -> Any:
    """Return the function of a subcommand, as the command line asks for it."""
    if name in ARTEFACTS:
        return _command(ARTEFACTS[name])
    raise AttributeError(name)

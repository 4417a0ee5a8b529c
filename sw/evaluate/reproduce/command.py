# SPDX-License-Identifier: BSD-2-Clause
"""``inceptionn reproduce``: one subcommand for each table and figure, and ``all``."""

import time
from collections.abc import Callable
from dataclasses import replace
from importlib import import_module
from inspect import signature
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import typer

from ...commands import report
from ...commands.console import JsonFile, Table, new_progress
from ...commands.environment import environment
from ...commands.own_codec import OwnCodec, own_codec
from ..training.data import require_digits
from .artefact import Artefact, Settings, show, write

OUT = Path("build/reproduce")


class Source(NamedTuple):
    """An artefact's place in its paper, its description, and its needs besides scikit-learn."""

    module: str
    help: str
    time: str
    """With ``--quick``, alone, on two processors that are busy with other work."""
    network: bool = False
    torch: bool = False
    codec: bool = False
    """True if it takes a codec of the user's own."""


SECONDS, HALF, MINUTE, MINUTES = "a few seconds", "half a minute", "a minute", "one to two minutes"

ARTEFACTS = {
    "fig4": Source("fig4", "Fig. 4: truncation of g, w and both, and accuracy.", HALF),
    "fig5": Source("fig5", "Fig. 5: distribution of gradients over a training.", MINUTE, torch=True),
    "table2": Source("table2", "Table II: time breakdown of a worker-aggregator step.", MINUTES, True, True),
    "table3": Source("table3", "Table III: shares of compressed widths.", MINUTES, torch=True),
    "fig7": Source("fig7", "Fig. 7: what compression in software costs.", SECONDS),
    "fig12": Source("fig12", "Fig. 12: WA, WA+C, INC, INC+C.", HALF, True),
    "fig13": Source("fig13", "Fig. 13: epochs to equal accuracy.", HALF),
    "fig14": Source("fig14", "Fig. 14: ratio and accuracy by method.", MINUTES, torch=True, codec=True),
    "fig15": Source("fig15", "Fig. 15: scaling, measured to 8 and modelled to 1,024 nodes.", HALF, True),
    "ssd-sgd": Source("related.ssd_sgd", "SSD-SGD, Table 2: accuracy by delay.", SECONDS),
    "a2dtwp": Source("related.a2dtwp", "A2DTWP, Table II: parts of a batch.", SECONDS),
    "parallax": Source("related.parallax", "Parallax, Table 4: throughput by architecture.", MINUTE, True),
    "gradiveq": Source("related.gradiveq", "GradiVeQ, Sec. 4: ratio, accuracy, aggregation.", MINUTES, True),
}

Out = Annotated[Path, typer.Option(metavar="DIR", file_okay=False, help="Folder for JSON, CSV and figure.")]
Quick = Annotated[bool, typer.Option("--quick", help="Fewer steps, seeds and rounds, for a first look.")]
WithTorch = Annotated[
    bool, typer.Option("--torch/--no-torch", help="Compute the ImageNet networks if torch is installed.")
]
WithNetwork = Annotated[
    bool, typer.Option("--network/--no-network", help="Measure between hosts if run as root.")
]


def made(name: str, settings: Settings) -> tuple[Artefact, Callable[[Any, Artefact], None]]:
    """Make an artefact with its time; return it and the function that draws it."""
    module = import_module(f".artefacts.{ARTEFACTS[name].module}", __package__)
    began = time.perf_counter()
    artefact: Artefact = module.make(settings)
    artefact.seconds = time.perf_counter() - began
    return artefact, module.draw


def _prepared(
    out: Path, seed: int, quick: bool, torch: bool, network: bool, json_file: Path | None
) -> tuple[report.Report, Settings]:
    """Check all requirements, and return the outputs and the settings."""
    outputs = report.Report(seed, json_file, plot=out / "figure.png")
    require_digits()
    return outputs, Settings(seed, quick, torch, network)


def _command(name: str) -> Callable[..., None]:
    source = ARTEFACTS[name]

    def command(
        out: Out = OUT,
        seed: report.Seed = 1,
        quick: Quick = False,
        torch: WithTorch = True,
        network: WithNetwork = True,
        json_file: JsonFile = None,
        own: OwnCodec = None,
    ) -> None:
        codec = own_codec(own)
        outputs, settings = _prepared(out, seed, quick, torch, network, json_file)
        settings, facts = replace(settings, codec=codec), outputs.environment
        with new_progress(outputs.console, bar=False) as progress:
            task = progress.add_task(name, total=None)
            artefact, draw = made(
                name, replace(settings, step=lambda text: progress.update(task, description=text))
            )
        show(outputs.console, artefact, facts)
        paths = write(out, artefact, facts, draw)
        outputs.show([f"{artefact.seconds:.0f} s; {', '.join(map(str, paths))}"])
        outputs.write(artefact.facts(facts), ())

    if not source.codec:  # the option is not for this artefact
        shown = signature(command, eval_str=True)
        parameters = [each for each in shown.parameters.values() if each.name != "own"]
        command.__signature__ = shown.replace(parameters=parameters)  # type: ignore[attr-defined]
    command.__doc__ = (
        f"{source.help} Prints paper | here | difference. Takes {source.time} with --quick.{_needs(source)}"
    )
    return command


def _needs(source: Source) -> str:
    """Name the parts that need more than scikit-learn, in a sentence."""
    needs = [
        *(["root (hosts with shaped links)"] if source.network else ()),
        *(["torch"] if source.torch else ()),
    ]
    return f" Parts need {' and '.join(needs)}; what is missing is named." if needs else ""


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
    chosen = report.choices(only, tuple(ARTEFACTS), "--only")
    outputs, settings = _prepared(out, seed, quick, torch, network, json_file)
    console, facts = outputs.console, outputs.environment
    summary = Table("Artefacts", "", "seconds", "rows", "claims that hold", "files", left=1)
    results, failed = [], []
    with new_progress(console) as progress:
        task = progress.add_task("", total=len(chosen))
        for name in chosen:
            progress.update(task, description=name)
            try:
                artefact, draw = made(name, settings)
                write(out, artefact, environment(seed), draw)
            except (OSError, RuntimeError, ValueError, ModuleNotFoundError) as error:
                failed.append(f"{name}: {type(error).__name__}: {error}")
                continue
            finally:
                progress.advance(task)
            show(console, artefact, facts)
            held = sum(check.holds for check in artefact.checks)
            summary.add_row(
                name, f"{artefact.seconds:.0f}", str(len(artefact.rows)), f"{held} of {len(artefact.checks)}",
                f"{out / name}.*",
            )  # fmt: skip
            results.append(artefact.facts(facts))
    console.print(summary)
    outputs.write({"command": "reproduce all", "artefacts": results, "failed": failed}, ())
    if failed:
        raise RuntimeError("; ".join(failed))


def __getattr__(name: str) -> Any:
    """Return the function of a subcommand, as the command line asks for it."""
    if name in ARTEFACTS:
        return _command(name)
    raise AttributeError(name)

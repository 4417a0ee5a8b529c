# SPDX-License-Identifier: BSD-2-Clause
"""``inceptionn bench exact``: sums with planes have the same bits, whatever adds them in whatever order."""

import warnings
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass
from hashlib import blake2b
from importlib import import_module
from typing import Annotated, Any

import numpy as np
import typer
from numpy.random import Generator
from numpy.typing import NDArray

from .... import Codec, available_paths, using_path
from ....collectives import MEAN, SUM, Op, SumScale, allreduce_comp, reduce_comp, reduce_scatter_comp
from ....commands import report
from ....transport import Transport
from ...study import Columns, Study, measurement
from ..common.threads import on_ranks

Floats = NDArray[np.float32]
Settings = dict[str, Any]
KINDS = ("gradients", "bfloat16", "ties", "large", "special", "ends")
"""Normal values of several sizes, those that came from bfloat16, half steps, raw lanes on and off the
lattice, and subnormal and infinite values and NaNs among all these; the ends of fp32's range, scaled."""
EXACT = 1 << 24
VERILOG = "through the NIC's Verilog"
_ENDS = np.array([1, 0x7FFFFF, 0x7E800000, 0x7EFFFFFF, 0x7F000000, 0x7F7FC000, 0x7F7FFFFF], np.uint32)
_SIGNS = np.array([0, 1 << 31], np.uint32)
_SPECIAL = np.array([1 << 31, 1, 0x807FFFFF, 0x7F800000, 0xFF800000, 0x7FC00001, 0xFFABCDEF], np.uint32)


@dataclass(frozen=True)
class Case:
    """The values of some ranks, ``float32[ranks, count]``, and what they agree on."""

    kind: str
    values: Floats
    codec: Codec
    scale: SumScale
    op: Op
    sections: list[int] | None = None


def a_case(source: Generator) -> Case:
    """Draw a case whose sums are exact: the magnitudes of a lane add up to at most `EXACT` steps."""
    kind, k = str(source.choice(KINDS)), int(source.choice((1, 6, 8, 10, 12, 14)))
    ranks, count = int(source.integers(2, 9)), int(source.choice((1, 7, 40, 333, 2048, 2500)))
    most = EXACT * 2.0 ** (1 - k) / ranks - 1
    scale: SumScale = (None, 3, "auto", "tensor")[int(source.integers(4))]
    x = source.standard_normal((ranks, count)) * 2.0 ** source.integers(-k - 2, 1, (1, count))
    if kind == "ties":
        x = np.round(x * 2.0 ** (k + 1)) * 2.0 ** -(k + 1)
    if kind in ("large", "special"):
        x *= 2.0 ** source.integers(0, 20, (1, count))
    x = np.clip(x, -most, most)
    if scale == 3:
        x /= 8
    sections = None
    if scale == "tensor":
        ends = np.sort(source.integers(0, count + 1, int(source.integers(6))))
        sections = np.diff([0, *ends, count]).tolist()
        x *= np.repeat(2.0 ** source.integers(-40, 40, len(sections)), sections)
    values = x.astype(np.float32)
    if kind == "bfloat16":
        values.view(np.uint32)[:] &= 0xFFFF0000
    if kind == "special":
        places = source.random(values.shape) < 0.02
        values.view(np.uint32)[places] = source.choice(_SPECIAL, int(places.sum()))
    if kind == "ends":
        scale = scale if scale == "tensor" else "auto"
        found = source.choice(_ENDS, values.shape) | source.choice(_SIGNS, values.shape)
        values = np.where(source.random(values.shape) < 0.3, np.float32(0), found.view(np.float32))
    op = (SUM, MEAN)[int(source.integers(2))]
    return Case(kind, values, Codec(2.0**-k, "planes", threads=1), scale, op, sections)


def _all_reduce(t: Transport, x: Floats, op: Op, settings: Settings) -> Floats:
    y = np.empty_like(x)
    allreduce_comp(t, x, y, op, **settings)
    return y


def _reduce(t: Transport, x: Floats, op: Op, settings: Settings) -> Floats:
    y, root = np.empty_like(x), t.size // 2
    reduce_comp(t, x, y, op, root=root, **settings)
    return y if t.rank == root else y[:0]


def _reduce_scatter(t: Transport, x: Floats, op: Op, settings: Settings) -> Floats:
    blocks = np.array_split(np.arange(x.size), t.size)
    y = np.empty(blocks[t.rank].size, np.float32)
    reduce_scatter_comp(t, x, y, op, counts=[block.size for block in blocks], **settings)
    return y


Collective = Callable[[Transport, Floats, Op, Settings], Floats]


@dataclass(frozen=True)
class Way:
    """A collective with some settings, whose ranks' results are whole sums, or one in parts."""

    name: str
    collective: Collective
    whole: bool
    settings: Settings


def _has_nics(way: Way) -> bool:
    return bool(way.settings["path"] == "nic")


def ways(source: Generator, ranks: int) -> Iterator[Way]:
    """Yield every way of a sum, with group and sub-block sizes drawn at random."""

    def drawn() -> Settings:
        return {"sub_block": int(source.choice((64, 2048, 1 << 20)))}

    groups = {"algorithm": "hierarchical", "group_size": int(source.integers(1, ranks + 1))}
    legs = str(source.choice(("both", "up", "down", "none")))
    for path in ("software", "nic"):
        yield Way(f"ring, {path}", _all_reduce, True, {"path": path, **drawn()})
        yield Way(f"hierarchical, {path}", _all_reduce, True, {"path": path, **groups, **drawn()})
        aggregator = {"upper": "aggregator", "legs": legs}
        yield Way(
            f"hierarchical, aggregator, {path}", _all_reduce, True,
            {"path": path, **groups, **aggregator, **drawn()},
        )  # fmt: skip
        up = {"algorithm": "worker_aggregator", "legs": str(source.choice(("both", "up")))}
        yield Way(f"worker aggregator, {path}", _all_reduce, True, {"path": path, **up, **drawn()})
        yield Way(f"reduce, {path}", _reduce, False, {"path": path, **drawn()})
        yield Way(f"reduce-scatter, {path}", _reduce_scatter, False, {"path": path, **drawn()})
        yield Way(
            f"reduce-scatter, hierarchical, {path}", _reduce_scatter, False,
            {"path": path, **groups, **drawn()},
        )  # fmt: skip


def result(case: Case, way: Way, order: NDArray[np.int64], seed: int = 0, nics: Any = None) -> Floats:
    """Return the sum that the ranks get, who hold the values in an ``order``; raise if they differ.

    ``nics``: an ``inceptionn.sim.nic_link.NicLink`` in place of NICs' model.
    """
    settings = {"codec": case.codec, "scale": case.scale, "sections": case.sections, **way.settings}
    nic_codec = case.codec if way.settings["path"] == "nic" else None
    if nics is not None:
        nics.configure(case.codec.parameters)
    found = on_ranks(
        len(order), lambda t: way.collective(t, case.values[order[t.rank]], case.op, settings),
        nic_codec=nic_codec, nics=nics and nics.carry, seed=seed,
    )  # fmt: skip
    if not way.whole:
        return np.concatenate(found)
    if len({one.tobytes() for one in found}) > 1:
        raise AssertionError(f"{way.name}: the ranks' results differ")
    return found[0]


def compare(source: Generator, each: int, nics: Any = None) -> tuple[bytes, dict[str, tuple[int, int]]]:
    """Draw a case, sum it in ``each`` ways of those there are, and return the first one's bits.

    Also returns, by way and by path of the codec, how many sums there were and how many had other bits.
    ``nics``, a NicLink, carries what ways with NICs send; the first way is one.
    """
    case, paths = a_case(source), available_paths()
    ranks = len(case.values)
    every = list(ways(source, ranks))
    drawn = [every[place] for place in source.permutation(len(every))]
    if nics is not None:
        drawn.insert(0, drawn.pop(next(at for at, way in enumerate(drawn) if _has_nics(way))))
    first: bytes | None = None
    counts: dict[str, tuple[int, int]] = {}
    for way in drawn[:each]:
        path = str(source.choice(paths))
        link = nics if _has_nics(way) else None
        with using_path(path):
            order, seed = source.permutation(ranks), int(source.integers(1 << 30))
            found = result(case, way, order, seed, link).tobytes()
        first = found if first is None else first
        for name in (way.name, f"path {path}", *([] if link is None else [VERILOG])):
            sums, others = counts.get(name, (0, 0))
            counts[name] = sums + 1, others + (found != first)
    assert first is not None
    return first, counts


WAYS: Columns[tuple[str, list[int]]] = {
    "": lambda way: way[0],
    "sums": lambda way: str(way[1][0]),
    "with other bits": lambda way: str(way[1][1]),
}


@measurement("exact")
def exact(
    study: Study,
    cases: Annotated[
        int, typer.Option(min=1, max=10**7, help="Random sets of values of 2 to 8 ranks.")
    ] = 2000,
    each: Annotated[int, typer.Option(min=2, max=14, help="Ways of summing each of them.")] = 6,
    nic: Annotated[
        int, typer.Option(min=0, help="Number of the cases whose NICs are the NIC's Verilog (Verilator).")
    ] = 0,
    seed: report.Seed = 1,
    quick: Annotated[bool, report.quick(cases=100)] = False,
) -> None:
    """Sum random values in different ways and compare the bits; exit status 1 if some differ.

    Values are of all kinds: normal, from bfloat16, halfway between steps, large, subnormal, infinite and
    NaNs; bounds 2**-1 to 2**-14; with scale "auto", "tensor", fixed and none; sums and means. Ways: rings,
    groups, aggregators, reduce and reduce-scatter, in software and with simulated NICs that leave packets raw
    at random; sizes of groups and sub-blocks; who holds which values; every path of the codec. With --nic,
    some NICs are the Verilog of the real one (extra `sim`). The hash is that of all sums, with or without it.
    About two minutes, with --quick some seconds.
    """
    if nic > cases:
        raise typer.BadParameter(f"must be 0..{cases}, the number of cases, not {nic}", param_hint="--nic")
    digest = blake2b(digest_size=16)
    total: dict[str, list[int]] = {}
    frames = ""
    with import_module("inceptionn.sim.nic_link").NicLink.of("planes") if nic else nullcontext() as nics:
        for number in range(cases):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", RuntimeWarning)  # a large bound may lose everything
                source = np.random.default_rng((seed, number))
                bits, counts = compare(source, each, nics if number < nic else None)
            digest.update(bits)
            for name, own in counts.items():
                total[name] = [a + b for a, b in zip(total.get(name, [0, 0]), own, strict=True)]
        if nics is not None:
            frames = f"; {nics.frames} frames through the NIC's Verilog, {nics.compressed} of them compressed"
    study.conditions.append(f"{cases} cases, {each} ways of summing each{frames}")
    found = sorted(total.items())
    study.table("Exact sums", WAYS, found)
    study.show(f"hash of all sums: {digest.hexdigest()}")
    study.rows = [
        {"way": name, "sums": sums, "others": others} for name, (sums, others) in sorted(total.items())
    ]
    study.facts |= {
        "cases": cases, "each": each, "nic": nic, "hash": digest.hexdigest(), "rows": study.rows,
    }  # fmt: skip
    study.finish()
    if any(others for _, others in total.values()):
        raise typer.Exit(1)

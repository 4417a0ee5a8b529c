# SPDX-License-Identifier: BSD-2-Clause
"""Random sums with planes in all ways: they have the same bits, whatever adds them in whatever order."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from inceptionn import Codec, available_paths, using_path
from inceptionn.collectives import MEAN, SUM, Op, SumScale, allreduce_comp, reduce_comp, reduce_scatter_comp
from inceptionn.evaluate.bench.common.job import on_ranks
from inceptionn.transport import Transport

Floats = NDArray[np.float32]
Settings = dict[str, Any]
KINDS = ("gradients", "bfloat16", "ties", "large", "special", "ends")
"""Normal values of several sizes, those that came from bfloat16, half steps, raw lanes on and off the
lattice, and subnormal and infinite values and NaNs among all these; the ends of fp32's range, scaled."""
EXACT = 1 << 24
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
    scale: SumScale = (None, 3, "auto", "tensor", "rms")[int(source.integers(5))]
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


def compare(source: Generator, each: int, nics: Any = None) -> tuple[list[str], int]:
    """Draw a case; sum it in ``each`` ways of those there are, on any path of the codec and in any order.

    Return the ways with other bits than the first, and the number of sums through ``nics``, a NicLink: it
    carries what ways with NICs send, and the first way is one.
    """
    case, paths = a_case(source), available_paths()
    ranks = len(case.values)
    every = list(ways(source, ranks))
    drawn = [every[place] for place in source.permutation(len(every))]
    if nics is not None:
        drawn.insert(0, drawn.pop(next(at for at, way in enumerate(drawn) if _has_nics(way))))
    first: bytes | None = None
    others, carried = [], 0
    for way in drawn[:each]:
        path = str(source.choice(paths))
        link = nics if _has_nics(way) else None
        with using_path(path):
            order, seed = source.permutation(ranks), int(source.integers(1 << 30))
            found = result(case, way, order, seed, link).tobytes()
        first = found if first is None else first
        others += [f"{way.name}, {path}"] * (found != first)
        carried += link is not None
    return others, carried

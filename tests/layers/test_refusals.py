# SPDX-License-Identifier: BSD-2-Clause
"""What the layers' classes and functions refuse, and what they say of it."""

import math
import re
from typing import Any

import numpy as np
import pytest

from inceptionn import Codec
from inceptionn.layers.a2dtwp import AWP, Oracle, adt, bitpack, bitunpack
from inceptionn.layers.gradiveq.pca import dimension_of
from inceptionn.layers.gradiveq.phases import Phases
from inceptionn.layers.gradiveq.qsgd import QSGD
from inceptionn.layers.gradiveq.slicing import Slicing
from inceptionn.layers.parallax import PartitionSearch, SparsityMeter, choose, fit
from inceptionn.layers.parallax.exchange.row_sets import Partitions, decode_rows
from inceptionn.layers.parameter_server import Constant, Cosine, MomentumSGD, StepDecay, WarmUp
from inceptionn.layers.parameter_server.exchange.legs import CodecLeg
from inceptionn.layers.parameter_server.plan import Plan
from inceptionn.layers.ssd_sgd import GLU, DCASGDa, LocalSGD

NAN, TEN = math.nan, np.arange(10, dtype=np.float32)
OF_TYPE = "a schedule, not None", "an integer", "a float32 array"


def rows(*data: int) -> Any:
    return decode_rows(np.array(data, np.uint8), 100)


REFUSALS: dict[Any, list[tuple[Any, str]]] = {
    "a2dtwp.awp": [
        (lambda: AWP(["w"], threshold=float("nan")), "threshold must be finite, not nan"),
        (lambda: AWP(["w"], interval=0), "interval must be at least 1 batch, not 0"),
        (lambda: AWP(["w"], increment=0), "increment must be 1..32 bits, not 0"),
        (lambda: AWP(["w"], initial=33), "initial must be 1..32 bits, not 33"),
        (lambda: AWP([]), "there must be layers, and keys in each of them, not []"),
        (lambda: AWP({"a": ["w"], "b": ["w"]}), "key 'w' is in two layers"),
        (lambda: Oracle(0), "round_to must be 1..4 bytes, not 0"),
        (lambda: Oracle({"w": 5}), "round_to must be 1..4 bytes, not 5"),
        (lambda: Oracle(2.5), "round_to must be an integer, not 2.5"),
        (lambda: AWP(["w"], interval=1.5), "interval must be an integer, not 1.5"),
    ],
    "a2dtwp.adt": [
        (lambda: bitpack(TEN, 0), "round_to must be 1..4 bytes, not 0"),
        (lambda: bitpack(TEN, 5), "round_to must be 1..4 bytes, not 5"),
        (lambda: bitpack(TEN, 2.0), "round_to must be an integer, not 2.0"),
        (lambda: bitpack(TEN.astype(float), 2), "weights must be a float32 array, not float64"),
        (lambda: bitpack([1.0], 2), "weights must be a float32 array, not <class 'list'>"),
        (lambda: bitpack(TEN, 2, bytearray(19)), "out must hold 20 bytes, 2 for each of 10"),
        (lambda: bitpack(TEN, 2, bytes(20)), "out must be C-contiguous and writable"),
        (lambda: bitpack(TEN, 4, TEN), "out must not overlap the values"),
        (lambda: bitpack(TEN, 2, threads=0), "threads must be 1..4096, not 0"),
        (lambda: bitunpack(bytes(7), 2), "packed must be a multiple of 2 bytes, not 7"),
        (lambda: bitunpack(bytes(8), 2, TEN), "out must hold 4 values, not 10"),
        (lambda: bitunpack(bytes(40), 4, TEN[::-1]), "out must be C-contiguous and writable"),
        (lambda: bitunpack(TEN, 4, TEN), "out must not overlap the values"),
        (lambda: adt.round_to_of(33), "bits must be 1..32, not 33"),
        (lambda: adt.force_path("mmx"), "numpy, not 'mmx'"),
    ],
    "parallax.transfer_model": [
        (lambda: choose(1, 2, 1.5, row_bytes=1), "alpha must be within 0..1, not 1.5"),
        (lambda: choose(1, 0, 1, row_bytes=1), "N must be at least 1, not 0"),
        (lambda: choose(1, 2, 0.1, row_bytes=0), "row_bytes must be above 0, not 0"),
        (
            lambda: choose(1, 2, 0.1, row_bytes=1, all_reduce_ratio=0),
            "all_reduce_ratio must be above 0, not 0",
        ),
        (lambda: SparsityMeter(10).add(11), "used must be within 0..10, not 11"),
    ],
    "parallax.partition_search": [
        (lambda: fit({}), "no samples"),
        (lambda: fit({0: 1.0}), "partitions >= 1 and finite seconds, not 0"),
        (lambda: PartitionSearch(0, 4), "machines must be at least 1, not 0"),
        (lambda: PartitionSearch(2, 0), "within 1..rows, not 1..0"),
        (lambda: PartitionSearch(2, 4).add(NAN), "finite and not negative, not nan"),
        (lambda: Partitions(5, 6, 2), "partitions must be within 1..5, the rows, not 6"),
    ],
    "parallax.decode_rows": [
        (lambda: rows(), "begins with 0 or 1"),
        (lambda: rows(2, 0, 0, 0, 0), "begins with 0 or 1"),
        (lambda: rows(0, 1, 0, 0), "4 bytes each, not 3"),
        (lambda: rows(0, 100, 0, 0, 0), "within 0..99, not 100"),
        (lambda: rows(0, 5, 0, 0, 0, 5, 0, 0, 0), "must ascend"),
        (lambda: rows(1, 255), "has 13 bytes, not 1"),
        (lambda: rows(1, *[0] * 12, 16), "beyond 99"),
    ],
    "parameter_server.Plan": [
        (lambda: Plan({}, 1), "at least one key"),
        (lambda: Plan({"a": (1,)}, 0), "servers must be at least 1, not 0"),
        (lambda: Plan({"a": (1,), "b": (3, 0)}, 1), "key 'b' has no values: its shape is (3, 0)"),
    ],
    "parameter_server.Schedule": [
        (lambda: Constant(NAN), "rate must be above 0, not nan"),
        (lambda: StepDecay(0.1, (3,), 0.0), "factor must be above 0, not 0.0"),
        (lambda: Cosine(0.1, 0), "steps must be at least 1, not 0"),
        (lambda: WarmUp(Constant(0.1), 0), "steps must be at least 1, not 0"),
    ],
    "parameter_server.MomentumSGD": [
        (lambda: MomentumSGD(None), "rate must be a number or a schedule, not None"),  # type: ignore[arg-type]
        (lambda: MomentumSGD(0), "rate must be above 0, not 0"),
        (lambda: MomentumSGD(0.0), "rate must be above 0, not 0.0"),
        (lambda: MomentumSGD(NAN), "rate must be above 0, not nan"),
        (lambda: MomentumSGD(momentum=1.0), "momentum must be within 0 and 1, 1 excluded, not 1.0"),
        (lambda: MomentumSGD(0.1, 1), "momentum must be within 0 and 1, 1 excluded, not 1"),
        (lambda: MomentumSGD(weight_decay=-1.0), "weight_decay must be at least 0, not -1.0"),
    ],
    "parameter_server.CodecLeg": [
        (lambda: CodecLeg(Codec(), 127), "scale must be None, 'auto' or -126..126, not 127"),
    ],
    "ssd_sgd.LocalUpdate": [
        (lambda: LocalSGD(0.0), "factor must be above 0, not 0.0"),
        (lambda: GLU(momentum=1.0), "momentum must be within 0 and 1, 1 excluded, not 1.0"),
        (lambda: GLU(beta=math.inf), "beta must be finite, not inf"),
        (lambda: DCASGDa(mean_square=-0.1), "mean_square must be within 0 and 1, 1 excluded, not -0.1"),
    ],
    "gradiveq.Slicing": [
        (lambda: Slicing("fc", (3, 4)), "key 'fc': a convolution's gradient has 4 dimensions, not (3, 4)"),
        (lambda: Slicing("conv", (0, 2, 3, 3)), "key 'conv' has no values: its shape is (0, 2, 3, 3)"),
        (
            lambda: Slicing("conv", (4, 2, 3, 3), 2),
            "key 'conv': the slice size must be a multiple of F*D that divides the layer, so the multiple "
            "must divide 9, not 2",
        ),
    ],
    "gradiveq.dimension_of": [
        (lambda: dimension_of(np.ones(3), -0.1), "threshold must be within 0 and 1, 1 excluded, not "),
        (lambda: dimension_of(np.ones(3), 1.0), "threshold must be within 0 and 1, 1 excluded, not "),
        (lambda: dimension_of(np.ones(3), 2.0), "threshold must be within 0 and 1, 1 excluded, not "),
        (lambda: dimension_of(np.ones(3), NAN), "threshold must be within 0 and 1, 1 excluded, not "),
    ],
    "gradiveq.Phases": [
        (lambda: Phases(-1, 2, 1), "warm_up must be at least 0 steps, not -1"),
        (lambda: Phases(0, 1, 1), "sampling must be at least 2 steps, not 1"),
        (lambda: Phases(0, 2, 0), "compressed must be at least 1 steps, not 0"),
        (lambda: Phases(0, 2, 1, 0.0), "loss_limit must be above 0, not 0.0"),
    ],
    "gradiveq.QSGD": [
        (lambda: QSGD(3), "bits must be 2, 4 or 8, not 3"),
        (lambda: QSGD(4, 12), "bucket must be a positive multiple of 8, not 12"),
        (lambda: QSGD().compress(np.array([1, NAN], np.float32)), "values to be quantised must be finite"),
        (
            lambda: QSGD().decompress(bytes(8), 10),
            "10 values by QSGD, 4 bits, buckets of 512 are 9 bytes, not 8",
        ),
    ],
}  # fmt: skip


@pytest.mark.parametrize(
    ("call", "text"), [pytest.param(*case, id=name) for name, cases in REFUSALS.items() for case in cases]
)
def test_refusals(call: Any, text: str) -> None:
    kind = TypeError if any(word in text for word in OF_TYPE) else ValueError
    with pytest.raises(kind, match=re.escape(text)) as caught:
        call()
    assert type(caught.value) is kind

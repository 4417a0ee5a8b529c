# SPDX-License-Identifier: BSD-2-Clause
"""Parts for a collective or a training layer of your own.

A collective first brings all ranks to one agreement (`agree`, `choose_path`), then moves lanes in a
`WireForm` with one of the algorithms (`ring`, `aggregate`) inside `moving_data`. `inceptionn.layers` is built
on these parts alone; `docs/layers.md` describes its systems.

- Agreement: `agree`, `choose_path`, `moving_data`, `check_scale`.
- Values of all ranks outside it: `exchanged`, and what they may be, `is_amount`, `is_whole`.
- Scale: `largest_exponent`, `common_scale`, `check_fits`, `with_scale`; `Codec.scaled` for a scale that all
  ranks share, `Scaling` for lanes.
- Division of a vector: `Parts`, `SUB_BLOCK`.
- Algorithms: `ring` and its steps, `aggregate` and `one_aggregator`, `default_group_size`, `RING_ALGORITHMS`;
  `one_step_is_faster` tells when sums of a ring take one step.
- What is sent: `WireForm`, `Raw`, `Compressed`, `wire_form`, and `add_decompressed`, `check_codec`;
  `stream_in` and `values_in` bring what a codec returns into the memory that it was given;
  `sums_exactly` tells whether sums of what arrives are the same in every order.
- What arrives: `arriving`, which names the link of malformed data.
- bfloat16 patterns: `to_bfloat16`, `from_bfloat16`.
- Values that are not finite: `all_finite`.
- Loss of small values: `LostEnergy`, `watch`.
- Statistics: `Ledger`, `Spent`, `ledger_of` a transport, `counted` to count its calls in a ledger of your
  own, and for an exchange of your own `counting`.
"""

from ..codec.scaling import Scaling
from ..codec.stream_codec import add_decompressed, stream_in, values_in
from .agreement import (
    agree,
    check_fits,
    choose_path,
    common_scale,
    exchanged,
    is_amount,
    is_whole,
    largest_exponent,
    moving_data,
)
from .algorithms.aggregators import aggregate, one_aggregator
from .algorithms.hierarchical import default_group_size
from .algorithms.one_step import one_step_is_faster
from .algorithms.parts import SUB_BLOCK, Parts
from .algorithms.ring import all_gather_steps, all_reduce_steps, reduce_scatter_steps, ring
from .ledger import Ledger, counted, counting, ledger_of
from .own_scale import with_scale
from .settings import RING_ALGORITHMS, check_scale
from .values.bfloat16 import from_bfloat16, to_bfloat16
from .values.finite import all_finite
from .values.lost_energy import LostEnergy, watch
from .values.stream_codec import check_codec
from .values.wire_form import Compressed, Raw, Spent, WireForm, arriving, sums_exactly, wire_form

__all__ = [
    "RING_ALGORITHMS", "SUB_BLOCK", "Compressed", "Ledger", "LostEnergy", "Parts", "Raw", "Scaling", "Spent",
    "WireForm", "add_decompressed", "aggregate", "agree", "all_finite", "all_gather_steps",
    "all_reduce_steps", "arriving", "check_codec", "check_fits", "check_scale", "choose_path", "common_scale",
    "counted", "counting", "default_group_size", "exchanged", "from_bfloat16", "is_amount", "is_whole",
    "largest_exponent", "ledger_of", "moving_data", "one_aggregator", "one_step_is_faster",
    "reduce_scatter_steps", "ring", "stream_in", "sums_exactly", "to_bfloat16", "values_in", "watch",
    "wire_form", "with_scale",
]  # fmt: skip

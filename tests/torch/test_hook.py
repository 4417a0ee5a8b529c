# SPDX-License-Identifier: BSD-2-Clause
"""`compress_hook` under DDP, in processes of torch."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

RANKS, STEPS = 2, 30
COMPRESSED = ["hook", "feedback", "tensor", "bf16", "fp16", "hierarchical"]


@pytest.fixture(scope="module")
def ranks(ranks_of: Callable[..., list[dict[str, Any]]]) -> list[dict[str, Any]]:
    return ranks_of("hook_ranks.py", RANKS)


@pytest.mark.parametrize("name", ["plain", *COMPRESSED])
def test_all_ranks_have_the_same_bits(ranks: list[dict[str, Any]], name: str) -> None:
    assert len({rank[name]["weights"] for rank in ranks}) == 1


@pytest.mark.parametrize("name", COMPRESSED)
def test_trains_as_plain_ddp(ranks: list[dict[str, Any]], name: str) -> None:
    plain, found = ranks[0]["plain"], ranks[0][name]
    assert found["weights"] != plain["weights"]
    assert found["loss"] == pytest.approx(plain["loss"], rel=0.05)


def test_a_scale_per_tensor_is_that_of_each_by_itself(ranks: list[dict[str, Any]]) -> None:
    for rank in ranks:
        assert rank["by tensor"] == {"equal": [True] * 6, "buckets": 1}


def test_a_bucket_can_have_more_tensors_than_a_call_has_sections(ranks: list[dict[str, Any]]) -> None:
    for rank in ranks:
        found = rank["many tensors"]
        assert found["error"] < 0.01
        assert found["residuals"] == 4200
        assert found["compressed"] >= 2


def test_residuals_have_the_same_numbers_whatever_travels_raw(ranks: list[dict[str, Any]]) -> None:
    for rank in ranks:
        every = rank["numbered"]["none"]
        assert len(every) == 6
        for name in ("left out", "small ones"):
            kept = rank["numbered"][name]
            assert 0 < len(kept) < 6
            assert all(each in every for each in kept)


def test_error_feedback_is_the_default_where_it_is_complete(ranks: list[dict[str, Any]]) -> None:
    planes, paper = ranks[0]["fed back"]
    assert planes == pytest.approx(1, rel=1e-4)
    assert paper == 0


def test_with_a_scale_per_tensor_buckets_do_not_matter(ranks: list[dict[str, Any]]) -> None:
    few, many = ranks[0]["tensor, one bucket"], ranks[0]["tensor"]
    assert few["compressed"] < many["compressed"]
    assert few["weights"] == many["weights"]


def test_compressed_calls_send_less(ranks: list[dict[str, Any]]) -> None:
    hook = ranks[0]["hook"]
    assert hook["compressed"] > STEPS  # several buckets a step
    assert hook["step"] == STEPS
    assert 0 < hook["sent"] < STEPS * 37_896 * 4 / 2


@pytest.mark.parametrize(
    "buckets", ["float32", "bfloat16", "float16", "bfloat16, wrapped", "float16, wrapped"]
)
def test_a_grad_scaler_sees_what_overflowed_at_another_rank(
    ranks: list[dict[str, Any]], buckets: str
) -> None:
    """At its places and nowhere else: the step is left out, the next one is made."""
    for rank in ranks:
        (lost, changed, scale), second = rank["overflowing"][buckets]
        assert lost == [[[1, 3], [7, 5]], [], [], [], [], []]
        assert (changed, scale) == ([False] * 6, 0.5)
        assert second == [[[]] * 6, [True] * 6, 0.5]


@pytest.mark.parametrize("feedback", [False, True])
@pytest.mark.parametrize("dtype", ["torch.bfloat16", "torch.float16"])
def test_buckets_of_16_bits_need_no_wrapper(ranks: list[dict[str, Any]], dtype: str, feedback: bool) -> None:
    """Sums are of float32: one rounding to the type beside the codec's error."""
    for rank in ranks:
        found = rank["types"][f"{dtype}, {feedback}"]
        assert found["types"] == [dtype]
        assert found["compressed"] > 0
        assert 0 < found["error"] < 2**-8


def test_warm_up_and_small_buckets_travel_raw(ranks: list[dict[str, Any]]) -> None:
    feedback, raw = ranks[0]["feedback"], ranks[0]["all raw"]
    assert feedback["raw"] >= 3
    assert feedback["compressed"] > 0
    assert raw["compressed"] == raw["sent"] == 0
    assert raw["weights"] == ranks[0]["plain"]["weights"]


def test_resumes_to_the_same_bits(ranks: list[dict[str, Any]]) -> None:
    for rank in ranks:
        assert rank["resumed"]["same"]
        assert rank["resumed"]["residuals"] == 6  # each parameter's
        assert rank["resumed"]["step"] == rank["going on"]["step"] == 12
        assert rank["resumed"]["weights"] == rank["going on"]["weights"]


def test_resumes_where_the_buckets_are_dealt_out_anew(ranks: list[dict[str, Any]]) -> None:
    for rank in ranks:
        found = rank["resumed, buckets"]
        assert found["same"]
        assert found["loss"] == pytest.approx(rank["going on"]["loss"], rel=0.1)


def test_the_codec_is_swapped_while_training(ranks: list[dict[str, Any]]) -> None:
    before, after = ranks[0]["swapped"]["sent"]
    assert after < before / 2
    assert "0.0625" in ranks[0]["swapped"]["loaded"]


def test_ranks_that_disagree_are_told(ranks: list[dict[str, Any]]) -> None:
    for rank in ranks:
        assert "codec differs: rank 0 has" in rank["disagreeing"]


@pytest.mark.parametrize("mode", ["literal", "planes"])
def test_a_state_saved_before_planes_was_a_codec_resumes(mode: str) -> None:
    from inceptionn import Codec
    from inceptionn.torch import CompressState
    from inceptionn.wire import variant

    state, again = CompressState(), CompressState()
    state.load_state_dict({"step": 3, "codec": {"error_bound": 2**-8, "mode": mode}, "residuals": {}})
    assert state.codec == Codec(2**-8, *variant(mode))
    again.load_state_dict(state.state_dict())
    assert again.codec == state.codec


def test_settings_are_those_of_an_all_reduce_but_for_its_array() -> None:
    from inceptionn.torch import CompressState

    state = CompressState(algorithm="worker_aggregator", legs="up", sub_block=512)
    settings = state.settings
    assert (settings.algorithm, settings.legs, settings.sub_block) == ("worker_aggregator", "up", 512)
    for name in ("dtype", "foo"):
        with pytest.raises(
            TypeError, match=rf"^CompressState\(\) got an unexpected keyword argument '{name}'$"
        ):
            CompressState(**{name: None})


@pytest.mark.parametrize("off", [False, 0, 0.0, np.False_])
def test_no_error_feedback_keeps_no_residuals(off: Any) -> None:
    from inceptionn.torch import CompressState

    assert CompressState(error_feedback=off).residuals is None
    assert CompressState().residuals is not None

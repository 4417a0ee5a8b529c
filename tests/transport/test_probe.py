# SPDX-License-Identifier: BSD-2-Clause
"""What the pattern that asks for NICs tells."""

import numpy as np
import pytest

from inceptionn import Codec, Parameters
from inceptionn.sim import golden
from inceptionn.sim.golden import planes
from inceptionn.transport.probe import alike, bf16_pattern, pattern, recognise, restored_bf16
from inceptionn.wire import BF16_LANES, VARIANTS, variant

PACKET = 362

NAMES = [each.name for each in VARIANTS]


def golden_lossy(x: np.ndarray, k: int, mode: str) -> np.ndarray:
    """Return what the golden codec makes of values."""
    return planes.lossy(x, 2.0**-k) if mode == "planes" else golden.lossy(x, 2.0**-k, mode)


def golden_size(x: np.ndarray, k: int, mode: str) -> int:
    """Bytes that it makes of them."""
    return len(planes.compress(x, 2.0**-k) if mode == "planes" else golden.compress(x, 2.0**-k, mode))


def test_each_exponent_has_one_sign() -> None:
    sent = pattern()
    assert np.array_equal(np.signbit(sent), np.arange(sent.size) % 2 == 1)
    assert sorted(set(np.frexp(np.abs(sent))[1])) == list(range(-17, 1))


def test_unchanged_means_no_nic() -> None:
    assert recognise(pattern()) is None


@pytest.mark.parametrize("mode", NAMES)
@pytest.mark.parametrize("k", range(1, 15))
def test_each_setting_is_told_from_all_others(k: int, mode: str) -> None:
    sent = pattern()
    lossy = golden_lossy(sent, k, mode)
    codec = Codec(2.0**-k, *variant(mode))
    found = recognise(lossy)
    assert found is not None
    assert alike(found, codec)
    # Of all bit patterns, whatever their exponent and mantissa, both make the same.
    x = np.random.default_rng(k).integers(0, 2**32, 200_000, np.uint32).view(np.float32)
    near = np.random.default_rng(k).uniform(-1, 1, 200_000).astype(np.float32) ** 5
    for values in (x, near):
        assert np.array_equal(found.lossy(values).view(np.uint32), codec.lossy(values).view(np.uint32))
    # All packets but one raw.
    for start in range(0, sent.size - PACKET, PACKET):
        mixed = sent.copy()
        mixed[start : start + PACKET] = lossy[start : start + PACKET]
        assert recognise(mixed) == found


@pytest.mark.parametrize("k", range(1, 15))
def test_bf16_lanes_are_seen_at_every_bound(k: int) -> None:
    """Each packet of the pattern is changed and shrinks; what fp32 lanes make of it is told from it."""
    sent, codec = bf16_pattern(), Codec(2.0**-k, "planes")
    lossy = planes.lossy(sent, 2.0**-k, BF16_LANES)
    assert restored_bf16(lossy, codec)
    assert not restored_bf16(sent, codec), "no engine changed it"
    for start in range(0, sent.size, 2 * PACKET):
        packet = slice(start, start + 2 * PACKET)
        assert len(planes.compress_block(sent[packet], 127 - k, BF16_LANES)) + 8 < sent[packet].nbytes
        mixed = sent.copy()
        mixed[packet] = lossy[packet]
        assert restored_bf16(mixed, codec), "all other packets were sent raw"
    as_fp32 = planes.lossy(sent.view(np.float32), 2.0**-k).view(np.uint16)
    assert not restored_bf16(as_fp32, codec)


def test_codecs_that_are_not_alike() -> None:
    assert not alike(Codec(), Codec(2**-9))
    assert not alike(Codec(), Codec(mode="literal"))
    for k in range(1, 15):
        others = [Codec(2.0**-j, "planes") for j in range(1, 15) if j != k]
        others += [Codec(2.0**-k), Codec(2.0**-k, mode="literal")]
        assert not any(alike(Codec(2.0**-k, "planes"), other) for other in others)
    assert alike(Codec(2**-8, mode="literal"), Codec(2**-9, mode="literal"))
    low = Codec.from_parameters(Parameters(100, 122, 122))
    assert not alike(low, Codec())
    assert alike(low, low)


def test_what_no_codec_explains() -> None:
    damaged = golden.lossy(pattern(), error_bound=2**-10)
    damaged[5] *= 1.5
    with pytest.raises(ValueError, match="no error bound and mode"):
        recognise(damaged)


def test_the_pattern_is_fit_for_compression() -> None:
    """Each part of a packet's size shrinks, or the engines would send it as it is."""
    sent = pattern()
    assert np.all(np.abs(sent) < 1)
    for k in range(1, 15):
        for start in range(0, sent.size, PACKET):
            packet = sent[start : start + PACKET]
            for mode in NAMES:
                assert golden_size(packet, k, mode) + 8 < packet.nbytes

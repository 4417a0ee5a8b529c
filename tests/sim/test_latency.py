# SPDX-License-Identifier: BSD-2-Clause
"""How long a NIC holds a frame: one that its headers rule out leaves before it has ended."""

import pytest

from inceptionn.sim.latency import FRAMES, KINDS, measure
from inceptionn.sim.scaling import run_frames, sized_nic

MOST = 30
"""Cycles from first beat to first beat, whatever the frame's length."""


@pytest.mark.parametrize("lanes", [8, pytest.param(16, marks=pytest.mark.slow)])
def test_frames_that_pass_are_cut_through(lanes: int) -> None:
    with sized_nic((1, lanes), "paper") as nic:
        found = list(measure(nic))
        for size in range(60, 600, 6):
            (output,) = nic.transmit(run_frames(size, 0, 1))
            assert output.timing.first_out - output.timing.first_in <= MOST, size
    assert len(found) == 2 * len(KINDS) * len(FRAMES)
    for held in found:
        if held.kind != "tagged":
            assert held.cycles <= MOST, held
            assert held.gaps == 0, held
    sent = [held for held in found if (held.direction, held.kind) == ("transmit", "tagged")]
    tagged = {held.frame_bytes: held.cycles for held in sent}
    assert tagged[9014] > tagged[1514] > MOST, "a frame that may be compressed is stored first"

# SPDX-License-Identifier: BSD-2-Clause
"""The beat of the component that a bench is run for."""

from inceptionn.hdl.parts.beat import Beat
from inceptionn.sim.runner import bench_parameters
from inceptionn.wire import GROUP_LANES

BEAT = Beat(bench_parameters().get("lanes", GROUP_LANES), bench_parameters().get("bf16", False))

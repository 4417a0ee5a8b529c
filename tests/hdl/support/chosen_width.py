# SPDX-License-Identifier: BSD-2-Clause
"""The width of the component that a bench is run for."""

from inceptionn.hdl.parts.width import Width
from inceptionn.sim.runner import bench_parameters
from inceptionn.wire import GROUP_LANES

WIDTH = Width(bench_parameters().get("lanes", GROUP_LANES), bench_parameters().get("bf16", False))

# SPDX-License-Identifier: BSD-2-Clause
"""From Verilog to models: one way to build them, one cache for all (`inceptionn.sim.models.cache`)."""

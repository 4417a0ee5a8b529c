# SPDX-License-Identifier: BSD-2-Clause
"""The algorithms of the collectives: rings, groups of rings, trees, chains. All work over any `WireForm`."""

# SPDX-License-Identifier: BSD-2-Clause
"""Who sends which lanes to whom: rings, groups of rings, trees, chains. All work over any `WireForm`."""

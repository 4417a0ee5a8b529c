# SPDX-License-Identifier: BSD-2-Clause
"""The inline device on boards with a Lattice ECP5: pads, clocks, recipes, place and route."""

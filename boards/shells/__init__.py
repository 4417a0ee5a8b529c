# SPDX-License-Identifier: BSD-2-Clause
"""Shells: thin modules that give the engine pair the streams, clocks, resets and registers of a target."""

# SPDX-License-Identifier: BSD-2-Clause
"""Trainings of many ranks in one process: rows of one grid, with real and with simulated all-reduces."""

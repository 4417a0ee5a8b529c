# SPDX-License-Identifier: BSD-2-Clause
"""Trainings of many simulated ranks: error feedback, and our codecs beside others."""

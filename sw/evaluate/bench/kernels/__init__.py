# SPDX-License-Identifier: BSD-2-Clause
"""Benches of one process: the codec and the packing of weights, against memcpy and others."""

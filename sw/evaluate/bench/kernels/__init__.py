# SPDX-License-Identifier: BSD-2-Clause
"""What one process computes: the codec and the packing of weights, against memcpy and others."""

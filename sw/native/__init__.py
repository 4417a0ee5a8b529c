# SPDX-License-Identifier: BSD-2-Clause
"""The native kernels in C: the codec and ADT."""

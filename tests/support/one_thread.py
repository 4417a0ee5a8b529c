# SPDX-License-Identifier: BSD-2-Clause
"""Imported before NumPy and torch: gives OpenMP and OpenBLAS one thread in each process of the tests.

Tests run several at a time. Two threads that share a processor wait for each other in a loop, which takes
many times the processor time of one.
"""

import os

for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ.setdefault(name, "1")

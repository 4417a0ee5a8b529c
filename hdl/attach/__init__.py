# SPDX-License-Identifier: BSD-2-Clause
"""At a board's edge: clocks, resets, widths, side signals, frame queues."""

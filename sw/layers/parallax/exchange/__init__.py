# SPDX-License-Identifier: BSD-2-Clause
"""How sparse variables travel: sets of rows, partitions, pull and push, all-gather."""

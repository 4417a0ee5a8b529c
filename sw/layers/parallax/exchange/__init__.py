# SPDX-License-Identifier: BSD-2-Clause
"""Exchange of sparse variables: sets of rows, partitions, pull and push, all-gather."""

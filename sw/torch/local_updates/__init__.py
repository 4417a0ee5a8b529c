# SPDX-License-Identifier: BSD-2-Clause
"""Training with local updates: each rank takes some steps alone, and then all average their weights."""

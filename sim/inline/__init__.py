# SPDX-License-Identifier: BSD-2-Clause
"""Simulated inline devices, with PHYs at their ports and access to their serial lines."""

# SPDX-License-Identifier: BSD-2-Clause
"""The test traffic: its patterns, their source, the path between the engines, the checker."""

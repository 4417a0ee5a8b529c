# SPDX-License-Identifier: BSD-2-Clause
"""Shared by all benches: data, conditions, ranks on hosts, options and tables."""

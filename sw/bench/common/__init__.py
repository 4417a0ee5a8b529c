# SPDX-License-Identifier: BSD-2-Clause
"""What all benches share: data, conditions, ranks on hosts, options and tables."""

# SPDX-License-Identifier: BSD-2-Clause
"""Commands of the host package, and the console that all commands print with."""

# SPDX-License-Identifier: BSD-2-Clause
"""Several engines side by side that behave as one."""

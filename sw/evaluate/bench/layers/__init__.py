# SPDX-License-Identifier: BSD-2-Clause
"""Training systems between hosts whose links have a rate."""

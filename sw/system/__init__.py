# SPDX-License-Identifier: BSD-2-Clause
"""Files, programs, addresses and installed extras of the host system."""

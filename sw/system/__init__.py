# SPDX-License-Identifier: BSD-2-Clause
"""Files, programs and installed extras of the host system."""

# SPDX-License-Identifier: BSD-2-Clause
"""The platform of :mod:`inceptionn.boards.netfpga_sume`, by the name that designs import."""

from ..netfpga_sume.platform import NetFPGASUMEPlatform

__all__ = ["NetFPGASUMEPlatform"]

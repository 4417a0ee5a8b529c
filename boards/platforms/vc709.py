# SPDX-License-Identifier: BSD-2-Clause
"""The platform of :mod:`inceptionn.boards.vc709`, by the name that designs import."""

from ..vc709.platform import VC709Platform

__all__ = ["VC709Platform"]

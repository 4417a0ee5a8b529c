# SPDX-License-Identifier: BSD-2-Clause
"""The ToS mark on sockets, by which NICs know the connections that carry floats."""

from .mark import TosError, is_tagged, tag, tagged, tos_of, untag

__all__ = ["TosError", "is_tagged", "tag", "tagged", "tos_of", "untag"]

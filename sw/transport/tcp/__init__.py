# SPDX-License-Identifier: BSD-2-Clause
"""Groups of ranks over TCP: forming a group, authenticating its ranks, and their connections."""

from .formation import connect
from .transport import TcpTransport

__all__ = ["TcpTransport", "connect"]

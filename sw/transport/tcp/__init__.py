# SPDX-License-Identifier: BSD-2-Clause
"""Groups of ranks over TCP: how they form, how they prove who they are, and their connections."""

from .formation import connect
from .transport import TcpTransport

__all__ = ["TcpTransport", "connect"]

# SPDX-License-Identifier: BSD-2-Clause
"""Circuit of the rule for E0 (:attr:`inceptionn.wire.planes.PlanesParameters.valid`)."""

from amaranth.hdl import Value

from inceptionn.wire import CODECS

from ...parts.compare import in_range


def usable(e0: Value) -> Value:
    """Return whether the engine can compress with E0, 8 bits: 1 bit."""
    return in_range(e0, CODECS["planes"].accepted)

# SPDX-License-Identifier: BSD-2-Clause
"""The transmit and the receive engine, their decisions and assemblers."""

# SPDX-License-Identifier: BSD-2-Clause
"""Access from the host to the registers: of a board, of a simulated NIC, of the bring-up design."""

# SPDX-License-Identifier: BSD-2-Clause
"""Access from the host to the registers of a board, a simulated NIC, or the bring-up design."""

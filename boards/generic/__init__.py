# SPDX-License-Identifier: BSD-2-Clause
"""Any FPGA: the modules alone."""

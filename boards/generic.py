# SPDX-License-Identifier: BSD-2-Clause
"""Any FPGA: the modules alone, without a part or a clock."""

from inceptionn.boards.board import Board

BOARD = Board(name="generic", description="any FPGA, modules alone")

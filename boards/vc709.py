# SPDX-License-Identifier: BSD-2-Clause
"""AMD VC709 (UG887): the Virtex-7 board of the paper (section VI-A), four 10G SFP+ cages."""

from inceptionn.boards.board import Board

BOARD = Board(
    name="vc709",
    description="AMD VC709, Virtex-7 690T",
    part="xc7vx690tffg1761-2",
    clock_mhz=250,
    constraints=("vc709.xdc",),
)

# SPDX-License-Identifier: BSD-2-Clause
# VC709, reset.
# Written from vc709_pins.csv by inceptionn.boards.pin_table: change the table,
# not this file. Read by no Vivado yet.
# Sources: B Xilinx's public board files, T the connectivity reference design, X taxi,
# F fpga-network-stack, N Netnod; A C D M U constraints of other open projects; recall: from memory.
# cpu_reset: SW8. ACTIVE HIGH per B (rst_polarity=1, 'CPU Reset Push Button, Active High') and X (MMCM RST driven directly); U's comment claims active-low -> conflict, trust B; sources: B X F A U
set_property -dict {PACKAGE_PIN AV40 IOSTANDARD LVCMOS18} [get_ports {cpu_reset}]

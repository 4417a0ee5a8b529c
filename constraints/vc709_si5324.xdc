# SPDX-License-Identifier: BSD-2-Clause
# VC709, si5324.
# Written from vc709_pins.csv by inceptionn.boards.pin_table: change the table,
# not this file. Read by no Vivado yet.
# Sources: B Xilinx's public board files, T the connectivity reference design, X taxi,
# F fpga-network-stack, N Netnod; A C D M U constraints of other open projects; recall: from memory.
# si5324_rst_n: active low; X drives ~rst; sources: T X F N A C
set_property -dict {PACKAGE_PIN AT36 IOSTANDARD LVCMOS18} [get_ports {si5324_rst_n}]
set_property -dict {PACKAGE_PIN AU34 IOSTANDARD LVCMOS18} [get_ports {si5324_int_alm}]
# rec_clock_p: recovered clock to Si5324; sources: X A
set_property -dict {PACKAGE_PIN AW32 IOSTANDARD LVDS} [get_ports {rec_clock_p}]
set_property -dict {PACKAGE_PIN AW33 IOSTANDARD LVDS} [get_ports {rec_clock_n}]

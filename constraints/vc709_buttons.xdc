# SPDX-License-Identifier: BSD-2-Clause
# VC709, buttons.
# Written from vc709_pins.csv by inceptionn.boards.pin_table: change the table,
# not this file. Read by no Vivado yet.
# Sources: B Xilinx's public board files, T the connectivity reference design, X taxi,
# F fpga-network-stack, N Netnod; A C D M U constraints of other open projects; recall: from memory.
# gpio_sw_c: SW6; board-file index tri_i_0; active high (recall); sources: B X F A
set_property -dict {PACKAGE_PIN AV39 IOSTANDARD LVCMOS18} [get_ports {gpio_sw_c}]
# gpio_sw_w: SW7; board-file index tri_i_1; active high (recall); sources: B X F A
set_property -dict {PACKAGE_PIN AW40 IOSTANDARD LVCMOS18} [get_ports {gpio_sw_w}]
# gpio_sw_s: SW5; board-file index tri_i_2; active high (recall); sources: B X F A
set_property -dict {PACKAGE_PIN AP40 IOSTANDARD LVCMOS18} [get_ports {gpio_sw_s}]
# gpio_sw_e: SW4; board-file index tri_i_3; active high (recall); sources: B X F A
set_property -dict {PACKAGE_PIN AU38 IOSTANDARD LVCMOS18} [get_ports {gpio_sw_e}]
# gpio_sw_n: SW3; board-file index tri_i_4; active high (recall); sources: B X F A
set_property -dict {PACKAGE_PIN AR40 IOSTANDARD LVCMOS18} [get_ports {gpio_sw_n}]

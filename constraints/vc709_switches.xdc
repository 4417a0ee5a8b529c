# SPDX-License-Identifier: BSD-2-Clause
# VC709, switches.
# Written from vc709_pins.csv by inceptionn.boards.pin_table: change the table,
# not this file. Read by no Vivado yet.
# Sources: B Xilinx's public board files, T the connectivity reference design, X taxi,
# F fpga-network-stack, N Netnod; A C D M U constraints of other open projects; recall: from memory.
# gpio_dip[0]: SW2.1; sources: B X F A
set_property -dict {PACKAGE_PIN AV30 IOSTANDARD LVCMOS18} [get_ports {gpio_dip[0]}]
# gpio_dip[1]: SW2.2; sources: B X F A
set_property -dict {PACKAGE_PIN AY33 IOSTANDARD LVCMOS18} [get_ports {gpio_dip[1]}]
# gpio_dip[2]: SW2.3; sources: B X F A
set_property -dict {PACKAGE_PIN BA31 IOSTANDARD LVCMOS18} [get_ports {gpio_dip[2]}]
# gpio_dip[3]: SW2.4; sources: B X F A
set_property -dict {PACKAGE_PIN BA32 IOSTANDARD LVCMOS18} [get_ports {gpio_dip[3]}]
# gpio_dip[4]: SW2.5; sources: B X F A
set_property -dict {PACKAGE_PIN AW30 IOSTANDARD LVCMOS18} [get_ports {gpio_dip[4]}]
# gpio_dip[5]: SW2.6; sources: B X F A
set_property -dict {PACKAGE_PIN AY30 IOSTANDARD LVCMOS18} [get_ports {gpio_dip[5]}]
# gpio_dip[6]: SW2.7; sources: B X F A
set_property -dict {PACKAGE_PIN BA30 IOSTANDARD LVCMOS18} [get_ports {gpio_dip[6]}]
# gpio_dip[7]: SW2.8; sources: B X F A
set_property -dict {PACKAGE_PIN BB31 IOSTANDARD LVCMOS18} [get_ports {gpio_dip[7]}]

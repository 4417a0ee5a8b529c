# SPDX-License-Identifier: BSD-2-Clause
# VC709, leds.
# Written from vc709_pins.csv by inceptionn.boards.pin_table: change the table,
# not this file. Read by no Vivado yet.
# Sources: B Xilinx's public board files, T the connectivity reference design, X taxi,
# F fpga-network-stack, N Netnod; A C D M U constraints of other open projects; recall: from memory.
# gpio_led[0]: DS2, active high (C says LVCMOS15: wrong for a 1.8 V bank); sources: B X F N A U D T
set_property -dict {PACKAGE_PIN AM39 IOSTANDARD LVCMOS18} [get_ports {gpio_led[0]}]
# gpio_led[1]: DS3, active high; sources: B X F N A U D T
set_property -dict {PACKAGE_PIN AN39 IOSTANDARD LVCMOS18} [get_ports {gpio_led[1]}]
# gpio_led[2]: DS4, active high; sources: B X F N A U D T
set_property -dict {PACKAGE_PIN AR37 IOSTANDARD LVCMOS18} [get_ports {gpio_led[2]}]
# gpio_led[3]: DS5, active high; sources: B X F N A U D T
set_property -dict {PACKAGE_PIN AT37 IOSTANDARD LVCMOS18} [get_ports {gpio_led[3]}]
# gpio_led[4]: DS6, active high; sources: B X F N A U D T
set_property -dict {PACKAGE_PIN AR35 IOSTANDARD LVCMOS18} [get_ports {gpio_led[4]}]
# gpio_led[5]: DS7, active high; sources: B X F N A U D T
set_property -dict {PACKAGE_PIN AP41 IOSTANDARD LVCMOS18} [get_ports {gpio_led[5]}]
# gpio_led[6]: DS8, active high; sources: B X F N A U D T
set_property -dict {PACKAGE_PIN AP42 IOSTANDARD LVCMOS18} [get_ports {gpio_led[6]}]
# gpio_led[7]: DS9, active high; sources: B X F N A U D
set_property -dict {PACKAGE_PIN AU39 IOSTANDARD LVCMOS18} [get_ports {gpio_led[7]}]

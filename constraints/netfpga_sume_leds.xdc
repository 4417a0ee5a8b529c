# SPDX-License-Identifier: BSD-2-Clause
# NETFPGA_SUME, leds.
# Written from netfpga_sume_pins.csv by inceptionn.boards.pin_table: change the table,
# not this file. Read by no Vivado yet.
# Source: the constraints of Corundum's port to the board (BSD-2-Clause).
set_property -dict {PACKAGE_PIN AR22 IOSTANDARD LVCMOS15 SLEW SLOW DRIVE 12} [get_ports {led[0]}]
set_property -dict {PACKAGE_PIN AR23 IOSTANDARD LVCMOS15 SLEW SLOW DRIVE 12} [get_ports {led[1]}]
set_property -dict {PACKAGE_PIN G13 IOSTANDARD LVCMOS15 SLEW SLOW DRIVE 12} [get_ports {sfp1_led[0]}]
set_property -dict {PACKAGE_PIN L15 IOSTANDARD LVCMOS15 SLEW SLOW DRIVE 12} [get_ports {sfp1_led[1]}]
set_property -dict {PACKAGE_PIN AL22 IOSTANDARD LVCMOS15 SLEW SLOW DRIVE 12} [get_ports {sfp2_led[0]}]
set_property -dict {PACKAGE_PIN BA20 IOSTANDARD LVCMOS15 SLEW SLOW DRIVE 12} [get_ports {sfp2_led[1]}]
set_property -dict {PACKAGE_PIN AY18 IOSTANDARD LVCMOS15 SLEW SLOW DRIVE 12} [get_ports {sfp3_led[0]}]
set_property -dict {PACKAGE_PIN AY17 IOSTANDARD LVCMOS15 SLEW SLOW DRIVE 12} [get_ports {sfp3_led[1]}]
set_property -dict {PACKAGE_PIN P31 IOSTANDARD LVCMOS15 SLEW SLOW DRIVE 12} [get_ports {sfp4_led[0]}]
set_property -dict {PACKAGE_PIN K32 IOSTANDARD LVCMOS15 SLEW SLOW DRIVE 12} [get_ports {sfp4_led[1]}]

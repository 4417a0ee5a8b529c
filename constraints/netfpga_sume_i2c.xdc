# SPDX-License-Identifier: BSD-2-Clause
# NETFPGA_SUME, i2c.
# Written from netfpga_sume_pins.csv by inceptionn.boards.pin_table: change the table,
# not this file. Read by no Vivado yet.
# Source: the constraints of Corundum's port to the board (BSD-2-Clause).
set_property -dict {PACKAGE_PIN AK24 IOSTANDARD LVCMOS18 SLEW SLOW DRIVE 12 PULLUP TRUE} [get_ports {i2c_scl}]
set_property -dict {PACKAGE_PIN AK25 IOSTANDARD LVCMOS18 SLEW SLOW DRIVE 12 PULLUP TRUE} [get_ports {i2c_sda}]
# i2c_mux_reset: polarity not given in the source; sources: Corundum
set_property -dict {PACKAGE_PIN AM39 IOSTANDARD LVCMOS15 SLEW SLOW DRIVE 12} [get_ports {i2c_mux_reset}]

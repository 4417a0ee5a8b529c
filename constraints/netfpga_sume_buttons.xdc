# SPDX-License-Identifier: BSD-2-Clause
# NETFPGA_SUME, buttons.
# Written from netfpga_sume_pins.csv by inceptionn.boards.pin_table: change the table,
# not this file. Read by no Vivado yet.
# Source: the constraints of Corundum's port to the board (BSD-2-Clause).
set_property -dict {PACKAGE_PIN AR13 IOSTANDARD LVCMOS15} [get_ports {btn[0]}]
set_property -dict {PACKAGE_PIN BB12 IOSTANDARD LVCMOS15} [get_ports {btn[1]}]

# SPDX-License-Identifier: BSD-2-Clause
# VC709, pmbus.
# Written from vc709_pins.csv by inceptionn.boards.pin_table: change the table,
# not this file. Read by no Vivado yet.
# Sources: B Xilinx's public board files, T the connectivity reference design, X taxi,
# F fpga-network-stack, N Netnod; A C D M U constraints of other open projects; recall: from memory.
# pmbus_clk: single source; sources: T
set_property -dict {PACKAGE_PIN AW37 IOSTANDARD LVCMOS18} [get_ports {pmbus_clk}]
# pmbus_data: single source; sources: T
set_property -dict {PACKAGE_PIN AY39 IOSTANDARD LVCMOS18} [get_ports {pmbus_data}]
# pmbus_alert: single source; sources: T
set_property -dict {PACKAGE_PIN AV38 IOSTANDARD LVCMOS18} [get_ports {pmbus_alert}]

# SPDX-License-Identifier: BSD-2-Clause
# VC709, i2c.
# Written from vc709_pins.csv by inceptionn.boards.pin_table: change the table,
# not this file. Read by no Vivado yet.
# Sources: B Xilinx's public board files, T the connectivity reference design, X taxi,
# F fpga-network-stack, N Netnod; A C D M U constraints of other open projects; recall: from memory.
# i2c_scl: PCA9548 mux; T: SLOW, DRIVE 16, PULLUP; sources: B T X F N A
set_property -dict {PACKAGE_PIN AT35 IOSTANDARD LVCMOS18 SLEW SLOW DRIVE 16 PULLUP TRUE} [get_ports {i2c_scl}]
set_property -dict {PACKAGE_PIN AU32 IOSTANDARD LVCMOS18 SLEW SLOW DRIVE 16 PULLUP TRUE} [get_ports {i2c_sda}]
# i2c_mux_reset_n: active low (T name i2c_mux_rst_n); sources: T X F N A
set_property -dict {PACKAGE_PIN AY42 IOSTANDARD LVCMOS18} [get_ports {i2c_mux_reset_n}]

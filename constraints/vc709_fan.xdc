# SPDX-License-Identifier: BSD-2-Clause
# VC709, fan.
# Written from vc709_pins.csv by inceptionn.boards.pin_table: change the table,
# not this file. Read by no Vivado yet.
# Sources: B Xilinx's public board files, T the connectivity reference design, X taxi,
# F fpga-network-stack, N Netnod; A C D M U constraints of other open projects; recall: from memory.
# sm_fan_pwm: single source (commented line); sources: A
set_property -dict {PACKAGE_PIN BA37 IOSTANDARD LVCMOS18} [get_ports {sm_fan_pwm}]
# sm_fan_tach: single source (commented line); sources: A
set_property -dict {PACKAGE_PIN BB37 IOSTANDARD LVCMOS18} [get_ports {sm_fan_tach}]

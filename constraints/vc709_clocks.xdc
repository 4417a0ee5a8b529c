# SPDX-License-Identifier: BSD-2-Clause
# VC709, clocks. Oscillators and clock connectors.
# Written from vc709_pins.csv by inceptionn.boards.pin_table: change the table,
# not this file. Read by no Vivado yet.
# Sources: B Xilinx's public board files, T the connectivity reference design, X taxi,
# F fpga-network-stack, N Netnod; A C D M U constraints of other open projects; recall: from memory.
# sysclk200_p: 200 MHz SiT9102 U51, bank 38 (MIG prj), VCCO 1.5 V; X uses DIFF_SSTL15_DCI; sources: B T X F N A U
set_property -dict {PACKAGE_PIN H19 IOSTANDARD DIFF_SSTL15} [get_ports {sysclk200_p}]
set_property -dict {PACKAGE_PIN G18 IOSTANDARD DIFF_SSTL15} [get_ports {sysclk200_n}]
# sysclk233_p: 233.33 MHz U13, bank 32 (second SODIMM). X lists p/n swapped in a commented-out line; sources: B F M
set_property -dict {PACKAGE_PIN AY18 IOSTANDARD DIFF_SSTL15} [get_ports {sysclk233_p}]
set_property -dict {PACKAGE_PIN AY17 IOSTANDARD DIFF_SSTL15} [get_ports {sysclk233_n}]
# user_clock_p: Si570 U34, 156.25 MHz at power-up; bank VCCO 1.8 V -> LVDS. X lists p/n swapped (commented-out line); sources: U + 5 more XDC hits + LiteX VC707
set_property -dict {PACKAGE_PIN AK34 IOSTANDARD LVDS} [get_ports {user_clock_p}]
set_property -dict {PACKAGE_PIN AL34 IOSTANDARD LVDS} [get_ports {user_clock_n}]
# user_sma_clock_p: J31/J32; sources: X U
set_property -dict {PACKAGE_PIN AJ32 IOSTANDARD LVDS} [get_ports {user_sma_clock_p}]
set_property -dict {PACKAGE_PIN AK32 IOSTANDARD LVDS} [get_ports {user_sma_clock_n}]
# emcclk: 80 MHz U40 (EXTMASTERCCLK); frequency = recall, X's create_clock period 1.25 is a typo; sources: X D
set_property -dict {PACKAGE_PIN AP37 IOSTANDARD LVCMOS18} [get_ports {emcclk}]
create_clock -name sysclk200 -period 5.000 [get_ports {sysclk200_p}]
create_clock -name sysclk233 -period 4.285 [get_ports {sysclk233_p}]
create_clock -name user_clock -period 6.400 [get_ports {user_clock_p}]
create_clock -name emcclk -period 12.500 [get_ports {emcclk}]

# SPDX-License-Identifier: BSD-2-Clause
# NETFPGA_SUME, clocks. Oscillators and clock connectors.
# Written from netfpga_sume_pins.csv by inceptionn.boards.pin_table: change the table,
# not this file. Read by no Vivado yet.
# Source: the constraints of Corundum's port to the board (BSD-2-Clause).
# sysclk200_p: 200 MHz. The VC709 table gives DIFF_SSTL15 for the same pin of that board; sources: Corundum
set_property -dict {PACKAGE_PIN H19 IOSTANDARD LVDS} [get_ports {sysclk200_p}]
set_property -dict {PACKAGE_PIN G18 IOSTANDARD LVDS} [get_ports {sysclk200_n}]
# qdrii_clk200_p: 200 MHz, for QDRII+ A and B; sources: Corundum
set_property -dict {PACKAGE_PIN AD32 IOSTANDARD LVDS} [get_ports {qdrii_clk200_p}]
set_property -dict {PACKAGE_PIN AD33 IOSTANDARD LVDS} [get_ports {qdrii_clk200_n}]
# qdriic_clk200_p: 200 MHz, for QDRII+ C; sources: Corundum
set_property -dict {PACKAGE_PIN AU14 IOSTANDARD LVDS} [get_ports {qdriic_clk200_p}]
set_property -dict {PACKAGE_PIN AU13 IOSTANDARD LVDS} [get_ports {qdriic_clk200_n}]
# ddr3_clk233_p: 233.33 MHz, for the DDR3 SODIMMs; sources: Corundum
set_property -dict {PACKAGE_PIN E34 IOSTANDARD LVDS} [get_ports {ddr3_clk233_p}]
set_property -dict {PACKAGE_PIN E35 IOSTANDARD LVDS} [get_ports {ddr3_clk233_n}]
create_clock -name sysclk200 -period 5.000 [get_ports {sysclk200_p}]
create_clock -name qdrii_clk200 -period 5.000 [get_ports {qdrii_clk200_p}]
create_clock -name qdriic_clk200 -period 5.000 [get_ports {qdriic_clk200_p}]
create_clock -name ddr3_clk233 -period 4.285 [get_ports {ddr3_clk233_p}]

# SPDX-License-Identifier: BSD-2-Clause
# NETFPGA_SUME, sfp. SFP+ cages. Net SFP1 is cage P3, SFP2 is P2, SFP3 is P4, SFP4 is P5.
# Written from netfpga_sume_pins.csv by inceptionn.boards.pin_table: change the table,
# not this file. Read by no Vivado yet.
# Source: the constraints of Corundum's port to the board (BSD-2-Clause).
# sfp_mgt_refclk_p: MGTREFCLK0 of quad 118, 156.25 MHz once the clock chip is programmed over I2C; sources: Corundum
set_property -dict {PACKAGE_PIN E10} [get_ports {sfp_mgt_refclk_p}]
set_property -dict {PACKAGE_PIN E9} [get_ports {sfp_mgt_refclk_n}]
set_property -dict {PACKAGE_PIN AW32 IOSTANDARD LVDS} [get_ports {sfp_recclk_p}]
set_property -dict {PACKAGE_PIN AW33 IOSTANDARD LVDS} [get_ports {sfp_recclk_n}]
# sfp_clk_rst: polarity not given in the source; sources: Corundum
set_property -dict {PACKAGE_PIN BA29 IOSTANDARD LVCMOS18} [get_ports {sfp_clk_rst}]
set_property -dict {PACKAGE_PIN AM29 IOSTANDARD LVCMOS18 PULLUP TRUE} [get_ports {sfp_clk_alarm_n}]
# sfp1_tx_p: GTHE2_CHANNEL_X1Y39, quad 119; sources: Corundum
set_property -dict {PACKAGE_PIN B4} [get_ports {sfp1_tx_p}]
set_property -dict {PACKAGE_PIN B3} [get_ports {sfp1_tx_n}]
set_property -dict {PACKAGE_PIN A6} [get_ports {sfp1_rx_p}]
set_property -dict {PACKAGE_PIN A5} [get_ports {sfp1_rx_n}]
set_property -dict {PACKAGE_PIN M18 IOSTANDARD LVCMOS15 SLEW SLOW DRIVE 12} [get_ports {sfp1_tx_disable}]
set_property -dict {PACKAGE_PIN M19 IOSTANDARD LVCMOS15 PULLUP TRUE} [get_ports {sfp1_tx_fault}]
set_property -dict {PACKAGE_PIN N18 IOSTANDARD LVCMOS15 PULLUP TRUE} [get_ports {sfp1_mod_detect}]
set_property -dict {PACKAGE_PIN L17 IOSTANDARD LVCMOS15 PULLUP TRUE} [get_ports {sfp1_los}]
set_property -dict {PACKAGE_PIN N19 IOSTANDARD LVCMOS15 SLEW SLOW DRIVE 12} [get_ports {sfp1_rs0}]
set_property -dict {PACKAGE_PIN P18 IOSTANDARD LVCMOS15 SLEW SLOW DRIVE 12} [get_ports {sfp1_rs1}]
# sfp2_tx_p: GTHE2_CHANNEL_X1Y38, quad 119; sources: Corundum
set_property -dict {PACKAGE_PIN C2} [get_ports {sfp2_tx_p}]
set_property -dict {PACKAGE_PIN C1} [get_ports {sfp2_tx_n}]
set_property -dict {PACKAGE_PIN B8} [get_ports {sfp2_rx_p}]
set_property -dict {PACKAGE_PIN B7} [get_ports {sfp2_rx_n}]
set_property -dict {PACKAGE_PIN B31 IOSTANDARD LVCMOS15 SLEW SLOW DRIVE 12} [get_ports {sfp2_tx_disable}]
set_property -dict {PACKAGE_PIN C26 IOSTANDARD LVCMOS15 PULLUP TRUE} [get_ports {sfp2_tx_fault}]
set_property -dict {PACKAGE_PIN L19 IOSTANDARD LVCMOS15 PULLUP TRUE} [get_ports {sfp2_mod_detect}]
set_property -dict {PACKAGE_PIN L20 IOSTANDARD LVCMOS15 PULLUP TRUE} [get_ports {sfp2_los}]
set_property -dict {PACKAGE_PIN P20 IOSTANDARD LVCMOS15 SLEW SLOW DRIVE 12} [get_ports {sfp2_rs0}]
set_property -dict {PACKAGE_PIN N20 IOSTANDARD LVCMOS15 SLEW SLOW DRIVE 12} [get_ports {sfp2_rs1}]
# sfp3_tx_p: GTHE2_CHANNEL_X1Y37, quad 119; sources: Corundum
set_property -dict {PACKAGE_PIN D4} [get_ports {sfp3_tx_p}]
set_property -dict {PACKAGE_PIN D3} [get_ports {sfp3_tx_n}]
set_property -dict {PACKAGE_PIN C6} [get_ports {sfp3_rx_p}]
set_property -dict {PACKAGE_PIN C5} [get_ports {sfp3_rx_n}]
set_property -dict {PACKAGE_PIN J38 IOSTANDARD LVCMOS15 SLEW SLOW DRIVE 12} [get_ports {sfp3_tx_disable}]
set_property -dict {PACKAGE_PIN E39 IOSTANDARD LVCMOS15 PULLUP TRUE} [get_ports {sfp3_tx_fault}]
set_property -dict {PACKAGE_PIN J37 IOSTANDARD LVCMOS15 PULLUP TRUE} [get_ports {sfp3_mod_detect}]
set_property -dict {PACKAGE_PIN G37 IOSTANDARD LVCMOS15 PULLUP TRUE} [get_ports {sfp3_los}]
set_property -dict {PACKAGE_PIN F39 IOSTANDARD LVCMOS15 SLEW SLOW DRIVE 12} [get_ports {sfp3_rs0}]
set_property -dict {PACKAGE_PIN G36 IOSTANDARD LVCMOS15 SLEW SLOW DRIVE 12} [get_ports {sfp3_rs1}]
# sfp4_tx_p: GTHE2_CHANNEL_X1Y36, quad 119; sources: Corundum
set_property -dict {PACKAGE_PIN E2} [get_ports {sfp4_tx_p}]
set_property -dict {PACKAGE_PIN E1} [get_ports {sfp4_tx_n}]
set_property -dict {PACKAGE_PIN D8} [get_ports {sfp4_rx_p}]
set_property -dict {PACKAGE_PIN D7} [get_ports {sfp4_rx_n}]
set_property -dict {PACKAGE_PIN L21 IOSTANDARD LVCMOS15 SLEW SLOW DRIVE 12} [get_ports {sfp4_tx_disable}]
set_property -dict {PACKAGE_PIN J26 IOSTANDARD LVCMOS15 PULLUP TRUE} [get_ports {sfp4_tx_fault}]
set_property -dict {PACKAGE_PIN H36 IOSTANDARD LVCMOS15 PULLUP TRUE} [get_ports {sfp4_mod_detect}]
set_property -dict {PACKAGE_PIN J36 IOSTANDARD LVCMOS15 PULLUP TRUE} [get_ports {sfp4_los}]
set_property -dict {PACKAGE_PIN H38 IOSTANDARD LVCMOS15 SLEW SLOW DRIVE 12} [get_ports {sfp4_rs0}]
set_property -dict {PACKAGE_PIN G38 IOSTANDARD LVCMOS15 SLEW SLOW DRIVE 12} [get_ports {sfp4_rs1}]
create_clock -name sfp_mgt_refclk -period 6.400 [get_ports {sfp_mgt_refclk_p}]

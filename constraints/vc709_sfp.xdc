# SPDX-License-Identifier: BSD-2-Clause
# VC709, sfp. SFP+ cages. Net SFP1 is cage P3, SFP2 is P2, SFP3 is P4, SFP4 is P5.
# Written from vc709_pins.csv by inceptionn.boards.pin_table: change the table,
# not this file. Read by no Vivado yet.
# Sources: B Xilinx's public board files, T the connectivity reference design, X taxi,
# F fpga-network-stack, N Netnod; A C D M U constraints of other open projects; recall: from memory.
# sfp_mgt_refclk_p: MGTREFCLK0_113 from Si5324 U24: 156.25 MHz ONLY after I2C programming; sources: B T X F N A
set_property -dict {PACKAGE_PIN AH8} [get_ports {sfp_mgt_refclk_p}]
set_property -dict {PACKAGE_PIN AH7} [get_ports {sfp_mgt_refclk_n}]
# sma_mgt_refclk_p: MGTREFCLK1_113, J25; sources: B X U
set_property -dict {PACKAGE_PIN AK8} [get_ports {sma_mgt_refclk_p}]
# sma_mgt_refclk_n: J26; sources: B X U
set_property -dict {PACKAGE_PIN AK7} [get_ports {sma_mgt_refclk_n}]
# sfp1_tx_p: cage P3, GTHE2_CHANNEL_X1Y12, quad 113; sources: B T X F N A C
set_property -dict {PACKAGE_PIN AP4} [get_ports {sfp1_tx_p}]
set_property -dict {PACKAGE_PIN AP3} [get_ports {sfp1_tx_n}]
set_property -dict {PACKAGE_PIN AN6} [get_ports {sfp1_rx_p}]
set_property -dict {PACKAGE_PIN AN5} [get_ports {sfp1_rx_n}]
# sfp1_tx_disable: active-high at FPGA (U: TX_DISABLE/LOS/MOD_ABS/TX_FAULT); sources: T X F N A U
set_property -dict {PACKAGE_PIN AB41 IOSTANDARD LVCMOS18} [get_ports {sfp1_tx_disable}]
set_property -dict {PACKAGE_PIN Y38 IOSTANDARD LVCMOS18} [get_ports {sfp1_tx_fault}]
set_property -dict {PACKAGE_PIN AB42 IOSTANDARD LVCMOS18} [get_ports {sfp1_mod_detect}]
set_property -dict {PACKAGE_PIN Y39 IOSTANDARD LVCMOS18} [get_ports {sfp1_los}]
set_property -dict {PACKAGE_PIN W40 IOSTANDARD LVCMOS18} [get_ports {sfp1_rs0}]
set_property -dict {PACKAGE_PIN Y40 IOSTANDARD LVCMOS18} [get_ports {sfp1_rs1}]
# sfp2_tx_p: cage P2, GTHE2_CHANNEL_X1Y13, quad 113; sources: B T X F N A C
set_property -dict {PACKAGE_PIN AN2} [get_ports {sfp2_tx_p}]
set_property -dict {PACKAGE_PIN AN1} [get_ports {sfp2_tx_n}]
set_property -dict {PACKAGE_PIN AM8} [get_ports {sfp2_rx_p}]
set_property -dict {PACKAGE_PIN AM7} [get_ports {sfp2_rx_n}]
# sfp2_tx_disable: active-high at FPGA (U: TX_DISABLE/LOS/MOD_ABS/TX_FAULT); sources: T X F N A
set_property -dict {PACKAGE_PIN Y42 IOSTANDARD LVCMOS18} [get_ports {sfp2_tx_disable}]
set_property -dict {PACKAGE_PIN AA39 IOSTANDARD LVCMOS18} [get_ports {sfp2_tx_fault}]
set_property -dict {PACKAGE_PIN AA42 IOSTANDARD LVCMOS18} [get_ports {sfp2_mod_detect}]
set_property -dict {PACKAGE_PIN AA40 IOSTANDARD LVCMOS18} [get_ports {sfp2_los}]
set_property -dict {PACKAGE_PIN AB38 IOSTANDARD LVCMOS18} [get_ports {sfp2_rs0}]
set_property -dict {PACKAGE_PIN AB39 IOSTANDARD LVCMOS18} [get_ports {sfp2_rs1}]
# sfp3_tx_p: cage P4, GTHE2_CHANNEL_X1Y14, quad 113; sources: B T X F N A C
set_property -dict {PACKAGE_PIN AM4} [get_ports {sfp3_tx_p}]
set_property -dict {PACKAGE_PIN AM3} [get_ports {sfp3_tx_n}]
set_property -dict {PACKAGE_PIN AL6} [get_ports {sfp3_rx_p}]
set_property -dict {PACKAGE_PIN AL5} [get_ports {sfp3_rx_n}]
# sfp3_tx_disable: active-high at FPGA (U: TX_DISABLE/LOS/MOD_ABS/TX_FAULT); sources: T X F N A
set_property -dict {PACKAGE_PIN AC38 IOSTANDARD LVCMOS18} [get_ports {sfp3_tx_disable}]
set_property -dict {PACKAGE_PIN AA41 IOSTANDARD LVCMOS18} [get_ports {sfp3_tx_fault}]
set_property -dict {PACKAGE_PIN AC39 IOSTANDARD LVCMOS18} [get_ports {sfp3_mod_detect}]
set_property -dict {PACKAGE_PIN AD38 IOSTANDARD LVCMOS18} [get_ports {sfp3_los}]
set_property -dict {PACKAGE_PIN AD42 IOSTANDARD LVCMOS18} [get_ports {sfp3_rs0}]
set_property -dict {PACKAGE_PIN AE42 IOSTANDARD LVCMOS18} [get_ports {sfp3_rs1}]
# sfp4_tx_p: cage P5, GTHE2_CHANNEL_X1Y15, quad 113; sources: B T X F N A C
set_property -dict {PACKAGE_PIN AL2} [get_ports {sfp4_tx_p}]
set_property -dict {PACKAGE_PIN AL1} [get_ports {sfp4_tx_n}]
set_property -dict {PACKAGE_PIN AJ6} [get_ports {sfp4_rx_p}]
set_property -dict {PACKAGE_PIN AJ5} [get_ports {sfp4_rx_n}]
# sfp4_tx_disable: active-high at FPGA (U: TX_DISABLE/LOS/MOD_ABS/TX_FAULT); sources: T X F N A
set_property -dict {PACKAGE_PIN AC40 IOSTANDARD LVCMOS18} [get_ports {sfp4_tx_disable}]
set_property -dict {PACKAGE_PIN AE38 IOSTANDARD LVCMOS18} [get_ports {sfp4_tx_fault}]
set_property -dict {PACKAGE_PIN AC41 IOSTANDARD LVCMOS18} [get_ports {sfp4_mod_detect}]
set_property -dict {PACKAGE_PIN AD40 IOSTANDARD LVCMOS18} [get_ports {sfp4_los}]
set_property -dict {PACKAGE_PIN AE39 IOSTANDARD LVCMOS18} [get_ports {sfp4_rs0}]
set_property -dict {PACKAGE_PIN AE40 IOSTANDARD LVCMOS18} [get_ports {sfp4_rs1}]
create_clock -name sfp_mgt_refclk -period 6.400 [get_ports {sfp_mgt_refclk_p}]

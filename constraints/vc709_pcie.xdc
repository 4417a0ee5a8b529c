# SPDX-License-Identifier: BSD-2-Clause
# VC709, pcie. PCI Express edge connector, 8 lanes.
# Written from vc709_pins.csv by inceptionn.boards.pin_table: change the table,
# not this file. Read by no Vivado yet.
# Sources: B Xilinx's public board files, T the connectivity reference design, X taxi,
# F fpga-network-stack, N Netnod; A C D M U constraints of other open projects; recall: from memory.
# pcie_refclk_p: 100 MHz, MGTREFCLK1_115, IBUFDS_GTE2_X1Y11 (D); sources: B T X C
set_property -dict {PACKAGE_PIN AB8} [get_ports {pcie_refclk_p}]
set_property -dict {PACKAGE_PIN AB7} [get_ports {pcie_refclk_n}]
# pcie_perst_n: PULLUP; active low (B rst_polarity=0); sources: B T X C D
set_property -dict {PACKAGE_PIN AV35 IOSTANDARD LVCMOS18 PULLUP TRUE} [get_ports {pcie_perst_n}]
# pcie_tx_p[0]: GTHE2_CHANNEL_X1Y23; hard block PCIE_X0Y1; sources: B X
set_property -dict {PACKAGE_PIN W2} [get_ports {pcie_tx_p[0]}]
set_property -dict {PACKAGE_PIN W1} [get_ports {pcie_tx_n[0]}]
# pcie_tx_p[1]: X1Y22; sources: B X
set_property -dict {PACKAGE_PIN AA2} [get_ports {pcie_tx_p[1]}]
set_property -dict {PACKAGE_PIN AA1} [get_ports {pcie_tx_n[1]}]
# pcie_tx_p[2]: X1Y21; sources: B X
set_property -dict {PACKAGE_PIN AC2} [get_ports {pcie_tx_p[2]}]
set_property -dict {PACKAGE_PIN AC1} [get_ports {pcie_tx_n[2]}]
# pcie_tx_p[3]: X1Y20; sources: B X
set_property -dict {PACKAGE_PIN AE2} [get_ports {pcie_tx_p[3]}]
set_property -dict {PACKAGE_PIN AE1} [get_ports {pcie_tx_n[3]}]
# pcie_tx_p[4]: X1Y19; sources: B X
set_property -dict {PACKAGE_PIN AG2} [get_ports {pcie_tx_p[4]}]
set_property -dict {PACKAGE_PIN AG1} [get_ports {pcie_tx_n[4]}]
# pcie_tx_p[5]: X1Y18; sources: B X
set_property -dict {PACKAGE_PIN AH4} [get_ports {pcie_tx_p[5]}]
set_property -dict {PACKAGE_PIN AH3} [get_ports {pcie_tx_n[5]}]
# pcie_tx_p[6]: X1Y17; sources: B X
set_property -dict {PACKAGE_PIN AJ2} [get_ports {pcie_tx_p[6]}]
set_property -dict {PACKAGE_PIN AJ1} [get_ports {pcie_tx_n[6]}]
# pcie_tx_p[7]: X1Y16; sources: B X
set_property -dict {PACKAGE_PIN AK4} [get_ports {pcie_tx_p[7]}]
set_property -dict {PACKAGE_PIN AK3} [get_ports {pcie_tx_n[7]}]
# pcie_rx_p[0]: X1Y23; sources: B X
set_property -dict {PACKAGE_PIN Y4} [get_ports {pcie_rx_p[0]}]
set_property -dict {PACKAGE_PIN Y3} [get_ports {pcie_rx_n[0]}]
# pcie_rx_p[1]: X1Y22; sources: B X
set_property -dict {PACKAGE_PIN AA6} [get_ports {pcie_rx_p[1]}]
set_property -dict {PACKAGE_PIN AA5} [get_ports {pcie_rx_n[1]}]
# pcie_rx_p[2]: X1Y21; sources: B X
set_property -dict {PACKAGE_PIN AB4} [get_ports {pcie_rx_p[2]}]
set_property -dict {PACKAGE_PIN AB3} [get_ports {pcie_rx_n[2]}]
# pcie_rx_p[3]: X1Y20; sources: B X
set_property -dict {PACKAGE_PIN AC6} [get_ports {pcie_rx_p[3]}]
set_property -dict {PACKAGE_PIN AC5} [get_ports {pcie_rx_n[3]}]
# pcie_rx_p[4]: X1Y19; sources: B X
set_property -dict {PACKAGE_PIN AD4} [get_ports {pcie_rx_p[4]}]
set_property -dict {PACKAGE_PIN AD3} [get_ports {pcie_rx_n[4]}]
# pcie_rx_p[5]: X1Y18; sources: B X
set_property -dict {PACKAGE_PIN AE6} [get_ports {pcie_rx_p[5]}]
set_property -dict {PACKAGE_PIN AE5} [get_ports {pcie_rx_n[5]}]
# pcie_rx_p[6]: X1Y17; sources: B X
set_property -dict {PACKAGE_PIN AF4} [get_ports {pcie_rx_p[6]}]
set_property -dict {PACKAGE_PIN AF3} [get_ports {pcie_rx_n[6]}]
# pcie_rx_p[7]: X1Y16; sources: B X
set_property -dict {PACKAGE_PIN AG6} [get_ports {pcie_rx_p[7]}]
set_property -dict {PACKAGE_PIN AG5} [get_ports {pcie_rx_n[7]}]
create_clock -name pcie_refclk -period 10.000 [get_ports {pcie_refclk_p}]

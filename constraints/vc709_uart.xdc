# SPDX-License-Identifier: BSD-2-Clause
# VC709, uart.
# Written from vc709_pins.csv by inceptionn.boards.pin_table: change the table,
# not this file. Read by no Vivado yet.
# Sources: B Xilinx's public board files, T the connectivity reference design, X taxi,
# F fpga-network-stack, N Netnod; A C D M U constraints of other open projects; recall: from memory.
# uart_rx: CP2103 U44 TXD_O; net USB_UART_TX; sources: B X F A C
set_property -dict {PACKAGE_PIN AU33 IOSTANDARD LVCMOS18} [get_ports {uart_rx}]
# uart_tx: CP2103 U44 RXD_I; net USB_UART_RX; sources: B X F A C
set_property -dict {PACKAGE_PIN AU36 IOSTANDARD LVCMOS18} [get_ports {uart_tx}]
# uart_rts: CP2103 RTS_O_B; C calls it cts (FPGA view); sources: X A C
set_property -dict {PACKAGE_PIN AT32 IOSTANDARD LVCMOS18} [get_ports {uart_rts}]
# uart_cts: CP2103 CTS_I_B; C calls it rts (FPGA view); sources: X A C
set_property -dict {PACKAGE_PIN AR34 IOSTANDARD LVCMOS18} [get_ports {uart_cts}]

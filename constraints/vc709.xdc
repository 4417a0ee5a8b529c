# SPDX-License-Identifier: BSD-2-Clause
# The clock that the NIC engine aims at on the VC709 (XC7VX690T-2): 250 MHz, as the reference NIC's streams.
# For the module alone: synth_design -top inceptionn_nic -part xc7vx690tffg1761-2 -mode out_of_context
create_clock -name aclk -period 4.000 [get_ports aclk]

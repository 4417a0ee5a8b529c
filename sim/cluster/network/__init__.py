# SPDX-License-Identifier: BSD-2-Clause
"""The network between the NICs: TAP devices, a switch, impairments of its ports, captures, counters."""

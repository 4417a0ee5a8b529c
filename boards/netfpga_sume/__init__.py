# SPDX-License-Identifier: BSD-2-Clause
"""The NetFPGA-SUME reference NIC: target, shell, platform."""

# SPDX-License-Identifier: BSD-2-Clause
"""An Ethernet MAC for 10, 100 and 1000 Mbit/s, with RGMII and RMII."""

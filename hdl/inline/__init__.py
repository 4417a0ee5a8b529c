# SPDX-License-Identifier: BSD-2-Clause
"""The inline device: two Ethernet ports with the engines between them."""

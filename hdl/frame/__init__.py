# SPDX-License-Identifier: BSD-2-Clause
"""From an Ethernet frame to its payload: front end, parser, matcher, realigner, flow table."""

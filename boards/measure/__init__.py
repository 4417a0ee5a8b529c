# SPDX-License-Identifier: BSD-2-Clause
"""Clock, area and their history: place and route, mapping to series 7, reports."""

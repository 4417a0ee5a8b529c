# SPDX-License-Identifier: BSD-2-Clause
"""Captured traffic through the generated NIC, compared with the golden model: ``inceptionn replay``."""

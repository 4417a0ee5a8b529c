# SPDX-License-Identifier: BSD-2-Clause
"""Captured traffic through the generated NIC, judged by the golden model: ``inceptionn replay``."""

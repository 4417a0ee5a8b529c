# SPDX-License-Identifier: BSD-2-Clause
"""DDP and local updates on slow links: what each costs in loss, bytes and time."""

# SPDX-License-Identifier: BSD-2-Clause
"""One table or figure of each of the four papers whose layers are built here."""

# SPDX-License-Identifier: BSD-2-Clause
"""Collectives between hosts whose links have a rate, against MPI's."""

# SPDX-License-Identifier: BSD-2-Clause
"""The papers' tables and figures, each a function that fills an `Artefact`, by what they are made from."""

# SPDX-License-Identifier: BSD-2-Clause
"""One module per artefact: ``make(settings)`` gives an `Artefact`, ``draw(figure, artefact)`` its figure."""

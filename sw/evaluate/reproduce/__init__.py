# SPDX-License-Identifier: BSD-2-Clause
"""The tables and figures of the papers, made again: ``inceptionn reproduce``.

`artefacts` has one module for each; `published` holds what the papers print; `inputs` makes gradients.
"""

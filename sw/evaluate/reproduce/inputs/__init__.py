# SPDX-License-Identifier: BSD-2-Clause
"""Inputs of the artefacts: codecs by name, the digit network in training, the ImageNet networks."""

# SPDX-License-Identifier: BSD-2-Clause
"""What the artefacts are made of: codecs by name, the digit network in training, the ImageNet networks."""

# SPDX-License-Identifier: BSD-2-Clause
"""The parts that both codecs share: compressor, decompressor, alignment, block memory; without lanes."""

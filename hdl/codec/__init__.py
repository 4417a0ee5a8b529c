# SPDX-License-Identifier: BSD-2-Clause
"""What both codecs share: compressor and decompressor without their lanes, alignment, block memory."""

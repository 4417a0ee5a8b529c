# SPDX-License-Identifier: BSD-2-Clause
"""Internet checksum arithmetic (RFC 1071, RFC 1624): one's complement, that is modulo 65535."""

import numpy as np


def word_sum(data: bytes) -> int:
    """Sum of the big-endian 16-bit words of ``data``; an odd last byte is the high half of a word."""
    if len(data) % 2:
        data += b"\0"
    return int(np.frombuffer(data, ">u2").sum(dtype=np.int64))


def fold(total: int) -> int:
    """Fold a sum of words to 16 bits with end-around carry; 0 only for 0."""
    while total > 0xFFFF:
        total = (total & 0xFFFF) + (total >> 16)
    return total


def update(checksum: int, before: int, after: int) -> int:
    """Update a checksum field after words of sum ``before`` became words of sum ``after``.

    RFC 1624 equation 3, ``HC' = ~(~HC + ~m + m')``, over any number of words: the result is in
    0..65534. A wrong checksum stays wrong by the same amount.
    """
    return (checksum + before - after) % 0xFFFF


def pseudo_header_sum(source: int, destination: int, protocol: int, length: int) -> int:
    """Sum the words of the IPv4 pseudo header (RFC 9293 section 3.1, RFC 768)."""
    addresses = source.to_bytes(4, "big") + destination.to_bytes(4, "big")
    return word_sum(addresses) + protocol + length

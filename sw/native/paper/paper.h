/* SPDX-License-Identifier: BSD-2-Clause */
/* The paper's codec: what its kernels share. */
#ifndef INCEPTIONN_NATIVE_PAPER_H
#define INCEPTIONN_NATIVE_PAPER_H

#include "../kernels.h"
#include "../loops.h"

enum {
    /* Below this base the float arithmetic of the vector kernels would meet subnormal numbers. */
    MIN_VECTOR_BASE = 32,
};

static inline size_t tag_table_bytes(size_t lanes)
{
    return (lanes + GROUP_LANES - 1) / GROUP_LANES * TAG_WORD_BYTES;
}

/* Ends of blocks, for the vector kernels: the lanes from `done` on, which is a multiple of 8, with the data
 * cursor at `data`. They return the cursor past the block, NULL for an impossible vector. */
uint8_t *paper_compress_tail(const lane_bits *x, size_t done, size_t lanes, parameters p, uint8_t *table,
                             uint8_t *data);
const uint8_t *paper_decompress_tail(const uint8_t *table, const uint8_t *data, size_t done, size_t lanes,
                                     uint32_t b, const lane_bits *addend, lane_bits *out);

/* The mantissa bits below the last one that is kept are cleared; 24 of them take the value with them. */
INLINE uint32_t lossy_lane(uint32_t f, uint32_t e0, uint32_t t, uint32_t b)
{
    const uint32_t e = f >> MANTISSA_BITS & 0xFF;
    const uint32_t cleared = select_bits(e >= t, EXPONENT_BIAS + 8, b + 16) - e;
    const uint32_t kept = f & -(1u << (cleared & 31));
    const uint32_t small = select_bits((e < e0) | (cleared > MANTISSA_BITS), 0, kept);
    return select_bits(e >= EXPONENT_BIAS, f, small);
}

INLINE void lossy_loop(const lane_bits *x, size_t lanes, parameters p, lane_bits *out)
{
    for (size_t i = 0; i < lanes; i++)
        out[i] = lossy_lane(x[i], p.e0, p.t, p.b);
}

INLINE size_t data_bytes_loop(const uint8_t *table, size_t lanes)
{
    const uint64_t low = 0x5555555555555555;
    const size_t size = tag_table_bytes(lanes);
    uint64_t total = 0;
    for (size_t i = 0; i < size; i += 8) {
        uint64_t tags = 0;
        if (size - i >= 8)
            memcpy(&tags, table + i, 8);
        else
            memcpy(&tags, table + i, size - i);
        const uint64_t bit0 = tags & low, bit1 = tags >> 1 & low;
        /* 01 is 1 byte, 10 is 2, 11 is 4. */
        total += (unsigned)__builtin_popcountll(bit0 | bit1 << 1)
                 + (unsigned)__builtin_popcountll(bit1 | (bit0 & bit1) << 1);
    }
    return total;
}

#endif

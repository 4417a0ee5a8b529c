/* SPDX-License-Identifier: BSD-2-Clause */
/* The planes codec: what its kernels share.
 *
 * A lane's value counts half steps: h = floor(|x| 2^k), the product exact. So q = (h + 1) >> 1 steps, to the
 * nearest with ties away from zero, and the lane's integer is z = 2 q - s, or 0 where q is.
 */
#ifndef INCEPTIONN_NATIVE_PLANES_H
#define INCEPTIONN_NATIVE_PLANES_H

#include "../kernels.h"
#include "../loops.h"

enum {
    PLANES_IN_GROUP = 16, /* bytes; the last one is zero in every group that has no raw lane */
    GROUP_BYTES = GROUP_LANES * LANE_BYTES,
    /* A lane of 2^14 half steps and more is raw; vector kernels have 16 bits for their number. */
    RAW_BITS = 0xC000,
    /* Below this magnitude numbers are subnormal: multiplying them may take a hundred cycles. */
    LEAST_NORMAL = 1 << MANTISSA_BITS,
};

/* Bytes of a group's data by its code. */
static const uint8_t code_bytes[16] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 15, GROUP_BYTES};

static inline size_t groups_of(size_t lanes)
{
    return (lanes + GROUP_LANES - 1) / GROUP_LANES;
}

static inline size_t code_plane_bytes(size_t lanes)
{
    return (groups_of(lanes) + CODE_WORD_GROUPS - 1) / CODE_WORD_GROUPS * CODE_WORD_BYTES;
}

/* The nibbles that are left over in the last word of a code plane are zero; kernels write all others. */
static inline void begin_block(uint8_t *plane, size_t lanes)
{
    memset(plane + code_plane_bytes(lanes) - CODE_WORD_BYTES, 0, CODE_WORD_BYTES);
}

/* Groups from the lane `done` on, which is a multiple of 8, with the data cursor at `data`: what vector
 * kernels leave over. They return the cursor past the groups, NULL if an absent lane is not zero. */
uint8_t *planes_compress_tail(const lane_bits *x, size_t done, size_t lanes, parameters p, uint8_t *plane,
                              uint8_t *data);
const uint8_t *planes_decompress_tail(const uint8_t *plane, const uint8_t *data, size_t done, size_t lanes,
                                      parameters p, const lane_bits *addend, lane_bits *out);

/* Half steps in a value: 2^k, with k = 127 - E0. */
INLINE float half_steps(parameters p)
{
    return as_float((2 * EXPONENT_BIAS - p.e0) << MANTISSA_BITS);
}

/* D = 2^(1 - k). */
INLINE float step_of(parameters p)
{
    return as_float((p.e0 + 1) << MANTISSA_BITS);
}

/* Magnitudes from here on are raw. */
INLINE uint32_t raw_limit(parameters p)
{
    return (p.e0 + RAW_EXPONENT) << MANTISSA_BITS;
}

INLINE uint32_t steps_of(uint32_t magnitude, bool raw, float factor)
{
    const uint32_t finite = select_bits(raw, LEAST_NORMAL, magnitude);
    const uint32_t normal = finite < LEAST_NORMAL ? LEAST_NORMAL : finite;
    return ((uint32_t)(int32_t)(as_float(normal) * factor) + 1) >> 1;
}

INLINE void lossy_loop(const lane_bits *x, size_t lanes, parameters p, lane_bits *out)
{
    const float factor = half_steps(p), step = step_of(p);
    const uint32_t limit = raw_limit(p);
    for (size_t i = 0; i < lanes; i++) {
        const uint32_t f = x[i], magnitude = f & 0x7FFFFFFF;
        const bool raw = magnitude >= limit;
        const uint32_t q = steps_of(magnitude, raw, factor);
        const uint32_t small = as_bits((float)(int32_t)q * step) | select_bits(q > 0, f & 0x80000000, 0);
        out[i] = select_bits(raw, f, small);
    }
}

INLINE size_t data_bytes_loop(const uint8_t *plane, size_t lanes)
{
    const size_t groups = groups_of(lanes);
    size_t total = groups % 2 ? code_bytes[plane[groups / 2] & 15] : 0;
    for (size_t i = 0; i < groups / 2; i++)
        total += (size_t)code_bytes[plane[i] & 15] + code_bytes[plane[i] >> 4];
    return total;
}

/* An 8x8 matrix of bits, transposed: bit i of byte j becomes bit j of byte i. */
INLINE uint64_t transposed(uint64_t m)
{
    uint64_t t = (m ^ m >> 7) & 0x00AA00AA00AA00AA;
    m ^= t ^ t << 7;
    t = (m ^ m >> 14) & 0x0000CCCC0000CCCC;
    m ^= t ^ t << 14;
    t = (m ^ m >> 28) & 0x00000000F0F0F0F0;
    return m ^ t ^ t << 28;
}

#endif

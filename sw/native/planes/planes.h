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
    INFINITE = 0x7F800000,
    LATTICE_NAN = 0x7FC00000,
    /* A sum of so many steps is raw. */
    RAW_STEPS = 1 << 13,
};

/* Bytes of a group's data by its code. */
static const uint8_t code_bytes[16] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 15, GROUP_BYTES};

/* Constants of the AVX2 kernel: the bits that change places when 8x8 matrices are transposed; RAW_BITS and bf16's
 * LEAST_NORMAL in 16-bit places. */
enum { SWAPPED_BY_7, SWAPPED_BY_14, SWAPPED_BY_28, RAW_LANES, LEAST_BF16, CONSTANTS };
extern const uint64_t planes_constants[CONSTANTS][4] __attribute__((visibility("hidden")));

static inline size_t groups_of(size_t lanes)
{
    return (lanes + GROUP_LANES - 1) / GROUP_LANES;
}

static inline size_t code_table_bytes(size_t lanes)
{
    return (groups_of(lanes) + CODE_WORD_GROUPS - 1) / CODE_WORD_GROUPS * CODE_WORD_BYTES;
}

/* The nibbles that are left over in the last word of a code table are zero; kernels write all others. */
static inline void begin_block(uint8_t *table, size_t lanes)
{
    memset(table + code_table_bytes(lanes) - CODE_WORD_BYTES, 0, CODE_WORD_BYTES);
}

/* Groups from the lane `done` on, which is a multiple of 8, with the data cursor at `data`: what vector
 * kernels leave over. They return the cursor past the groups, NULL if an absent lane is not zero. */
uint8_t *planes_compress_tail(const lane_bits *x, size_t done, size_t lanes, parameters p, uint8_t *table,
                              uint8_t *data);
const uint8_t *planes_decompress_tail(const uint8_t *table, const uint8_t *data, size_t done, size_t lanes,
                                      parameters p, const lane_bits *addend, lane_bits *out);

/* A sum on the lattice of groups from the lane `done` on: the arriving block's codes and data, the addend and its
 * factor, and where the sum's codes and data go. The cursors `from` and `to` move. */
typedef struct {
    const uint8_t *codes, *from;
    const void *addend;
    value_type type;
    float factor;
    parameters p;
    uint8_t *table, *to;
    /* A finite lane of the addend becomes infinite by the factor. */
    bool overflows;
} summation;

/* Values of the first `lanes` sums, FEW_SUMS at most. Whether absent lanes are zero. */
enum { FEW_SUMS = 64 };
bool planes_sum_values(summation *s, const uint8_t *codes, size_t done, size_t lanes, lane_bits *sums);
/* What vector kernels leave over. */
status planes_sum_tail(summation *s, size_t done, size_t lanes);

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

/* A raw lane on the lattice: the nearest multiple of D, ties away from zero. From 2^23 D on every value is one. */
INLINE uint32_t settled_raw(uint32_t f, parameters p)
{
    const uint32_t magnitude = f & 0x7FFFFFFF;
    const int32_t below = (int32_t)p.e0 + 1 + MANTISSA_BITS - (int32_t)(magnitude >> MANTISSA_BITS);
    const uint32_t bits = below > 0 ? (uint32_t)below & 31 : 0;
    const uint32_t rounded = (magnitude + (1u << bits >> 1)) >> bits << bits;
    return select_bits(magnitude > INFINITE, LATTICE_NAN, rounded | (f & 0x80000000));
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
        out[i] = select_bits(raw, p.lattice ? settled_raw(f, p) : f, small);
    }
}

/* Magnitudes that are raw once they are scaled. */
INLINE uint32_t scaled_limit(parameters p, int scale)
{
    const int32_t exponent = (int32_t)p.e0 + RAW_EXPONENT - scale;
    return (exponent < 255 ? (uint32_t)exponent : 255) << MANTISSA_BITS;
}

INLINE bool settle_loop(const lane_bits *x, size_t lanes, parameters p, int scale, lane_bits *out)
{
    const float factor = half_steps(p) * power_of_two(scale), step = step_of(p) * power_of_two(-scale);
    const uint32_t limit = scaled_limit(p, scale);
    uint32_t raws = 0;
    for (size_t i = 0; i < lanes; i++) {
        const uint32_t magnitude = x[i] & 0x7FFFFFFF;
        const bool raw = magnitude >= limit;
        const uint32_t q = steps_of(magnitude, raw, factor);
        out[i] = as_bits((float)(int32_t)q * step) | select_bits(q > 0, x[i] & 0x80000000, 0);
        raws |= raw;
    }
    return !raws;
}

INLINE size_t feed_back_loop(const lane_bits *x, lane_bits *left, size_t lanes, parameters p, int scale,
                             lane_bits *kept)
{
    size_t done = 0;
    for (; lanes - done >= FEW_LANES; done += FEW_LANES) {
        lane_bits wanted[FEW_LANES], settled[FEW_LANES];
        for (size_t i = 0; i < FEW_LANES; i++)
            wanted[i] = added(x[done + i], left[done + i]);
        if (!settle_loop(wanted, FEW_LANES, p, scale, settled))
            break;
        memcpy(kept + done, settled, sizeof settled);
        for (size_t i = 0; i < FEW_LANES; i++)
            left[done + i] = rest_of(wanted[i], settled[i]);
    }
    return done;
}

INLINE bool add_steps_loop(const lane_bits *addend, const lane_bits *values, size_t lanes, parameters p, int scale,
                           lane_bits *sums)
{
    const uint32_t limit = raw_limit(p);
    uint32_t raws = 0;
    const float factor = half_steps(p) * power_of_two(scale), step = step_of(p);
    const uint32_t own_limit = scaled_limit(p, scale);
    for (size_t i = 0; i < lanes; i++) {
        const uint32_t magnitude = addend[i] & 0x7FFFFFFF;
        const bool raw = magnitude >= own_limit;
        const uint32_t q = steps_of(magnitude, raw, factor);
        const uint32_t own = as_bits((float)(int32_t)q * step) | select_bits(q > 0, addend[i] & 0x80000000, 0);
        const uint32_t sum = added(own, values[i]);
        raws |= raw | ((sum & 0x7FFFFFFF) >= limit);
        sums[i] = sum;
    }
    return !raws;
}

INLINE size_t data_bytes_loop(const uint8_t *table, size_t lanes)
{
    const size_t groups = groups_of(lanes);
    size_t total = groups % 2 ? code_bytes[table[groups / 2] & 15] : 0;
    for (size_t i = 0; i < groups / 2; i++)
        total += (size_t)code_bytes[table[i] & 15] + code_bytes[table[i] >> 4];
    return total;
}

/* Some values as lanes, where they are or in the buffer. */
INLINE const lane_bits *widened(const void *x, value_type type, size_t lanes, lane_bits *buffer)
{
    if (type == FLOAT32)
        return x;
    half_scalar.widen[type](x, lanes, buffer);
    return buffer;
}

/* What every kernel's `sum` begins and ends with. */
INLINE summation begin_sum(const uint8_t *block, const void *addend, value_type type, size_t lanes, parameters p,
                           int scale, uint8_t *out)
{
    const size_t table = code_table_bytes(lanes);
    begin_block(out, lanes);
    return (summation){.codes = block, .from = block + table, .addend = addend, .type = type,
                       .factor = power_of_two(scale), .p = p, .table = out, .to = out + table};
}

INLINE status end_sum(const summation *s, const uint8_t *block, const uint8_t *out, status result, sizes *moved)
{
    if (!result)
        *moved = (sizes){(size_t)(s->from - block), (size_t)(s->to - out)};
    return result;
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

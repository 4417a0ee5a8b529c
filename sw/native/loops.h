/* SPDX-License-Identifier: BSD-2-Clause */
/* Loops over single lanes that the compiler makes vectors of, once for each instruction set: LOOPS(name,
 * attributes) defines them, LOOPS_OF(name) puts them into a kernel. VECTOR_KERNEL makes a kernel with them.
 */
#ifndef INCEPTIONN_NATIVE_LOOPS_H
#define INCEPTIONN_NATIVE_LOOPS_H

#include "codec.h"

#define INLINE static inline __attribute__((always_inline))

INLINE float as_float(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, 4);
    return value;
}

INLINE uint32_t as_bits(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, 4);
    return bits;
}

/* Without a branch, which random data would mispredict. */
INLINE uint32_t select_bits(bool condition, uint32_t yes, uint32_t no)
{
    const uint32_t mask = -(uint32_t)condition;
    return (yes & mask) | (no & ~mask);
}

INLINE uint32_t added(uint32_t accumulator, uint32_t bits)
{
    return as_bits(as_float(accumulator) + as_float(bits));
}

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

INLINE void classes_loop(const lane_bits *x, size_t lanes, parameters p, uint64_t counts[3])
{
    const uint32_t e0 = p.e0 << MANTISSA_BITS, t = p.t << MANTISSA_BITS;
    const uint32_t one = (uint32_t)EXPONENT_BIAS << MANTISSA_BITS;
    /* 32-bit sums in vectors, over runs too short to overflow them. */
    while (lanes) {
        const size_t run = lanes < (1u << 20) ? lanes : 1u << 20;
        uint32_t from_e0 = 0, from_t = 0, from_one = 0;
        for (size_t i = 0; i < run; i++) {
            const uint32_t magnitude = x[i] & 0x7FFFFFFF;
            from_e0 += magnitude >= e0;
            from_t += magnitude >= t;
            from_one += magnitude >= one;
        }
        counts[0] += from_e0;
        counts[1] += from_t;
        counts[2] += from_one;
        x += run;
        lanes -= run;
    }
}

INLINE bool scale_loop(const lane_bits *x, size_t lanes, float factor, lane_bits *y)
{
    uint32_t overflows = 0;
    for (size_t i = 0; i < lanes; i++) {
        const uint32_t bits = x[i], infinity = 0x7F800000;
        const uint32_t scaled = as_bits(as_float(bits) * factor);
        const bool finite = (bits & infinity) != infinity;
        overflows |= finite & ((scaled & infinity) == infinity);
        y[i] = finite ? scaled : bits;
    }
    return overflows;
}

INLINE size_t data_bytes_loop(const uint8_t *plane, size_t size)
{
    const uint64_t low = 0x5555555555555555;
    uint64_t total = 0;
    for (size_t i = 0; i < size; i += 8) {
        uint64_t tags = 0;
        if (size - i >= 8)
            memcpy(&tags, plane + i, 8);
        else
            memcpy(&tags, plane + i, size - i);
        const uint64_t bit0 = tags & low, bit1 = tags >> 1 & low;
        /* 01 is 1 byte, 10 is 2, 11 is 4. */
        total += (unsigned)__builtin_popcountll(bit0 | bit1 << 1)
                 + (unsigned)__builtin_popcountll(bit1 | (bit0 & bit1) << 1);
    }
    return total;
}

INLINE uint32_t largest_loop(const lane_bits *x, size_t lanes)
{
    uint32_t largest = 0;
    for (size_t i = 0; i < lanes; i++) {
        const uint32_t magnitude = x[i] & 0x7FFFFFFF;
        const uint32_t finite = magnitude < 0x7F800000 ? magnitude : 0;
        largest = finite > largest ? finite : largest;
    }
    return largest;
}

#define LOOPS(name, attributes)                                                                              \
    attributes static void name##_lossy(const lane_bits *x, size_t lanes, parameters p, lane_bits *out)      \
    {                                                                                                        \
        lossy_loop(x, lanes, p, out);                                                                        \
    }                                                                                                        \
    attributes static void name##_classes(const lane_bits *x, size_t lanes, parameters p, uint64_t *counts)  \
    {                                                                                                        \
        classes_loop(x, lanes, p, counts);                                                                   \
    }                                                                                                        \
    attributes static bool name##_scale(const lane_bits *x, size_t lanes, float factor, lane_bits *y)        \
    {                                                                                                        \
        return scale_loop(x, lanes, factor, y);                                                              \
    }                                                                                                        \
    attributes static size_t name##_data_bytes(const uint8_t *plane, size_t size)                            \
    {                                                                                                        \
        return data_bytes_loop(plane, size);                                                                 \
    }                                                                                                        \
    attributes static uint32_t name##_largest(const lane_bits *x, size_t lanes)                              \
    {                                                                                                        \
        return largest_loop(x, lanes);                                                                       \
    }

#define LOOPS_OF(set)                                                                                        \
    .lossy = set##_lossy, .classes = set##_classes, .scale = set##_scale, .data_bytes = set##_data_bytes,    \
    .largest = set##_largest

/* The decoders and the table of a vector kernel, of its `decode`, `compress`, `supported` and `prepare`. */
#define VECTOR_KERNEL(set, attributes)                                                                       \
    attributes static size_t decompress(const uint8_t *block, size_t lanes, uint32_t b, lane_bits *out)      \
    {                                                                                                        \
        return decode(block, lanes, b, out, false);                                                          \
    }                                                                                                        \
    attributes static size_t decompress_add(const uint8_t *block, size_t lanes, uint32_t b, lane_bits *out)  \
    {                                                                                                        \
        return decode(block, lanes, b, out, true);                                                           \
    }                                                                                                        \
    LOOPS(set, attributes)                                                                                   \
    const kernel set##_kernel = {                                                                            \
        .name = #set,                                                                                        \
        .supported = supported,                                                                              \
        .prepare = prepare,                                                                                  \
        .min_base = MIN_VECTOR_BASE,                                                                         \
        .compress = compress,                                                                                \
        .decompress = decompress,                                                                            \
        .decompress_add = decompress_add,                                                                    \
        LOOPS_OF(set),                                                                                       \
    };

#endif

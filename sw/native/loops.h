/* SPDX-License-Identifier: BSD-2-Clause */
/* Parts of loops over single lanes, which the compiler vectorises for each instruction set. */
#ifndef INCEPTIONN_NATIVE_LOOPS_H
#define INCEPTIONN_NATIVE_LOOPS_H

#include "types.h"

#define INLINE static inline __attribute__((always_inline))

/* Instruction sets. */
#define TARGET_AVX2 __attribute__((target("avx2,bmi2,f16c,lzcnt,popcnt")))
#define AVX512 "avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi,avx512vbmi2,avx512bitalg,bmi2,popcnt"
#define TARGET_AVX512 __attribute__((target(AVX512)))
#define TARGET_GFNI __attribute__((target(AVX512 ",gfni")))

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

INLINE uint32_t added(uint32_t addend, uint32_t bits)
{
    return as_bits(as_float(addend) + as_float(bits));
}

/* What is left of x without `kept`; zero where that is not finite. */
INLINE uint32_t rest_of(uint32_t x, uint32_t kept)
{
    const uint32_t rest = as_bits(as_float(x) - as_float(kept));
    return select_bits((rest & 0x7F800000) != 0x7F800000, rest, 0);
}

/* Begins to fetch the cache line that lies some way after a lane, to be read or written soon: on their own,
 * processors fetch no further than to the end of a page. After an array's end it does nothing. */
INLINE void fetch_ahead(const void *lane)
{
    enum { DISTANCE = 4096 };
    __builtin_prefetch((const void *)((uintptr_t)lane + DISTANCE));
}

/* An addend from a lane on, where there is one. */
INLINE const lane_bits *addend_from(const lane_bits *addend, size_t lane)
{
    return addend ? addend + lane : NULL;
}

/* A coder of an instruction set, of a file's `compress`, `decode`, `lossy_loop` and `data_bytes_loop`. `decode`
 * adds if there is an addend, which is known where it is called. The other functions may be NULL. */
#define CODER(name, of_format, half, of_sum, of_settle, of_feed_back, of_add_steps, attributes)              \
    attributes static size_t decompress(const uint8_t *block, size_t lanes, parameters p, lane_bits *out)    \
    {                                                                                                        \
        return decode(block, lanes, p, NULL, out);                                                           \
    }                                                                                                        \
    __attribute__((nonnull)) attributes static size_t decompress_add(                                        \
        const uint8_t *block, size_t lanes, parameters p, const lane_bits *addend, lane_bits *out)           \
    {                                                                                                        \
        return decode(block, lanes, p, addend, out);                                                         \
    }                                                                                                        \
    attributes static void lossy(const lane_bits *x, size_t lanes, parameters p, lane_bits *out)             \
    {                                                                                                        \
        lossy_loop(x, lanes, p, out);                                                                        \
    }                                                                                                        \
    attributes static size_t data_bytes(const uint8_t *table, size_t lanes)                                  \
    {                                                                                                        \
        return data_bytes_loop(table, lanes);                                                                \
    }                                                                                                        \
    const coder name = {                                                                                     \
        .format = &(of_format),                                                                              \
        .compress = compress,                                                                                \
        .compress_half = half,                                                                               \
        .decompress = decompress,                                                                            \
        .decompress_add = decompress_add,                                                                    \
        .lossy = lossy,                                                                                      \
        .data_bytes = data_bytes,                                                                            \
        .sum = of_sum,                                                                                       \
        .settle = of_settle,                                                                                 \
        .feed_back = of_feed_back,                                                                           \
        .add_steps = of_add_steps,                                                                           \
    };

#endif

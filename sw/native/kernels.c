/* SPDX-License-Identifier: BSD-2-Clause */
/* What each kind of processor runs. */
#include "kernels.h"

#include "loops.h"

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

INLINE void add_loop(const lane_bits *addend, const lane_bits *x, size_t lanes, lane_bits *y)
{
    for (size_t i = 0; i < lanes; i++)
        y[i] = added(addend[i], x[i]);
}

INLINE void subtract_loop(lane_bits *x, size_t lanes, const lane_bits *kept)
{
    for (size_t i = 0; i < lanes; i++)
        x[i] = rest_of(x[i], kept[i]);
}

INLINE uint32_t largest_loop(const lane_bits *x, const lane_bits *left, size_t lanes)
{
    uint32_t largest = 0;
    for (size_t i = 0; i < lanes; i++) {
        const uint32_t magnitude = (left ? added(x[i], left[i]) : x[i]) & 0x7FFFFFFF;
        const uint32_t finite = select_bits(magnitude < 0x7F800000, magnitude, 0);
        largest = finite > largest ? finite : largest;
    }
    return largest;
}

#define LOOPS(set, attributes)                                                                               \
    attributes static bool scale_##set(const lane_bits *x, size_t lanes, float factor, lane_bits *y)         \
    {                                                                                                        \
        return scale_loop(x, lanes, factor, y);                                                              \
    }                                                                                                        \
    attributes static void add_##set(const lane_bits *addend, const lane_bits *x, size_t lanes, lane_bits *y) \
    {                                                                                                        \
        add_loop(addend, x, lanes, y);                                                                       \
    }                                                                                                        \
    attributes static void subtract_##set(lane_bits *x, size_t lanes, const lane_bits *kept)                 \
    {                                                                                                        \
        subtract_loop(x, lanes, kept);                                                                       \
    }                                                                                                        \
    attributes static uint32_t largest_##set(const lane_bits *x, const lane_bits *left, size_t lanes)        \
    {                                                                                                        \
        return left ? largest_loop(x, left, lanes) : largest_loop(x, NULL, lanes);                           \
    }

static bool always(void)
{
    return true;
}

static void nothing(void)
{
}

LOOPS(scalar, )

static const kernel scalar = {
    .name = "scalar",
    .supported = always,
    .prepare = nothing,
    .coders = {[PAPER] = &paper_scalar, [PLANES] = &planes_scalar},
    .scale = scale_scalar,
    .add = add_scalar,
    .subtract = subtract_scalar,
    .largest = largest_scalar,
    .conversions = &half_scalar,
};

#if HAVE_X86

#include <cpuid.h>

LOOPS(avx2, TARGET_AVX2)
LOOPS(avx512, TARGET_AVX512)

/* Not every compiler's __builtin_cpu_supports knows the name. */
static bool has_lzcnt(void)
{
    unsigned a, b, c, d;
    return __get_cpuid(0x80000001, &a, &b, &c, &d) && c & bit_LZCNT;
}

static bool has_f16c(void)
{
    unsigned a, b, c, d;
    return __get_cpuid(1, &a, &b, &c, &d) && c & bit_F16C;
}

static bool runs_avx2(void)
{
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("bmi2")
           && __builtin_cpu_supports("popcnt") && has_lzcnt() && has_f16c();
}

static bool runs_avx512(void)
{
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw")
           && __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl")
           && __builtin_cpu_supports("avx512vbmi") && __builtin_cpu_supports("avx512vbmi2")
           && __builtin_cpu_supports("avx512bitalg") && __builtin_cpu_supports("bmi2")
           && __builtin_cpu_supports("popcnt");
}

static bool runs_gfni(void)
{
    return runs_avx512() && __builtin_cpu_supports("gfni");
}

static const kernel avx2 = {
    .name = "avx2",
    .supported = runs_avx2,
    .prepare = paper_avx2_prepare,
    .coders = {[PAPER] = &paper_avx2, [PLANES] = &planes_avx2},
    .scale = scale_avx2,
    .add = add_avx2,
    .subtract = subtract_avx2,
    .largest = largest_avx2,
    .conversions = &half_avx2,
};

static const kernel avx512 = {
    .name = "avx512",
    .supported = runs_avx512,
    .prepare = nothing,
    .coders = {[PAPER] = &paper_avx512, [PLANES] = &planes_avx512},
    .scale = scale_avx512,
    .add = add_avx512,
    .subtract = subtract_avx512,
    .largest = largest_avx512,
    .conversions = &half_avx512,
};

static const kernel gfni = {
    .name = "avx512-gfni",
    .supported = runs_gfni,
    .prepare = nothing,
    .coders = {[PAPER] = &paper_avx512, [PLANES] = &planes_gfni},
    .scale = scale_avx512,
    .add = add_avx512,
    .subtract = subtract_avx512,
    .largest = largest_avx512,
    .conversions = &half_avx512,
};

#endif

const kernel *const kernels[] = {
#if HAVE_X86
    &gfni,
    &avx512,
    &avx2,
#endif
    &scalar,
};
const size_t kernel_count = sizeof kernels / sizeof *kernels;

/* SPDX-License-Identifier: BSD-2-Clause */
/* bf16 and fp16 values from and to fp32. */
#include "kernels.h"

#include "loops.h"

/* One lane */

INLINE uint32_t fp32_of_bf16(uint16_t h)
{
    return (uint32_t)h << 16;
}

/* The upper half, rounded. That of a NaN is kept; it becomes quiet if bits are lost, or it might be infinite. */
INLINE uint16_t bf16_of(uint32_t f)
{
    const uint32_t rounded = f + 0x7FFF + (f >> 16 & 1);
    const uint32_t nan = f | select_bits((f & 0xFFFF) != 0, 0x400000, 0);
    return (uint16_t)(select_bits((f & 0x7FFFFFFF) > 0x7F800000, nan, rounded) >> 16);
}

INLINE uint32_t fp32_of_fp16(uint16_t h)
{
    const uint32_t sign = (uint32_t)(h & 0x8000) << 16, magnitude = h & 0x7FFF;
    if (magnitude > 0x7C00)
        return sign | 0x7FC00000 | magnitude << 13;
    if (magnitude == 0x7C00)
        return sign | 0x7F800000;
    if (magnitude < 0x0400) /* a subnormal number is a multiple of 2^-24 */
        return sign | as_bits((float)(int32_t)magnitude * 0x1p-24f);
    return sign | ((magnitude << 13) + ((127 - 15) << 23));
}

INLINE uint16_t fp16_of(uint32_t f)
{
    const uint32_t sign = f >> 16 & 0x8000, magnitude = f & 0x7FFFFFFF;
    if (magnitude > 0x7F800000)
        return (uint16_t)(sign | 0x7E00 | (magnitude >> 13 & 0x1FF));
    if (magnitude >= 0x477FF000) /* 65520, half a step beyond the largest number */
        return (uint16_t)(sign | 0x7C00);
    if (magnitude < 0x38800000) /* below 2^-14: the last place of a sum with 0.5 is 2^-24 */
        return (uint16_t)(sign | (as_bits(as_float(magnitude) + 0.5f) - 0x3F000000));
    return (uint16_t)(sign | (magnitude - ((127 - 15) << 23) + 0xFFF + (magnitude >> 13 & 1)) >> 13);
}

/* Arrays: `step` lanes at a time while there are as many, by the statement, then one by one. */
#define CONVERSION(name, attributes, from, to, one, step, statement)                                         \
    attributes static void name(const from *x, size_t lanes, to *y)                                          \
    {                                                                                                        \
        size_t i = 0;                                                                                        \
        for (; lanes - i >= (step); i += (step)) {                                                           \
            statement                                                                                        \
        }                                                                                                    \
        for (; i < lanes; i++)                                                                               \
            y[i] = one(x[i]);                                                                                \
    }

#define CONVERSIONS(set) {                                                                                   \
    .widen = {[BFLOAT16] = widen_bf16_##set, [FLOAT16] = widen_fp16_##set},                                  \
    .narrow = {[BFLOAT16] = narrow_bf16_##set, [FLOAT16] = narrow_fp16_##set},                               \
}

CONVERSION(widen_bf16_scalar, , half_bits, lane_bits, fp32_of_bf16, 1, y[i] = fp32_of_bf16(x[i]);)
CONVERSION(narrow_bf16_scalar, , lane_bits, half_bits, bf16_of, 1, y[i] = bf16_of(x[i]);)
CONVERSION(widen_fp16_scalar, , half_bits, lane_bits, fp32_of_fp16, 1, y[i] = fp32_of_fp16(x[i]);)
CONVERSION(narrow_fp16_scalar, , lane_bits, half_bits, fp16_of, 1, y[i] = fp16_of(x[i]);)

const conversions half_scalar = CONVERSIONS(scalar);

#if HAVE_X86

#include <immintrin.h>

#define AVX2_INLINE TARGET_AVX2 INLINE
#define AVX512_INLINE TARGET_AVX512 INLINE

AVX2_INLINE __m256i load_256(const void *x)
{
    return _mm256_loadu_si256((const __m256i *)x);
}

/* Rounded, in the upper half of each lane. */
AVX2_INLINE __m256i rounded_8(__m256i f)
{
    const __m256i even = _mm256_and_si256(_mm256_srli_epi32(f, 16), _mm256_set1_epi32(1));
    const __m256i rounded = _mm256_add_epi32(_mm256_add_epi32(f, _mm256_set1_epi32(0x7FFF)), even);
    const __m256i magnitude = _mm256_and_si256(f, _mm256_set1_epi32(0x7FFFFFFF));
    const __m256i nan = _mm256_cmpgt_epi32(magnitude, _mm256_set1_epi32(0x7F800000));
    const __m256i exact = _mm256_cmpeq_epi32(_mm256_slli_epi32(f, 16), _mm256_setzero_si256());
    const __m256i quiet = _mm256_or_si256(f, _mm256_andnot_si256(exact, _mm256_set1_epi32(0x400000)));
    return _mm256_blendv_epi8(rounded, quiet, nan);
}

/* Values that a codec restored are often exact, and only packed. */
AVX2_INLINE __m256i bf16_of_16(const lane_bits *x)
{
    __m256i a = load_256(x), b = load_256(x + 8);
    if (!_mm256_testz_si256(_mm256_or_si256(a, b), _mm256_set1_epi32(0xFFFF))) {
        a = rounded_8(a);
        b = rounded_8(b);
    }
    const __m256i packed = _mm256_packus_epi32(_mm256_srli_epi32(a, 16), _mm256_srli_epi32(b, 16));
    return _mm256_permute4x64_epi64(packed, 0xD8);
}

CONVERSION(widen_bf16_avx2, TARGET_AVX2, half_bits, lane_bits, fp32_of_bf16, 32, {
    fetch_ahead(x + i);
    for (size_t j = i; j < i + 32; j += 16) {
        const __m256i apart = _mm256_permute4x64_epi64(load_256(x + j), 0xD8);
        const __m256i zero = _mm256_setzero_si256();
        _mm256_storeu_si256((__m256i *)(y + j), _mm256_unpacklo_epi16(zero, apart));
        _mm256_storeu_si256((__m256i *)(y + j + 8), _mm256_unpackhi_epi16(zero, apart));
    }
})
CONVERSION(narrow_bf16_avx2, TARGET_AVX2, lane_bits, half_bits, bf16_of, 32, {
    fetch_ahead(y + i);
    for (size_t j = i; j < i + 32; j += 16)
        _mm256_storeu_si256((__m256i *)(y + j), bf16_of_16(x + j));
})
CONVERSION(widen_fp16_avx2, TARGET_AVX2, half_bits, lane_bits, fp32_of_fp16, 32, {
    fetch_ahead(x + i);
    for (size_t j = i; j < i + 32; j += 8)
        _mm256_storeu_ps((float *)(y + j), _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(x + j))));
})
CONVERSION(narrow_fp16_avx2, TARGET_AVX2, lane_bits, half_bits, fp16_of, 32, {
    fetch_ahead(y + i);
    for (size_t j = i; j < i + 32; j += 8)
        _mm_storeu_si128((__m128i *)(y + j),
                         _mm256_cvtps_ph(_mm256_loadu_ps((const float *)(x + j)), _MM_FROUND_TO_NEAREST_INT));
})

const conversions half_avx2 = CONVERSIONS(avx2);

/* Rounded, in the upper half of each lane. VCVTNEPS2BF16 would make subnormal numbers zero. */
AVX512_INLINE __m512i rounded_16(__m512i f)
{
    const __m512i even = _mm512_and_si512(_mm512_srli_epi32(f, 16), _mm512_set1_epi32(1));
    const __m512i rounded = _mm512_add_epi32(_mm512_add_epi32(f, _mm512_set1_epi32(0x7FFF)), even);
    const __m512i magnitude = _mm512_and_si512(f, _mm512_set1_epi32(0x7FFFFFFF));
    const __mmask16 nan = _mm512_cmpgt_epi32_mask(magnitude, _mm512_set1_epi32(0x7F800000));
    const __mmask16 lost = _mm512_test_epi32_mask(f, _mm512_set1_epi32(0xFFFF));
    const __m512i kept = _mm512_mask_mov_epi32(rounded, nan, f);
    return _mm512_mask_or_epi32(kept, nan & lost, f, _mm512_set1_epi32(0x400000));
}

AVX512_INLINE __m512i numbers_from(int first)
{
    return _mm512_add_epi32(_mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15),
                            _mm512_set1_epi32(first));
}

/* 16 of 32 words, from the first on, in the upper halves of lanes. */
AVX512_INLINE __m512i widened_16(__m512i words, int first)
{
    return _mm512_maskz_permutexvar_epi16(0xAAAAAAAA, _mm512_slli_epi32(numbers_from(first), 16), words);
}

/* The upper halves of 32 lanes. */
AVX512_INLINE __m512i upper_words(__m512i a, __m512i b)
{
    const __m512i even = _mm512_slli_epi32(numbers_from(0), 2); /* words are 4 i + 1 and 4 i + 3 */
    const __m512i both = _mm512_or_si512(even, _mm512_slli_epi32(even, 16));
    return _mm512_permutex2var_epi16(a, _mm512_or_si512(both, _mm512_set1_epi32(0x30001)), b);
}

AVX512_INLINE __m512i bf16_of_32(const lane_bits *x)
{
    __m512i a = _mm512_loadu_si512(x), b = _mm512_loadu_si512(x + 16);
    if (_mm512_test_epi32_mask(_mm512_or_si512(a, b), _mm512_set1_epi32(0xFFFF))) {
        a = rounded_16(a);
        b = rounded_16(b);
    }
    return upper_words(a, b);
}

CONVERSION(widen_bf16_avx512, TARGET_AVX512, half_bits, lane_bits, fp32_of_bf16, 32, {
    const __m512i words = _mm512_loadu_si512(x + i);
    fetch_ahead(x + i);
    _mm512_storeu_si512(y + i, widened_16(words, 0));
    _mm512_storeu_si512(y + i + 16, widened_16(words, 16));
})
CONVERSION(narrow_bf16_avx512, TARGET_AVX512, lane_bits, half_bits, bf16_of, 32, {
    fetch_ahead(y + i);
    _mm512_storeu_si512(y + i, bf16_of_32(x + i));
})
CONVERSION(widen_fp16_avx512, TARGET_AVX512, half_bits, lane_bits, fp32_of_fp16, 32, {
    fetch_ahead(x + i);
    for (size_t j = i; j < i + 32; j += 16)
        _mm512_storeu_ps(y + j, _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)(x + j))));
})
CONVERSION(narrow_fp16_avx512, TARGET_AVX512, lane_bits, half_bits, fp16_of, 32, {
    fetch_ahead(y + i);
    for (size_t j = i; j < i + 32; j += 16)
        _mm256_storeu_si256((__m256i *)(y + j),
                            _mm512_cvtps_ph(_mm512_loadu_ps(x + j), _MM_FROUND_TO_NEAREST_INT));
})

const conversions half_avx512 = CONVERSIONS(avx512);

#endif

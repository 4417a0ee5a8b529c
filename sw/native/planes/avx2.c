/* SPDX-License-Identifier: BSD-2-Clause */
/* The planes codec for AVX2: four groups at a time.
 *
 * Lanes become 16-bit integers, whose low and high bytes make 8x8 matrices of bits. These are transposed by
 * shifts and masks, and are then in order: a group's planes are a run of bytes. High bytes are mostly all
 * zero, which makes a predictable branch. A group is written and read as 16 bytes, and the next one overwrites
 * the excess.
 */
#include "planes.h"

#if HAVE_X86

#include <immintrin.h>

#define AVX2_INLINE TARGET_AVX2 INLINE

enum { STEP = 32 /* lanes at a time */ };

AVX2_INLINE __m256i both(const void *low, const void *high)
{
    return _mm256_inserti128_si256(_mm256_castsi128_si256(_mm_loadu_si128(low)), _mm_loadu_si128(high), 1);
}

/* A constant in memory: one that is known, compilers make anew in every step. */
AVX2_INLINE __m256i constant(int number)
{
    return _mm256_load_si256((const __m256i *)planes_constants[number]);
}

/* Some bits of four 8x8 matrices change places with those `shift` above. */
AVX2_INLINE __m256i swapped(__m256i m, int shift, __m256i some)
{
    const __m256i t = _mm256_and_si256(_mm256_xor_si256(m, _mm256_srli_epi64(m, shift)), some);
    return _mm256_xor_si256(m, _mm256_xor_si256(t, _mm256_slli_epi64(t, shift)));
}

/* Four 8x8 matrices of bits. */
AVX2_INLINE __m256i transposed4(__m256i m)
{
    m = swapped(m, 7, constant(SWAPPED_BY_7));
    m = swapped(m, 14, constant(SWAPPED_BY_14));
    return swapped(m, 28, constant(SWAPPED_BY_28));
}

/* Low bytes before high ones in each half, of lanes that are in the even and the odd 16-bit places; or, of bf16, in
 * order. */
AVX2_INLINE __m256i bytes_apart(__m256i z, value_type type)
{
    const __m128i order = type == BFLOAT16 ? _mm_setr_epi8(0, 2, 4, 6, 8, 10, 12, 14, 1, 3, 5, 7, 9, 11, 13, 15)
                                           : _mm_setr_epi8(0, 4, 8, 12, 2, 6, 10, 14, 1, 5, 9, 13, 3, 7, 11, 15);
    return _mm256_shuffle_epi8(z, _mm256_broadcastsi128_si256(order));
}

/* And back. */
AVX2_INLINE __m256i bytes_together(__m256i z, value_type type)
{
    const __m128i order = type == BFLOAT16 ? _mm_setr_epi8(0, 8, 1, 9, 2, 10, 3, 11, 4, 12, 5, 13, 6, 14, 7, 15)
                                           : _mm_setr_epi8(0, 8, 4, 12, 1, 9, 5, 13, 2, 10, 6, 14, 3, 11, 7, 15);
    return _mm256_shuffle_epi8(z, _mm256_broadcastsi128_si256(order));
}

/* |x| in units of 2^-16 half steps. Raw lanes have 2^30 or more, the largest 2^31 from the conversion. */
AVX2_INLINE __m256i fixed_point(__m256i magnitude, __m256 factor)
{
    return _mm256_cvttps_epi32(_mm256_mul_ps(_mm256_castsi256_ps(magnitude), factor));
}

/* Not subnormal. */
AVX2_INLINE __m256i normal(__m256i x)
{
    const __m256i magnitude = _mm256_and_si256(x, _mm256_set1_epi32(0x7FFFFFFF));
    return _mm256_max_epi32(magnitude, _mm256_set1_epi32(LEAST_NORMAL));
}

/* Half steps of two groups' magnitudes, and their bits from the sign on. Lanes 0..3 of both are in the even
 * 16-bit places, 4..7 in the odd ones; those of bf16 are in order. */
typedef struct {
    __m256i h, sign;
} halves;

AVX2_INLINE halves halves_of(const uint8_t *x, value_type type, __m256 factor)
{
    __m256i a, b;
    fetch_ahead(x);
    if (type == BFLOAT16) {
        const __m256i words = _mm256_loadu_si256((const __m256i *)x);
        const __m256i magnitude = _mm256_and_si256(words, _mm256_set1_epi16(0x7FFF));
        const __m256i least = _mm256_max_epu16(magnitude, constant(LEAST_BF16));
        a = fixed_point(_mm256_slli_epi32(least, 16), factor);
        b = fixed_point(_mm256_and_si256(least, _mm256_set1_epi32((int)0xFFFF0000)), factor);
        return (halves){_mm256_blend_epi16(_mm256_srli_epi32(a, 16), b, 0xAA), words};
    }
    if (type == FLOAT16) {
        const __m256i first = _mm256_castps_si256(_mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)x)));
        const __m256i second = _mm256_castps_si256(_mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(x + 16))));
        a = _mm256_permute2x128_si256(first, second, 0x20);
        b = _mm256_permute2x128_si256(first, second, 0x31);
    } else {
        a = both(x, x + GROUP_BYTES);
        b = both(x + GROUP_BYTES / 2, x + GROUP_BYTES / 2 * 3);
    }
    const __m256i h = _mm256_srli_epi32(fixed_point(normal(a), factor), 16);
    return (halves){_mm256_blend_epi16(h, fixed_point(normal(b), factor), 0xAA),
                    _mm256_blend_epi16(_mm256_srli_epi32(a, 16), b, 0xAA)};
}

/* The integers of two groups, in bytes. Adds bits to `raw`, of RAW_BITS where a lane is raw. */
AVX2_INLINE __m256i quantise(const void *x, value_type type, __m256 factor, __m256i *raw)
{
    const halves own = halves_of(x, type, factor);
    const __m256i q = _mm256_avg_epu16(own.h, _mm256_setzero_si256());
    *raw = _mm256_or_si256(*raw, own.h);
    /* 2 q, less the sign, but not less than zero. */
    return bytes_apart(_mm256_subs_epu16(_mm256_add_epi16(q, q), _mm256_srli_epi16(own.sign, 15)), type);
}

/* Signed steps of two groups from their integers in bytes. */
AVX2_INLINE __m256i steps_of_bytes(__m256i bytes, value_type type)
{
    const __m256i z = bytes_together(bytes, type);
    const __m256i negative = _mm256_sub_epi16(_mm256_setzero_si256(),
                                              _mm256_and_si256(z, _mm256_set1_epi16(1)));
    return _mm256_xor_si256(_mm256_srli_epi16(z, 1), negative);
}

/* The integers, in bytes, of two groups' sums. Adds bits to `raw`, of -RAW_STEPS where the addend or the sum has
 * RAW_STEPS or more: all that are raw, and addends that are nearly so. Both magnitudes are at most 2^14. */
AVX2_INLINE __m256i sum_steps(const void *addend, value_type type, __m256 factor, __m256i bytes, __m256i *raw)
{
    const halves found = halves_of(addend, type, factor);
    const __m256i q = _mm256_avg_epu16(found.h, _mm256_setzero_si256());
    const __m256i own = _mm256_sign_epi16(q, _mm256_or_si256(found.sign, _mm256_set1_epi16(1)));
    const __m256i sum = _mm256_add_epi16(own, steps_of_bytes(bytes, type));
    *raw = _mm256_or_si256(*raw, _mm256_or_si256(q, _mm256_abs_epi16(sum)));
    return bytes_apart(_mm256_xor_si256(_mm256_slli_epi16(sum, 1), _mm256_srai_epi16(sum, 15)), type);
}

/* Writes the planes of two groups, and returns their codes. LZCNT, since BSR is microcode on some processors. */
AVX2_INLINE unsigned put(uint8_t **data, __m256i planes)
{
    unsigned used = ~(unsigned)_mm256_movemask_epi8(_mm256_cmpeq_epi8(planes, _mm256_setzero_si256()));
    used |= (used & 0x20002000) << 1; /* never 14 planes */
    const unsigned first = 32 - _lzcnt_u32(used & 0xFFFF);
    const unsigned second = 32 - _lzcnt_u32(used >> 16);
    _mm_storeu_si128((__m128i *)*data, _mm256_castsi256_si128(planes));
    *data += first;
    _mm_storeu_si128((__m128i *)*data, _mm256_extracti128_si256(planes, 1));
    *data += second;
    return (first - first / 15) | (second - second / 15) << 4;
}

/* The same of four groups that have 8 planes at most, whose widths come from a table: faster than LZCNT. */
AVX2_INLINE unsigned put_low(uint8_t **data, __m256i planes)
{
    static const uint8_t width[256] = {[1] = 1, [2 ... 3] = 2, [4 ... 7] = 3, [8 ... 15] = 4, [16 ... 31] = 5,
                                       [32 ... 63] = 6, [64 ... 127] = 7, [128 ... 255] = 8};
    const unsigned used = ~(unsigned)_mm256_movemask_epi8(_mm256_cmpeq_epi8(planes, _mm256_setzero_si256()));
    const unsigned w0 = width[used & 0xFF], w2 = width[used >> 8 & 0xFF];
    const unsigned w1 = width[used >> 16 & 0xFF], w3 = width[used >> 24];
    const __m128i first = _mm256_castsi256_si128(planes), second = _mm256_extracti128_si256(planes, 1);
    uint8_t *at = *data;
    _mm_storel_epi64((__m128i *)at, first);
    _mm_storel_epi64((__m128i *)(at += w0), second);
    _mm_storel_epi64((__m128i *)(at += w1), _mm_unpackhi_epi64(first, first));
    _mm_storel_epi64((__m128i *)(at += w2), _mm_unpackhi_epi64(second, second));
    *data = at + w3;
    return w0 | w1 << 4 | w2 << 8 | w3 << 12;
}

/* Writes the planes of four groups, whose integers are in bytes, and returns their codes. */
AVX2_INLINE unsigned put_four(uint8_t **data, __m256i first, __m256i second)
{
    const __m256i low = transposed4(_mm256_unpacklo_epi64(first, second));
    __m256i high = _mm256_unpackhi_epi64(first, second);
    if (_mm256_testz_si256(high, high))
        return put_low(data, low);
    high = transposed4(high);
    const unsigned codes = put(data, _mm256_unpacklo_epi64(low, high));
    return codes | put(data, _mm256_unpackhi_epi64(low, high)) << 8;
}

AVX2_INLINE size_t compress_values(const void *x, value_type type, size_t lanes, parameters p, uint8_t *out)
{
    const __m256 factor = _mm256_set1_ps(half_steps(p) * 0x1p16f);
    uint8_t *data = out + code_table_bytes(lanes);
    lane_bits buffer[STEP];
    size_t done = 0;
    begin_block(out, lanes);
    for (; done + STEP <= lanes; done += STEP) {
        const void *from = values_from(x, type, done);
        __m256i raw = _mm256_setzero_si256();
        const __m256i first = quantise(from, type, factor, &raw);
        const __m256i second = quantise(values_from(from, type, STEP / 2), type, factor, &raw);
        if (!_mm256_testz_si256(raw, constant(RAW_LANES))) {
            data = planes_compress_tail(widened(from, type, STEP, buffer), 0, STEP, p, out + done / 16, data);
            continue;
        }
        const uint16_t word = (uint16_t)put_four(&data, first, second);
        memcpy(out + done / 16, &word, CODE_WORD_BYTES);
    }
    x = widened(values_from(x, type, done), type, lanes - done, buffer);
    return (size_t)(planes_compress_tail(x, 0, lanes - done, p, out + done / 16, data) - out);
}

TARGET_AVX2 static size_t compress(const lane_bits *x, size_t lanes, parameters p, uint8_t *out)
{
    return compress_values(x, FLOAT32, lanes, p, out);
}

TARGET_AVX2 static size_t compress_half(const void *x, value_type type, size_t lanes, parameters p, uint8_t *out)
{
    return type == BFLOAT16 ? compress_values(x, BFLOAT16, lanes, p, out)
                            : compress_values(x, FLOAT16, lanes, p, out);
}

/* A group's planes by its code. */
AVX2_INLINE __m128i take(const uint8_t **data, unsigned code)
{
    static const uint8_t ones[32] = {255, 255, 255, 255, 255, 255, 255, 255,
                                     255, 255, 255, 255, 255, 255, 255, 255};
    const size_t bytes = code_bytes[code];
    const __m128i used = _mm_loadu_si128((const __m128i *)(ones + 16 - bytes));
    const __m128i planes = _mm_and_si128(_mm_loadu_si128((const __m128i *)*data), used);
    *data += bytes;
    return planes;
}

/* The integers of four groups, in bytes. */
typedef struct {
    __m256i first, second;
} four;

AVX2_INLINE four take_four(const uint8_t **data, unsigned codes)
{
    const __m128i group0 = take(data, codes & 15), group1 = take(data, codes >> 4 & 15);
    const __m128i group2 = take(data, codes >> 8 & 15), group3 = take(data, codes >> 12);
    const __m256i first = _mm256_inserti128_si256(_mm256_castsi128_si256(group0), group1, 1);
    const __m256i second = _mm256_inserti128_si256(_mm256_castsi128_si256(group2), group3, 1);
    const __m256i low = transposed4(_mm256_unpacklo_epi64(first, second));
    __m256i high = _mm256_unpackhi_epi64(first, second);
    if (!_mm256_testz_si256(high, high))
        high = transposed4(high);
    return (four){_mm256_unpacklo_epi64(low, high), _mm256_unpackhi_epi64(low, high)};
}

/* Whether a group has raw lanes. */
static inline bool any_raw_code(unsigned codes)
{
    return codes & codes >> 1 & codes >> 2 & codes >> 3 & 0x1111;
}

/* Writes the values of two groups. */
AVX2_INLINE void restore(__m256i bytes, __m256 unit, const lane_bits *addend, lane_bits *out)
{
    const __m256i steps = steps_of_bytes(bytes, FLOAT32);
    /* In the upper half of each lane. */
    const __m256i a = _mm256_slli_epi32(steps, 16);
    const __m256i b = _mm256_and_si256(steps, _mm256_set1_epi32((int)0xFFFF0000));
    const __m256 first = _mm256_mul_ps(_mm256_cvtepi32_ps(a), unit);
    const __m256 second = _mm256_mul_ps(_mm256_cvtepi32_ps(b), unit);
    __m256 group0 = _mm256_permute2f128_ps(first, second, 0x20);
    __m256 group1 = _mm256_permute2f128_ps(first, second, 0x31);
    if (addend) {
        const float *from = (const float *)(const void *)addend;
        fetch_ahead(addend);
        group0 = _mm256_add_ps(_mm256_loadu_ps(from), group0);
        group1 = _mm256_add_ps(_mm256_loadu_ps(from + 8), group1);
    }
    fetch_ahead(out);
    float *to = (float *)(void *)out;
    _mm256_storeu_ps(to, group0);
    _mm256_storeu_ps(to + 8, group1);
}

AVX2_INLINE size_t decode(const uint8_t *block, size_t lanes, parameters p, const lane_bits *addend,
                          lane_bits *out)
{
    const __m256 unit = _mm256_set1_ps(step_of(p) * 0x1p-16f);
    const uint8_t *data = block + code_table_bytes(lanes);
    size_t done = 0;
    for (; done + STEP <= lanes; done += STEP) {
        uint8_t word[CODE_WORD_BYTES];
        uint16_t codes;
        memcpy(&codes, block + done / 16, CODE_WORD_BYTES);
        memcpy(word, &codes, CODE_WORD_BYTES);
        if (any_raw_code(codes)) {
            data = planes_decompress_tail(word, data, 0, STEP, p, addend_from(addend, done), out + done);
            continue;
        }
        const four bytes = take_four(&data, codes);
        restore(bytes.first, unit, addend_from(addend, done), out + done);
        restore(bytes.second, unit, addend_from(addend, done + 16), out + done + 16);
    }
    data = planes_decompress_tail(block, data, done, lanes, p, addend, out);
    return data ? (size_t)(data - block) : 0;
}

AVX2_INLINE status sum_values(const uint8_t *block, const void *addend, value_type type, size_t lanes, parameters p,
                              int scale, uint8_t *out, sizes *moved)
{
    const __m256 factor = _mm256_set1_ps(half_steps(p) * 0x1p16f * power_of_two(scale));
    summation s = begin_sum(block, addend, type, lanes, p, scale, out);
    size_t done = 0;
    for (; done + STEP <= lanes; done += STEP) {
        uint16_t codes;
        uint8_t *table = out + done / 16;
        memcpy(&codes, block + done / 16, CODE_WORD_BYTES);
        const uint8_t *from = s.from;
        __m256i raw = _mm256_setzero_si256();
        if (!any_raw_code(codes)) {
            const four bytes = take_four(&from, codes);
            const void *own = values_from(addend, type, done);
            const __m256i first = sum_steps(own, type, factor, bytes.first, &raw);
            const __m256i second = sum_steps(values_from(own, type, STEP / 2), type, factor, bytes.second, &raw);
            if (_mm256_testz_si256(raw, _mm256_set1_epi16((short)-RAW_STEPS))) {
                const uint16_t word = (uint16_t)put_four(&s.to, first, second);
                memcpy(table, &word, CODE_WORD_BYTES);
                s.from = from;
                continue;
            }
        }
        lane_bits sums[STEP];
        uint8_t word[CODE_WORD_BYTES];
        memcpy(word, &codes, CODE_WORD_BYTES);
        planes_sum_values(&s, word, done, STEP, sums);
        s.to = planes_compress_tail(sums, 0, STEP, p, table, s.to);
    }
    return end_sum(&s, block, out, planes_sum_tail(&s, done, lanes), moved);
}

TARGET_AVX2 static status sum(const uint8_t *block, const void *addend, value_type type, size_t lanes, parameters p,
                              int scale, uint8_t *out, sizes *moved)
{
    return type == FLOAT32    ? sum_values(block, addend, FLOAT32, lanes, p, scale, out, moved)
           : type == BFLOAT16 ? sum_values(block, addend, BFLOAT16, lanes, p, scale, out, moved)
                              : sum_values(block, addend, FLOAT16, lanes, p, scale, out, moved);
}

TARGET_AVX2 static bool add_steps(const lane_bits *addend, const lane_bits *values, size_t lanes,
                                  parameters p, int scale, lane_bits *sums)
{
    return add_steps_loop(addend, values, lanes, p, scale, sums);
}

TARGET_AVX2 static bool settle(const lane_bits *x, size_t lanes, parameters p, int scale, lane_bits *out)
{
    return settle_loop(x, lanes, p, scale, out);
}

TARGET_AVX2 static size_t feed_back(const lane_bits *x, lane_bits *left, size_t lanes, parameters p, int scale,
                        lane_bits *kept)
{
    return feed_back_loop(x, left, lanes, p, scale, kept);
}

CODER(planes_avx2, planes_format, compress_half, sum, settle, feed_back, add_steps, TARGET_AVX2)

#endif

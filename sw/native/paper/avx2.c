/* SPDX-License-Identifier: BSD-2-Clause */
/* The kernel for AVX2: 8 lanes at a time, without a branch on data.
 *
 * Vectors are left-aligned as in the scalar kernel, so a vector's bytes are the topmost of its lane.
 * Magnitudes are fixed-point numbers: |f| times a power of two, truncated, and back; products by powers of
 * two are exact, whatever the rounding mode. Lanes go four by four through byte shuffles that tables hold
 * for the 256 combinations of four tags. The place of the next four depends on their tags alone, which are
 * known long before.
 */
#include "paper.h"

#if HAVE_X86

#include <immintrin.h>
#include <pthread.h>

/* Lanes that wait in vectors for their bytes to be packed; a multiple of 32. */
enum { FEW = 128 };

/* For four tags, first lane lowest. */
typedef struct {
    uint8_t order[16]; /* of the shuffle; 0x80 makes a zero byte */
    uint64_t bytes;    /* that the four vectors take */
    uint64_t unused;
} shuffle;
static shuffle gather[256] __attribute__((aligned(64))); /* kept bytes of four lanes, to the front */
static shuffle spread[256] __attribute__((aligned(64))); /* and back to where they were */

static void make_tables(void)
{
    static const uint8_t tag_bytes[4] = {0, 1, 2, 4};
    for (unsigned four = 0; four < 256; four++) {
        uint8_t n = 0;
        memset(gather[four].order, 0x80, 16);
        memset(spread[four].order, 0x80, 16);
        for (unsigned lane = 0; lane < 4; lane++)
            for (unsigned byte = 4u - tag_bytes[four >> 2 * lane & 3]; byte < 4; byte++) {
                gather[four].order[n] = (uint8_t)(4 * lane + byte);
                spread[four].order[4 * lane + byte] = n++;
            }
        gather[four].bytes = spread[four].bytes = n;
    }
}

void paper_avx2_prepare(void)
{
    /* Once: other threads may be using the tables. */
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, make_tables);
}

typedef struct {
    __m256i e0, t, one; /* one less than the thresholds, for a signed greater-than */
    __m256 unit8, unit16;
} thresholds;

/* Left-aligned vectors of 8 lanes, and their tags, negative. */
TARGET_AVX2 INLINE __m256i quantise(__m256i f, const thresholds *limit, __m256i *tags)
{
    const __m256i magnitude = _mm256_and_si256(f, _mm256_set1_epi32(0x7FFFFFFF));
    const __m256i from_e0 = _mm256_cmpgt_epi32(magnitude, limit->e0);
    const __m256i from_t = _mm256_cmpgt_epi32(magnitude, limit->t);
    const __m256i from_one = _mm256_cmpgt_epi32(magnitude, limit->one);
    *tags = _mm256_add_epi32(_mm256_add_epi32(from_e0, from_t), from_one);
    /* Without the lanes below E0: multiplying subnormal numbers may take a hundred cycles. */
    const __m256 number = _mm256_castsi256_ps(_mm256_and_si256(magnitude, from_e0));
    const __m256 unit = _mm256_blendv_ps(limit->unit8, limit->unit16, _mm256_castsi256_ps(from_t));
    const __m256i fixed = _mm256_cvttps_epi32(_mm256_mul_ps(number, unit));
    const __m256i sign = _mm256_and_si256(f, _mm256_set1_epi32((int)0x80000000));
    return _mm256_blendv_epi8(_mm256_or_si256(fixed, sign), f, from_one);
}

/* `offset` is where in the table the four lanes' entry is. */
TARGET_AVX2 INLINE uint8_t *put(uint8_t *data, __m128i lanes, size_t offset)
{
    const shuffle *four = (const shuffle *)(const void *)((const uint8_t *)gather + offset);
    _mm_storeu_si128((__m128i *)data, _mm_shuffle_epi8(lanes, _mm_load_si128((const __m128i *)four->order)));
    return data + four->bytes;
}

TARGET_AVX2 static size_t compress(const lane_bits *x, size_t lanes, parameters p, uint8_t *out)
{
    if (p.b < MIN_VECTOR_BASE)
        return paper_scalar.compress(x, lanes, p, out);
    const thresholds limit = {
        .e0 = _mm256_set1_epi32((int)(p.e0 << MANTISSA_BITS) - 1),
        .t = _mm256_set1_epi32((int)(p.t << MANTISSA_BITS) - 1),
        .one = _mm256_set1_epi32((EXPONENT_BIAS << MANTISSA_BITS) - 1),
        .unit8 = _mm256_set1_ps(as_float((2 * EXPONENT_BIAS + 31 - p.b) << MANTISSA_BITS)),
        .unit16 = _mm256_set1_ps(0x1p31f),
    };
    /* From four bytes with negative tags to a number of four tags. */
    const __m256i pairs = _mm256_set1_epi16(0x0401), fours = _mm256_set1_epi32((int)0xFFF0FFFF);
    uint8_t *data = out + tag_table_bytes(lanes);
    size_t done = 0;
    while (lanes - done >= 32) {
        /* First the vectors and tags of some lanes, then their bytes: in one loop each step would
         * wait for its own tags. */
        __m256i v[FEW / 8];
        uint16_t offsets[FEW / 4] __attribute__((aligned(16)));
        _Static_assert(sizeof(shuffle) == 1 << 5, "offsets are tags times 32");
        const size_t here = (lanes - done < FEW ? lanes - done : FEW) / 32 * 32;
        for (size_t at = 0; at < here; at += 32) {
            __m256i tags[4];
            fetch_ahead(x + done + at);
            fetch_ahead(x + done + at + 16);
            for (size_t i = 0; i < 4; i++) {
                const __m256i f = _mm256_loadu_si256((const __m256i *)(x + done + at + 8 * i));
                _mm256_store_si256(&v[at / 8 + i], quantise(f, &limit, &tags[i]));
            }
            const __m256i bytes = _mm256_packs_epi16(_mm256_packs_epi32(tags[0], tags[1]),
                                                     _mm256_packs_epi32(tags[2], tags[3]));
            /* Lanes 0..3 of the four bursts are in the lower half, lanes 4..7 in the upper. */
            const __m256i halves = _mm256_madd_epi16(_mm256_maddubs_epi16(pairs, bytes), fours);
            const __m128i lower = _mm256_castsi256_si128(halves), upper = _mm256_extracti128_si256(halves, 1);
            const __m128i both = _mm_or_si128(lower, _mm_slli_epi32(upper, 16));
            const __m128i words = _mm_or_si128(lower, _mm_slli_epi32(upper, 8));
            _mm_storel_epi64((__m128i *)(out + (done + at) / 4), _mm_packus_epi32(words, words));
            _mm_store_si128((__m128i *)&offsets[at / 4], _mm_slli_epi16(both, 5));
        }
        for (size_t i = 0; i < here / 4; i++)
            data = put(data, _mm_load_si128((const __m128i *)v + i), offsets[i]);
        done += here;
    }
    return (size_t)(paper_compress_tail(x, done, lanes, p, out, data) - out);
}

TARGET_AVX2 INLINE __m128i take(const uint8_t **data, uint64_t four)
{
    const __m128i bytes = _mm_loadu_si128((const __m128i *)*data);
    *data += spread[four].bytes;
    return _mm_shuffle_epi8(bytes, _mm_load_si128((const __m128i *)spread[four].order));
}

/* 8 lanes of the tag word in the low 16 bits. `unit` and `raw` hold what belongs to each of the four tags. */
TARGET_AVX2 INLINE __m256 restore(const uint8_t **data, uint64_t word, __m256 unit, __m256 raw)
{
    const __m128i lower = take(data, word & 0xFF), upper = take(data, word >> 8 & 0xFF);
    const __m256i v = _mm256_inserti128_si256(_mm256_castsi128_si256(lower), upper, 1);
    /* Permutations look at the two lowest bits of each control element only. */
    const __m256i tags = _mm256_srlv_epi32(_mm256_set1_epi32((int)word),
                                           _mm256_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14));
    /* A sign alone is +0.0, so the sign is applied to the integer. */
    const __m256i fixed = _mm256_sign_epi32(_mm256_and_si256(v, _mm256_set1_epi32(0x7FFFFFFF)), v);
    const __m256 value = _mm256_mul_ps(_mm256_cvtepi32_ps(fixed), _mm256_permutevar_ps(unit, tags));
    return _mm256_blendv_ps(value, _mm256_castsi256_ps(v), _mm256_permutevar_ps(raw, tags));
}

TARGET_AVX2 INLINE size_t decode(const uint8_t *block, size_t lanes, parameters p, const lane_bits *addend,
                                lane_bits *out)
{
    if (p.b < MIN_VECTOR_BASE)
        return addend ? paper_scalar.decompress_add(block, lanes, p, addend, out)
                      : paper_scalar.decompress(block, lanes, p, out);
    const float unit8 = as_float((p.b - 31) << MANTISSA_BITS);
    const __m256 unit = _mm256_setr_ps(0, unit8, 0x1p-31f, 0, 0, unit8, 0x1p-31f, 0);
    const __m256 raw = _mm256_castsi256_ps(_mm256_setr_epi32(0, 0, 0, -1, 0, 0, 0, -1));
    const uint8_t *data = block + tag_table_bytes(lanes);
    size_t done = 0;
    for (; done + 32 <= lanes; done += 32) {
        uint64_t words;
        memcpy(&words, block + done / 4, 8);
        for (int i = 0; i < 4; i++) {
            const size_t at = done + 8 * (size_t)i;
            __m256 value = restore(&data, words >> 16 * i, unit, raw);
            if (addend) {
                fetch_ahead(addend + at);
                value = _mm256_add_ps(_mm256_loadu_ps((const float *)(const void *)(addend + at)), value);
            }
            fetch_ahead(out + at);
            _mm256_storeu_ps((float *)(void *)(out + at), value);
        }
    }
    data = paper_decompress_tail(block, data, done, lanes, p.b, addend, out);
    return data ? (size_t)(data - block) : 0;
}

CODER(paper_avx2, paper_format, NULL, NULL, NULL, NULL, NULL, TARGET_AVX2)

#endif

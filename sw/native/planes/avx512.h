/* SPDX-License-Identifier: BSD-2-Clause */
/* The planes codec for AVX-512 with VBMI2 (Ice Lake, Zen 4 and later): four groups at a time, without a
 * branch on data but for raw lanes. Included by the files that define how 8x8 matrices of bits are transposed:
 *
 *   TARGET        attributes of functions
 *   LANE(i)       the byte of a matrix that lane i is to be in, before it is transposed to planes
 *   to_planes     __m512i of eight matrices with lanes in bytes, to planes in bytes
 *   to_lanes      and back, lanes in order
 *   READ_AHEAD    steps of a stream that a sum reads before it adds to them
 *   CODER_NAME
 *
 * As in the AVX2 kernel, a group's planes are 16 bytes of which the first ones are kept: VPCOMPRESSB and
 * VPEXPANDB with a mask of 16 bits for each group.
 */
#include "../avx512.h"

#define TARGET_INLINE TARGET INLINE

enum {
    STEP = 32,  /* lanes at a time */
    FEW = 256,  /* lanes whose codes are made together */
    STEPS = FEW / STEP,
};

/* Of 32 values the magnitudes in fp32, none subnormal, and the bits from the sign on. fp32 and fp16: lanes 0..15 in
 * `a` and in the even 16-bit places of `upper`, lanes 16..31 in `b` and the odd ones. bf16, whose words stay in
 * place: even lanes in `a`, odd ones in `b`, and `upper` in order. */
typedef struct {
    __m512i a, b, upper;
} values;

TARGET_INLINE __m512i normal(__m512i x)
{
    const __m512i magnitude = _mm512_and_si512(x, _mm512_set1_epi32(0x7FFFFFFF));
    return _mm512_max_epi32(magnitude, _mm512_set1_epi32(LEAST_NORMAL));
}

/* The upper halves of a's lanes in the even 16-bit places, of b's in the odd ones. */
TARGET_INLINE __m512i upper_halves(__m512i a, __m512i b)
{
    return _mm512_mask_blend_epi16(0xAAAAAAAA, _mm512_srli_epi32(a, 16), b);
}

TARGET_INLINE values load(const uint8_t *x, value_type type)
{
    fetch_ahead(x);
    if (type == BFLOAT16) {
        const __m512i words = _mm512_loadu_si512(x);
        const __m512i magnitude = _mm512_and_si512(words, _mm512_set1_epi16(0x7FFF));
        const __m512i least = _mm512_max_epu16(magnitude, _mm512_set1_epi16(LEAST_NORMAL >> 16));
        return (values){_mm512_slli_epi32(least, 16),
                        _mm512_and_si512(least, _mm512_set1_epi32((int)0xFFFF0000)), words};
    }
    __m512i a, b;
    if (type == FLOAT16) {
        a = _mm512_castps_si512(_mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)x)));
        b = _mm512_castps_si512(_mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)(x + 32))));
    } else {
        fetch_ahead(x + 64);
        a = _mm512_loadu_si512(x);
        b = _mm512_loadu_si512(x + 64);
    }
    return (values){normal(a), normal(b), upper_halves(a, b)};
}

/* |x| in units of 2^-16 half steps. Raw lanes have 2^30 or more, the largest 2^31 from the conversion. */
TARGET_INLINE __m512i fixed_point(__m512i magnitude, __m512 factor)
{
    return _mm512_cvttps_epi32(_mm512_mul_ps(_mm512_castsi512_ps(magnitude), factor));
}

/* Half steps in 16-bit places, as in `upper`. */
TARGET_INLINE __m512i half_steps_in(values v, __m512 factor)
{
    return upper_halves(fixed_point(v.a, factor), fixed_point(v.b, factor));
}

/* For each lane's two bytes in that order (and in order, for bf16), where they go before transposition. Byte
 * 16 g + r + 8 h: row r of group g's low (h = 0) or high bytes. */
static const uint8_t matrix_order[2][64] __attribute__((aligned(64))) = {
#define PLACE(lane) (lane < 16 ? 4 * (lane) : 4 * ((lane) - 16) + 2)
#define ROW(g, h, r) PLACE(8 * (g) + LANE(r)) + (h)
#define WORD(g, h, r) 2 * (8 * (g) + LANE(r)) + (h)
#define ROWS(of, g, h)                                                                                       \
    of(g, h, 0), of(g, h, 1), of(g, h, 2), of(g, h, 3), of(g, h, 4), of(g, h, 5), of(g, h, 6), of(g, h, 7)
#define MATRICES(of)                                                                                         \
    {ROWS(of, 0, 0), ROWS(of, 0, 1), ROWS(of, 1, 0), ROWS(of, 1, 1),                                         \
     ROWS(of, 2, 0), ROWS(of, 2, 1), ROWS(of, 3, 0), ROWS(of, 3, 1)}
    MATRICES(ROW), MATRICES(WORD)};

/* And back, into both orders. */
static const uint8_t lane_order[2][64] __attribute__((aligned(64))) = {
#define BYTE(lane, h) 16 * ((lane) / 8) + 8 * (h) + (lane) % 8
#define APART(i) BYTE(i, 0), BYTE(i, 1), BYTE(i + 16, 0), BYTE(i + 16, 1)
#define TOGETHER(i) BYTE(2 * (i), 0), BYTE(2 * (i), 1), BYTE(2 * (i) + 1, 0), BYTE(2 * (i) + 1, 1)
#define PAIRS(of)                                                                                            \
    {of(0), of(1), of(2), of(3), of(4), of(5), of(6), of(7),                                                 \
     of(8), of(9), of(10), of(11), of(12), of(13), of(14), of(15)}
    PAIRS(APART), PAIRS(TOGETHER)};

/* Four groups of which some have raw lanes. `used` has 16 bits for each group. */
TARGET static uint8_t *put_raw_groups(const void *x, value_type type, parameters p, const uint8_t *planes,
                                      uint64_t used, uint32_t raw, uint8_t *table, uint8_t *data)
{
    static const uint32_t places[2][4] = {{0x00005555, 0x55550000, 0x0000AAAA, 0xAAAA0000},
                                          {0x000000FF, 0x0000FF00, 0x00FF0000, 0xFF000000}};
    lane_bits buffer[STEP];
    const lane_bits *lanes = widened(x, type, STEP, buffer);
    for (unsigned group = 0; group < 4; group++, lanes += GROUP_LANES, used >>= 16) {
        if (raw & places[type == BFLOAT16][group]) {
            lossy_loop(lanes, GROUP_LANES, p, (lane_bits *)(void *)data);
            table[group / 2] |= (uint8_t)(RAW_CODE << 4 * (group % 2));
            data += GROUP_BYTES;
        } else {
            memcpy(data, planes + PLANES_IN_GROUP * group, PLANES_IN_GROUP);
            data += _mm_popcnt_u32(used & 0xFFFF);
        }
    }
    return data;
}

/* Some steps' planes, on their way to a block. */
typedef struct {
    __m512i planes[STEPS];
    uint64_t used[STEPS] __attribute__((aligned(64)));
    uint32_t raw[STEPS];
} few;

TARGET_INLINE void keep(few *f, size_t i, __m512i z, value_type type)
{
    const __m512i order = _mm512_load_si512(matrix_order[type == BFLOAT16]);
    const __m512i planes = to_planes(_mm512_permutexvar_epi8(order, z));
    f->planes[i] = planes;
    f->used[i] = _mm512_test_epi8_mask(planes, planes);
}

/* Makes step i of values; returns which lanes are raw. */
TARGET_INLINE uint32_t quantise(const void *x, value_type type, __m512 factor, few *f, size_t i)
{
    const __m512i one = _mm512_set1_epi16(1);
    const values v = load(x, type);
    const __m512i h = half_steps_in(v, factor), s = _mm512_srli_epi16(v.upper, 15);
    /* 2 q, less the sign, but not less than zero. */
    const __m512i z = _mm512_subs_epu16(_mm512_andnot_si512(one, _mm512_add_epi16(h, one)), s);
    keep(f, i, z, type);
    return f->raw[i] = _mm512_test_epi16_mask(h, _mm512_set1_epi16((short)RAW_BITS));
}

/* Writes the codes to `table` and the data to `data`; returns the cursor past them. If there are raw lanes, their
 * groups are made of the values in `x`. */
TARGET_INLINE uint8_t *put_few(few *f, size_t steps, bool any_raw, const void *x, value_type type, parameters p,
                               uint8_t *table, uint8_t *data)
{
    /* All planes below the highest one that is used, and never 14 of them. */
    __m512i kept = _mm512_load_si512(f->used);
    kept = _mm512_or_si512(kept, _mm512_srli_epi16(kept, 1));
    kept = _mm512_or_si512(kept, _mm512_srli_epi16(kept, 2));
    kept = _mm512_or_si512(kept, _mm512_srli_epi16(kept, 4));
    kept = _mm512_or_si512(kept, _mm512_srli_epi16(kept, 8));
    kept = _mm512_or_si512(kept, _mm512_slli_epi16(_mm512_and_si512(kept, _mm512_set1_epi16(0x2000)), 1));
    _mm512_store_si512(f->used, kept);
    const __m512i wide = _mm512_min_epu16(_mm512_popcnt_epi16(kept), _mm512_set1_epi16(14));
    const __m256i nibbles = _mm256_maddubs_epi16(_mm512_cvtepi16_epi8(wide), _mm256_set1_epi16(0x1001));
    const __mmask16 there = (__mmask16)((1u << CODE_WORD_BYTES * steps) - 1);
    _mm_mask_storeu_epi8(table, there, _mm256_cvtepi16_epi8(nibbles));

    for (size_t i = 0; i < steps; i++) {
        if (any_raw && f->raw[i]) {
            data = put_raw_groups(values_from(x, type, STEP * i), type, p, (const uint8_t *)&f->planes[i], f->used[i],
                                  f->raw[i], table + CODE_WORD_BYTES * i, data);
            continue;
        }
        put_compressed(data, f->used[i], f->planes[i]);
        data += _mm_popcnt_u64(f->used[i]);
    }
    return data;
}

TARGET_INLINE size_t compress_values(const void *x, value_type type, size_t lanes, parameters p, uint8_t *out)
{
    const __m512 factor = _mm512_set1_ps(half_steps(p) * 0x1p16f);
    uint8_t *data = out + code_table_bytes(lanes);
    size_t done = 0;
    begin_block(out, lanes);
    while (lanes - done >= STEP) {
        const size_t steps = smaller((lanes - done) / STEP, STEPS);
        const void *from = values_from(x, type, done);
        uint32_t raw = 0;
        few f;
        _mm512_store_si512(f.used, _mm512_setzero_si512());
        for (size_t i = 0; i < steps; i++)
            raw |= quantise(values_from(from, type, STEP * i), type, factor, &f, i);
        data = put_few(&f, steps, raw, from, type, p, out + done / 16, data);
        done += STEP * steps;
    }
    lane_bits buffer[STEP];
    x = widened(values_from(x, type, done), type, lanes - done, buffer);
    return (size_t)(planes_compress_tail(x, 0, lanes - done, p, out + done / 16, data) - out);
}

TARGET static size_t compress(const lane_bits *x, size_t lanes, parameters p, uint8_t *out)
{
    return compress_values(x, FLOAT32, lanes, p, out);
}

TARGET static size_t compress_half(const void *x, value_type type, size_t lanes, parameters p, uint8_t *out)
{
    return type == BFLOAT16 ? compress_values(x, BFLOAT16, lanes, p, out)
                            : compress_values(x, FLOAT16, lanes, p, out);
}

/* What the codes of some steps announce: which of 16 planes are there in each group, and 4 bits for each step, of
 * its groups with raw lanes. Writes a copy of the codes. */
TARGET_INLINE uint32_t read_codes(const uint8_t *table, uint64_t there[STEPS], uint8_t *copy)
{
    /* By code, twice. */
    const __m512i there_of = _mm512_broadcast_i64x4(
        _mm256_setr_epi16(0, 1, 3, 7, 15, 31, 63, 127, 255, 511, 1023, 2047, 4095, 8191, 32767, 0));
    const __m128i pairs = _mm_loadu_si128((const __m128i *)table);
    _mm_storeu_si128((__m128i *)copy, pairs);
    const __m256i apart = _mm256_cvtepu8_epi16(pairs);
    const __m256i nibbles = _mm256_and_si256(_mm256_or_si256(apart, _mm256_slli_epi16(apart, 4)),
                                             _mm256_set1_epi8(15));
    const __m512i codes = _mm512_cvtepu8_epi16(nibbles);
    _mm512_store_si512(there, _mm512_permutexvar_epi16(codes, there_of));
    return _mm512_cmpeq_epi16_mask(codes, _mm512_set1_epi16(RAW_CODE));
}

/* Signed steps of a step's lanes, in the 16-bit places of a type's lanes. */
TARGET_INLINE __m512i read_steps(uint64_t there, const uint8_t *data, value_type type)
{
    const __m512i one = _mm512_set1_epi16(1), order = _mm512_load_si512(lane_order[type == BFLOAT16]);
    const __m512i z = _mm512_permutexvar_epi8(order, to_lanes(expanded(there, data)));
    const __m512i negative = _mm512_sub_epi16(_mm512_setzero_si512(), _mm512_and_si512(z, one));
    return _mm512_xor_si512(_mm512_srli_epi16(z, 1), negative);
}

/* Step i of a sum, whose lanes are integers. Returns their magnitudes and the addend's, all of them in one. */
TARGET_INLINE __m512i sum_steps(const void *addend, value_type type, __m512 factor, __m512i arrived, few *f, size_t i)
{
    const values v = load(addend, type);
    const __m512i h = half_steps_in(v, factor), negative = _mm512_srai_epi16(v.upper, 15);
    const __m512i q = _mm512_avg_epu16(h, _mm512_setzero_si512());
    const __m512i own = _mm512_sub_epi16(_mm512_xor_si512(q, negative), negative);
    const __m512i sum = _mm512_add_epi16(own, arrived);
    keep(f, i, _mm512_xor_si512(_mm512_slli_epi16(sum, 1), _mm512_srai_epi16(sum, 15)), type);
    f->raw[i] = 0;
    return _mm512_or_si512(q, _mm512_abs_epi16(sum)); /* both are at most 2^14 */
}

/* Whether magnitudes may be raw: all that are, and addends that are nearly so. */
TARGET_INLINE bool any_raw(__m512i magnitudes)
{
    return _mm512_test_epi16_mask(magnitudes, _mm512_set1_epi16((short)-RAW_STEPS)) != 0;
}

/* Sums of some steps from `own` on, without raw lanes: the cursor past the block's data, or NULL if there is one. */
TARGET_INLINE const uint8_t *sum_few(const uint8_t *from, const uint64_t there[STEPS], size_t steps, const void *own,
                                     value_type type, __m512 factor, few *f)
{
    __m512i arrived[READ_AHEAD], all = _mm512_setzero_si512();
    for (size_t i = 0, end; i < steps; i = end) {
        end = smaller(steps, i + READ_AHEAD);
        for (size_t j = i; j < end; j++) {
            arrived[j - i] = read_steps(there[j], from, type);
            from += _mm_popcnt_u64(there[j]);
        }
        for (size_t j = i; j < end; j++)
            all = _mm512_or_si512(
                all, sum_steps(values_from(own, type, STEP * j), type, factor, arrived[j - i], f, j));
    }
    return any_raw(all) ? NULL : from;
}

TARGET_INLINE status sum_values(const uint8_t *block, const void *addend, value_type type, size_t lanes, parameters p,
                                int scale, uint8_t *out, sizes *moved)
{
    const __m512 scaled = _mm512_set1_ps(half_steps(p) * 0x1p16f * power_of_two(scale));
    const __m512 unscaled = _mm512_set1_ps(half_steps(p) * 0x1p16f);
    summation s = begin_sum(block, addend, type, lanes, p, scale, out);
    for (size_t done = 0, steps; ; done += STEP * steps) {
        uint64_t there[STEPS] __attribute__((aligned(64)));
        uint8_t codes[CODE_WORD_BYTES * STEPS];
        lane_bits sums[FEW];
        few f;
        if (!(steps = smaller((lanes - done) / STEP, STEPS)))
            return end_sum(&s, block, out, planes_sum_tail(&s, done, lanes), moved);
        _mm512_store_si512(f.used, _mm512_setzero_si512());
        uint32_t raw_sums = 0;
        const uint32_t raw = read_codes(block + done / 16, there, codes);
        const void *own = values_from(addend, type, done);
        const uint8_t *from = raw ? NULL : sum_few(s.from, there, steps, own, type, scaled, &f);
        for (size_t i = 0; !from && i < steps; i++) {
            const void *few_own = values_from(own, type, STEP * i);
            if (!(raw >> 4 * i & 15)
                && !any_raw(sum_steps(few_own, type, scaled, read_steps(there[i], s.from, type), &f, i))) {
                s.from += _mm_popcnt_u64(there[i]);
                continue;
            }
            planes_sum_values(&s, codes + CODE_WORD_BYTES * i, done + STEP * i, STEP, sums + STEP * i);
            raw_sums |= quantise(sums + STEP * i, FLOAT32, unscaled, &f, i);
        }
        s.from = from ? from : s.from;
        s.to = put_few(&f, steps, raw_sums, sums, FLOAT32, p, out + done / 16, s.to);
    }
}

TARGET static status sum(const uint8_t *block, const void *addend, value_type type, size_t lanes, parameters p,
                         int scale, uint8_t *out, sizes *moved)
{
    return type == FLOAT32    ? sum_values(block, addend, FLOAT32, lanes, p, scale, out, moved)
           : type == BFLOAT16 ? sum_values(block, addend, BFLOAT16, lanes, p, scale, out, moved)
                              : sum_values(block, addend, FLOAT16, lanes, p, scale, out, moved);
}

TARGET_INLINE void put_values(const lane_bits *addend, lane_bits *out, __m512i fixed, __m512 unit)
{
    __m512 value = _mm512_mul_ps(_mm512_cvtepi32_ps(fixed), unit);
    if (addend) {
        fetch_ahead(addend);
        value = _mm512_add_ps(_mm512_loadu_ps(addend), value);
    }
    fetch_ahead(out);
    _mm512_storeu_ps(out, value);
}

TARGET_INLINE size_t decode(const uint8_t *block, size_t lanes, parameters p, const lane_bits *addend,
                            lane_bits *out)
{
    const __m512 unit = _mm512_set1_ps(step_of(p) * 0x1p-16f);
    const uint8_t *data = block + code_table_bytes(lanes);
    size_t done = 0;
    while (lanes - done >= STEP) {
        const size_t steps = smaller((lanes - done) / STEP, STEPS);
        uint64_t there[STEPS] __attribute__((aligned(64)));
        uint8_t table[CODE_WORD_BYTES * STEPS];
        const uint32_t raw = read_codes(block + done / 16, there, table);
        for (size_t i = 0; i < steps; i++, done += STEP) {
            const lane_bits *from = addend_from(addend, done);
            if (raw >> 4 * i & 15) {
                data = planes_decompress_tail(table + CODE_WORD_BYTES * i, data, 0, STEP, p, from, out + done);
                continue;
            }
            const __m512i steps16 = read_steps(there[i], data, FLOAT32);
            data += _mm_popcnt_u64(there[i]);
            /* In the upper half of each lane. */
            put_values(from, out + done, _mm512_slli_epi32(steps16, 16), unit);
            put_values(addend_from(from, 16), out + done + 16,
                       _mm512_and_si512(steps16, _mm512_set1_epi32((int)0xFFFF0000)), unit);
        }
    }
    data = planes_decompress_tail(block, data, done, lanes, p, addend, out);
    return data ? (size_t)(data - block) : 0;
}

TARGET static bool add_steps(const lane_bits *addend, const lane_bits *values, size_t lanes, parameters p,
                             int scale, lane_bits *sums)
{
    return add_steps_loop(addend, values, lanes, p, scale, sums);
}

TARGET static bool settle(const lane_bits *x, size_t lanes, parameters p, int scale, lane_bits *out)
{
    return settle_loop(x, lanes, p, scale, out);
}

TARGET static size_t feed_back(const lane_bits *x, lane_bits *left, size_t lanes, parameters p, int scale,
                        lane_bits *kept)
{
    return feed_back_loop(x, left, lanes, p, scale, kept);
}

CODER(CODER_NAME, planes_format, compress_half, sum, settle, feed_back, add_steps, TARGET)

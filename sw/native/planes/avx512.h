/* SPDX-License-Identifier: BSD-2-Clause */
/* The planes codec for AVX-512 with VBMI2 (Ice Lake, Zen 4 and later): four groups at a time, without a
 * branch on data but for raw lanes. Included by the files that define how 8x8 matrices of bits are transposed:
 *
 *   TARGET        attributes of functions
 *   LANE(i)       the byte of a matrix that lane i is to be in, before it is transposed to planes
 *   to_planes     __m512i of eight matrices with lanes in bytes, to planes in bytes
 *   to_lanes      and back, lanes in order
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

/* |x| in units of 2^-16 half steps. Raw lanes have 2^30 or more, the largest 2^31 from the conversion. */
TARGET_INLINE __m512i fixed_point(__m512i x, __m512 factor)
{
    const __m512i magnitude = _mm512_and_si512(x, _mm512_set1_epi32(0x7FFFFFFF));
    const __m512i normal = _mm512_max_epi32(magnitude, _mm512_set1_epi32(LEAST_NORMAL));
    return _mm512_cvttps_epi32(_mm512_mul_ps(_mm512_castsi512_ps(normal), factor));
}

/* The upper halves of lanes 0..15 in the even 16-bit places, of lanes 16..31 in the odd ones. */
TARGET_INLINE __m512i upper_halves(__m512i a, __m512i b)
{
    return _mm512_mask_blend_epi16(0xAAAAAAAA, _mm512_srli_epi32(a, 16), b);
}

/* For each lane's two bytes in that order, where they go before transposition. Byte 16 g + r + 8 h: row r of
 * group g's low (h = 0) or high bytes. */
static const uint8_t matrix_order[64] __attribute__((aligned(64))) = {
#define PLACE(lane) (lane < 16 ? 4 * (lane) : 4 * ((lane) - 16) + 2)
#define ROW(g, h, r) PLACE(8 * (g) + LANE(r)) + (h)
#define MATRIX(g, h)                                                                                         \
    ROW(g, h, 0), ROW(g, h, 1), ROW(g, h, 2), ROW(g, h, 3), ROW(g, h, 4), ROW(g, h, 5), ROW(g, h, 6),        \
        ROW(g, h, 7)
    MATRIX(0, 0), MATRIX(0, 1), MATRIX(1, 0), MATRIX(1, 1), MATRIX(2, 0), MATRIX(2, 1), MATRIX(3, 0),
    MATRIX(3, 1)};

/* And back: lanes 0..15 in the even 16-bit places, lanes 16..31 in the odd ones. */
static const uint8_t lane_order[64] __attribute__((aligned(64))) = {
#define BYTE(lane, h) 16 * ((lane) / 8) + 8 * (h) + (lane) % 8
#define PAIR(lane) BYTE(lane, 0), BYTE(lane, 1), BYTE(lane + 16, 0), BYTE(lane + 16, 1)
    PAIR(0), PAIR(1), PAIR(2),  PAIR(3),  PAIR(4),  PAIR(5),  PAIR(6),  PAIR(7),
    PAIR(8), PAIR(9), PAIR(10), PAIR(11), PAIR(12), PAIR(13), PAIR(14), PAIR(15)};

/* Four groups of which some have raw lanes. `used` has 16 bits for each group. */
TARGET static uint8_t *put_raw_groups(const lane_bits *x, parameters p, const uint8_t *planes, uint64_t used,
                                      uint32_t raw, uint8_t *plane, uint8_t *data)
{
    static const uint32_t places[4] = {0x00005555, 0x55550000, 0x0000AAAA, 0xAAAA0000};
    for (unsigned group = 0; group < 4; group++, x += GROUP_LANES, used >>= 16) {
        if (raw & places[group]) {
            lossy_loop(x, GROUP_LANES, p, (lane_bits *)(void *)data);
            plane[group / 2] |= (uint8_t)(RAW_CODE << 4 * (group % 2));
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

TARGET_INLINE void keep(few *f, size_t i, __m512i z)
{
    const __m512i planes = to_planes(_mm512_permutexvar_epi8(_mm512_load_si512(matrix_order), z));
    f->planes[i] = planes;
    f->used[i] = _mm512_test_epi8_mask(planes, planes);
}

/* Makes step i of values; returns which lanes are raw. */
TARGET_INLINE uint32_t quantise(const lane_bits *x, __m512 factor, few *f, size_t i)
{
    const __m512i one = _mm512_set1_epi16(1);
    const __m512i a = _mm512_loadu_si512(x), b = _mm512_loadu_si512(x + 16);
    const __m512i h = upper_halves(fixed_point(a, factor), fixed_point(b, factor));
    const __m512i s = _mm512_srli_epi16(upper_halves(a, b), 15);
    /* 2 q, less the sign, but not less than zero. */
    const __m512i z = _mm512_subs_epu16(_mm512_andnot_si512(one, _mm512_add_epi16(h, one)), s);
    keep(f, i, z);
    return f->raw[i] = _mm512_test_epi16_mask(h, _mm512_set1_epi16((short)RAW_BITS));
}

/* Writes the codes to `plane` and the data to `data`; returns the cursor past them. If there are raw lanes, their
 * groups are made of the values in `x`. */
TARGET_INLINE uint8_t *put_few(few *f, size_t steps, bool any_raw, const lane_bits *x, parameters p,
                               uint8_t *plane, uint8_t *data)
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
    _mm_mask_storeu_epi8(plane, there, _mm256_cvtepi16_epi8(nibbles));

    for (size_t i = 0; i < steps; i++) {
        if (any_raw && f->raw[i]) {
            data = put_raw_groups(x + STEP * i, p, (const uint8_t *)&f->planes[i], f->used[i], f->raw[i],
                                  plane + CODE_WORD_BYTES * i, data);
            continue;
        }
        put_compressed(data, f->used[i], f->planes[i]);
        data += _mm_popcnt_u64(f->used[i]);
    }
    return data;
}

TARGET static size_t compress(const lane_bits *x, size_t lanes, parameters p, uint8_t *out)
{
    const __m512 factor = _mm512_set1_ps(half_steps(p) * 0x1p16f);
    uint8_t *data = out + code_plane_bytes(lanes);
    size_t done = 0;
    begin_block(out, lanes);
    while (lanes - done >= STEP) {
        const size_t steps = smaller((lanes - done) / STEP, STEPS);
        uint32_t raw = 0;
        few f;
        _mm512_store_si512(f.used, _mm512_setzero_si512());
        for (size_t i = 0; i < steps; i++) {
            fetch_ahead(x + done + STEP * i);
            fetch_ahead(x + done + STEP * i + 16);
            raw |= quantise(x + done + STEP * i, factor, &f, i);
        }
        data = put_few(&f, steps, raw, x + done, p, out + done / 16, data);
        done += STEP * steps;
    }
    return (size_t)(planes_compress_tail(x, done, lanes, p, out, data) - out);
}

/* What the codes of some steps announce: which of 16 planes are there in each group, and 4 bits for each step, of
 * its groups with raw lanes. Writes a copy of the codes. */
TARGET_INLINE uint32_t read_codes(const uint8_t *plane, uint64_t there[STEPS], uint8_t *copy)
{
    /* By code, twice. */
    const __m512i there_of = _mm512_broadcast_i64x4(
        _mm256_setr_epi16(0, 1, 3, 7, 15, 31, 63, 127, 255, 511, 1023, 2047, 4095, 8191, 32767, 0));
    const __m128i pairs = _mm_loadu_si128((const __m128i *)plane);
    _mm_storeu_si128((__m128i *)copy, pairs);
    const __m256i apart = _mm256_cvtepu8_epi16(pairs);
    const __m256i nibbles = _mm256_and_si256(_mm256_or_si256(apart, _mm256_slli_epi16(apart, 4)),
                                             _mm256_set1_epi8(15));
    const __m512i codes = _mm512_cvtepu8_epi16(nibbles);
    _mm512_store_si512(there, _mm512_permutexvar_epi16(codes, there_of));
    return _mm512_cmpeq_epi16_mask(codes, _mm512_set1_epi16(RAW_CODE));
}

/* Signed steps of a step's lanes: 0..15 in the even 16-bit places, 16..31 in the odd ones. */
TARGET_INLINE __m512i read_steps(uint64_t there, const uint8_t *data)
{
    const __m512i one = _mm512_set1_epi16(1), order = _mm512_load_si512(lane_order);
    const __m512i z = _mm512_permutexvar_epi8(order, to_lanes(expanded(there, data)));
    const __m512i negative = _mm512_sub_epi16(_mm512_setzero_si512(), _mm512_and_si512(z, one));
    return _mm512_xor_si512(_mm512_srli_epi16(z, 1), negative);
}

/* Step i of a sum, whose lanes are integers; false, with nothing done, if one is raw. */
TARGET_INLINE bool sum_steps(const lane_bits *addend, __m512 factor, __m512i arrived, few *f, size_t i)
{
    const __m512i one = _mm512_set1_epi16(1);
    const __m512i a = _mm512_loadu_si512(addend), b = _mm512_loadu_si512(addend + 16);
    const __m512i h = upper_halves(fixed_point(a, factor), fixed_point(b, factor));
    const __m512i negative = _mm512_srai_epi16(upper_halves(a, b), 15);
    const __m512i q = _mm512_srli_epi16(_mm512_add_epi16(h, one), 1);
    const __m512i own = _mm512_sub_epi16(_mm512_xor_si512(q, negative), negative);
    const __m512i sum = _mm512_add_epi16(own, arrived);
    /* Both magnitudes are at most 2^14. */
    const __m512i over = _mm512_and_si512(_mm512_abs_epi16(sum), _mm512_set1_epi16((short)-RAW_STEPS));
    const __m512i raw = _mm512_and_si512(h, _mm512_set1_epi16((short)RAW_BITS));
    const __m512i any = _mm512_or_si512(raw, over);
    if (__builtin_expect(_mm512_test_epi16_mask(any, any) != 0, 0))
        return false;
    const __m512i z = _mm512_xor_si512(_mm512_slli_epi16(sum, 1), _mm512_srai_epi16(sum, 15));
    keep(f, i, z);
    f->raw[i] = 0;
    return true;
}

TARGET static status sum(const uint8_t *block, const lane_bits *addend, size_t lanes, parameters p, int scale,
                         uint8_t *out, sizes *moved)
{
    const __m512 scaled = _mm512_set1_ps(half_steps(p) * 0x1p16f * power_of_two(scale));
    const __m512 unscaled = _mm512_set1_ps(half_steps(p) * 0x1p16f);
    summation s = begin_sum(block, addend, lanes, p, scale, out);
    size_t done = 0;
    while (lanes - done >= STEP) {
        const size_t steps = smaller((lanes - done) / STEP, STEPS);
        uint64_t there[STEPS] __attribute__((aligned(64)));
        uint8_t codes[CODE_WORD_BYTES * STEPS];
        lane_bits sums[FEW];
        few f;
        _mm512_store_si512(f.used, _mm512_setzero_si512());
        uint32_t raw_sums = 0;
        const uint32_t raw = read_codes(block + done / 16, there, codes);
        for (size_t i = 0; i < steps; i++) {
            const lane_bits *own = addend + done + STEP * i;
            fetch_ahead(own);
            fetch_ahead(own + 16);
            if (!(raw >> 4 * i & 15)
                && sum_steps(own, scaled, read_steps(there[i], s.from), &f, i)) {
                s.from += _mm_popcnt_u64(there[i]);
                continue;
            }
            planes_sum_values(&s, codes + CODE_WORD_BYTES * i, done + STEP * i, STEP, sums + STEP * i);
            raw_sums |= quantise(sums + STEP * i, unscaled, &f, i);
        }
        s.to = put_few(&f, steps, raw_sums, sums, p, out + done / 16, s.to);
        done += STEP * steps;
    }
    return end_sum(&s, block, out, planes_sum_tail(&s, done, lanes), moved);
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
    const uint8_t *data = block + code_plane_bytes(lanes);
    size_t done = 0;
    while (lanes - done >= STEP) {
        const size_t steps = smaller((lanes - done) / STEP, STEPS);
        uint64_t there[STEPS] __attribute__((aligned(64)));
        uint8_t plane[CODE_WORD_BYTES * STEPS];
        const uint32_t raw = read_codes(block + done / 16, there, plane);
        for (size_t i = 0; i < steps; i++, done += STEP) {
            const lane_bits *from = addend_from(addend, done);
            if (raw >> 4 * i & 15) {
                data = planes_decompress_tail(plane + CODE_WORD_BYTES * i, data, 0, STEP, p, from, out + done);
                continue;
            }
            const __m512i steps16 = read_steps(there[i], data);
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

CODER(CODER_NAME, planes_format, sum, settle, add_steps, TARGET)

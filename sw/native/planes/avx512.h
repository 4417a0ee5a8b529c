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

TARGET static size_t compress(const lane_bits *x, size_t lanes, parameters p, uint8_t *out)
{
    const __m512 factor = _mm512_set1_ps(half_steps(p) * 0x1p16f);
    const __m512i order = _mm512_load_si512(matrix_order), one = _mm512_set1_epi16(1);
    uint8_t *data = out + code_plane_bytes(lanes);
    size_t done = 0;
    begin_block(out, lanes);
    while (lanes - done >= STEP) {
        const size_t steps = smaller((lanes - done) / STEP, STEPS);
        __m512i planes[STEPS];
        uint64_t used[STEPS] __attribute__((aligned(64))) = {0};
        uint32_t raw[STEPS], any_raw = 0;
        for (size_t i = 0; i < steps; i++) {
            const __m512i a = _mm512_loadu_si512(x + done + STEP * i);
            const __m512i b = _mm512_loadu_si512(x + done + STEP * i + 16);
            fetch_ahead(x + done + STEP * i);
            fetch_ahead(x + done + STEP * i + 16);
            const __m512i h = upper_halves(fixed_point(a, factor), fixed_point(b, factor));
            const __m512i s = _mm512_srli_epi16(upper_halves(a, b), 15);
            /* 2 q, less the sign, but not less than zero. */
            const __m512i z = _mm512_subs_epu16(_mm512_andnot_si512(one, _mm512_add_epi16(h, one)), s);
            any_raw |= raw[i] = _mm512_test_epi16_mask(h, _mm512_set1_epi16((short)RAW_BITS));
            planes[i] = to_planes(_mm512_permutexvar_epi8(order, z));
            used[i] = _mm512_test_epi8_mask(planes[i], planes[i]);
        }

        /* All planes below the highest one that is used, and never 14 of them. */
        __m512i kept = _mm512_load_si512(used);
        kept = _mm512_or_si512(kept, _mm512_srli_epi16(kept, 1));
        kept = _mm512_or_si512(kept, _mm512_srli_epi16(kept, 2));
        kept = _mm512_or_si512(kept, _mm512_srli_epi16(kept, 4));
        kept = _mm512_or_si512(kept, _mm512_srli_epi16(kept, 8));
        kept = _mm512_or_si512(kept, _mm512_slli_epi16(_mm512_and_si512(kept, _mm512_set1_epi16(0x2000)), 1));
        _mm512_store_si512(used, kept);
        const __m512i wide = _mm512_min_epu16(_mm512_popcnt_epi16(kept), _mm512_set1_epi16(14));
        const __m256i nibbles = _mm256_maddubs_epi16(_mm512_cvtepi16_epi8(wide), _mm256_set1_epi16(0x1001));
        const __mmask16 there = (__mmask16)((1u << CODE_WORD_BYTES * steps) - 1);
        _mm_mask_storeu_epi8(out + done / 16, there, _mm256_cvtepi16_epi8(nibbles));

        for (size_t i = 0; i < steps; i++) {
            if (any_raw && raw[i]) {
                data = put_raw_groups(x + done + STEP * i, p, (const uint8_t *)&planes[i], used[i], raw[i],
                                      out + done / 16 + CODE_WORD_BYTES * i, data);
                continue;
            }
            put_compressed(data, used[i], planes[i]);
            data += _mm_popcnt_u64(used[i]);
        }
        done += STEP * steps;
    }
    return (size_t)(planes_compress_tail(x, done, lanes, p, out, data) - out);
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
    /* By code, twice: which of 16 planes are there. */
    const __m512i there_of = _mm512_broadcast_i64x4(
        _mm256_setr_epi16(0, 1, 3, 7, 15, 31, 63, 127, 255, 511, 1023, 2047, 4095, 8191, 32767, 0));
    const __m512 unit = _mm512_set1_ps(step_of(p) * 0x1p-16f);
    const __m512i order = _mm512_load_si512(lane_order), one = _mm512_set1_epi16(1);
    const uint8_t *data = block + code_plane_bytes(lanes);
    size_t done = 0;
    while (lanes - done >= STEP) {
        const size_t steps = smaller((lanes - done) / STEP, STEPS);
        uint64_t there[STEPS] __attribute__((aligned(64)));
        uint8_t plane[CODE_WORD_BYTES * STEPS];
        const __m128i pairs = _mm_loadu_si128((const __m128i *)(block + done / 16));
        _mm_storeu_si128((__m128i *)plane, pairs);
        const __m256i apart = _mm256_cvtepu8_epi16(pairs);
        const __m256i nibbles = _mm256_and_si256(_mm256_or_si256(apart, _mm256_slli_epi16(apart, 4)),
                                                 _mm256_set1_epi8(15));
        const __m512i codes = _mm512_cvtepu8_epi16(nibbles);
        _mm512_store_si512(there, _mm512_permutexvar_epi16(codes, there_of));
        const uint32_t raw = _mm512_cmpeq_epi16_mask(codes, _mm512_set1_epi16(RAW_CODE));
        for (size_t i = 0; i < steps; i++, done += STEP) {
            const lane_bits *from = addend_from(addend, done);
            if (raw >> 4 * i & 15) {
                data = planes_decompress_tail(plane + CODE_WORD_BYTES * i, data, 0, STEP, p, from, out + done);
                continue;
            }
            const __m512i planes = expanded(there[i], data);
            data += _mm_popcnt_u64(there[i]);
            const __m512i z = _mm512_permutexvar_epi8(order, to_lanes(planes));
            const __m512i negative = _mm512_sub_epi16(_mm512_setzero_si512(), _mm512_and_si512(z, one));
            const __m512i steps16 = _mm512_xor_si512(_mm512_srli_epi16(z, 1), negative);
            /* In the upper half of each lane. */
            put_values(from, out + done, _mm512_slli_epi32(steps16, 16), unit);
            put_values(addend_from(from, 16), out + done + 16,
                       _mm512_and_si512(steps16, _mm512_set1_epi32((int)0xFFFF0000)), unit);
        }
    }
    data = planes_decompress_tail(block, data, done, lanes, p, addend, out);
    return data ? (size_t)(data - block) : 0;
}

CODER(CODER_NAME, planes_format, TARGET)

/* SPDX-License-Identifier: BSD-2-Clause */
/* The kernel for AVX-512 with VBMI2 (Ice Lake, Zen 4 and later): 16 lanes at a time, without a branch on
 * data.
 *
 * As the AVX2 kernel, with VPCOMPRESSB and VPEXPANDB in place of shuffles from tables: a mask has a bit
 * for each byte that is kept, the topmost ones of each lane.
 */
#include "paper.h"

#if HAVE_X86

#include "../avx512.h"

TARGET_AVX512 static size_t compress(const lane_bits *x, size_t lanes, parameters p, uint8_t *out)
{
    if (p.b < MIN_VECTOR_BASE)
        return paper_scalar.compress(x, lanes, p, out);
    const __m512i e0 = _mm512_set1_epi32((int)(p.e0 << MANTISSA_BITS));
    const __m512i t = _mm512_set1_epi32((int)(p.t << MANTISSA_BITS));
    const __m512i one = _mm512_set1_epi32(EXPONENT_BIAS << MANTISSA_BITS);
    const __m512 unit8 = _mm512_set1_ps(as_float((2 * EXPONENT_BIAS + 31 - p.b) << MANTISSA_BITS));
    const __m512 unit16 = _mm512_set1_ps(0x1p31f);
    const __m512i sign = _mm512_set1_epi32((int)0x80000000);
    const __m512i keep8 = sign, keep16 = _mm512_set1_epi32((int)0x80800000);
    const __m512i keep32 = _mm512_set1_epi32((int)0x80808080);
    uint8_t *data = out + tag_table_bytes(lanes);
    size_t done = 0;
    for (; done + 16 <= lanes; done += 16) {
        const __m512i f = _mm512_loadu_si512(x + done);
        fetch_ahead(x + done);
        const __m512i magnitude = _mm512_andnot_si512(sign, f);
        const __mmask16 from_e0 = _mm512_cmpge_epi32_mask(magnitude, e0);
        const __mmask16 from_t = _mm512_cmpge_epi32_mask(magnitude, t);
        const __mmask16 from_one = _mm512_cmpge_epi32_mask(magnitude, one);

        /* Without the lanes below E0: multiplying subnormal numbers may take a hundred cycles. */
        const __m512 unit = _mm512_mask_blend_ps(from_t, unit8, unit16);
        const __m512 number = _mm512_maskz_mul_ps(from_e0, _mm512_castsi512_ps(magnitude), unit);
        const __m512i fixed = _mm512_cvttps_epi32(number);
        const __m512i small = _mm512_ternarylogic_epi32(fixed, f, sign, 0xF8); /* fixed | (f & sign) */
        const __m512i v = _mm512_mask_mov_epi32(small, from_one, f);

        const uint32_t bit0 = _pdep_u32(from_e0 ^ from_t ^ from_one, 0x55555555);
        const uint32_t tags = bit0 | _pdep_u32(from_t, 0xAAAAAAAA);
        memcpy(out + done / 4, &tags, 4);

        __m512i keep = _mm512_maskz_mov_epi32(from_e0, keep8);
        keep = _mm512_mask_mov_epi32(keep, from_t, keep16);
        keep = _mm512_mask_mov_epi32(keep, from_one, keep32);
        const __mmask64 kept = _mm512_movepi8_mask(keep);
        put_compressed(data, kept, v);
        data += _mm_popcnt_u64(kept);
    }
    return (size_t)(paper_compress_tail(x, done, lanes, p, out, data) - out);
}

TARGET_AVX512 INLINE size_t decode(const uint8_t *block, size_t lanes, parameters p, const lane_bits *addend,
                                  lane_bits *out)
{
    if (p.b < MIN_VECTOR_BASE)
        return addend ? paper_scalar.decompress_add(block, lanes, p, addend, out)
                      : paper_scalar.decompress(block, lanes, p, out);
    const __m512i sign = _mm512_set1_epi32((int)0x80000000);
    const __m512i places = _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
    const float unit8 = as_float((p.b - 31) << MANTISSA_BITS);
    /* By tag, in each quarter. */
    const __m512 unit_of = _mm512_broadcast_f32x4(_mm_setr_ps(0, unit8, 0x1p-31f, 0));
    const __m512 keep_of = _mm512_broadcast_f32x4(_mm_castsi128_ps(
        _mm_setr_epi32(0, (int)0x80000000, (int)0x80800000, (int)0x80808080)));
    const uint8_t *data = block + tag_table_bytes(lanes);
    size_t done = 0;
    for (; done + 16 <= lanes; done += 16) {
        uint32_t word;
        memcpy(&word, block + done / 4, 4);
        /* Permutations look at the two lowest bits of each control element only. */
        const __m512i tags = _mm512_srlv_epi32(_mm512_set1_epi32((int)word), places);
        const __m512i keep = _mm512_castps_si512(_mm512_permutevar_ps(keep_of, tags));
        const __mmask64 kept = _mm512_movepi8_mask(keep);
        const __m512i v = expanded(kept, data);
        data += _mm_popcnt_u64(kept);

        /* A sign alone is +0.0, so the sign is applied to the integer. */
        const __m512i magnitude = _mm512_andnot_si512(sign, v);
        const __mmask16 negative = _mm512_movepi32_mask(v);
        const __m512i fixed = _mm512_mask_sub_epi32(magnitude, negative, _mm512_setzero_si512(), magnitude);
        __m512 value = _mm512_mul_ps(_mm512_cvtepi32_ps(fixed), _mm512_permutevar_ps(unit_of, tags));
        const __mmask16 raw = _mm512_test_epi32_mask(keep, _mm512_set1_epi32(0x80));
        value = _mm512_mask_mov_ps(value, raw, _mm512_castsi512_ps(v));
        if (addend) {
            fetch_ahead(addend + done);
            value = _mm512_add_ps(_mm512_loadu_ps(addend + done), value);
        }
        fetch_ahead(out + done);
        _mm512_storeu_ps(out + done, value);
    }
    data = paper_decompress_tail(block, data, done, lanes, p.b, addend, out);
    return data ? (size_t)(data - block) : 0;
}

CODER(paper_avx512, paper_format, NULL, NULL, NULL, NULL, NULL, TARGET_AVX512)

#endif

/* SPDX-License-Identifier: BSD-2-Clause */
/* The paper's codec, portable: the reference of the other kernels.
 *
 * A vector is handled left-aligned: sign in bit 31, the 7 or 15 bits of magnitude below it. Then both
 * classes are quantised by one shift, and differ only in how many of the leading bytes are kept.
 */
#include "paper.h"

static const uint8_t tag_bytes[4] = {0, 1, 2, 4};

uint8_t *paper_compress_tail(const lane_bits *x, size_t done, size_t lanes, parameters p, uint8_t *table,
                             uint8_t *data)
{
    const uint32_t e0 = p.e0 << MANTISSA_BITS, t = p.t << MANTISSA_BITS;
    const uint32_t one = (uint32_t)EXPONENT_BIAS << MANTISSA_BITS;
    const uint32_t base_of[4] = {EXPONENT_BIAS, p.b, EXPONENT_BIAS, 2 * EXPONENT_BIAS};
    while (done < lanes) {
        const size_t here = lanes - done < GROUP_LANES ? lanes - done : GROUP_LANES;
        uint32_t word = 0;
        for (size_t i = 0; i < here; i++) {
            const uint32_t f = x[done + i], magnitude = f & 0x7FFFFFFF;
            const uint32_t tag = (magnitude >= e0) + (magnitude >= t) + (magnitude >= one);
            const uint32_t shift = base_of[tag] - (magnitude >> MANTISSA_BITS);
            const uint32_t small = (f << 8 | 0x80000000) >> (shift < 31 ? shift : 31) | (f & 0x80000000);
            const uint32_t aligned = select_bits(magnitude >= one, f, small);
            const uint32_t vector = (uint32_t)((uint64_t)aligned >> (32 - 8 * tag_bytes[tag]));
            memcpy(data, &vector, 4);
            data += tag_bytes[tag];
            word |= tag << 2 * i;
        }
        table[done / 4] = (uint8_t)word;
        table[done / 4 + 1] = (uint8_t)(word >> 8);
        done += here;
    }
    return data;
}

/* A vector, left-aligned. Reads 4 bytes. */
INLINE uint32_t take(const uint8_t *data, unsigned tag)
{
    uint32_t bytes;
    memcpy(&bytes, data, 4);
    return (uint32_t)((uint64_t)bytes << (32 - 8 * tag_bytes[tag]));
}

/* By Algorithm 3 of the paper; 1 for an impossible vector, whose place no value takes. */
static uint32_t restored(uint32_t aligned, int base)
{
    const uint32_t magnitude = aligned & 0x7FFFFFFF;
    const int first_one = magnitude ? __builtin_clz(magnitude) : 0;
    if (!magnitude)
        return 0;
    if (base - first_one < 1)
        return 1;
    return (aligned & 0x80000000) | (uint32_t)(base - first_one) << MANTISSA_BITS
           | (magnitude << first_one & 0x7FFFFFFF) >> 8;
}

INLINE const uint8_t *decode_tail(const uint8_t *table, const uint8_t *data, size_t done, size_t lanes,
                                  uint32_t b, const lane_bits *addend, lane_bits *out)
{
    if (b < MIN_VECTOR_BASE) {
        for (; done < lanes; done++) {
            const unsigned tag = table[done / 4] >> 2 * (done % 4) & 3;
            const uint32_t aligned = take(data, tag);
            const uint32_t bits = tag == 3 ? aligned : restored(aligned, tag == 1 ? (int)b : EXPONENT_BIAS);
            if (bits == 1 && tag == 1)
                return NULL;
            out[done] = addend ? added(addend[done], bits) : bits;
            data += tag_bytes[tag];
        }
        return data;
    }
    /* A fixed-point number becomes a floating-point one, exactly. The sign is applied to the integer, since a
     * sign alone is +0.0. */
    const float unit_of[4] = {0, as_float((b - 31) << MANTISSA_BITS), 0x1p-31f, 0};
    for (; done < lanes; done++) {
        const unsigned tag = table[done / 4] >> 2 * (done % 4) & 3;
        const uint32_t aligned = take(data, tag), negative = -(aligned >> 31);
        const int32_t fixed = (int32_t)(((aligned & 0x7FFFFFFF) ^ negative) - negative);
        const uint32_t bits = select_bits(tag == 3, aligned, as_bits((float)fixed * unit_of[tag]));
        out[done] = addend ? added(addend[done], bits) : bits;
        data += tag_bytes[tag];
    }
    return data;
}

const uint8_t *paper_decompress_tail(const uint8_t *table, const uint8_t *data, size_t done, size_t lanes,
                                     uint32_t b, const lane_bits *addend, lane_bits *out)
{
    return addend ? decode_tail(table, data, done, lanes, b, addend, out)
                  : decode_tail(table, data, done, lanes, b, NULL, out);
}

static size_t compress(const lane_bits *x, size_t lanes, parameters p, uint8_t *out)
{
    return (size_t)(paper_compress_tail(x, 0, lanes, p, out, out + tag_table_bytes(lanes)) - out);
}

INLINE size_t decode(const uint8_t *block, size_t lanes, parameters p, const lane_bits *addend, lane_bits *out)
{
    const uint8_t *end = decode_tail(block, block + tag_table_bytes(lanes), 0, lanes, p.b, addend, out);
    return end ? (size_t)(end - block) : 0;
}

CODER(paper_scalar, paper_format, NULL, NULL, NULL, NULL, NULL, )

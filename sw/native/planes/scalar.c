/* SPDX-License-Identifier: BSD-2-Clause */
/* The planes codec, portable: the reference of the other kernels. */
#include "planes.h"

/* Lanes that are quantised together, so that the compiler makes vectors of the loop. */
enum { FEW = 64 };

typedef struct {
    uint8_t low[FEW], high[FEW]; /* bytes of the integers */
    bool any_raw;
} quantised;

INLINE void quantise(const lane_bits *x, size_t lanes, parameters p, quantised *few)
{
    const float factor = half_steps(p);
    const uint32_t limit = raw_limit(p);
    uint32_t raws = 0;
    memset(few, 0, sizeof *few);
    for (size_t i = 0; i < lanes; i++) {
        const uint32_t magnitude = x[i] & 0x7FFFFFFF;
        const bool raw = magnitude >= limit;
        const uint32_t q = steps_of(magnitude, raw, factor), z = 2 * q - (q ? x[i] >> 31 : 0);
        raws |= raw;
        few->low[i] = (uint8_t)z;
        few->high[i] = (uint8_t)(z >> 8);
    }
    few->any_raw = raws;
}

static bool any_raw(const lane_bits *x, size_t lanes, parameters p)
{
    bool found = false;
    for (size_t i = 0; i < lanes; i++)
        found |= (x[i] & 0x7FFFFFFF) >= raw_limit(p);
    return found;
}

/* Writes the planes of 8 lanes, of which 16 bytes can be written, and returns their code. */
INLINE unsigned put_planes(const uint8_t *low_bytes, const uint8_t *high_bytes, uint8_t *data)
{
    uint64_t low, high;
    memcpy(&low, low_bytes, 8);
    memcpy(&high, high_bytes, 8);
    low = transposed(low);
    high = transposed(high);
    memcpy(data, &low, 8);
    memcpy(data + 8, &high, 8);
    const unsigned width = high  ? 16u - (unsigned)__builtin_clzll(high) / 8
                           : low ? 8u - (unsigned)__builtin_clzll(low) / 8
                                 : 0;
    return width < 14 ? width : 14;
}

uint8_t *planes_compress_tail(const lane_bits *x, size_t done, size_t lanes, parameters p, uint8_t *table,
                              uint8_t *data)
{
    while (done < lanes) {
        const size_t few_lanes = smaller(lanes - done, FEW);
        quantised few;
        quantise(x + done, few_lanes, p, &few);
        for (size_t at = 0; at < few_lanes; at += GROUP_LANES, done += GROUP_LANES) {
            const size_t group = done / GROUP_LANES, here = smaller(few_lanes - at, GROUP_LANES);
            unsigned code = RAW_CODE;
            if (few.any_raw && any_raw(x + done, here, p)) {
                memset(data, 0, GROUP_BYTES);
                lossy_loop(x + done, here, p, (lane_bits *)(void *)data);
            } else {
                code = put_planes(few.low + at, few.high + at, data);
            }
            table[group / 2] = (uint8_t)(group % 2 ? table[group / 2] | code << 4 : code);
            data += code_bytes[code];
        }
    }
    return data;
}

/* 15 bytes can be read. Whether absent lanes are zero. */
INLINE bool decode_group(const uint8_t *data, unsigned code, size_t lanes, parameters p,
                         const lane_bits *addend, lane_bits *out)
{
    if (code == RAW_CODE) {
        uint32_t absent = 0;
        for (size_t i = 0; i < GROUP_LANES; i++) {
            uint32_t word;
            memcpy(&word, data + LANE_BYTES * i, LANE_BYTES);
            if (i < lanes)
                out[i] = addend ? added(addend[i], word) : word;
            else
                absent |= word;
        }
        return !absent;
    }
    uint64_t low, high;
    memcpy(&low, data, 8);
    memcpy(&high, data + 8, 8);
    const unsigned bits = 8 * code_bytes[code];
    high = bits > 64 ? high & ((1ull << (bits - 64)) - 1) : 0;
    low = bits < 64 ? low & ((1ull << bits) - 1) : low;
    low = transposed(low);
    high = transposed(high);
    for (size_t i = 0; i < lanes; i++) {
        const uint32_t z = (uint32_t)(low >> 8 * i & 0xFF) | (uint32_t)(high >> 8 * i & 0xFF) << 8;
        const int32_t steps = (int32_t)(z >> 1) ^ -(int32_t)(z & 1);
        const uint32_t bits = as_bits((float)steps * step_of(p));
        out[i] = addend ? added(addend[i], bits) : bits;
    }
    return lanes == GROUP_LANES || !((low | high) >> 8 * lanes);
}

INLINE const uint8_t *decode_tail(const uint8_t *table, const uint8_t *data, size_t done, size_t lanes,
                                  parameters p, const lane_bits *addend, lane_bits *out)
{
    for (; done < lanes; done += GROUP_LANES) {
        const size_t group = done / GROUP_LANES;
        const unsigned code = table[group / 2] >> 4 * (group % 2) & 15;
        const size_t here = smaller(lanes - done, GROUP_LANES);
        if (!decode_group(data, code, here, p, addend_from(addend, done), out + done))
            return NULL;
        data += code_bytes[code];
    }
    return data;
}

const uint8_t *planes_decompress_tail(const uint8_t *table, const uint8_t *data, size_t done, size_t lanes,
                                      parameters p, const lane_bits *addend, lane_bits *out)
{
    return addend ? decode_tail(table, data, done, lanes, p, addend, out)
                  : decode_tail(table, data, done, lanes, p, NULL, out);
}

bool planes_sum_values(summation *s, const uint8_t *codes, size_t done, size_t lanes, lane_bits *sums)
{
    lane_bits own[FEW_SUMS];
    const lane_bits *addend = widened(values_from(s->addend, s->type, done), s->type, lanes, own);
    s->from = planes_decompress_tail(codes, s->from, 0, lanes, s->p, NULL, sums);
    if (!s->from)
        return false;
    for (size_t i = 0; i < lanes; i++) {
        const uint32_t bits = addend[i], scaled = as_bits(as_float(bits) * s->factor);
        const bool finite = (bits & INFINITE) != INFINITE;
        s->overflows |= finite && (scaled & INFINITE) == INFINITE;
        own[i] = finite ? scaled : bits;
    }
    lossy_loop(own, lanes, s->p, own);
    for (size_t i = 0; i < lanes; i++)
        sums[i] = added(own[i], sums[i]);
    return true;
}

status planes_sum_tail(summation *s, size_t done, size_t lanes)
{
    while (done < lanes) {
        lane_bits sums[FEW_SUMS];
        const size_t here = smaller(lanes - done, FEW_SUMS), table = done / (2 * GROUP_LANES);
        if (!planes_sum_values(s, s->codes + table, done, here, sums))
            return ABSENT_VALUE;
        s->to = planes_compress_tail(sums, 0, here, s->p, s->table + table, s->to);
        done += here;
    }
    return s->overflows ? OVERFLOWED : OK;
}

static status sum(const uint8_t *block, const void *addend, value_type type, size_t lanes, parameters p, int scale,
                  uint8_t *out, sizes *moved)
{
    summation s = begin_sum(block, addend, type, lanes, p, scale, out);
    const status result = planes_sum_tail(&s, 0, lanes);
    return end_sum(&s, block, out, result, moved);
}

static size_t compress(const lane_bits *x, size_t lanes, parameters p, uint8_t *out)
{
    begin_block(out, lanes);
    return (size_t)(planes_compress_tail(x, 0, lanes, p, out, out + code_table_bytes(lanes)) - out);
}

INLINE size_t decode(const uint8_t *block, size_t lanes, parameters p, const lane_bits *addend, lane_bits *out)
{
    const uint8_t *end = decode_tail(block, block + code_table_bytes(lanes), 0, lanes, p, addend, out);
    return end ? (size_t)(end - block) : 0;
}

static bool add_steps(const lane_bits *addend, const lane_bits *values, size_t lanes, parameters p, int scale,
                      lane_bits *sums)
{
    return add_steps_loop(addend, values, lanes, p, scale, sums);
}

static bool settle(const lane_bits *x, size_t lanes, parameters p, int scale, lane_bits *out)
{
    return settle_loop(x, lanes, p, scale, out);
}

static size_t feed_back(const lane_bits *x, lane_bits *left, size_t lanes, parameters p, int scale,
                        lane_bits *kept)
{
    return feed_back_loop(x, left, lanes, p, scale, kept);
}

CODER(planes_scalar, planes_format, NULL, sum, settle, feed_back, add_steps, )

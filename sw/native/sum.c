/* SPDX-License-Identifier: BSD-2-Clause */
/* The stream of a sum: what a rank of a ring makes of an arriving stream and its own values. */
#include "streams.h"
#include "threads.h"

#include <stdlib.h>

/* With several threads: the whole sum in memory. */
static status sum_first(settings s, const uint8_t *stream, size_t size, const void *addend, size_t lanes,
                        lane_bits *sum, uint8_t *out, size_t capacity, size_t *written, size_t *at)
{
    const status result = stream_decompress(s, stream, size, addend, sum, lanes, (stream_index){0}, at);
    s.source = FLOAT32; /* the sum */
    return result ? result : stream_compress(s, sum, lanes, out, capacity, written);
}

/* On the lattice: blocks of integers, which need no sum in memory. */
static status lattice_sum(const settings *s, const uint8_t *stream, size_t size, const void *addend,
                          size_t lanes, uint8_t *out, size_t capacity, size_t *written, size_t *at)
{
    const format *f = s->coder->format;
    const bool ahead = s->scale > MOST_SUM_SCALE;
    uint8_t copy[MAX_BLOCK_BYTES + SLACK], sum[MAX_BLOCK_BYTES];
    lane_bits buffer[STREAM_LANES];
    *written = *at = 0;
    for (size_t here; lanes; addend = values_from(addend, s->source, here), lanes -= here) {
        here = smaller(lanes, STREAM_LANES);
        const uint8_t *block = readable_block(s, stream, size, *at, here, copy);
        if (!block)
            return f->describe_fault(stream, size, *at, here, s->p, at);
        const bool overflows = ahead && s->kernel->scale(as_lanes(s, addend, here, buffer), here,
                                                         power_of_two(s->scale), buffer);
        const bool fits = capacity - *written >= f->worst_bytes(here);
        sizes moved = {0};
        uint8_t *to = fits ? out + *written : sum;
        status result = ahead ? s->coder->sum(block, buffer, FLOAT32, here, s->p, 0, to, &moved)
                              : s->coder->sum(block, addend, s->source, here, s->p, s->scale, to, &moved);
        if (result == ABSENT_VALUE || !f->table_is_sound(block, here))
            return f->describe_fault(stream, size, *at, here, s->p, at);
        if (result || overflows)
            return OVERFLOWED;
        if (moved.written > capacity - *written)
            return NO_ROOM;
        if (!fits)
            memcpy(out + *written, sum, moved.written);
        *at += moved.read;
        *written += moved.written;
    }
    return *at == size ? OK : LEFT_OVER;
}

status stream_compress_sum(settings s, const uint8_t *stream, size_t size, const void *addend,
                           size_t lanes, uint8_t *out, size_t capacity, size_t *written, size_t *at)
{
    if (s.p.lattice)
        return lattice_sum(&s, stream, size, addend, lanes, out, capacity, written, at);
    void *whole = worthwhile_threads(s.threads, lanes) < 2 ? NULL : malloc(lanes * LANE_BYTES);
    if (whole) {
        const status result = sum_first(s, stream, size, addend, lanes, whole, out, capacity, written, at);
        free(whole);
        return result;
    }
    settings of_sum = s;
    of_sum.source = FLOAT32;
    status failed = OK; /* A malformed stream goes before a sum that cannot be stored, as with several threads. */
    *written = *at = 0;
    while (lanes) {
        lane_bits sum[STREAM_LANES];
        const size_t here = smaller(lanes, STREAM_LANES);
        size_t bytes = 0;
        const status result = decompress_blocks(&s, stream, size, at, addend, sum, here);
        if (result)
            return result;
        if (!failed)
            failed = compress_blocks(&of_sum, sum, here, out + *written, capacity - *written, &bytes);
        *written += bytes;
        addend = values_from(addend, s.source, here);
        lanes -= here;
    }
    return *at == size ? failed : LEFT_OVER;
}

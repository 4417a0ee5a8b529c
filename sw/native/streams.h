/* SPDX-License-Identifier: BSD-2-Clause */
/* Streams of whole arrays: compress.c, decompress.c, sum.c, lanes.c. */
#ifndef INCEPTIONN_NATIVE_STREAMS_H
#define INCEPTIONN_NATIVE_STREAMS_H

#include "types.h"

enum {
    /* Blocks that a thread takes at a time. */
    RUN_BLOCKS = 32,
};

typedef struct {
    const kernel *kernel;
    const coder *coder; /* one of the kernel's */
    parameters p;
    /* Values are multiplied by 2^scale on the way in and divided on the way out; -126..126. */
    int scale;
    /* Threads to use, the caller's included, if the array is large. */
    unsigned threads;
    /* Of the values that come in (addends too), and of those that go out. */
    value_type source, result;
} settings;

/* Some values that come in, as lanes: where they are, or in the buffer; NULL if there are none. */
static inline const lane_bits *as_lanes(const settings *s, const void *values, size_t lanes, lane_bits *buffer)
{
    if (s->source == FLOAT32 || !values)
        return values;
    s->kernel->conversions->widen[s->source](values, lanes, buffer);
    return buffer;
}

/* Writes the stream of the values to `out` and its size to `size`. Bytes after it, up to `capacity`, may be
 * overwritten. */
status stream_compress(settings s, const void *x, size_t lanes, uint8_t *out, size_t capacity,
                       size_t *size);

/* The same in one thread. */
status compress_blocks(const settings *s, const void *x, size_t lanes, uint8_t *out, size_t capacity,
                       size_t *size);

/* Bytes that the stream of the values will rarely exceed, from a sample of them. */
size_t stream_estimate(settings s, const void *x, size_t lanes);

/* Where runs of `blocks` blocks start, from an index; offsets[0] is 0. `entries` may be 0. */
typedef struct {
    const uint8_t *offsets; /* uint64, little-endian, at any address */
    size_t entries;
    size_t blocks;
} stream_index;

/* Decodes a stream into `out`; adds the addend if there is one, which may be `out`. `at` is where a malformed
 * stream shows it. */
status stream_decompress(settings s, const uint8_t *stream, size_t size, const void *addend,
                         void *out, size_t lanes, stream_index index, size_t *at);

/* Decodes the blocks from `at` on, in one thread, and moves `at` past them. */
status decompress_blocks(const settings *s, const uint8_t *stream, size_t size, size_t *at,
                         const void *addend, void *out, size_t lanes);

/* A block's first byte, of which worst_bytes(lanes) + SLACK can be read: in the stream, or in `copy`, of
 * MAX_BLOCK_BYTES + SLACK, where it ends too soon. NULL if it is cut. */
const uint8_t *readable_block(const settings *s, const uint8_t *stream, size_t size, size_t at, size_t lanes,
                              uint8_t *copy);

/* Writes the stream of the addend plus a stream's values, which has `size` bytes; `out` overlaps neither. A
 * block's sum does not leave the processor's innermost cache. On the lattice there is one thread. */
status stream_compress_sum(settings s, const uint8_t *stream, size_t size, const void *addend,
                           size_t lanes, uint8_t *out, size_t capacity, size_t *written, size_t *at);

/* Writes where every `blocks`-th block starts; `offsets` holds one uint64 for each. */
status stream_offsets(settings s, const uint8_t *stream, size_t size, size_t lanes, size_t blocks,
                      uint8_t *offsets, size_t *at);

status stream_lossy(settings s, const void *x, size_t lanes, void *out);
/* The same values in another type, or the nearest ones. */
void stream_convert(settings s, const void *x, size_t lanes, void *out);
/* Largest finite magnitude, as bits of fp32: of values plus `left`, if it is not NULL, times the decay. */
uint32_t stream_largest(settings s, const void *x, const lane_bits *left, float decay, size_t lanes);
/* Error feedback. Splits values plus `left` times the decay into what a codec keeps of them, and the rest, in `left`,
 * zero where it is not finite. `kept` may be x. If it fails, both are unspecified. */
status stream_feed_back(settings s, const void *x, lane_bits *left, size_t lanes, float decay, lane_bits *kept);
/* Adds to `counts`, of which the format has `classes`. */
status stream_histogram(settings s, const void *x, size_t lanes, uint64_t counts[MAX_CLASSES]);

#endif

/* SPDX-License-Identifier: BSD-2-Clause */
/* The stream of a sum: what a rank of a ring makes of an arriving stream and its own values. */
#include "streams.h"
#include "threads.h"

#include <stdlib.h>

/* With several threads: the whole sum in memory. */
static status sum_first(settings s, const uint8_t *stream, size_t size, const lane_bits *addend, size_t lanes,
                        lane_bits *sum, uint8_t *out, size_t capacity, size_t *written, size_t *at)
{
    const status result = stream_decompress(s, stream, size, addend, sum, lanes, (stream_index){0}, at);
    return result ? result : stream_compress(s, sum, lanes, out, capacity, written);
}

status stream_compress_sum(settings s, const uint8_t *stream, size_t size, const lane_bits *addend,
                           size_t lanes, uint8_t *out, size_t capacity, size_t *written, size_t *at)
{
    void *whole = worthwhile_threads(s.threads, lanes) < 2 ? NULL : malloc(lanes * LANE_BYTES);
    if (whole) {
        const status result = sum_first(s, stream, size, addend, lanes, whole, out, capacity, written, at);
        free(whole);
        return result;
    }
    *written = *at = 0;
    while (lanes) {
        lane_bits sum[STREAM_LANES];
        const size_t here = smaller(lanes, STREAM_LANES);
        size_t bytes = 0;
        status result = decompress_blocks(&s, stream, size, at, addend, sum, here);
        if (!result)
            result = compress_blocks(&s, sum, here, out + *written, capacity - *written, &bytes);
        if (result)
            return result;
        *written += bytes;
        addend += here;
        lanes -= here;
    }
    return *at == size ? OK : LEFT_OVER;
}

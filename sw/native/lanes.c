/* SPDX-License-Identifier: BSD-2-Clause */
/* Lane by lane: what a codec keeps of values, error feedback, other types, largest magnitudes, counts. */
#include "streams.h"

#include "loops.h"

static status lossy_block(const settings *s, const lane_bits *x, size_t lanes, lane_bits *out)
{
    lane_bits scaled[STREAM_LANES];
    const bool in_steps = s->coder->settle && s->scale <= MOST_SUM_SCALE;
    if (in_steps && s->coder->settle(x, lanes, s->p, s->scale, scaled)) {
        memcpy(out, scaled, lanes * LANE_BYTES);
        return OK;
    }
    if (!s->scale) {
        s->coder->lossy(x, lanes, s->p, out);
        return OK;
    }
    if (s->kernel->scale(x, lanes, power_of_two(s->scale), scaled))
        return OVERFLOWED;
    s->coder->lossy(scaled, lanes, s->p, scaled);
    s->kernel->scale(scaled, lanes, power_of_two(-s->scale), out);
    return OK;
}

status stream_lossy(settings s, const void *x, size_t lanes, void *out)
{
    while (lanes) {
        const size_t here = smaller(lanes, STREAM_LANES);
        lane_bits buffer[STREAM_LANES];
        lane_bits *into = s.result == FLOAT32 ? out : buffer;
        const lane_bits *values = as_lanes(&s, x, here, buffer);
        status result = OK;
        if (s.scale || s.p.lattice)
            result = lossy_block(&s, values, here, into);
        else
            s.coder->lossy(values, here, s.p, into);
        if (result)
            return result;
        if (s.result != FLOAT32)
            s.kernel->conversions->narrow[s.result](buffer, here, out);
        x = values_from(x, s.source, here);
        out = (uint8_t *)out + here * value_bytes(s.result);
        lanes -= here;
    }
    return OK;
}

/* Feedback step by step, for a codec without lattice, raw lanes, large scales and what is left over. */
static status feed_back_few(const settings *s, const lane_bits *x, lane_bits *left, size_t lanes, lane_bits *kept)
{
    s->kernel->add(x, left, lanes, left);
    const status result = lossy_block(s, left, lanes, kept);
    if (!result)
        s->kernel->subtract(left, lanes, kept);
    return result;
}

static status feed_back_block(const settings *s, const lane_bits *x, lane_bits *left, size_t lanes, lane_bits *kept)
{
    const bool in_steps = s->coder->feed_back && s->scale <= MOST_SUM_SCALE;
    for (size_t done = 0, here; done < lanes; done += here) {
        if (in_steps && (here = s->coder->feed_back(x + done, left + done, lanes - done, s->p, s->scale,
                                                    kept + done)))
            continue;
        here = in_steps ? smaller(lanes - done, FEW_LANES) : lanes;
        const status result = feed_back_few(s, x + done, left + done, here, kept + done);
        if (result)
            return result;
    }
    return OK;
}

status stream_feed_back(settings s, const void *x, lane_bits *left, size_t lanes, float decay, lane_bits *kept)
{
    while (lanes) {
        const size_t here = smaller(lanes, STREAM_LANES);
        lane_bits buffer[STREAM_LANES];
        const lane_bits *own = as_lanes(&s, x, here, buffer);
        if (decay != 1)
            s.kernel->scale(left, here, decay, left);
        const status result = feed_back_block(&s, own, left, here, kept);
        if (result)
            return result;
        x = values_from(x, s.source, here);
        left += here;
        kept += here;
        lanes -= here;
    }
    return OK;
}

void stream_convert(settings s, const void *x, size_t lanes, void *out)
{
    while (lanes) {
        const size_t here = smaller(lanes, STREAM_LANES);
        lane_bits buffer[STREAM_LANES];
        const lane_bits *values = as_lanes(&s, x, here, s.result == FLOAT32 ? out : buffer);
        if (s.result != FLOAT32)
            s.kernel->conversions->narrow[s.result](values, here, out);
        else if (values != out)
            memcpy(out, values, here * LANE_BYTES);
        x = values_from(x, s.source, here);
        out = (uint8_t *)out + here * value_bytes(s.result);
        lanes -= here;
    }
}

uint32_t stream_largest(settings s, const void *x, const lane_bits *left, float decay, size_t lanes)
{
    uint32_t largest = 0;
    while (lanes) {
        const size_t here = smaller(lanes, STREAM_LANES);
        lane_bits buffer[STREAM_LANES], faded[STREAM_LANES];
        const lane_bits *own = as_lanes(&s, x, here, buffer);
        if (left && decay != 1)
            s.kernel->scale(left, here, decay, faded);
        const uint32_t found = s.kernel->largest(own, left && decay != 1 ? faded : left, here);
        largest = found > largest ? found : largest;
        x = values_from(x, s.source, here);
        left = addend_from(left, here);
        lanes -= here;
    }
    return largest;
}

status stream_histogram(settings s, const void *x, size_t lanes, uint64_t counts[MAX_CLASSES])
{
    uint8_t block[MAX_BLOCK_BYTES];
    while (lanes) {
        const size_t here = smaller(lanes, STREAM_LANES);
        size_t size;
        const status result = compress_blocks(&s, x, here, block, sizeof block, &size);
        if (result)
            return result;
        s.coder->format->count(block, here, counts);
        x = values_from(x, s.source, here);
        lanes -= here;
    }
    return OK;
}

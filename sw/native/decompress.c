/* SPDX-License-Identifier: BSD-2-Clause */
/* Reading streams: runs of blocks, with the end of the buffer, scaling, the description of faults and threads.
 *
 * Threads take runs of RUN_BLOCKS blocks in order. Where a run starts depends on the sizes of all runs before
 * it. Each thread walks over the tags or codes of the runs that others have taken, a quarter of the work of
 * decoding them, or looks the place up in an index.
 */
#include "streams.h"
#include "threads.h"

#include <pthread.h>
#include <stdatomic.h>

#include "loops.h"

const uint8_t *readable_block(const settings *s, const uint8_t *stream, size_t size, size_t at, size_t lanes,
                              uint8_t *copy)
{
    const coder *c = s->coder;
    const size_t available = size - at, worst = c->format->worst_bytes(lanes);
    if (available >= worst + SLACK)
        return stream + at;
    /* The table may ask for more than there is. From here on a private copy is used, which cannot change. */
    const size_t copied = smaller(available, worst), table = c->format->table_bytes(lanes);
    if (copied < table)
        return NULL;
    memcpy(copy, stream + at, copied);
    if (c->data_bytes(copy, lanes) > copied - table)
        return NULL;
    memset(copy + copied, 0, SLACK);
    return copy;
}

/* Adds the addend on the lattice to a block's values, which are still scaled. */
static status add_on_lattice(const settings *s, const lane_bits *addend, lane_bits *values, lane_bits *out,
                             size_t lanes)
{
    lane_bits sums[STREAM_LANES];
    if (s->scale > MOST_SUM_SCALE || !s->coder->add_steps(addend, values, lanes, s->p, s->scale, sums)) {
        if (s->kernel->scale(addend, lanes, power_of_two(s->scale), sums))
            return OVERFLOWED;
        s->coder->lossy(sums, lanes, s->p, sums);
        s->kernel->add(sums, values, lanes, sums);
        s->coder->lossy(sums, lanes, s->p, sums); /* for NaNs; other sums are on the lattice if the stream is */
    }
    if (s->scale)
        s->kernel->scale(sums, lanes, power_of_two(-s->scale), out);
    else
        memcpy(out, sums, lanes * LANE_BYTES);
    return OK;
}

/* Decodes the block at `at` and moves `at` past it. */
static status decompress_block(const settings *s, const uint8_t *stream, size_t size, size_t *at,
                               const lane_bits *addend, lane_bits *out, size_t lanes)
{
    const coder *c = s->coder;
    uint8_t copy[MAX_BLOCK_BYTES + SLACK];
    lane_bits values[STREAM_LANES];
    const uint8_t *block = readable_block(s, stream, size, *at, lanes, copy);
    if (!block)
        return c->format->describe_fault(stream, size, *at, lanes, s->p, at);
    size_t bytes;
    if (addend && !s->scale && !s->p.lattice)
        bytes = c->decompress_add(block, lanes, s->p, addend, out);
    else
        bytes = c->decompress(block, lanes, s->p, addend ? values : out);
    if (!bytes || !c->format->table_is_sound(block, lanes))
        return c->format->describe_fault(stream, size, *at, lanes, s->p, at);
    *at += bytes;
    if (addend && s->p.lattice)
        return add_on_lattice(s, addend, values, out, lanes);
    if (s->scale) {
        lane_bits *unscaled = addend ? values : out;
        s->kernel->scale(unscaled, lanes, power_of_two(-s->scale), unscaled);
        if (addend)
            s->kernel->add(addend, unscaled, lanes, out);
    }
    return OK;
}

status decompress_blocks(const settings *s, const uint8_t *stream, size_t size, size_t *at,
                         const void *addend, void *out, size_t lanes)
{
    while (lanes) {
        const size_t here = smaller(lanes, STREAM_LANES);
        lane_bits own[STREAM_LANES], values[STREAM_LANES];
        lane_bits *into = s->result == FLOAT32 ? out : values;
        const lane_bits *from = as_lanes(s, addend, here, own);
        const status result = decompress_block(s, stream, size, at, from, into, here);
        if (result)
            return result;
        if (s->result != FLOAT32)
            s->kernel->conversions->narrow[s->result](values, here, out);
        addend = values_from(addend, s->source, here);
        out = (uint8_t *)out + here * value_bytes(s->result);
        lanes -= here;
    }
    return OK;
}

/* Where a run of blocks ends, from its tags or codes alone; false if the stream ends before. */
static bool walk(const coder *c, const uint8_t *stream, size_t size, size_t lanes, size_t *at)
{
    while (lanes) {
        const size_t here = smaller(lanes, STREAM_LANES), table = c->format->table_bytes(here);
        if (size - *at < table)
            return false;
        const size_t data = c->data_bytes(stream + *at, here);
        if (size - *at - table < data)
            return false;
        *at += table + data;
        lanes -= here;
    }
    return true;
}

typedef struct {
    settings s;
    const uint8_t *stream;
    size_t size;
    const void *addend;
    void *out;
    size_t lanes, runs, run_lanes;
    stream_index index;
    _Atomic size_t next; /* run to take */
    pthread_mutex_t lock;
    size_t failed_run, failed_at;
    status failed;
} decompress_job;

static uint64_t offset_of(const stream_index *index, size_t run)
{
    uint64_t offset;
    memcpy(&offset, index->offsets + 8 * run, 8);
    return offset;
}

/* Decodes the run that starts at `at`. */
static status decompress_run(const decompress_job *job, size_t run, size_t *at)
{
    const size_t first = run * job->run_lanes, here = smaller(job->lanes - first, job->run_lanes);
    const void *addend = values_from(job->addend, job->s.source, first);
    void *out = (uint8_t *)job->out + first * value_bytes(job->s.result);
    const status result = decompress_blocks(&job->s, job->stream, job->size, at, addend, out, here);
    if (result)
        return result;
    if (run + 1 == job->runs)
        return *at == job->size ? OK : LEFT_OVER;
    return job->index.entries && offset_of(&job->index, run + 1) != *at ? WRONG_INDEX : OK;
}

/* Moves from the start of one run to that of a later one. */
static status go_to_run(const decompress_job *job, size_t from, size_t to, size_t *at)
{
    if (job->index.entries) {
        const uint64_t offset = offset_of(&job->index, to);
        if (offset > job->size)
            return WRONG_INDEX;
        *at = (size_t)offset;
        return OK;
    }
    return walk(job->s.coder, job->stream, job->size, (to - from) * job->run_lanes, at) ? OK : CUT_IN_DATA;
}

static void *decompress_runs(void *argument)
{
    decompress_job *job = argument;
    size_t reached = 0, at = 0;
    for (size_t run; (run = atomic_fetch_add(&job->next, 1)) < job->runs; reached = run + 1) {
        /* A walk that fails has met a fault of an earlier run; the thread with that run reports it. */
        status result = go_to_run(job, reached, run, &at);
        if (!result)
            result = decompress_run(job, run, &at);
        if (!result)
            continue;
        atomic_store(&job->next, job->runs);
        pthread_mutex_lock(&job->lock);
        if (!job->failed || run < job->failed_run) {
            job->failed = result;
            job->failed_run = run;
            job->failed_at = at;
        }
        pthread_mutex_unlock(&job->lock);
        break;
    }
    return NULL;
}

status stream_decompress(settings s, const uint8_t *stream, size_t size, const void *addend, void *out,
                         size_t lanes, stream_index index, size_t *at)
{
    const unsigned threads = worthwhile_threads(s.threads, lanes);
    if (threads < 2 && !index.entries) {
        *at = 0;
        const status result = decompress_blocks(&s, stream, size, at, addend, out, lanes);
        return result ? result : *at != size ? LEFT_OVER : OK;
    }
    const size_t run_lanes = (index.entries ? index.blocks : RUN_BLOCKS) * STREAM_LANES;
    decompress_job job = {.s = s, .stream = stream, .size = size, .addend = addend, .out = out,
                          .lanes = lanes, .runs = (lanes + run_lanes - 1) / run_lanes,
                          .run_lanes = run_lanes, .index = index, .lock = PTHREAD_MUTEX_INITIALIZER};
    work_together(decompress_runs, &job, threads);
    *at = job.failed_at;
    return job.failed;
}

status stream_offsets(settings s, const uint8_t *stream, size_t size, size_t lanes, size_t blocks,
                      uint8_t *offsets, size_t *at)
{
    const size_t run_lanes = blocks * STREAM_LANES;
    uint64_t start = 0;
    *at = 0;
    for (size_t run = 0; lanes; run++) {
        const size_t here = smaller(lanes, run_lanes);
        start = *at;
        memcpy(offsets + 8 * run, &start, 8);
        if (!walk(s.coder, stream, size, here, at))
            return CUT_IN_DATA;
        lanes -= here;
    }
    return *at == size ? OK : LEFT_OVER;
}

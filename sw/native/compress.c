/* SPDX-License-Identifier: BSD-2-Clause */
/* Making streams: runs of blocks, with the end of the buffer, scaling and threads.
 *
 * Threads take runs of RUN_BLOCKS blocks in order. Where a run goes depends on the sizes of all runs before
 * it. So they compress into separate memory, some runs ahead, and the thread that finds the next run ready
 * copies it to its place. No thread holds the lock while it works.
 */
#include "streams.h"
#include "threads.h"

#include <pthread.h>
#include <stdlib.h>

/* A block's size; 0 if a value overflows. */
static size_t compress_block(const settings *s, const void *x, size_t lanes, uint8_t *out)
{
    lane_bits buffer[STREAM_LANES];
    if (s->source != FLOAT32 && !s->scale && s->coder->compress_half)
        return s->coder->compress_half(x, s->source, lanes, s->p, out);
    const lane_bits *values = as_lanes(s, x, lanes, buffer);
    if (s->scale) {
        if (s->kernel->scale(values, lanes, power_of_two(s->scale), buffer))
            return 0;
        values = buffer;
    }
    return s->coder->compress(values, lanes, s->p, out);
}

status compress_blocks(const settings *s, const void *x, size_t lanes, uint8_t *out, size_t capacity,
                       size_t *size)
{
    uint8_t block[MAX_BLOCK_BYTES];
    size_t at = 0;
    while (lanes) {
        const size_t here = smaller(lanes, STREAM_LANES);
        const bool fits = capacity - at >= s->coder->format->worst_bytes(here);
        const size_t bytes = compress_block(s, x, here, fits ? out + at : block);
        if (!bytes) {
            *size = at;
            return OVERFLOWED;
        }
        if (bytes > capacity - at)
            return NO_ROOM;
        if (!fits)
            memcpy(out + at, block, bytes);
        at += bytes;
        x = values_from(x, s->source, here);
        lanes -= here;
    }
    *size = at;
    return OK;
}

/* A compressed run that waits for its place, or what came before a value that overflowed. */
typedef struct {
    uint8_t *bytes;
    size_t size;
    status result;
    bool ready;
} slot;

typedef struct {
    settings s;
    const void *x;
    size_t lanes, runs;
    uint8_t *out;
    size_t capacity;
    slot *slots; /* run r is in slot r mod `depth` */
    size_t depth;
    pthread_mutex_t lock;
    pthread_cond_t freed;
    size_t next;  /* run to compress */
    size_t turn;  /* run to place, at `at` */
    bool placing; /* a thread is copying a run */
    size_t at;
    status failed;
} compress_job;

/* Called and left with the lock held, like the next function. */
static void place_run(compress_job *job)
{
    slot *ready = &job->slots[job->turn % job->depth];
    uint8_t *to = job->out + job->at;
    job->failed = ready->size > job->capacity - job->at ? NO_ROOM : ready->result;
    if (job->failed)
        return;
    job->placing = true;
    pthread_mutex_unlock(&job->lock);
    memcpy(to, ready->bytes, ready->size);
    pthread_mutex_lock(&job->lock);
    job->placing = ready->ready = false;
    job->at += ready->size;
    job->turn++;
}

static void compress_run(compress_job *job)
{
    const size_t run = job->next++, run_lanes = (size_t)RUN_BLOCKS * STREAM_LANES, first = run * run_lanes;
    slot *free_slot = &job->slots[run % job->depth];
    pthread_mutex_unlock(&job->lock);
    const status result = compress_blocks(&job->s, values_from(job->x, job->s.source, first),
                                          smaller(job->lanes - first, run_lanes), free_slot->bytes,
                                          RUN_BLOCKS * MAX_BLOCK_BYTES, &free_slot->size);
    pthread_mutex_lock(&job->lock);
    free_slot->ready = true;
    free_slot->result = result;
}

/* Places a run if the next one is ready, else compresses another one; done when neither is left to begin. */
static void *compress_runs(void *argument)
{
    compress_job *job = argument;
    pthread_mutex_lock(&job->lock);
    while (!job->failed) {
        const bool ready = job->turn < job->runs && job->slots[job->turn % job->depth].ready;
        if (ready && !job->placing)
            place_run(job);
        else if (job->next == job->runs)
            break;
        else if (job->next < job->turn + job->depth)
            compress_run(job);
        else {
            pthread_cond_wait(&job->freed, &job->lock);
            continue;
        }
        pthread_cond_broadcast(&job->freed);
    }
    pthread_cond_broadcast(&job->freed);
    pthread_mutex_unlock(&job->lock);
    return NULL;
}

status stream_compress(settings s, const void *x, size_t lanes, uint8_t *out, size_t capacity,
                       size_t *size)
{
    enum { SLOTS_PER_THREAD = 3 };
    const unsigned threads = worthwhile_threads(s.threads, lanes);
    const size_t run_lanes = (size_t)RUN_BLOCKS * STREAM_LANES, room = (size_t)RUN_BLOCKS * MAX_BLOCK_BYTES;
    slot slots[MAX_THREADS * SLOTS_PER_THREAD] = {0};
    compress_job job = {.s = s, .x = x, .lanes = lanes, .runs = (lanes + run_lanes - 1) / run_lanes,
                        .out = out, .capacity = capacity, .slots = slots, .depth = threads * SLOTS_PER_THREAD,
                        .lock = PTHREAD_MUTEX_INITIALIZER, .freed = PTHREAD_COND_INITIALIZER};
    uint8_t *memory = threads < 2 ? NULL : malloc(job.depth * room);
    if (!memory)
        return compress_blocks(&s, x, lanes, out, capacity, size);
    for (size_t i = 0; i < job.depth; i++)
        slots[i].bytes = memory + i * room;
    work_together(compress_runs, &job, threads);
    free(memory);
    *size = job.at;
    return job.failed;
}

size_t stream_estimate(settings s, const void *x, size_t lanes)
{
    enum { PARTS = 32, PART_LANES = 512 };
    const size_t worst = s.coder->format->worst_bytes(lanes);
    uint8_t part_bytes[MAX_BLOCK_BYTES];
    size_t bytes = 0;
    if (lanes < 2 * PARTS * PART_LANES)
        return worst;
    for (size_t part = 0; part < PARTS; part++) {
        size_t size;
        const void *from = values_from(x, s.source, lanes / PARTS * part);
        if (compress_blocks(&s, from, PART_LANES, part_bytes, sizeof part_bytes, &size))
            return worst;
        bytes += size;
    }
    const double each = (double)bytes / (PARTS * PART_LANES);
    return smaller(worst, (size_t)((double)lanes * each * 1.125) + MAX_BLOCK_BYTES);
}

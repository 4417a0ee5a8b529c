/* SPDX-License-Identifier: BSD-2-Clause */
/* The fastest kernel for each operation, by measurement at first use.
 *
 * Which instruction set is faster differs by operation and generation: some run a shuffle in one cycle that others
 * have as microcode. Every kernel that the processor supports, but for the portable one, compresses and
 * decompresses a few blocks in turn; the least time of some rounds counts, so an interruption does no harm. A
 * kernel replaces an earlier one, which is wider, if it takes clearly less.
 */
#include "kernels.h"

#include <pthread.h>
#include <stdlib.h>
#include <time.h>

enum {
    BLOCKS = 4,
    LANES = BLOCKS * STREAM_LANES,
    ROUNDS = 8,
    /* Percent of the time that a kernel may take to replace an earlier one. */
    CLEARLY_LESS = 95,
};

typedef struct {
    lane_bits x[LANES], y[LANES];
    uint8_t stream[BLOCKS * MAX_BLOCK_BYTES + SLACK], sums[BLOCKS * MAX_BLOCK_BYTES];
} arrays;

static choice made;
static coder automatic_coders[CODECS];

/* Values as gradients have them: a sum of uniform numbers, of another deviation in each eighth of a block. */
static void make_values(lane_bits *x)
{
    uint32_t state = 1;
    for (size_t i = 0; i < LANES; i++) {
        float sum = 0;
        for (int j = 0; j < 4; j++) {
            state = state * 1664525 + 1013904223;
            sum += (float)(int32_t)state * 0x1p-31f;
        }
        const float value = sum * (float)(1 + i / 256 % 8) * 0x1p-10f;
        memcpy(&x[i], &value, LANE_BYTES);
    }
}

static uint64_t nanoseconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

/* Decompresses and adds what has been compressed. */
static void run(const coder *c, int operation, parameters p, arrays *a)
{
    uint8_t *at = a->stream, *to = a->sums;
    for (size_t i = 0; i < LANES; i += STREAM_LANES) {
        sizes moved = {0};
        if (operation == COMPRESS)
            moved.read = c->compress(a->x + i, STREAM_LANES, p, at);
        else if (operation == DECOMPRESS)
            moved.read = c->decompress(at, STREAM_LANES, p, a->y + i);
        else
            c->sum(at, a->x + i, FLOAT32, STREAM_LANES, p, 0, to, &moved);
        at += moved.read;
        to += moved.written;
    }
}

static const kernel *fastest(int codec, int operation, arrays *a)
{
    const parameters p = {.e0 = 117, .t = 122, .b = 122, .lattice = operation == SUM};
    const kernel *candidates[8];
    uint64_t least[8];
    size_t count = 0;
    for (size_t i = 0; i + 1 < kernel_count; i++) {
        /* Of two kernels with the same coder the second one, which has no more than it needs. */
        if (kernels[i]->supported() && kernels[i]->coders[codec] != kernels[i + 1]->coders[codec]) {
            least[count] = UINT64_MAX;
            candidates[count++] = kernels[i];
        }
    }
    if (!count)
        return kernels[kernel_count - 1];
    if (operation == SUM && !candidates[0]->coders[codec]->sum)
        return candidates[0];
    for (int round = 0; count > 1 && round < ROUNDS; round++)
        for (size_t i = 0; i < count; i++) {
            const uint64_t start = nanoseconds();
            run(candidates[i]->coders[codec], operation, p, a);
            const uint64_t took = nanoseconds() - start;
            least[i] = took < least[i] ? took : least[i];
        }
    size_t best = 0;
    for (size_t i = 1; i < count; i++)
        if (100 * least[i] < CLEARLY_LESS * least[best])
            best = i;
    return candidates[best];
}

static void choose(void)
{
    arrays *a = malloc(sizeof *a);
    size_t widest = 0;
    while (!kernels[widest]->supported())
        widest++;
    for (size_t i = widest; i < kernel_count; i++)
        if (kernels[i]->supported())
            kernels[i]->prepare();
    made.automatic = *kernels[widest];
    made.automatic.name = "auto";
    if (a)
        make_values(a->x);
    for (int codec = 0; codec < CODECS; codec++) {
        coder *c = &automatic_coders[codec];
        for (int operation = 0; operation < OPERATIONS; operation++)
            made.chosen[codec][operation] = a ? fastest(codec, operation, a) : kernels[widest];
        *c = *kernels[widest]->coders[codec];
        const coder *down = made.chosen[codec][DECOMPRESS]->coders[codec];
        const coder *up = made.chosen[codec][COMPRESS]->coders[codec];
        c->compress = up->compress;
        c->compress_half = up->compress_half;
        c->decompress = down->decompress;
        c->decompress_add = down->decompress_add;
        c->sum = made.chosen[codec][SUM]->coders[codec]->sum;
        made.automatic.coders[codec] = c;
    }
    free(a);
}

const choice *chosen_kernels(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, choose);
    return &made;
}

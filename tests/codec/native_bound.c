/* SPDX-License-Identifier: BSD-2-Clause */
/* The error bound over all 2^32 fp32 values, or a sample of them: native_bound KERNEL MODE K STRIDE.
 *
 * Compresses and decompresses blocks of 2048 consecutive bit patterns, one block of every STRIDE, and
 * holds what comes back against the promise of the mode at 2^-K, stated here in real numbers and on its own.
 * bounded: |x| >= 1, infinities and NaNs keep their bits; all others come back within the bound, not larger
 * than they were, without changing sign; what is below the bound comes back as +0.0. planes: |x| >= 2^(14 - K),
 * infinities and NaNs keep their bits; all others come back as the nearest multiple of 2^(1 - K), the larger
 * one of two, +0.0 if that is zero. Also what comes back must be what the kernel's lossy says, and come back
 * from the codec as it is.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "kernels.h"

static float value_of(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, 4);
    return value;
}

typedef struct {
    bool planes;
    double bound, exact; /* magnitudes from `exact` on keep their bits */
} promise;

static bool promised(uint32_t before, uint32_t after, promise to)
{
    const double x = value_of(before), y = value_of(after);
    if (!(fabs(x) < to.exact))
        return before == after;
    if (fabs(x) < to.bound)
        return after == 0;
    if (to.planes)
        return y == copysign(2 * to.bound * floor(fabs(x) / (2 * to.bound) + 0.5), x);
    return fabs(x - y) < to.bound && fabs(y) <= fabs(x) && x * y > 0;
}

int main(int count, char **arguments)
{
    const kernel *k = NULL;
    for (size_t i = 0; count == 5 && i < kernel_count; i++)
        if (!strcmp(kernels[i]->name, arguments[1]) && kernels[i]->supported())
            k = kernels[i];
    if (!k) {
        fprintf(stderr, "native_bound KERNEL MODE K STRIDE, with a kernel that this processor runs\n");
        return 2;
    }
    k->prepare();
    const bool planes = !strcmp(arguments[2], "planes");
    const coder *c = k->coders[planes ? PLANES : PAPER];
    const uint32_t exponent = (uint32_t)atoi(arguments[3]), e0 = EXPONENT_BIAS - exponent;
    const uint32_t t = e0 + (exponent + 1) / 2;
    const parameters p = {.e0 = e0, .t = t, .b = t};
    const uint64_t stride = strtoull(arguments[4], NULL, 0), blocks = (1ull << 32) / STREAM_LANES;
    const double bound = ldexp(1, -(int)exponent);
    const promise to = {planes, bound, planes ? ldexp(1, 14 - (int)exponent) : 1};

    uint64_t checked = 0;
    double largest = 0;
    for (uint64_t block = 0; block < blocks; block += stride) {
        static lane_bits x[STREAM_LANES], y[STREAM_LANES], seen[STREAM_LANES], again[STREAM_LANES];
        static uint8_t stream[MAX_BLOCK_BYTES + SLACK];
        for (uint32_t i = 0; i < STREAM_LANES; i++)
            x[i] = (uint32_t)(block * STREAM_LANES) + i;
        const size_t size = c->compress(x, STREAM_LANES, p, stream);
        if (c->decompress(stream, STREAM_LANES, p, y) != size) {
            fprintf(stderr, "block %llu: sizes differ\n", (unsigned long long)block);
            return 1;
        }
        c->lossy(x, STREAM_LANES, p, seen);
        c->lossy(y, STREAM_LANES, p, again);
        uint32_t broken = 0;
        for (uint32_t i = 0; i < STREAM_LANES; i++)
            broken += !promised(x[i], y[i], to) | (y[i] != seen[i]) | (y[i] != again[i]);
        for (uint32_t i = 0; broken && i < STREAM_LANES; i++)
            if (!promised(x[i], y[i], to) || y[i] != seen[i] || y[i] != again[i]) {
                fprintf(stderr, "%08x comes back as %08x at 2^-%u, lossy says %08x, and of it %08x\n",
                        (unsigned)x[i], (unsigned)y[i], (unsigned)exponent, (unsigned)seen[i],
                        (unsigned)again[i]);
                return 1;
            }
        if (fabs(value_of(x[0])) < to.exact)
            for (uint32_t i = 0; i < STREAM_LANES; i++)
                largest = fmax(largest, fabs((double)value_of(x[i]) - value_of(y[i])));
        checked += STREAM_LANES;
    }
    printf("%llu values, largest error %.6f of the bound\n", (unsigned long long)checked, largest / bound);
    return 0;
}

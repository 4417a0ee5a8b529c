/* SPDX-License-Identifier: BSD-2-Clause */
/* Fuzzing of the kernels of Approximate Data Transfer under sanitizers: native_adt_fuzz SEED ROUNDS.
 *
 * Buffers begin anywhere and are as large as they have to be. All kernels, with one thread and several, must
 * give what is copied byte by byte.
 */
#include <stdio.h>
#include <stdlib.h>

#include "weights/adt.h"

static const adt_kernel *const kernels[] = {
    &adt_scalar,
#if HAVE_X86
    &adt_avx2,
    &adt_avx512,
#endif
};

static uint64_t state;
static unsigned together; /* rounds in threads */

static size_t draw(size_t below)
{
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return (state * 0x2545F4914F6CDD1D >> 16) % below;
}

static void demand(bool holds, const adt_kernel *kernel, const char *what, size_t n, unsigned keep)
{
    if (!holds) {
        fprintf(stderr, "%s %s of %zu words, %u bytes each\n", kernel->name, what, n, keep);
        exit(1);
    }
}

static size_t draw_words(void)
{
    if (draw(40) == 0) {
        together++;
        return (1 << 18) + draw(70000);
    }
    return draw(draw(2) ? 80 : 5000);
}

static void round_of(size_t n, unsigned keep)
{
    const size_t from = draw(2) ? draw(64) : 0, to = draw(2) ? draw(64) : 0;
    uint8_t *words = malloc(from + 4 * n), *bytes = malloc(to + keep * n);
    uint8_t *packed = malloc(keep * n), *whole = malloc(4 * n), *back = malloc(from + 4 * n);
    for (size_t i = 0; i < 4 * n; i++)
        words[from + i] = (uint8_t)draw(256);
    for (size_t i = 0; i < n; i++)
        for (unsigned at = 0; at < 4; at++) {
            const uint8_t byte = words[from + 4 * i + at];
            whole[4 * i + at] = at < 4 - keep ? 0 : byte;
            if (at >= 4 - keep)
                packed[keep * i + at - (4 - keep)] = byte;
        }
    for (size_t k = 0; k < sizeof kernels / sizeof *kernels; k++)
        for (unsigned threads = 1; threads <= 3 && kernels[k]->supported(); threads += 2) {
            memset(bytes + to, 0xA5, keep * n);
            memset(back + from, 0xA5, 4 * n);
            adt_run(kernels[k], true, words + from, n, keep, bytes + to, threads);
            demand(!memcmp(bytes + to, packed, keep * n), kernels[k], "pack", n, keep);
            adt_run(kernels[k], false, bytes + to, n, keep, back + from, threads);
            demand(!memcmp(back + from, whole, 4 * n), kernels[k], "unpack", n, keep);
        }
    free(words), free(bytes), free(packed), free(whole), free(back);
}

int main(int count, char **arguments)
{
    if (count != 3)
        return fprintf(stderr, "native_adt_fuzz SEED ROUNDS\n"), 2;
    state = 0x9E3779B97F4A7C15 * (strtoull(arguments[1], NULL, 0) + 1);
    for (unsigned long left = strtoul(arguments[2], NULL, 0); left; left--)
        round_of(draw_words(), 1 + (unsigned)draw(4));
    return printf("%u rounds in threads\n", together) < 0;
}

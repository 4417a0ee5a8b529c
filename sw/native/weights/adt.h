/* SPDX-License-Identifier: BSD-2-Clause */
/* Approximate Data Transfer (A2DTWP, Sec. III): the most significant bytes of fp32 values, and back.
 *
 *   adt_kernels.c    portable, AVX2 and AVX-512 kernels, alone and in threads
 *   adt.c            the Python module
 */
#ifndef INCEPTIONN_ADT_H
#define INCEPTIONN_ADT_H

#include "../types.h"

typedef struct {
    const char *name;
    bool (*supported)(void);
    /* Algorithm 2: the `keep` (1..3) most significant bytes of each of n little-endian words, in their order
     * in memory. Reads 4 * n bytes, writes keep * n, and touches no others; any addresses. */
    void (*pack)(const uint8_t *words, size_t n, unsigned keep, uint8_t *packed);
    /* Algorithm 5: the same bytes back in their places, zeros below them. */
    void (*unpack)(const uint8_t *packed, size_t n, unsigned keep, uint8_t *words);
} adt_kernel;

/* Packs or unpacks n words; with 4 bytes to keep, it copies them. */
void adt_run(const adt_kernel *kernel, bool pack, const uint8_t *from, size_t n, unsigned keep, uint8_t *to,
             unsigned threads);

extern const adt_kernel adt_scalar;
#if HAVE_X86
extern const adt_kernel adt_avx2;
extern const adt_kernel adt_avx512;
#endif

#endif

/* SPDX-License-Identifier: BSD-2-Clause */
/* All coders and kernels. */
#ifndef INCEPTIONN_NATIVE_KERNELS_H
#define INCEPTIONN_NATIVE_KERNELS_H

#include "types.h"

/* Widest first, whether the processor supports them or not. */
extern const kernel *const kernels[];
extern const size_t kernel_count;

enum { COMPRESS, DECOMPRESS, SUM, OPERATIONS };

/* The kernel of each operation, chosen by measurement (choose.c). */
typedef struct {
    kernel automatic; /* its coders are made of the chosen ones */
    const kernel *chosen[CODECS][OPERATIONS];
} choice;

/* Measures at the first call, for some hundred microseconds; any thread may call it. The same one every time. */
const choice *chosen_kernels(void);

extern const conversions half_scalar;
extern const format paper_format, planes_format;
extern const coder paper_scalar, planes_scalar;
#if HAVE_X86
extern const coder paper_avx2, paper_avx512, planes_avx2, planes_avx512, planes_gfni;
extern const conversions half_avx2, half_avx512;
void paper_avx2_prepare(void);
#endif

#endif

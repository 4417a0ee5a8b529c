/* SPDX-License-Identifier: BSD-2-Clause */
/* All coders and kernels. */
#ifndef INCEPTIONN_NATIVE_KERNELS_H
#define INCEPTIONN_NATIVE_KERNELS_H

#include "codec.h"

/* Best first, whether the processor supports them or not. */
extern const kernel *const kernels[];
extern const size_t kernel_count;

extern const format paper_format, planes_format;
extern const coder paper_scalar, planes_scalar;
#if HAVE_X86
extern const coder paper_avx2, paper_avx512, planes_avx2, planes_avx512, planes_gfni;
void paper_avx2_prepare(void);
#endif

#endif

/* SPDX-License-Identifier: BSD-2-Clause */
/* The planes codec for AVX-512 with GFNI: bits are transposed by one instruction.
 *
 * GF2P8AFFINEQB multiplies bytes by an 8x8 matrix of bits. With the data as the matrix and the unit vectors as
 * the bytes the products are the matrix's columns, first row in the topmost bit.
 */
#include "planes.h"

#if HAVE_X86

#include <immintrin.h>

#define TARGET TARGET_GFNI
#define LANE(i) (7 - (i))
/* By measurement. */
#define READ_AHEAD 2
#define CODER_NAME planes_gfni

TARGET INLINE __m512i to_planes(__m512i m)
{
    return _mm512_gf2p8affine_epi64_epi8(_mm512_set1_epi64((long long)0x8040201008040201), m, 0);
}

TARGET INLINE __m512i to_lanes(__m512i m)
{
    /* The bits of each byte in reverse: planes are in order. */
    const __m512i reverse = _mm512_set1_epi64((long long)0x8040201008040201);
    return _mm512_gf2p8affine_epi64_epi8(to_planes(m), reverse, 0);
}

#include "avx512.h"

#endif

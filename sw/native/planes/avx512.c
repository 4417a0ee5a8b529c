/* SPDX-License-Identifier: BSD-2-Clause */
/* The planes codec for AVX-512 without GFNI: bits are transposed by shifts and masks. */
#include "planes.h"

#if HAVE_X86

#include <immintrin.h>

#define TARGET TARGET_AVX512
#define LANE(i) (i)
/* As many as there are: the constants of both transpositions do not fit into the registers. */
#define READ_AHEAD STEPS
#define CODER_NAME planes_avx512

/* One step of three: bits of `mask` change places with those `shift` above. */
#define SWAP(m, shift, mask)                                                                                 \
    do {                                                                                                     \
        const __m512i other = _mm512_srli_epi64(m, shift), ones = _mm512_set1_epi64(mask);                   \
        const __m512i t = _mm512_ternarylogic_epi64(m, other, ones, 0x28); /* (m ^ other) & ones */          \
        m = _mm512_ternarylogic_epi64(m, t, _mm512_slli_epi64(t, shift), 0x96); /* xor of all */             \
    } while (0)

TARGET INLINE __m512i to_planes(__m512i m)
{
    SWAP(m, 7, 0x00AA00AA00AA00AA);
    SWAP(m, 14, 0x0000CCCC0000CCCC);
    SWAP(m, 28, 0x00000000F0F0F0F0);
    return m;
}

TARGET INLINE __m512i to_lanes(__m512i m)
{
    return to_planes(m);
}

#include "avx512.h"

#endif

/* SPDX-License-Identifier: BSD-2-Clause */
/* Bytes packed and spread by a mask. With a memory operand VPCOMPRESSB and VPEXPANDB are microcode on some
 * processors. So a whole vector is loaded or stored, and the empty asm keeps the compiler from folding that into
 * the instruction.
 */
#ifndef INCEPTIONN_NATIVE_AVX512_H
#define INCEPTIONN_NATIVE_AVX512_H

#include <immintrin.h>

#include "loops.h"

/* Writes the bytes of the mask, and then any: 64 in all. */
TARGET_AVX512 INLINE void put_compressed(uint8_t *data, __mmask64 kept, __m512i bytes)
{
    __m512i packed = _mm512_maskz_compress_epi8(kept, bytes);
    __asm__("" : "+v"(packed));
    _mm512_storeu_si512(data, packed);
}

/* Spreads the first bytes to the places of the mask, zeros elsewhere. Reads 64 bytes. */
TARGET_AVX512 INLINE __m512i expanded(__mmask64 kept, const uint8_t *data)
{
    __m512i packed = _mm512_loadu_si512(data);
    __asm__("" : "+v"(packed));
    return _mm512_maskz_expand_epi8(kept, packed);
}

#endif

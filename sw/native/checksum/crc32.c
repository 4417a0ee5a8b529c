/* SPDX-License-Identifier: BSD-2-Clause */
/* CRC-32 by folding: Gopal et al., "Fast CRC Computation for Generic Polynomials Using PCLMULQDQ", Intel
 * 2009.
 *
 * The remainder stays the same if 128 bits of the message are multiplied by x^n mod P and added n bits
 * further on. Four registers fold 64 bytes at a time. The last 16 bytes of that, and the bytes after them,
 * go through a table. The CRC's bits are reflected: the first bit is the highest power of x.
 */
#include "crc32.h"
#include "../types.h"

#if HAVE_X86

#include <immintrin.h>

#define TARGET __attribute__((target("pclmul,sse4.1")))

static const uint32_t polynomial = 0xEDB88320; /* reflected */
static uint32_t table[256];
/* Reflected and shifted by one, since a product of reflected numbers is. Low halves first. */
static uint64_t by_512_bits[2], by_128_bits[2];

bool crc32_supported(void)
{
    return __builtin_cpu_supports("pclmul") && __builtin_cpu_supports("sse4.1");
}

static uint32_t times_x(uint32_t remainder)
{
    return remainder >> 1 ^ (remainder & 1 ? polynomial : 0);
}

/* x^n mod P */
static uint64_t power(unsigned n)
{
    uint32_t remainder = 0x80000000;
    while (n--)
        remainder = times_x(remainder);
    return (uint64_t)remainder << 1;
}

void crc32_prepare(void)
{
    for (uint32_t byte = 0; byte < 256; byte++) {
        table[byte] = byte;
        for (int bit = 0; bit < 8; bit++)
            table[byte] = times_x(table[byte]);
    }
    by_512_bits[0] = power(512 + 32);
    by_512_bits[1] = power(512 - 32);
    by_128_bits[0] = power(128 + 32);
    by_128_bits[1] = power(128 - 32);
}

static uint32_t bytewise(uint32_t remainder, const uint8_t *bytes, size_t size)
{
    while (size--)
        remainder = table[(remainder ^ *bytes++) & 0xFF] ^ remainder >> 8;
    return remainder;
}

TARGET static inline __m128i fold(__m128i folded, __m128i powers, __m128i next)
{
    const __m128i low = _mm_clmulepi64_si128(folded, powers, 0x00);
    const __m128i high = _mm_clmulepi64_si128(folded, powers, 0x11);
    return _mm_xor_si128(next, _mm_xor_si128(low, high));
}

TARGET uint32_t crc32_update(uint32_t crc, const uint8_t *bytes, size_t size)
{
    uint32_t remainder = ~crc;
    if (size >= 64) {
        const __m128i far = _mm_loadu_si128((const __m128i *)by_512_bits);
        const __m128i near = _mm_loadu_si128((const __m128i *)by_128_bits);
        __m128i r[4];
        for (int i = 0; i < 4; i++)
            r[i] = _mm_loadu_si128((const __m128i *)bytes + i);
        r[0] = _mm_xor_si128(r[0], _mm_cvtsi32_si128((int)remainder));
        for (bytes += 64, size -= 64; size >= 64; bytes += 64, size -= 64)
            for (int i = 0; i < 4; i++)
                r[i] = fold(r[i], far, _mm_loadu_si128((const __m128i *)bytes + i));
        for (int i = 1; i < 4; i++)
            r[i] = fold(r[i - 1], near, r[i]);
        for (; size >= 16; bytes += 16, size -= 16)
            r[3] = fold(r[3], near, _mm_loadu_si128((const __m128i *)bytes));
        uint8_t left[16];
        _mm_storeu_si128((__m128i *)left, r[3]);
        remainder = bytewise(0, left, 16);
    }
    return ~bytewise(remainder, bytes, size);
}

#else

bool crc32_supported(void)
{
    return false;
}

void crc32_prepare(void)
{
}

uint32_t crc32_update(uint32_t crc, const uint8_t *bytes, size_t size)
{
    (void)bytes;
    (void)size;
    return crc;
}

#endif

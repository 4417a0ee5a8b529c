/* SPDX-License-Identifier: BSD-2-Clause */
/* Byte shuffles. Algorithm 4 of A2DTWP stores with a mask; here three bytes are stored as part of a whole
 * vector, and the next store overwrites the rest, as long as there is room. The last values go one by one.
 */
#include "adt.h"
#include "../threads.h"

static bool always(void)
{
    return true;
}

/* One loop for each number of bytes, so that the copies have a fixed size. */
#define SCALAR(keep)                                                                                         \
    static void pack##keep(const uint8_t *words, size_t n, uint8_t *packed)                                  \
    {                                                                                                        \
        for (size_t i = 0; i < n; i++)                                                                       \
            memcpy(packed + keep * i, words + 4 * i + 4 - keep, keep);                                       \
    }                                                                                                        \
    static void unpack##keep(const uint8_t *packed, size_t n, uint8_t *words)                                \
    {                                                                                                        \
        for (size_t i = 0; i < n; i++) {                                                                     \
            memset(words + 4 * i, 0, 4 - keep);                                                              \
            memcpy(words + 4 * i + 4 - keep, packed + keep * i, keep);                                       \
        }                                                                                                    \
    }

SCALAR(1)
SCALAR(2)
SCALAR(3)

static void scalar_pack(const uint8_t *words, size_t n, unsigned keep, uint8_t *packed)
{
    static void (*const by_bytes[])(const uint8_t *, size_t, uint8_t *) = {0, pack1, pack2, pack3};
    by_bytes[keep](words, n, packed);
}

static void scalar_unpack(const uint8_t *packed, size_t n, unsigned keep, uint8_t *words)
{
    static void (*const by_bytes[])(const uint8_t *, size_t, uint8_t *) = {0, unpack1, unpack2, unpack3};
    by_bytes[keep](packed, n, words);
}

const adt_kernel adt_scalar = {"scalar", always, scalar_pack, scalar_unpack};

#if HAVE_X86

#include <immintrin.h>

#define TARGET __attribute__((target("avx2")))
#define TARGET_INLINE TARGET static inline __attribute__((always_inline))

static bool avx2_supported(void)
{
    return __builtin_cpu_supports("avx2");
}

TARGET_INLINE __m256i load(const uint8_t *at)
{
    return _mm256_loadu_si256((const __m256i *)(const void *)at);
}

TARGET_INLINE void store(uint8_t *at, __m256i bytes)
{
    _mm256_storeu_si256((__m256i *)(void *)at, bytes);
}

TARGET static void avx2_pack(const uint8_t *words, size_t n, unsigned keep, uint8_t *packed)
{
    size_t i = 0;
    if (keep == 1) {
        const __m256i order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
        for (; n - i >= 32; i += 32) {
            const uint8_t *at = words + 4 * i;
            const __m256i a = _mm256_srli_epi32(load(at), 24), b = _mm256_srli_epi32(load(at + 32), 24);
            const __m256i c = _mm256_srli_epi32(load(at + 64), 24), d = _mm256_srli_epi32(load(at + 96), 24);
            const __m256i four = _mm256_packus_epi16(_mm256_packus_epi32(a, b), _mm256_packus_epi32(c, d));
            store(packed + i, _mm256_permutevar8x32_epi32(four, order));
        }
    } else if (keep == 2) {
        for (; n - i >= 16; i += 16) {
            const __m256i a = _mm256_srli_epi32(load(words + 4 * i), 16);
            const __m256i b = _mm256_srli_epi32(load(words + 4 * i + 32), 16);
            store(packed + 2 * i, _mm256_permute4x64_epi64(_mm256_packus_epi32(a, b), 0xD8));
        }
    } else {
        const __m256i gather = _mm256_broadcastsi128_si256(
            _mm_setr_epi8(1, 2, 3, 5, 6, 7, 9, 10, 11, 13, 14, 15, -1, -1, -1, -1));
        const __m256i order = _mm256_setr_epi32(0, 1, 2, 4, 5, 6, 3, 7);
        for (; n - i >= 11; i += 8) {
            const __m256i eight = _mm256_shuffle_epi8(load(words + 4 * i), gather);
            store(packed + 3 * i, _mm256_permutevar8x32_epi32(eight, order));
        }
    }
    scalar_pack(words + 4 * i, n - i, keep, packed + keep * i);
}

TARGET static void avx2_unpack(const uint8_t *packed, size_t n, unsigned keep, uint8_t *words)
{
    size_t i = 0;
    if (keep == 1) {
        for (; n - i >= 8; i += 8) {
            const __m128i bytes = _mm_loadl_epi64((const __m128i *)(const void *)(packed + i));
            store(words + 4 * i, _mm256_slli_epi32(_mm256_cvtepu8_epi32(bytes), 24));
        }
    } else if (keep == 2) {
        for (; n - i >= 8; i += 8) {
            const __m128i bytes = _mm_loadu_si128((const __m128i *)(const void *)(packed + 2 * i));
            store(words + 4 * i, _mm256_slli_epi32(_mm256_cvtepu16_epi32(bytes), 16));
        }
    } else {
        const __m256i spread = _mm256_broadcastsi128_si256(
            _mm_setr_epi8(-1, 0, 1, 2, -1, 3, 4, 5, -1, 6, 7, 8, -1, 9, 10, 11));
        const __m256i order = _mm256_setr_epi32(0, 1, 2, 0, 3, 4, 5, 0);
        for (; n - i >= 11; i += 8) {
            const __m256i halves = _mm256_permutevar8x32_epi32(load(packed + 3 * i), order);
            store(words + 4 * i, _mm256_shuffle_epi8(halves, spread));
        }
    }
    scalar_unpack(packed + keep * i, n - i, keep, words + 4 * i);
}

const adt_kernel adt_avx2 = {"avx2", avx2_supported, avx2_pack, avx2_unpack};

#undef TARGET
#define TARGET __attribute__((target("avx512f,avx512bw,avx512vbmi")))

static bool avx512_supported(void)
{
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw")
           && __builtin_cpu_supports("avx512vbmi");
}

/* Byte indices of a permutation: the kept bytes of 16 words to the front. The rest does not matter. */
static void gather_indices(unsigned keep, uint8_t index[64])
{
    for (unsigned at = 0; at < 64; at++)
        index[at] = (uint8_t)(at < 16 * keep ? at / keep * 4 + 4 - keep + at % keep : 0);
}

TARGET static void avx512_pack(const uint8_t *words, size_t n, unsigned keep, uint8_t *packed)
{
    uint8_t index[64];
    size_t i = 0;
    if (keep == 3) {
        gather_indices(keep, index);
        const __m512i gather = _mm512_loadu_si512(index);
        for (; n - i >= 22; i += 16) /* 64 bytes to store are 21 1/3 values */
            _mm512_storeu_si512(packed + 3 * i,
                                _mm512_permutexvar_epi8(gather, _mm512_loadu_si512(words + 4 * i)));
    } else {
        /* Two vectors at a time: upper halves of 32 words; and, for one byte, upper halves of those. */
        for (unsigned at = 0; at < 32; at++) {
            const uint16_t odd = (uint16_t)(2 * at + 1);
            memcpy(index + 2 * at, &odd, 2);
        }
        const __m512i upper = _mm512_loadu_si512(index);
        if (keep == 2) {
            for (; n - i >= 32; i += 32) {
                const __m512i a = _mm512_loadu_si512(words + 4 * i);
                const __m512i b = _mm512_loadu_si512(words + 4 * i + 64);
                _mm512_storeu_si512(packed + 2 * i, _mm512_permutex2var_epi16(a, upper, b));
            }
        } else {
            for (unsigned at = 0; at < 64; at++)
                index[at] = (uint8_t)(2 * at + 1);
            const __m512i odd = _mm512_loadu_si512(index);
            for (; n - i >= 64; i += 64) {
                const uint8_t *at = words + 4 * i;
                const __m512i a = _mm512_permutex2var_epi16(_mm512_loadu_si512(at), upper,
                                                            _mm512_loadu_si512(at + 64));
                const __m512i b = _mm512_permutex2var_epi16(_mm512_loadu_si512(at + 128), upper,
                                                            _mm512_loadu_si512(at + 192));
                _mm512_storeu_si512(packed + i, _mm512_permutex2var_epi8(a, odd, b));
            }
        }
    }
    avx2_pack(words + 4 * i, n - i, keep, packed + keep * i);
}

TARGET static void avx512_unpack(const uint8_t *packed, size_t n, unsigned keep, uint8_t *words)
{
    size_t i = 0;
    if (keep == 1) {
        for (; n - i >= 16; i += 16) {
            const __m128i bytes = _mm_loadu_si128((const __m128i *)(const void *)(packed + i));
            _mm512_storeu_si512(words + 4 * i, _mm512_slli_epi32(_mm512_cvtepu8_epi32(bytes), 24));
        }
    } else if (keep == 2) {
        for (; n - i >= 16; i += 16)
            _mm512_storeu_si512(words + 4 * i,
                                _mm512_slli_epi32(_mm512_cvtepu16_epi32(load(packed + 2 * i)), 16));
    } else {
        uint8_t index[64];
        for (unsigned at = 0; at < 64; at++)
            index[at] = (uint8_t)(at / 4 * 3 + (at % 4 + 3) % 4);
        const __m512i spread = _mm512_loadu_si512(index);
        const __mmask64 kept = 0xEEEEEEEEEEEEEEEE;
        for (; n - i >= 22; i += 16)
            _mm512_storeu_si512(
                words + 4 * i,
                _mm512_maskz_permutexvar_epi8(kept, spread, _mm512_loadu_si512(packed + 3 * i)));
    }
    avx2_unpack(packed + keep * i, n - i, keep, words + 4 * i);
}

const adt_kernel adt_avx512 = {"avx512", avx512_supported, avx512_pack, avx512_unpack};

#endif

/* Words that a thread takes at a time. */
enum { RUN_WORDS = 1 << 16 };

typedef struct {
    const adt_kernel *kernel;
    const uint8_t *from;
    uint8_t *to;
    size_t words, next;
    unsigned keep;
    bool pack;
} job;

static void do_run(const job *all, size_t start, size_t words)
{
    const size_t packed = all->keep * start, whole = 4 * start;
    if (all->keep == 4)
        memcpy(all->to + whole, all->from + whole, 4 * words);
    else if (all->pack)
        all->kernel->pack(all->from + whole, words, all->keep, all->to + packed);
    else
        all->kernel->unpack(all->from + packed, words, all->keep, all->to + whole);
}

static void *work(void *argument)
{
    job *all = argument;
    for (;;) {
        const size_t start = __atomic_fetch_add(&all->next, RUN_WORDS, __ATOMIC_RELAXED);
        if (start >= all->words)
            return NULL;
        do_run(all, start, smaller(RUN_WORDS, all->words - start));
    }
}

void adt_run(const adt_kernel *kernel, bool pack, const uint8_t *from, size_t n, unsigned keep, uint8_t *to,
             unsigned threads)
{
    job all = {.kernel = kernel, .from = from, .to = to, .words = n, .keep = keep, .pack = pack};
    const unsigned worth = worthwhile_threads(threads, n);
    if (worth > 1)
        work_together(work, &all, worth);
    else
        do_run(&all, 0, n);
}

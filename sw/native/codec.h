/* SPDX-License-Identifier: BSD-2-Clause */
/* The native codec: docs/wire-format.md sections 1 and 2 on whole blocks, and streams made of them.
 *
 *   codec_scalar.c    portable kernel, the reference of the others; any parameters
 *   codec_avx2.c      8 lanes at a time, byte shuffles from tables
 *   codec_avx512.c    16 lanes at a time, VPCOMPRESSB and VPEXPANDB
 *   compress.c, decompress.c    streams: ends, scaling, faults, threads
 *   crc32.c       CRC-32 of messages
 *   codec.c           the Python module
 *
 * Nothing here trusts a stream, nor that its bytes stay the same while it is read: every access is bounded
 * by what the worst tags could ask for.
 */
#ifndef INCEPTIONN_NATIVE_H
#define INCEPTIONN_NATIVE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#if !defined(__GNUC__)
#error "the native codec needs GCC or Clang; without them the package falls back to NumPy"
#endif
#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "the native codec is for little-endian machines; others fall back to NumPy"
#endif

#if defined(__x86_64__)
#define HAVE_X86 1
#else
#define HAVE_X86 0
#endif

/* Constants of inceptionn.wire; a test compares them. */
enum {
    GROUP_LANES = 8,
    STREAM_LANES = 2048,
    TAG_WORD_BYTES = 2,
    LANE_BYTES = 4,
    EXPONENT_BIAS = 127,
    MANTISSA_BITS = 23,
};

enum {
    /* A decoder reads up to this many bytes past a block's end. */
    SLACK = 64,
    PLANE_BYTES = STREAM_LANES / GROUP_LANES * TAG_WORD_BYTES,
    MAX_BLOCK_BYTES = PLANE_BYTES + STREAM_LANES * LANE_BYTES,
    /* Below this base the float arithmetic of the vector kernels would meet subnormal numbers. */
    MIN_VECTOR_BASE = 32,
};

enum {
    /* Blocks that a thread takes at a time. */
    RUN_BLOCKS = 32,
    MAX_THREADS = 64,
};

/* Values as they lie in a caller's buffer: at any address, and read as bits so that NaNs stay as they are. */
typedef uint32_t __attribute__((aligned(1), may_alias)) lane_bits;

typedef struct {
    uint32_t e0, t, b;
} parameters;

static inline size_t smaller(size_t a, size_t b)
{
    return a < b ? a : b;
}

static inline float power_of_two(int exponent)
{
    const uint32_t bits = (uint32_t)(exponent + EXPONENT_BIAS) << MANTISSA_BITS;
    float value;
    memcpy(&value, &bits, 4);
    return value;
}

static inline size_t plane_bytes(size_t lanes)
{
    return (lanes + GROUP_LANES - 1) / GROUP_LANES * TAG_WORD_BYTES;
}

/* Bytes of the largest block, and of the largest stream, of that many lanes. */
static inline size_t worst_bytes(size_t lanes)
{
    return plane_bytes(lanes) + lanes * LANE_BYTES;
}

/* The block operations of one instruction set. `lanes` is 1..STREAM_LANES. */
typedef struct {
    const char *name;
    bool (*supported)(void);
    /* Called once before the others. */
    void (*prepare)(void);
    /* Smallest base that the decoder takes. */
    uint32_t min_base;
    /* Writes a block and returns its size; `out` has worst_bytes(lanes) and may be written up to there. */
    size_t (*compress)(const lane_bits *x, size_t lanes, parameters p, uint8_t *out);
    /* Decodes a block, or adds it to `out`, and returns its size. worst_bytes(lanes) + SLACK bytes can be
     * read. Returns 0 for an impossible vector (wire-format.md section 1); absent lanes' tags are ignored. */
    size_t (*decompress)(const uint8_t *block, size_t lanes, uint32_t b, lane_bits *out);
    size_t (*decompress_add)(const uint8_t *block, size_t lanes, uint32_t b, lane_bits *out);
    /* What decompressing the compressed values gives; `out` may be `x`. Any number of lanes. */
    void (*lossy)(const lane_bits *x, size_t lanes, parameters p, lane_bits *out);
    /* Lanes at or above each of E0, T and 127. Any number of lanes. */
    void (*classes)(const lane_bits *x, size_t lanes, parameters p, uint64_t counts[3]);
    /* y = x * factor, NaNs unchanged; `y` may be `x`. Returns whether a finite value became infinite. */
    bool (*scale)(const lane_bits *x, size_t lanes, float factor, lane_bits *y);
    /* Sum of the vectors' sizes that a tag plane announces. */
    size_t (*data_bytes)(const uint8_t *plane, size_t plane_size);
    /* Largest finite magnitude, as bits. Any number of lanes. */
    uint32_t (*largest)(const lane_bits *x, size_t lanes);
} kernel;

extern const kernel scalar_kernel;
#if HAVE_X86
extern const kernel avx2_kernel;
extern const kernel avx512_kernel;
#endif

/* Ends of blocks, for the vector kernels: the lanes from `done` on, which is a multiple of 8, with the data
 * cursor at `data`. They return the cursor past the block, NULL for an impossible vector. */
uint8_t *scalar_compress_tail(const lane_bits *x, size_t done, size_t lanes, parameters p, uint8_t *plane,
                              uint8_t *data);
const uint8_t *scalar_decompress_tail(const uint8_t *plane, const uint8_t *data, size_t done, size_t lanes,
                                      uint32_t b, lane_bits *out);
const uint8_t *scalar_decompress_add_tail(const uint8_t *plane, const uint8_t *data, size_t done,
                                          size_t lanes, uint32_t b, lane_bits *out);

/* Streams (compress.c, decompress.c). */

typedef struct {
    const kernel *kernel;
    parameters p;
    /* Values are multiplied by 2^scale on the way in and divided on the way out; -126..126. */
    int scale;
    /* Threads to use, the caller's included, if the array is large. */
    unsigned threads;
} settings;

typedef enum {
    OK,
    NO_ROOM,      /* `at` is unused: the stream does not fit */
    OVERFLOWED,   /* a finite value times 2^scale is infinite */
    CUT_IN_PLANE, /* from here on malformed streams, `at` is the byte */
    CUT_IN_DATA,
    ABSENT_LANE,
    IMPOSSIBLE,
    LEFT_OVER,
    WRONG_INDEX,
} status;

/* Writes the stream of the values to `out` and its size to `size`. Bytes after it, up to `capacity`, may be
 * overwritten. */
status stream_compress(settings s, const lane_bits *x, size_t lanes, uint8_t *out, size_t capacity,
                       size_t *size);

/* How much memory the stream of the values will hardly exceed, by a sample of them. */
size_t stream_estimate(settings s, const lane_bits *x, size_t lanes);

/* Where runs of `blocks` blocks start, known beforehand; offsets[0] is 0. `entries` may be 0. */
typedef struct {
    const uint8_t *offsets; /* uint64, little-endian, at any address */
    size_t entries;
    size_t blocks;
} stream_index;

/* Decodes a stream into `out`, or adds it. `at` is where a malformed stream shows it. */
status stream_decompress(settings s, const uint8_t *stream, size_t size, lane_bits *out, size_t lanes,
                         bool add, stream_index index, size_t *at);

/* Writes where every `blocks`-th block starts; `offsets` holds one uint64 for each. */
status stream_offsets(settings s, const uint8_t *stream, size_t size, size_t lanes, size_t blocks,
                      uint8_t *offsets, size_t *at);

status stream_lossy(settings s, const lane_bits *x, size_t lanes, lane_bits *out);
status stream_histogram(settings s, const lane_bits *x, size_t lanes, uint64_t counts[4]);

/* Threads (threads.c). */

/* How many of the threads are worth their start for this number of lanes. */
unsigned worthwhile_threads(unsigned wanted, size_t lanes);
/* Calls `work` in that many threads, this one included; in fewer if the system has no more. */
void work_together(void *(*work)(void *), void *job, unsigned threads);

/* CRC-32 as in IEEE 802.3 and zlib, of `bytes` that follow others of which `crc` is the CRC (crc32.c). */
bool crc32_supported(void);
void crc32_prepare(void);
uint32_t crc32_update(uint32_t crc, const uint8_t *bytes, size_t size);

#endif

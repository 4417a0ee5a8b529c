/* SPDX-License-Identifier: BSD-2-Clause */
/* The native codecs: docs/wire-format.md sections 1, 2 and 9 on whole blocks, and streams made of them.
 *
 *   paper/        the paper's codec: portable, AVX2 (byte shuffles from tables), AVX-512 (VPCOMPRESSB)
 *   planes/       the planes codec: portable, AVX2, AVX-512, AVX-512 with GFNI
 *   kernels.h, kernels.c    what a processor runs: both codecs and what they share, for each instruction set
 *   half.c        bf16 and fp16 from and to fp32
 *   choose.c      the fastest kernel for each operation, by measurement
 *   streams.h, compress.c, decompress.c, sum.c    streams: ends, scaling, faults, threads
 *   lanes.c       lane by lane: error feedback, lossy values, conversion
 *   threads.h     threads for the length of one call
 *   checksum/     CRC-32 of messages
 *   codec.c       the Python module
 *
 * This file has what all of them share: constants, values, and the tables that codecs and kernels fill.
 *
 * Nothing here trusts a stream, nor that its bytes stay the same while it is read: every access is bounded
 * by what the worst tags or codes could ask for.
 */
#ifndef INCEPTIONN_NATIVE_TYPES_H
#define INCEPTIONN_NATIVE_TYPES_H

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
    CODE_WORD_BYTES = 2,
    CODE_WORD_GROUPS = 4,
    RAW_CODE = 15,
    RAW_EXPONENT = 14,
    LEAST_PLANES_E0 = 113,
    LANE_BYTES = 4,
    EXPONENT_BIAS = 127,
    MANTISSA_BITS = 23,
};

enum {
    /* A decoder reads up to this many bytes past a block's end. */
    SLACK = 64,
    /* Of the paper's codec; a block of planes is smaller. */
    MAX_BLOCK_BYTES = STREAM_LANES / GROUP_LANES * TAG_WORD_BYTES + STREAM_LANES * LANE_BYTES,
    /* Tags of the paper's codec are 4, codes of groups are 16. */
    MAX_CLASSES = 16,
    /* Lanes that feedback takes at a time. */
    FEW_LANES = 32,
    /* Up to here 2^(16 + k + scale), by which kernels multiply, is finite, and subnormal numbers become zero. */
    MOST_SUM_SCALE = 96,
};

/* Values as they lie in a caller's buffer: at any address, and read as bits so that NaNs stay as they are. */
typedef uint32_t __attribute__((aligned(1), may_alias)) lane_bits;
typedef uint16_t __attribute__((aligned(1), may_alias)) half_bits;

/* What a caller's buffer holds. Streams widen and narrow block by block what a coder does not take. */
typedef enum { FLOAT32, BFLOAT16, FLOAT16, TYPES } value_type;

static inline size_t value_bytes(value_type type)
{
    return type == FLOAT32 ? LANE_BYTES : 2;
}

/* Values from a lane on, where there are any. */
static inline const void *values_from(const void *values, value_type type, size_t lane)
{
    return values ? (const uint8_t *)values + lane * value_bytes(type) : NULL;
}

/* Planes has E0 alone. `lattice`: it also rounds raw lanes to multiples of its step, and has one NaN, so that
 * sums are the same in every order. */
typedef struct {
    uint32_t e0, t, b;
    bool lattice;
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

typedef enum {
    OK,
    NO_ROOM,      /* `at` is unused: the stream does not fit */
    OVERFLOWED,   /* a finite value times 2^scale is infinite */
    CUT_IN_TAGS,  /* paper; from here on malformed streams, `at` is the byte */
    CUT_IN_CODES, /* planes */
    CUT_IN_DATA,
    ABSENT_TAG,   /* paper: an absent lane has a tag */
    IMPOSSIBLE,   /* paper: an 8-bit vector without a value */
    ABSENT_CODE,  /* planes: an absent group has a code */
    ABSENT_VALUE, /* planes: an absent lane is not zero */
    LEFT_OVER,
    WRONG_INDEX,
} status;

/* The format of a codec's blocks, whatever the instruction set. `lanes` is 1..STREAM_LANES, or more where a
 * stream's length is estimated. */
typedef struct {
    /* Tags or codes. */
    size_t (*table_bytes)(size_t lanes);
    /* Of the largest block, and of the largest stream. */
    size_t (*worst_bytes)(size_t lanes);
    /* Adds to `counts` how many lanes have each tag, or how many groups have each code. */
    void (*count)(const uint8_t *table, size_t lanes, uint64_t counts[MAX_CLASSES]);
    size_t classes;
    /* Whether the table says nothing of what is absent. */
    bool (*table_is_sound)(const uint8_t *table, size_t lanes);
    /* What is wrong with a block that did not decode, and the byte in the stream at which it is detected: the
     * fault of the first group that has one. A slow walk. */
    status (*describe_fault)(const uint8_t *stream, size_t size, size_t start, size_t lanes, parameters p,
                             size_t *at);
    /* Whether parameters are the codec's, and what they must be. */
    bool (*valid)(parameters p);
    const char *rule;
} format;

/* Bytes of a block read, and of one written. */
typedef struct {
    size_t read, written;
} sizes;

/* The block operations of one codec in one instruction set. `lanes` is 1..STREAM_LANES. */
typedef struct {
    const format *format;
    /* Writes a block and returns its size; `out` has worst_bytes(lanes) and may be written up to there. */
    size_t (*compress)(const lane_bits *x, size_t lanes, parameters p, uint8_t *out);
    /* The same of values of 16 bits, which are widened in registers; NULL if there is no such code. */
    size_t (*compress_half)(const void *x, value_type type, size_t lanes, parameters p, uint8_t *out);
    /* Decodes a block, or adds it to the addend, which may be `out`, and returns its size. worst_bytes(lanes)
     * + SLACK bytes can be read. Returns 0 for data that no encoder makes; the table may be unsound. */
    size_t (*decompress)(const uint8_t *block, size_t lanes, parameters p, lane_bits *out);
    size_t (*decompress_add)(const uint8_t *block, size_t lanes, parameters p, const lane_bits *addend,
                             lane_bits *out);
    /* What decompressing the compressed values gives; `out` may be `x`. Any number of lanes. */
    void (*lossy)(const lane_bits *x, size_t lanes, parameters p, lane_bits *out);
    /* Bytes of data that a table announces. */
    size_t (*data_bytes)(const uint8_t *table, size_t lanes);
    /* The block of a block's values plus the addend's, multiplied by 2^scale and brought onto the lattice; the
     * scale is MOST_SUM_SCALE at most. Buffers as for `decompress` and `compress`. NULL of a codec without
     * a lattice. */
    status (*sum)(const uint8_t *block, const void *addend, value_type type, size_t lanes, parameters p, int scale,
                  uint8_t *out, sizes *moved);
    /* Values' multiples of the step, scaled there and back; false, and `out` is unspecified, if one is raw. */
    bool (*settle)(const lane_bits *x, size_t lanes, parameters p, int scale, lane_bits *out);
    /* Error feedback: `settle` of x plus `left`, and in `left` what remains. `kept` may be x. Returns the number of
     * lanes that are done: it ends before FEW_LANES that have a raw one, and where there are not as many. */
    size_t (*feed_back)(const lane_bits *x, lane_bits *left, size_t lanes, parameters p, int scale, lane_bits *kept);
    /* Sums of decompressed values and of the addend, as in `sum`; false, and `sums` is unspecified, if one of
     * them is raw. */
    bool (*add_steps)(const lane_bits *addend, const lane_bits *values, size_t lanes, parameters p, int scale,
                      lane_bits *sums);
} coder;

enum {
    PAPER,
    PLANES,
    CODECS,
    /* What Python calls planes with `lattice`. */
    LATTICE = CODECS,
};

/* From a 16-bit type to fp32, exactly; and to the nearest value, ties to even, or infinity. NaNs stay NaNs and
 * become quiet, but for those that are widened from bf16. Any number of lanes; none of FLOAT32. */
typedef struct {
    void (*widen[TYPES])(const half_bits *x, size_t lanes, lane_bits *y);
    void (*narrow[TYPES])(const lane_bits *x, size_t lanes, half_bits *y);
} conversions;

/* What one kind of processor runs. */
typedef struct {
    const char *name;
    bool (*supported)(void);
    /* Called before the others; any number of times, from any thread. */
    void (*prepare)(void);
    const coder *coders[CODECS];
    /* y = x * factor, NaNs unchanged; `y` may be `x`. Returns whether a finite value became infinite. */
    bool (*scale)(const lane_bits *x, size_t lanes, float factor, lane_bits *y);
    /* y = addend + x; `y` may be the addend. */
    void (*add)(const lane_bits *addend, const lane_bits *x, size_t lanes, lane_bits *y);
    /* What is left of x without `kept`, in `x`; zero where that is not finite. */
    void (*subtract)(lane_bits *x, size_t lanes, const lane_bits *kept);
    /* Largest finite magnitude, as bits: of x plus `left`, unless that is NULL. Any number of lanes. */
    uint32_t (*largest)(const lane_bits *x, const lane_bits *left, size_t lanes);
    const conversions *conversions;
} kernel;

#endif

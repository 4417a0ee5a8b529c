/* SPDX-License-Identifier: BSD-2-Clause */
/* Blocks of the planes codec: sizes, counts, faults. */
#include "planes.h"

const uint64_t planes_constants[CONSTANTS][4] __attribute__((aligned(32))) = {
#define FOUR(bits) {bits, bits, bits, bits}
#define PLACES(bits) FOUR((uint64_t)(bits) * 0x0001000100010001)
    [SWAPPED_BY_7] = FOUR(0x00AA00AA00AA00AA),
    [SWAPPED_BY_14] = FOUR(0x0000CCCC0000CCCC),
    [SWAPPED_BY_28] = FOUR(0x00000000F0F0F0F0),
    [RAW_LANES] = PLACES(RAW_BITS),
    [LEAST_BF16] = PLACES(LEAST_NORMAL >> 16),
};

static size_t worst_bytes(size_t lanes)
{
    return code_table_bytes(lanes) + groups_of(lanes) * GROUP_BYTES;
}

static unsigned code_of(const uint8_t *table, size_t group)
{
    return table[group / 2] >> 4 * (group % 2) & 15;
}

static void count(const uint8_t *table, size_t lanes, uint64_t counts[MAX_CLASSES])
{
    for (size_t group = 0; group < groups_of(lanes); group++)
        counts[code_of(table, group)]++;
}

/* The first nibble past the last group that is not zero, else how many nibbles there are. */
static size_t absent_code(const uint8_t *table, size_t lanes)
{
    size_t nibble = groups_of(lanes);
    while (nibble < 2 * code_table_bytes(lanes) && !code_of(table, nibble))
        nibble++;
    return nibble;
}

static bool table_is_sound(const uint8_t *table, size_t lanes)
{
    return absent_code(table, lanes) == 2 * code_table_bytes(lanes);
}

/* The first byte of the last group's data that holds a bit of an absent lane. */
static size_t absent_value(const uint8_t *data, unsigned code, size_t lanes)
{
    const size_t there = (lanes - 1) % GROUP_LANES + 1;
    size_t at = code == RAW_CODE ? there * LANE_BYTES : 0;
    while (at < code_bytes[code] && !(code == RAW_CODE ? data[at] : data[at] >> there))
        at++;
    return at;
}

static status describe_fault(const uint8_t *stream, size_t size, size_t start, size_t lanes, parameters p,
                             size_t *at)
{
    (void)p;
    const uint8_t *block = stream + start;
    const size_t available = size - start, table = code_table_bytes(lanes), groups = groups_of(lanes);
    *at = size;
    if (available < table)
        return CUT_IN_CODES;
    size_t cursor = table, last = table, group = 0;
    unsigned code = 0;
    for (; group < groups; group++) {
        code = code_of(block, group);
        if (code_bytes[code] > available - cursor)
            break;
        last = cursor;
        cursor += code_bytes[code];
    }
    if (!table_is_sound(block, lanes) && group >= (groups - 1) / CODE_WORD_GROUPS * CODE_WORD_GROUPS) {
        *at = start + absent_code(block, lanes) / 2;
        return ABSENT_CODE;
    }
    if (group < groups)
        return CUT_IN_DATA;
    *at = start + last + absent_value(block + last, code, lanes);
    return ABSENT_VALUE;
}

static bool valid(parameters p)
{
    return p.e0 >= LEAST_PLANES_E0 && p.e0 < EXPONENT_BIAS;
}

const format planes_format = {
    .table_bytes = code_table_bytes,
    .worst_bytes = worst_bytes,
    .count = count,
    .classes = 16,
    .table_is_sound = table_is_sound,
    .describe_fault = describe_fault,
    .valid = valid,
    .rule = "e0 of planes must be 113..126",
};

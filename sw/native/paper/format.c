/* SPDX-License-Identifier: BSD-2-Clause */
/* Blocks of the paper's codec: sizes, counts, faults. */
#include "paper.h"

static size_t worst_bytes(size_t lanes)
{
    return tag_table_bytes(lanes) + lanes * LANE_BYTES;
}

static void count(const uint8_t *table, size_t lanes, uint64_t counts[MAX_CLASSES])
{
    uint64_t found[4] = {0};
    for (size_t byte = 0; byte < tag_table_bytes(lanes); byte++)
        for (unsigned place = 0; place < 8; place += 2)
            found[table[byte] >> place & 3]++;
    found[0] -= -lanes % GROUP_LANES;
    for (unsigned tag = 0; tag < 4; tag++)
        counts[tag] += found[tag];
}

static bool table_is_sound(const uint8_t *table, size_t lanes)
{
    const size_t last = tag_table_bytes(lanes) - TAG_WORD_BYTES;
    const unsigned word = table[last] | (unsigned)table[last + 1] << 8;
    return lanes % GROUP_LANES == 0 || word >> 2 * (lanes % GROUP_LANES) == 0;
}

static status describe_fault(const uint8_t *stream, size_t size, size_t start, size_t lanes, parameters p,
                             size_t *at)
{
    static const uint8_t tag_bytes[4] = {0, 1, 2, 4};
    const uint8_t *block = stream + start;
    const size_t available = size - start, table = tag_table_bytes(lanes);
    const size_t groups = table / TAG_WORD_BYTES;
    size_t cursor = table, cut = groups, impossible = groups, impossible_at = 0;
    *at = size;
    if (available < table)
        return CUT_IN_TAGS;
    for (size_t lane = 0; lane < groups * GROUP_LANES && cut == groups; lane++) {
        const unsigned tag = block[lane / 4] >> 2 * (lane % 4) & 3;
        const size_t bytes = tag_bytes[tag];
        if (bytes > available - cursor) {
            cut = lane / GROUP_LANES;
        } else if (tag == 1 && impossible == groups) {
            const uint32_t magnitude = block[cursor] & 0x7F;
            if (magnitude && (int)p.b - (__builtin_clz(magnitude) - 24) < 1) {
                impossible = lane / GROUP_LANES;
                impossible_at = start + cursor;
            }
        }
        cursor += bytes;
    }
    const size_t absent = table_is_sound(block, lanes) ? groups : groups - 1;
    if (absent < groups && absent <= cut && absent <= impossible) {
        *at = start + table - TAG_WORD_BYTES;
        return ABSENT_TAG;
    }
    if (impossible < cut) {
        *at = impossible_at;
        return IMPOSSIBLE;
    }
    return CUT_IN_DATA;
}

static bool valid(parameters p)
{
    return p.e0 <= p.t && p.t <= p.b;
}

const format paper_format = {
    .table_bytes = tag_table_bytes,
    .worst_bytes = worst_bytes,
    .count = count,
    .classes = 4,
    .table_is_sound = table_is_sound,
    .describe_fault = describe_fault,
    .valid = valid,
    .rule = "e0, t and b must be in ascending order",
};

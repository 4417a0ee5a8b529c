/* SPDX-License-Identifier: BSD-2-Clause */
/* Fuzzing of the native streams under AddressSanitizer: native_fuzz SEED ROUNDS.
 *
 * Every buffer is as large as it has to be and not a byte more. Streams are valid, cut, extended, flipped
 * in single bits or nonsense; whatever they are, all kernels, with one thread and several, with and without
 * an index, must agree on the verdict, the byte that shows it, and the values.
 */
#include <stdio.h>
#include <stdlib.h>

#include "kernels.h"
#include "streams.h"

static uint64_t state;
static int which; /* codec */
static unsigned verdicts[WRONG_INDEX + 1];

static uint64_t draw(uint64_t below)
{
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return (state * 0x2545F4914F6CDD1D >> 16) % below;
}

static void demand(bool holds, const char *what)
{
    if (!holds) {
        fprintf(stderr, "%s\n", what);
        exit(1);
    }
}

static void use_kernel(settings *s, size_t number)
{
    s->kernel = kernels[number];
    s->coder = s->kernel->coders[which];
}

static void *exactly(size_t size)
{
    /* malloc(0) would still give a byte; a null pointer is what an empty buffer may have. */
    return size ? malloc(size) : NULL;
}

static size_t draw_lanes(void)
{
    static const size_t around[] = {0, 8, 32, 2048, 4096, 6144};
    if (draw(40) == 0)
        return (1 << 18) + draw(70000); /* enough for threads */
    if (draw(3) == 0)
        return around[draw(6)] + draw(3);
    return draw(5000);
}

static void draw_values(lane_bits *x, size_t lanes)
{
    const uint64_t style = draw(6);
    for (size_t i = 0; i < lanes; i++) {
        const uint32_t bits = (uint32_t)draw(1ull << 32), exponent = 110 + (uint32_t)draw(20);
        x[i] = style == 0   ? 0
               : style == 1 ? bits
               : style == 2 ? bits | 0x7F800000
               : style == 3 ? bits & 0x87FFFFFF /* exponents below 16, for small bases */
                            : (bits & 0x807FFFFF) | exponent << MANTISSA_BITS;
    }
}

static parameters draw_paper_parameters(void)
{
    const uint32_t k = 1 + (uint32_t)draw(14), e0 = 127 - k, t = e0 + (k + 1) / 2;
    if (draw(4) == 0)
        return (parameters){.e0 = 1, .t = 1 + (uint32_t)draw(3), .b = 4 + (uint32_t)draw(draw(2) ? 4 : 50)};
    return (parameters){.e0 = e0, .t = t, .b = draw(2) ? t : 127};
}

/* Parameters of a codec at random: `s.coder` of the last kernel, the portable one, and `s.p`. */
static settings draw_settings(void)
{
    settings s = {.scale = draw(4) ? 0 : (int)draw(21) - 20, .threads = 1};
    which = draw(2) ? PLANES : PAPER;
    use_kernel(&s, kernel_count - 1);
    s.p = which == PLANES ? (parameters){.e0 = 113 + (uint32_t)draw(14)} : draw_paper_parameters();
    s.p.lattice = which == PLANES && !s.scale && draw(2);
    return s;
}

/* Compresses on every kernel into exactly enough memory; the stream, to be freed. */
static uint8_t *compress_everywhere(settings s, const lane_bits *x, size_t lanes, size_t *size)
{
    uint8_t *first = exactly(s.coder->format->worst_bytes(lanes));
    use_kernel(&s, kernel_count - 1);
    demand(stream_compress(s, x, lanes, first, s.coder->format->worst_bytes(lanes), size) == OK, "compress fails");
    for (int i = 0; i < (int)kernel_count; i++) {
        if (!kernels[i]->supported())
            continue;
        use_kernel(&s, (size_t)i);
        for (s.threads = 1; s.threads <= 3; s.threads += 2) {
            size_t again = 0;
            uint8_t *out = exactly(*size);
            demand(stream_compress(s, x, lanes, out, *size, &again) == OK, "no room in a fitting buffer");
            demand(again == *size && (!again || !memcmp(out, first, again)), "kernels compress differently");
            free(out);
            if (*size) {
                const size_t less = draw(*size);
                out = exactly(less);
                demand(stream_compress(s, x, lanes, out, less, &again) == NO_ROOM, "room in a small buffer");
                free(out);
            }
        }
    }
    uint8_t *stream = exactly(*size);
    if (*size)
        memcpy(stream, first, *size);
    free(first);
    return stream;
}

static uint8_t *spoil(settings s, uint8_t *stream, size_t *size, size_t lanes)
{
    const uint64_t how = draw(5);
    uint8_t *spoilt;
    size_t now = *size;
    if (how == 1)
        now = draw(*size + 1);
    if (how == 2)
        now = *size + 1 + draw(draw(2) ? 4 : 9000);
    spoilt = exactly(now);
    for (size_t i = 0; i < now; i++)
        spoilt[i] = i < *size && how != 4 ? stream[i] : (uint8_t)draw(256);
    const size_t table = smaller(now, s.coder->format->table_bytes(lanes));
    for (uint64_t flips = how == 3 ? 1 + draw(4) : 0; flips && now; flips--)
        spoilt[draw(draw(2) ? now : table)] ^= (uint8_t)(1u << draw(8));
    free(stream);
    *size = now;
    return spoilt;
}

/* The stream of zeros plus the values, which is that of their sums, and needs no more memory than it takes. */
static void sum_everything(settings s, const uint8_t *stream, size_t size, size_t lanes, status verdict,
                           const lane_bits *sums)
{
    const size_t worst = s.coder->format->worst_bytes(lanes);
    lane_bits *zeros = exactly(lanes * LANE_BYTES);
    uint8_t *expected = exactly(worst), *out = NULL;
    size_t room = 0, written = 0, at = 0;
    memset(lanes ? zeros : &(lane_bits){0}, 0, lanes * LANE_BYTES);
    /* A sum of a bad stream, or one too large for the scale, has no stream. */
    const status compressed = verdict ? verdict : stream_compress(s, sums, lanes, expected, worst, &room);
    out = exactly(compressed ? worst : room);
    const status found = stream_compress_sum(s, stream, size, zeros, lanes, out, compressed ? worst : room,
                                             &written, &at);
    demand(verdict ? found != OK : found == compressed, "a sum has another verdict");
    demand(found || (written == room && (!room || !memcmp(out, expected, room))), "sums differ");
    free(out);
    free(expected);
    free(zeros);
}

static void decompress_everywhere(settings s, const uint8_t *stream, size_t size, size_t lanes)
{
    lane_bits *expected = exactly(lanes * LANE_BYTES), *out = exactly(lanes * LANE_BYTES);
    lane_bits *apart = exactly(lanes * LANE_BYTES);
    uint8_t *offsets = exactly(8 * lanes / STREAM_LANES + 8);
    size_t expected_at = 0, at = 0;
    use_kernel(&s, kernel_count - 1);
    s.threads = 1;
    const stream_index none = {0};
    const status verdict = stream_decompress(s, stream, size, NULL, expected, lanes, none, &expected_at);
    verdicts[verdict]++;
    for (int i = 0; i < (int)kernel_count; i++) {
        if (!kernels[i]->supported())
            continue;
        use_kernel(&s, (size_t)i);
        for (s.threads = 1; s.threads <= 3; s.threads += 2) {
            status found = stream_decompress(s, stream, size, NULL, out, lanes, none, &at);
            demand(found == verdict, "kernels disagree on a stream");
            demand(found == OK || at == expected_at, "kernels disagree on the byte");
            demand(found || !lanes || !memcmp(out, expected, lanes * LANE_BYTES), "kernels differ");
            lane_bits *addend = s.threads == 1 ? apart : out;
            memset(lanes ? addend : &(lane_bits){0}, 0, lanes * LANE_BYTES);
            found = stream_decompress(s, stream, size, addend, out, lanes, none, &at);
            demand(found == verdict, "adding disagrees on a stream");

            sum_everything(s, stream, size, lanes, verdict, out);

            const size_t blocks = 1 + draw(3), run_lanes = blocks * STREAM_LANES;
            const size_t entries = (lanes + run_lanes - 1) / run_lanes;
            const status indexed = stream_offsets(s, stream, size, lanes, blocks, offsets, &at);
            demand(verdict || !indexed, "no index of a good stream");
            if (indexed)
                continue;
            const bool wrong = entries > 1 && draw(2);
            if (wrong) {
                const uint64_t nonsense = draw(2) ? draw(2 * size) : draw(UINT64_MAX);
                memcpy(offsets + 8 * (1 + draw(entries - 1)), &nonsense, 8);
            }
            found = stream_decompress(s, stream, size, NULL, out, lanes,
                                      (stream_index){offsets, entries, blocks}, &at);
            demand(wrong || found == verdict, "an index changes the verdict");
        }
    }
    free(expected);
    free(out);
    free(apart);
    free(offsets);
}

/* Streams and sums of values of 16 bits on every kernel, from exactly as much memory, against the portable one. */
static void halves_everywhere(settings s, const lane_bits *x, size_t lanes)
{
    const size_t worst = s.coder->format->worst_bytes(lanes);
    half_bits *half = exactly(lanes * sizeof *half);
    uint8_t *streams[2] = {exactly(worst), exactly(worst)}, *sums[2] = {exactly(worst), exactly(worst)};
    size_t sizes[2] = {0}, sum_sizes[2] = {0}, at = 0;
    status found[2] = {OK}, summed[2] = {OK};
    s.source = draw(2) ? BFLOAT16 : FLOAT16;
    for (size_t i = 0; i < lanes; i++)
        half[i] = (uint16_t)(x[i] >> 16);
    for (size_t i = kernel_count; i-- > 0;) {
        const size_t which_one = i + 1 < kernel_count;
        if (!kernels[i]->supported())
            continue;
        use_kernel(&s, i);
        found[which_one] = stream_compress(s, half, lanes, streams[which_one], worst, &sizes[which_one]);
        demand(found[0] == found[1] || !which_one, "kernels disagree on halves");
        if (found[0])
            break;
        summed[which_one] = stream_compress_sum(s, streams[0], sizes[0], half, lanes, sums[which_one], worst,
                                                &sum_sizes[which_one], &at);
        if (!which_one)
            continue;
        demand(sizes[0] == sizes[1] && (!lanes || !memcmp(streams[0], streams[1], sizes[0])), "halves differ");
        demand(summed[0] == summed[1], "kernels disagree on sums of halves");
        demand(summed[0] || (sum_sizes[0] == sum_sizes[1] && (!lanes || !memcmp(sums[0], sums[1], sum_sizes[0]))),
               "sums of halves differ");
    }
    for (size_t i = 0; i < 2; i++) {
        free(streams[i]);
        free(sums[i]);
    }
    free(half);
}

/* Error feedback on every kernel, from its own memory and into the values', against the portable one. */
static void feed_back_everywhere(settings s, const lane_bits *x, size_t lanes)
{
    const size_t bytes = lanes * LANE_BYTES;
    const float decay = draw(2) ? 1 : 0.9f;
    lane_bits *before = exactly(bytes), *left = exactly(bytes), *kept = exactly(bytes);
    lane_bits *expected_left = exactly(bytes), *expected = exactly(bytes);
    draw_values(before, lanes);
    for (size_t i = 0; i < lanes; i++)
        before[i] = (before[i] & 0x7F800000) == 0x7F800000 ? 0 : before[i];
    memcpy(lanes ? expected_left : &(lane_bits){0}, lanes ? before : &(lane_bits){0}, bytes);
    use_kernel(&s, kernel_count - 1);
    const status verdict = stream_feed_back(s, x, expected_left, lanes, decay, expected);
    for (size_t i = 0; lanes && i < 2 * kernel_count; i++) {
        const bool in_place = i >= kernel_count;
        if (!kernels[i % kernel_count]->supported())
            continue;
        use_kernel(&s, i % kernel_count);
        memcpy(left, before, bytes);
        memcpy(kept, x, bytes);
        const status found = stream_feed_back(s, in_place ? kept : x, left, lanes, decay, kept);
        demand(found == verdict, "kernels disagree on feedback");
        demand(found || (!memcmp(left, expected_left, bytes) && !memcmp(kept, expected, bytes)), "feedback differs");
    }
    free(before);
    free(left);
    free(kept);
    free(expected_left);
    free(expected);
}

int main(int count, char **arguments)
{
    demand(count == 3, "native_fuzz SEED ROUNDS");
    state = 0x9E3779B97F4A7C15 * (strtoull(arguments[1], NULL, 0) + 1);
    const unsigned long rounds = strtoul(arguments[2], NULL, 0);
    for (int i = 0; i < (int)kernel_count; i++)
        if (kernels[i]->supported()) {
            kernels[i]->prepare();
            printf("kernel %s\n", kernels[i]->name);
        }
    for (unsigned long round = 0; round < rounds; round++) {
        const size_t lanes = draw_lanes();
        settings s = draw_settings();
        lane_bits *x = exactly(lanes * LANE_BYTES);
        size_t size = 0;
        draw_values(x, lanes);
        feed_back_everywhere(s, x, lanes);
        halves_everywhere(s, x, lanes);
        uint8_t *stream = compress_everywhere(s, x, lanes, &size);
        decompress_everywhere(s, stream, size, lanes);
        stream = spoil(s, stream, &size, lanes);
        decompress_everywhere(s, stream, size, draw(8) ? lanes : draw_lanes());
        free(stream);
        free(x);
    }
    for (int i = 0; i <= WRONG_INDEX; i++)
        printf("verdict %d %u\n", i, verdicts[i]);
    return 0;
}

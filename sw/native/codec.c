/* SPDX-License-Identifier: BSD-2-Clause */
/* The Python module inceptionn.native.codec: buffers, the GIL, errors. inceptionn.codec is its only user and
 * gives arguments of the right types; what would be unsafe is checked here all the same.
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "checksum/crc32.h"
#include "kernels.h"
#include "streams.h"

/* Lanes from which on other Python threads may run meanwhile. */
#define RELEASE_LANES 4096

/* Of an index. */
#define MOST_RUN_BLOCKS 0x7FFFFFFF

/* NULL: for each operation the one that is fastest here. */
static const kernel *active;

static const kernel *kernel_in_use(void)
{
    return active ? active : &chosen_kernels()->automatic;
}

#define BEGIN_WORK(lanes)                                                                                    \
    {                                                                                                        \
        PyThreadState *released = (lanes) >= RELEASE_LANES ? PyEval_SaveThread() : NULL;
#define END_WORK                                                                                             \
        if (released)                                                                                        \
            PyEval_RestoreThread(released);                                                                  \
    }

/* What Python's numbers for codecs mean; `format` has what else tells codecs apart. */
static const struct {
    int coder;
    bool lattice;
} codecs[] = {[PAPER] = {PAPER, false}, [PLANES] = {PLANES, false}, [LATTICE] = {PLANES, true}};

/* A call in progress: its settings, and the buffers that it holds to its end. */
typedef struct {
    settings s;
    Py_buffer held[4];
    size_t count;
} call;

/* Ends a call with the answer, or with the exception that there is. */
static PyObject *end(call *c, PyObject *answer)
{
    while (c->count)
        PyBuffer_Release(&c->held[--c->count]);
    if (PyErr_Occurred())
        Py_CLEAR(answer);
    return answer;
}

static PyObject *refuse(call *c, const char *rule)
{
    PyErr_SetString(PyExc_ValueError, rule);
    return end(c, NULL);
}

static bool arguments_are(const char *function, Py_ssize_t given, Py_ssize_t wanted)
{
    if (given != wanted)
        PyErr_Format(PyExc_TypeError, "%s takes %zd arguments, not %zd", function, wanted, given);
    return given == wanted;
}

/* A number of a range, in `*value`. */
static bool integer_of(PyObject *object, int low, int high, const char *name, int *value)
{
    const long found = PyLong_AsLong(object);
    if (found == -1 && PyErr_Occurred()) {
        const bool too_large = PyErr_ExceptionMatches(PyExc_OverflowError);
        PyErr_Clear(); /* the text of an object may run Python */
        if (too_large)
            return PyErr_Format(PyExc_ValueError, "%s must be %d..%d, not %R", name, low, high, object);
        const char *hint = strcmp(name, "scale") ? "" : ", such as scale_exponent(x)";
        return PyErr_Format(PyExc_TypeError, "%s must be an integer%s, not %R", name, hint, object);
    }
    if (found < low || found > high)
        return PyErr_Format(PyExc_ValueError, "%s must be %d..%d, not %ld", name, low, high, found);
    *value = (int)found;
    return true;
}

/* Begins a call whose last arguments are the settings: coder, a tuple of codec, e0, t and b; scale; threads. */
static bool begin(call *c, const char *function, PyObject *const *arguments, Py_ssize_t given, Py_ssize_t wanted)
{
    static const struct {
        const char *name;
        int low, high;
    } rules[] = {{"codec", 0, LATTICE}, {"e0", 1, 127},       {"t", 0, 127},
                 {"b", 0, 255},            {"scale", -126, 126}, {"threads", 1, 4096}};
    enum { SETTINGS = sizeof rules / sizeof *rules, CODER = 4 };
    int n[SETTINGS];
    *c = (call){.s = {.kernel = kernel_in_use()}};
    if (!arguments_are(function, given, wanted))
        return false;
    PyObject *coder = arguments[wanted - 3];
    if (!PyTuple_Check(coder) || PyTuple_GET_SIZE(coder) != CODER)
        return PyErr_Format(PyExc_TypeError, "coder must be codec, e0, t and b, not %R", coder);
    for (int i = 0; i < SETTINGS; i++) {
        PyObject *number = i < CODER ? PyTuple_GET_ITEM(coder, i) : arguments[wanted - SETTINGS + i];
        if (!integer_of(number, rules[i].low, rules[i].high, rules[i].name, &n[i]))
            return false;
    }
    c->s.coder = c->s.kernel->coders[codecs[n[0]].coder];
    c->s.p = (parameters){(uint32_t)n[1], (uint32_t)n[2], (uint32_t)n[3], codecs[n[0]].lattice};
    c->s.scale = n[4];
    c->s.threads = (unsigned)n[5];
    const format *f = c->s.coder->format;
    return f->valid(c->s.p)
           || PyErr_Format(PyExc_ValueError, "%s, not e0 %d, t %d, b %d", f->rule, n[1], n[2], n[3]);
}

static const Py_buffer *bytes_of(call *c, PyObject *object, int flags)
{
    Py_buffer *view = &c->held[c->count];
    return PyObject_GetBuffer(object, view, flags) ? NULL : (c->count++, view);
}

/* Values: a C-contiguous buffer of float16, of uint16, which are bfloat16, or else of whole float32 lanes. */
static const Py_buffer *values_of(call *c, PyObject *object, int flags, value_type *type)
{
    const Py_buffer *view = bytes_of(c, object, flags | PyBUF_ND | PyBUF_FORMAT);
    if (!view)
        return NULL;
    const char *format = view->format ? view->format : "B";
    format += strspn(format, "@=<^"); /* unaligned arrays name their byte order */
    *type = !strcmp(format, "H") ? BFLOAT16 : !strcmp(format, "e") ? FLOAT16 : FLOAT32;
    if ((size_t)view->len % value_bytes(*type) == 0)
        return view;
    PyErr_Format(PyExc_ValueError, "values must be whole float32 lanes, not %zd bytes", view->len);
    return NULL;
}

static size_t lanes_of(const Py_buffer *view, value_type type)
{
    return (size_t)view->len / value_bytes(type);
}

static bool overlap(const Py_buffer *a, const Py_buffer *b)
{
    const char *start_a = a->buf, *start_b = b->buf;
    return a->len && b->len && start_a < start_b + b->len && start_b < start_a + a->len;
}

/* Whether results can be written to `out`, lane by lane, while values are read: it is the same or elsewhere. */
static bool fits(const call *c, const Py_buffer *x, const Py_buffer *out)
{
    const bool same = x->buf == out->buf && c->s.source == c->s.result;
    return lanes_of(x, c->s.source) == lanes_of(out, c->s.result) && (same || !overlap(x, out));
}

static PyObject *fail(status result, size_t at, int scale, Py_ssize_t capacity)
{
    static const char *const reasons[] = {
        [CUT_IN_TAGS] = "it ends inside the tag table",
        [CUT_IN_CODES] = "it ends inside the code table",
        [CUT_IN_DATA] = "it ends inside the data",
        [ABSENT_TAG] = "an absent lane of the last group has a tag",
        [IMPOSSIBLE] = "the exponent of an 8-bit vector falls below 1",
        [ABSENT_CODE] = "the code table goes on after the last group",
        [ABSENT_VALUE] = "an absent lane of the last group is not zero",
        [LEFT_OVER] = "bytes are left over",
        [WRONG_INDEX] = "the index does not fit the blocks",
    };
    if (result == NO_ROOM)
        return PyErr_Format(PyExc_ValueError, "out is too small for the stream: %zd bytes", capacity);
    if (result == OVERFLOWED)
        return PyErr_Format(PyExc_OverflowError, "a value is too large to be scaled by 2**%d", scale);
    return PyErr_Format(PyExc_ValueError, "malformed stream at byte %zu: %s", at, reasons[result]);
}

PyDoc_STRVAR(compress_doc,
"compress(x, out, coder, scale, threads)\n--\n\n"
"The stream of the values in x: bytes if out is None, else written to out, its size returned.");

static PyObject *compress(PyObject *module, PyObject *const *arguments, Py_ssize_t given)
{
    (void)module;
    call c;
    const Py_buffer *x, *out = NULL;
    if (!begin(&c, "compress", arguments, given, 5)
        || !(x = values_of(&c, arguments[0], PyBUF_SIMPLE, &c.s.source))
        || (arguments[1] != Py_None && !(out = bytes_of(&c, arguments[1], PyBUF_WRITABLE))))
        return end(&c, NULL);
    if (out && overlap(x, out))
        return refuse(&c, "out must not overlap the values");
    const size_t lanes = lanes_of(x, c.s.source), worst = c.s.coder->format->worst_bytes(lanes);
    /* Not much more than needed: the allocator reuses blocks of moderate size, whose pages are mapped. Mapping new
     * pages would take longer than compressing. */
    size_t room = out ? (size_t)out->len : stream_estimate(c.s, x->buf, lanes), size = 0;
    status result = NO_ROOM;
    PyObject *bytes = NULL;
    for (;; room = worst) {
        if (!out && !(bytes = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)room)))
            return end(&c, NULL);
        uint8_t *start = out ? out->buf : (uint8_t *)PyBytes_AS_STRING(bytes);
        BEGIN_WORK(lanes)
        result = stream_compress(c.s, x->buf, lanes, start, room, &size);
        END_WORK
        if (result != NO_ROOM || out || room == worst)
            break;
        /* The estimate was too small. What exists of the stream is dropped: keeping it would need memory for both. */
        Py_CLEAR(bytes);
    }
    if (result)
        fail(result, 0, c.s.scale, (Py_ssize_t)room);
    else if (bytes)
        _PyBytes_Resize(&bytes, (Py_ssize_t)size);
    return end(&c, out && !result ? PyLong_FromSize_t(size) : bytes);
}

PyDoc_STRVAR(decompress_doc,
"decompress(stream, out, addend, starts, blocks, coder, scale, threads)\n--\n\n"
"Decode the stream into the buffer out, plus the values of addend unless that is None. addend may be\n"
"out. starts is None, or holds a uint64 for every run of that number of blocks: where it starts.");

static PyObject *decompress(PyObject *module, PyObject *const *arguments, Py_ssize_t given)
{
    (void)module;
    call c;
    const Py_buffer *stream, *out, *addend = NULL, *offsets = NULL;
    if (!begin(&c, "decompress", arguments, given, 8) || !(stream = bytes_of(&c, arguments[0], PyBUF_SIMPLE))
        || !(out = values_of(&c, arguments[1], PyBUF_WRITABLE, &c.s.result))
        || (arguments[2] != Py_None && !(addend = values_of(&c, arguments[2], PyBUF_SIMPLE, &c.s.source)))
        || (arguments[3] != Py_None && !(offsets = bytes_of(&c, arguments[3], PyBUF_SIMPLE))))
        return end(&c, NULL);
    if (overlap(stream, out))
        return refuse(&c, "out must not overlap the stream");
    if (addend && !fits(&c, addend, out))
        return refuse(&c, "out must be as large as the addend, and the same or elsewhere");
    const size_t lanes = lanes_of(out, c.s.result);
    stream_index index = {0};
    size_t at = 0;
    status result = OK;
    if (offsets) {
        const long blocks = PyLong_AsLong(arguments[4]);
        if (PyErr_Occurred())
            return end(&c, NULL);
        index = (stream_index){offsets->buf, (size_t)offsets->len / 8, (size_t)blocks};
        const size_t run_lanes = index.blocks * STREAM_LANES;
        if (blocks < 1 || blocks > MOST_RUN_BLOCKS || offsets->len % 8
            || index.entries != (lanes + run_lanes - 1) / run_lanes)
            return refuse(&c, "the index must hold one offset for each run of blocks");
        uint64_t first = 0;
        if (index.entries)
            memcpy(&first, index.offsets, 8);
        result = first ? WRONG_INDEX : OK;
    }
    if (!result) {
        BEGIN_WORK(lanes)
        result = stream_decompress(c.s, stream->buf, (size_t)stream->len, addend ? addend->buf : NULL, out->buf, lanes,
                                   index, &at);
        END_WORK
    }
    if (result)
        fail(result, at, c.s.scale, 0);
    return end(&c, Py_NewRef(Py_None));
}

PyDoc_STRVAR(compress_sum_doc,
"compress_sum(stream, addend, out, coder, scale, threads)\n--\n\n"
"Write to out the stream of the values of addend plus those of the stream; return its size.");

static PyObject *compress_sum(PyObject *module, PyObject *const *arguments, Py_ssize_t given)
{
    (void)module;
    call c;
    const Py_buffer *stream, *addend, *out;
    if (!begin(&c, "compress_sum", arguments, given, 6) || !(stream = bytes_of(&c, arguments[0], PyBUF_SIMPLE))
        || !(addend = values_of(&c, arguments[1], PyBUF_SIMPLE, &c.s.source))
        || !(out = bytes_of(&c, arguments[2], PyBUF_WRITABLE)))
        return end(&c, NULL);
    if (overlap(stream, out) || overlap(addend, out))
        return refuse(&c, "out must not overlap the stream or the addend");
    const size_t lanes = lanes_of(addend, c.s.source);
    size_t size = 0, at = 0;
    status result;
    BEGIN_WORK(lanes)
    result = stream_compress_sum(c.s, stream->buf, (size_t)stream->len, addend->buf, lanes, out->buf,
                                 (size_t)out->len, &size, &at);
    END_WORK
    if (result)
        fail(result, at, c.s.scale, out->len);
    return end(&c, PyLong_FromSize_t(size));
}

PyDoc_STRVAR(offsets_doc,
"offsets(stream, count, blocks, codec)\n--\n\n"
"bytes: as little-endian uint64, where each run of that number of blocks starts in the stream of count lanes.");

static PyObject *offsets(PyObject *module, PyObject *const *arguments, Py_ssize_t given)
{
    (void)module;
    call c = {.s = {.kernel = kernel_in_use()}};
    int codec = 0;
    if (!arguments_are("offsets", given, 4) || !integer_of(arguments[3], 0, CODECS - 1, "codec", &codec))
        return NULL;
    const Py_ssize_t lanes = PyLong_AsSsize_t(arguments[1]), blocks = PyLong_AsSsize_t(arguments[2]);
    if (PyErr_Occurred())
        return NULL;
    if (lanes < 0 || blocks < 1 || blocks > MOST_RUN_BLOCKS)
        return PyErr_Format(PyExc_ValueError, "no such runs: %zd lanes, %zd blocks each", lanes, blocks);
    const Py_buffer *stream = bytes_of(&c, arguments[0], PyBUF_SIMPLE);
    if (!stream)
        return NULL;
    c.s.coder = c.s.kernel->coders[codec];
    const size_t table = c.s.coder->format->table_bytes(STREAM_LANES);
    const Py_ssize_t run_lanes = blocks * STREAM_LANES;
    const Py_ssize_t runs = lanes / run_lanes + (lanes % run_lanes != 0);
    size_t at = 0;
    PyObject *answer = NULL;
    /* Every block has at least its tags or codes: a count beyond that is refused before memory is allocated. */
    if ((size_t)lanes / STREAM_LANES > (size_t)stream->len / table) {
        fail(CUT_IN_DATA, (size_t)stream->len, 0, 0);
    } else if ((answer = PyBytes_FromStringAndSize(NULL, 8 * runs))) {
        uint8_t *start = (uint8_t *)PyBytes_AS_STRING(answer);
        status result;
        BEGIN_WORK(lanes)
        result = stream_offsets(c.s, stream->buf, (size_t)stream->len, (size_t)lanes, (size_t)blocks, start, &at);
        END_WORK
        if (result)
            fail(result, at, 0, 0);
    }
    return end(&c, answer);
}

PyDoc_STRVAR(lossy_doc,
"lossy(x, out, coder, scale, threads)\n--\n\n"
"Write to the buffer out, which may be x, what decompressing the compressed values gives.");

static PyObject *lossy(PyObject *module, PyObject *const *arguments, Py_ssize_t given)
{
    (void)module;
    call c;
    const Py_buffer *x, *out;
    if (!begin(&c, "lossy", arguments, given, 5) || !(x = values_of(&c, arguments[0], PyBUF_SIMPLE, &c.s.source))
        || !(out = values_of(&c, arguments[1], PyBUF_WRITABLE, &c.s.result)))
        return end(&c, NULL);
    if (!fits(&c, x, out))
        return refuse(&c, "out must be as large as the values, and the same or elsewhere");
    const size_t lanes = lanes_of(x, c.s.source);
    status result;
    BEGIN_WORK(lanes)
    result = stream_lossy(c.s, x->buf, lanes, out->buf);
    END_WORK
    if (result)
        fail(result, 0, c.s.scale, 0);
    return end(&c, Py_NewRef(Py_None));
}

/* The residual of values, in fp32; NULL with an exception if it is anything else. */
static const Py_buffer *residual_of(call *c, PyObject *object, int flags, const Py_buffer *x)
{
    value_type type;
    const Py_buffer *residual = values_of(c, object, flags, &type);
    const bool fp32 = residual && type == FLOAT32;
    if (!residual || (fp32 && lanes_of(residual, type) == lanes_of(x, c->s.source) && !overlap(x, residual)))
        return residual;
    PyErr_SetString(PyExc_ValueError, "the residual must be fp32, as large as the values, and elsewhere");
    return NULL;
}

PyDoc_STRVAR(feed_back_doc,
"feed_back(x, residual, out, decay, coder, scale, threads)\n--\n\n"
"Write to out, which may be x, what decompressing the compressed values of x plus the decayed residual gives, and\n"
"to residual what is left without it, zero where that is not finite.");

static PyObject *feed_back(PyObject *module, PyObject *const *arguments, Py_ssize_t given)
{
    (void)module;
    call c;
    const Py_buffer *x, *residual, *out;
    if (!begin(&c, "feed_back", arguments, given, 7)
        || !(x = values_of(&c, arguments[0], PyBUF_SIMPLE, &c.s.source))
        || !(residual = residual_of(&c, arguments[1], PyBUF_WRITABLE, x))
        || !(out = values_of(&c, arguments[2], PyBUF_WRITABLE, &c.s.result)))
        return end(&c, NULL);
    if (c.s.result != FLOAT32 || overlap(residual, out) || !fits(&c, x, out))
        return refuse(&c, "out must be fp32, as large as the values, the same or elsewhere");
    const float decay = (float)PyFloat_AsDouble(arguments[3]);
    if (PyErr_Occurred())
        return end(&c, NULL);
    const size_t lanes = lanes_of(x, c.s.source);
    status result;
    BEGIN_WORK(lanes)
    result = stream_feed_back(c.s, x->buf, residual->buf, lanes, decay, out->buf);
    END_WORK
    if (result)
        fail(result, 0, c.s.scale, 0);
    return end(&c, Py_NewRef(Py_None));
}

PyDoc_STRVAR(convert_doc,
"convert(x, out)\n--\n\n"
"Write to the buffer out the values of x, or the nearest ones that its type has.");

static PyObject *convert(PyObject *module, PyObject *const *arguments, Py_ssize_t given)
{
    (void)module;
    call c = {.s = {.kernel = kernel_in_use()}};
    const Py_buffer *x, *out;
    if (!arguments_are("convert", given, 2) || !(x = values_of(&c, arguments[0], PyBUF_SIMPLE, &c.s.source))
        || !(out = values_of(&c, arguments[1], PyBUF_WRITABLE, &c.s.result)))
        return end(&c, NULL);
    if (overlap(x, out) || !fits(&c, x, out))
        return refuse(&c, "out must be as large as the values, and elsewhere");
    const size_t lanes = lanes_of(x, c.s.source);
    BEGIN_WORK(lanes)
    stream_convert(c.s, x->buf, lanes, out->buf);
    END_WORK
    return end(&c, Py_NewRef(Py_None));
}

PyDoc_STRVAR(histogram_doc,
"histogram(x, coder, scale, threads)\n--\n\n"
"How many of the values have each tag, or how many groups of them each code: a tuple.");

static PyObject *histogram(PyObject *module, PyObject *const *arguments, Py_ssize_t given)
{
    (void)module;
    call c;
    const Py_buffer *x;
    if (!begin(&c, "histogram", arguments, given, 4)
        || !(x = values_of(&c, arguments[0], PyBUF_SIMPLE, &c.s.source)))
        return end(&c, NULL);
    const size_t lanes = lanes_of(x, c.s.source);
    uint64_t counts[MAX_CLASSES] = {0};
    status result;
    BEGIN_WORK(lanes)
    result = stream_histogram(c.s, x->buf, lanes, counts);
    END_WORK
    PyObject *found = result ? fail(result, 0, c.s.scale, 0) : PyTuple_New((Py_ssize_t)c.s.coder->format->classes);
    for (Py_ssize_t i = 0; found && i < PyTuple_GET_SIZE(found); i++) {
        PyObject *number = PyLong_FromUnsignedLongLong(counts[i]);
        if (!number)
            Py_CLEAR(found);
        else
            PyTuple_SET_ITEM(found, i, number);
    }
    return end(&c, found);
}

PyDoc_STRVAR(largest_doc,
"largest(x, residual, decay)\n--\n\n"
"Bit pattern, in float32, of the largest finite magnitude among the values, or among their sums with the\n"
"decayed residual unless that is None; 0 if there is none.");

static PyObject *largest(PyObject *module, PyObject *const *arguments, Py_ssize_t given)
{
    (void)module;
    call c = {.s = {.kernel = kernel_in_use()}};
    const Py_buffer *x, *residual = NULL;
    if (!arguments_are("largest", given, 3) || !(x = values_of(&c, arguments[0], PyBUF_SIMPLE, &c.s.source))
        || (arguments[1] != Py_None && !(residual = residual_of(&c, arguments[1], PyBUF_SIMPLE, x))))
        return end(&c, NULL);
    const float decay = (float)PyFloat_AsDouble(arguments[2]);
    if (PyErr_Occurred())
        return end(&c, NULL);
    const size_t lanes = lanes_of(x, c.s.source);
    uint32_t bits;
    BEGIN_WORK(lanes)
    bits = stream_largest(c.s, x->buf, residual ? residual->buf : NULL, decay, lanes);
    END_WORK
    return end(&c, PyLong_FromUnsignedLong(bits));
}

PyDoc_STRVAR(crc32_doc, "crc32(data, value)\n--\n\nAs zlib.crc32. To be used if CRC32 is true.");

static PyObject *crc32(PyObject *module, PyObject *const *arguments, Py_ssize_t given)
{
    (void)module;
    call c = {0};
    const Py_buffer *data;
    if (!arguments_are("crc32", given, 2) || !(data = bytes_of(&c, arguments[0], PyBUF_SIMPLE)))
        return NULL;
    uint32_t crc = (uint32_t)PyLong_AsUnsignedLongMask(arguments[1]);
    if (PyErr_Occurred())
        return end(&c, NULL);
    BEGIN_WORK(data->len / LANE_BYTES)
    crc = crc32_update(crc, data->buf, (size_t)data->len);
    END_WORK
    return end(&c, PyLong_FromUnsignedLong(crc));
}

#define PREPARE(kernel) (kernel)->prepare()
#include "paths.h"

PyDoc_STRVAR(automatic_doc,
"automatic()\n--\n\n"
"Use for each operation the kernel that is fastest here; the next call of all measures that.");

static PyObject *automatic(PyObject *module, PyObject *nothing)
{
    (void)module;
    (void)nothing;
    active = NULL;
    return Py_NewRef(Py_None);
}

PyDoc_STRVAR(chosen_doc,
"chosen()\n--\n\n"
"Names of the kernels in use, by codec: those that compress and decompress, and that sum on the lattice.");

static PyObject *chosen(PyObject *module, PyObject *nothing)
{
    (void)module;
    (void)nothing;
    PyObject *codecs = PyTuple_New(CODECS);
    for (int codec = 0; codecs && codec < CODECS; codec++) {
        const char *names[OPERATIONS];
        for (int operation = 0; operation < OPERATIONS; operation++)
            names[operation] = (active ? active : chosen_kernels()->chosen[codec][operation])->name;
        PyObject *of_codec = Py_BuildValue("(sss)", names[COMPRESS], names[DECOMPRESS], names[SUM]);
        if (!of_codec)
            Py_CLEAR(codecs);
        else
            PyTuple_SET_ITEM(codecs, codec, of_codec);
    }
    return codecs;
}

#define FAST(name) {#name, (PyCFunction)(void (*)(void))name, METH_FASTCALL, name##_doc}

static PyMethodDef methods[] = {
    FAST(compress),
    FAST(decompress),
    FAST(compress_sum),
    FAST(offsets),
    FAST(lossy),
    FAST(feed_back),
    FAST(convert),
    FAST(histogram),
    FAST(crc32),
    FAST(largest),
    {"paths", paths, METH_NOARGS, paths_doc},
    {"use", use, METH_O, use_doc},
    {"automatic", automatic, METH_NOARGS, automatic_doc},
    {"chosen", chosen, METH_NOARGS, chosen_doc},
    {NULL, NULL, 0, NULL},
};

static int execute(PyObject *module)
{
    crc32_prepare();
    if (PyModule_AddObjectRef(module, "CRC32", crc32_supported() ? Py_True : Py_False))
        return -1;
    return PyModule_AddIntConstant(module, "GROUP_LANES", GROUP_LANES)
           || PyModule_AddIntConstant(module, "STREAM_LANES", STREAM_LANES)
           || PyModule_AddIntConstant(module, "TAG_WORD_BYTES", TAG_WORD_BYTES)
           || PyModule_AddIntConstant(module, "CODE_WORD_BYTES", CODE_WORD_BYTES)
           || PyModule_AddIntConstant(module, "CODE_WORD_GROUPS", CODE_WORD_GROUPS)
           || PyModule_AddIntConstant(module, "RAW_CODE", RAW_CODE)
           || PyModule_AddIntConstant(module, "RAW_EXPONENT", RAW_EXPONENT)
           || PyModule_AddIntConstant(module, "EXPONENT_BIAS", EXPONENT_BIAS)
           || PyModule_AddIntConstant(module, "MANTISSA_BITS", MANTISSA_BITS) ? -1 : 0;
}

static PyModuleDef_Slot slots[] = {{Py_mod_exec, execute}, {0, NULL}};

static PyModuleDef definition = {
    PyModuleDef_HEAD_INIT,
    .m_name = "inceptionn.native.codec",
    .m_doc = "Kernels of the codec; see inceptionn.codec.",
    .m_methods = methods,
    .m_slots = slots,
};

PyMODINIT_FUNC PyInit_codec(void)
{
    return PyModuleDef_Init(&definition);
}

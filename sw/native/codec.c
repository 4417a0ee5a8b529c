/* SPDX-License-Identifier: BSD-2-Clause */
/* The Python module inceptionn.native.codec: buffers, the GIL, errors. inceptionn.codec is its only user and
 * gives arguments of the right types; what would be unsafe is checked here all the same.
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "crc32.h"
#include "kernels.h"
#include "streams.h"

/* Lanes from which on other Python threads may run meanwhile. */
#define RELEASE_LANES 4096

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

static bool arguments_are(const char *function, Py_ssize_t given, Py_ssize_t wanted)
{
    if (given != wanted)
        PyErr_Format(PyExc_TypeError, "%s takes %zd arguments, not %zd", function, wanted, given);
    return given == wanted;
}

/* A number of a range; -1000 with an exception set if it is not one. */
static int integer_of(PyObject *object, int low, int high, const char *name)
{
    const long value = PyLong_AsLong(object);
    if (value == -1 && PyErr_Occurred())
        return -1000;
    if (value < low || value > high) {
        PyErr_Format(PyExc_ValueError, "%s must be %d..%d, not %ld", name, low, high, value);
        return -1000;
    }
    return (int)value;
}

/* The settings that every function takes: codec (2: planes on the lattice), e0, t, b, scale, threads. */
static bool settings_of(PyObject *const *numbers, settings *s)
{
    static const struct {
        const char *name;
        int low, high;
    } rules[] = {{"codec", 0, LATTICE}, {"e0", 1, 127},       {"t", 0, 127},
                 {"b", 0, 255},            {"scale", -126, 126}, {"threads", 1, 4096}};
    int values[6];
    for (int i = 0; i < 6; i++)
        if ((values[i] = integer_of(numbers[i], rules[i].low, rules[i].high, rules[i].name)) == -1000)
            return false;
    const kernel *used = kernel_in_use();
    const bool lattice = values[0] == LATTICE;
    if (lattice)
        values[0] = PLANES;
    *s = (settings){.kernel = used, .coder = used->coders[values[0]],
                    .p = {(uint32_t)values[1], (uint32_t)values[2], (uint32_t)values[3], lattice},
                    .scale = values[4], .threads = (unsigned)values[5]};
    if (values[0] == PAPER && (s->p.e0 > s->p.t || s->p.t > s->p.b)) {
        PyErr_SetString(PyExc_ValueError, "e0, t and b must be in ascending order");
        return false;
    }
    if (values[0] == PLANES && (s->p.e0 < LEAST_PLANES_E0 || s->p.e0 >= EXPONENT_BIAS)) {
        PyErr_Format(PyExc_ValueError, "e0 of planes must be %d..126, not %d", LEAST_PLANES_E0, values[1]);
        return false;
    }
    return true;
}

/* Values: a C-contiguous buffer of float16, of uint16, which are bfloat16, or else of whole float32 lanes. */
static bool values_of(PyObject *object, Py_buffer *view, int flags, value_type *type)
{
    if (PyObject_GetBuffer(object, view, flags | PyBUF_ND | PyBUF_FORMAT))
        return false;
    const char *format = view->format ? view->format : "B";
    *type = !strcmp(format, "H") ? BFLOAT16 : !strcmp(format, "e") ? FLOAT16 : FLOAT32;
    if ((size_t)view->len % value_bytes(*type)) {
        PyErr_Format(PyExc_ValueError, "values must be whole float32 lanes, not %zd bytes", view->len);
        PyBuffer_Release(view);
        return false;
    }
    return true;
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

static PyObject *fail(status result, size_t at, int scale, Py_ssize_t capacity)
{
    static const char *const reasons[] = {
        [CUT_IN_TAGS] = "it ends inside the tag plane",
        [CUT_IN_CODES] = "it ends inside the code plane",
        [CUT_IN_DATA] = "it ends inside the data",
        [ABSENT_TAG] = "an absent lane of the last group has a tag",
        [IMPOSSIBLE] = "the exponent of an 8-bit vector falls below 1",
        [ABSENT_CODE] = "the code plane goes on after the last group",
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
"compress(x, out, codec, e0, t, b, scale, threads)\n--\n\n"
"The stream of the values in x: bytes if out is None, else written to out, its size returned.");

static PyObject *compress(PyObject *module, PyObject *const *arguments, Py_ssize_t given)
{
    (void)module;
    settings s;
    Py_buffer x, out = {0};
    if (!arguments_are("compress", given, 8) || !settings_of(arguments + 2, &s)
        || !values_of(arguments[0], &x, PyBUF_SIMPLE, &s.source))
        return NULL;
    const size_t lanes = lanes_of(&x, s.source);
    PyObject *bytes = NULL, *answer = NULL;
    if (arguments[1] == Py_None) {
        /* Not much more than needed: the allocator reuses blocks of moderate size, whose pages are mapped.
         * Mapping new pages would take longer than compressing. */
        if (!(bytes = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)stream_estimate(s, x.buf, lanes))))
            goto release_x;
        out.buf = PyBytes_AS_STRING(bytes);
        out.len = PyBytes_GET_SIZE(bytes);
    } else if (PyObject_GetBuffer(arguments[1], &out, PyBUF_WRITABLE)) {
        goto release_x;
    } else if (overlap(&x, &out)) {
        PyErr_SetString(PyExc_ValueError, "out must not overlap the values");
        goto release_out;
    }
    size_t size = 0;
    status result;
    BEGIN_WORK(lanes)
    result = stream_compress(s, x.buf, lanes, out.buf, (size_t)out.len, &size);
    END_WORK
    if (result == NO_ROOM && bytes) {
        /* The estimate was too small. The part of the stream that exists is dropped: keeping it would need
         * memory for both. */
        Py_DECREF(bytes);
        if (!(bytes = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)s.coder->format->worst_bytes(lanes))))
            goto release_x;
        BEGIN_WORK(lanes)
        uint8_t *start = (uint8_t *)PyBytes_AS_STRING(bytes);
        result = stream_compress(s, x.buf, lanes, start, s.coder->format->worst_bytes(lanes), &size);
        END_WORK
    }
    if (result)
        fail(result, 0, s.scale, out.len);
    else if (!bytes)
        answer = PyLong_FromSize_t(size);
    else if (_PyBytes_Resize(&bytes, (Py_ssize_t)size) == 0)
        Py_INCREF(answer = bytes);
release_out:
    if (!bytes && out.obj)
        PyBuffer_Release(&out);
    Py_XDECREF(bytes);
release_x:
    PyBuffer_Release(&x);
    return answer;
}

PyDoc_STRVAR(decompress_doc,
"decompress(stream, out, addend, index, blocks, codec, e0, t, b, scale, threads)\n--\n\n"
"Decode the stream into the buffer out, plus the values of addend unless that is None. addend may be\n"
"out. index is None, or holds a uint64 for every run of that number of blocks: where it starts.");

static PyObject *decompress(PyObject *module, PyObject *const *arguments, Py_ssize_t given)
{
    (void)module;
    settings s;
    Py_buffer stream, out, addend = {0}, offsets = {0};
    if (!arguments_are("decompress", given, 11) || !settings_of(arguments + 5, &s))
        return NULL;
    if (PyObject_GetBuffer(arguments[0], &stream, PyBUF_SIMPLE))
        return NULL;
    if (!values_of(arguments[1], &out, PyBUF_WRITABLE, &s.result))
        goto release_stream;
    if (overlap(&stream, &out)) {
        PyErr_SetString(PyExc_ValueError, "out must not overlap the stream");
        goto release_out;
    }
    if (arguments[2] != Py_None && !values_of(arguments[2], &addend, PyBUF_SIMPLE, &s.source))
        goto release_out;
    const size_t lanes = lanes_of(&out, s.result);
    if (addend.obj && (lanes_of(&addend, s.source) != lanes
                       || (overlap(&addend, &out) && (addend.buf != out.buf || s.source != s.result)))) {
        PyErr_SetString(PyExc_ValueError, "out must be as large as the addend, and the same or elsewhere");
        goto release_addend;
    }
    stream_index index = {0};
    if (arguments[3] != Py_None) {
        const long blocks = PyLong_AsLong(arguments[4]);
        if (blocks == -1 && PyErr_Occurred())
            goto release_addend;
        if (PyObject_GetBuffer(arguments[3], &offsets, PyBUF_SIMPLE))
            goto release_addend;
        index = (stream_index){offsets.buf, (size_t)offsets.len / 8, (size_t)blocks};
        const size_t run_lanes = index.blocks * STREAM_LANES;
        if (blocks < 1 || blocks > 0x7FFFFFFF || offsets.len % 8
            || index.entries != (lanes + run_lanes - 1) / run_lanes) {
            PyErr_SetString(PyExc_ValueError, "the index must hold one offset for each run of blocks");
            goto release_offsets;
        }
        uint64_t first = 0;
        if (index.entries)
            memcpy(&first, index.offsets, 8);
        if (first) {
            fail(WRONG_INDEX, 0, 0, 0);
            goto release_offsets;
        }
    }
    size_t at = 0;
    status result;
    BEGIN_WORK(lanes)
    result = stream_decompress(s, stream.buf, (size_t)stream.len, addend.buf, out.buf, lanes, index, &at);
    END_WORK
    if (result)
        fail(result, at, s.scale, 0);
release_offsets:
    if (offsets.obj)
        PyBuffer_Release(&offsets);
release_addend:
    if (addend.obj)
        PyBuffer_Release(&addend);
release_out:
    PyBuffer_Release(&out);
release_stream:
    PyBuffer_Release(&stream);
    return PyErr_Occurred() ? NULL : Py_NewRef(Py_None);
}

PyDoc_STRVAR(compress_sum_doc,
"compress_sum(stream, addend, out, codec, e0, t, b, scale, threads)\n--\n\n"
"Write to out the stream of the values of addend plus those of the stream; return its size.");

static PyObject *compress_sum(PyObject *module, PyObject *const *arguments, Py_ssize_t given)
{
    (void)module;
    settings s;
    Py_buffer stream, addend, out;
    if (!arguments_are("compress_sum", given, 9) || !settings_of(arguments + 3, &s))
        return NULL;
    if (PyObject_GetBuffer(arguments[0], &stream, PyBUF_SIMPLE))
        return NULL;
    if (!values_of(arguments[1], &addend, PyBUF_SIMPLE, &s.source))
        goto release_stream;
    if (PyObject_GetBuffer(arguments[2], &out, PyBUF_WRITABLE))
        goto release_addend;
    if (overlap(&stream, &out) || overlap(&addend, &out)) {
        PyErr_SetString(PyExc_ValueError, "out must not overlap the stream or the addend");
        goto release_out;
    }
    const size_t lanes = lanes_of(&addend, s.source);
    size_t size = 0, at = 0;
    status result;
    BEGIN_WORK(lanes)
    result = stream_compress_sum(s, stream.buf, (size_t)stream.len, addend.buf, lanes, out.buf,
                                 (size_t)out.len, &size, &at);
    END_WORK
    if (result)
        fail(result, at, s.scale, out.len);
release_out:
    PyBuffer_Release(&out);
release_addend:
    PyBuffer_Release(&addend);
release_stream:
    PyBuffer_Release(&stream);
    return PyErr_Occurred() ? NULL : PyLong_FromSize_t(size);
}

PyDoc_STRVAR(offsets_doc,
"offsets(stream, count, blocks, codec)\n--\n\n"
"bytes: as little-endian uint64, where each run of that number of blocks starts in the stream of count lanes.");

static PyObject *offsets(PyObject *module, PyObject *const *arguments, Py_ssize_t given)
{
    (void)module;
    Py_buffer stream;
    if (!arguments_are("offsets", given, 4))
        return NULL;
    const int codec = integer_of(arguments[3], 0, CODECS - 1, "codec");
    const Py_ssize_t lanes = PyLong_AsSsize_t(arguments[1]), blocks = PyLong_AsSsize_t(arguments[2]);
    if (PyErr_Occurred())
        return NULL;
    if (lanes < 0 || blocks < 1 || blocks > 0x7FFFFFFF)
        return PyErr_Format(PyExc_ValueError, "no such runs: %zd lanes, %zd blocks each", lanes, blocks);
    if (PyObject_GetBuffer(arguments[0], &stream, PyBUF_SIMPLE))
        return NULL;
    const kernel *used = kernel_in_use();
    const settings s = {.kernel = used, .coder = used->coders[codec]};
    const size_t plane = s.coder->format->plane_bytes(STREAM_LANES);
    const Py_ssize_t run_lanes = blocks * STREAM_LANES;
    const Py_ssize_t runs = lanes / run_lanes + (lanes % run_lanes != 0);
    size_t at = 0;
    PyObject *answer = NULL;
    /* Every block has at least its tags or codes: a count beyond that is refused before memory is allocated. */
    if ((size_t)lanes / STREAM_LANES > (size_t)stream.len / plane) {
        fail(CUT_IN_DATA, (size_t)stream.len, 0, 0);
    } else if ((answer = PyBytes_FromStringAndSize(NULL, 8 * runs))) {
        uint8_t *start = (uint8_t *)PyBytes_AS_STRING(answer);
        status result;
        BEGIN_WORK(lanes)
        result = stream_offsets(s, stream.buf, (size_t)stream.len, (size_t)lanes, (size_t)blocks, start, &at);
        END_WORK
        if (result) {
            fail(result, at, 0, 0);
            Py_CLEAR(answer);
        }
    }
    PyBuffer_Release(&stream);
    return answer;
}

PyDoc_STRVAR(lossy_doc,
"lossy(x, out, codec, e0, t, b, scale, threads)\n--\n\n"
"Write to the buffer out, which may be x, what decompressing the compressed values gives.");

static PyObject *lossy(PyObject *module, PyObject *const *arguments, Py_ssize_t given)
{
    (void)module;
    settings s;
    Py_buffer x, out;
    if (!arguments_are("lossy", given, 8) || !settings_of(arguments + 2, &s)
        || !values_of(arguments[0], &x, PyBUF_SIMPLE, &s.source))
        return NULL;
    if (!values_of(arguments[1], &out, PyBUF_WRITABLE, &s.result))
        goto release_x;
    const size_t lanes = lanes_of(&x, s.source);
    if (lanes_of(&out, s.result) != lanes
        || (overlap(&x, &out) && (x.buf != out.buf || s.source != s.result))) {
        PyErr_SetString(PyExc_ValueError, "out must be as large as the values, and the same or elsewhere");
        goto release_out;
    }
    status result;
    BEGIN_WORK(lanes)
    result = stream_lossy(s, x.buf, lanes, out.buf);
    END_WORK
    if (result)
        fail(result, 0, s.scale, 0);
release_out:
    PyBuffer_Release(&out);
release_x:
    PyBuffer_Release(&x);
    return PyErr_Occurred() ? NULL : Py_NewRef(Py_None);
}

PyDoc_STRVAR(split_doc,
"split(x, out, codec, e0, t, b, scale, threads)\n--\n\n"
"Write to out what decompressing the compressed values of x gives, and to x what is left without it, zero where\n"
"that is not finite.");

static PyObject *split(PyObject *module, PyObject *const *arguments, Py_ssize_t given)
{
    (void)module;
    settings s;
    Py_buffer x, out;
    if (!arguments_are("split", given, 8) || !settings_of(arguments + 2, &s)
        || !values_of(arguments[0], &x, PyBUF_WRITABLE, &s.source))
        return NULL;
    if (!values_of(arguments[1], &out, PyBUF_WRITABLE, &s.result))
        goto release_x;
    if (s.source != FLOAT32 || s.result != FLOAT32 || out.len != x.len || overlap(&x, &out)) {
        PyErr_SetString(PyExc_ValueError, "out must be as large as the values, and elsewhere; both fp32");
        goto release_out;
    }
    const size_t lanes = (size_t)x.len / LANE_BYTES;
    status result;
    BEGIN_WORK(lanes)
    result = stream_split(s, x.buf, lanes, out.buf);
    END_WORK
    if (result)
        fail(result, 0, s.scale, 0);
release_out:
    PyBuffer_Release(&out);
release_x:
    PyBuffer_Release(&x);
    return PyErr_Occurred() ? NULL : Py_NewRef(Py_None);
}

PyDoc_STRVAR(convert_doc,
"convert(x, out)\n--\n\n"
"Write to the buffer out the values of x, or the nearest ones that its type has.");

static PyObject *convert(PyObject *module, PyObject *const *arguments, Py_ssize_t given)
{
    (void)module;
    settings s = {.kernel = kernel_in_use()};
    Py_buffer x, out;
    if (!arguments_are("convert", given, 2) || !values_of(arguments[0], &x, PyBUF_SIMPLE, &s.source))
        return NULL;
    if (!values_of(arguments[1], &out, PyBUF_WRITABLE, &s.result))
        goto release_x;
    const size_t lanes = lanes_of(&x, s.source);
    if (lanes_of(&out, s.result) != lanes || overlap(&x, &out)) {
        PyErr_SetString(PyExc_ValueError, "out must be as large as the values, and elsewhere");
        goto release_out;
    }
    BEGIN_WORK(lanes)
    stream_convert(s, x.buf, lanes, out.buf);
    END_WORK
release_out:
    PyBuffer_Release(&out);
release_x:
    PyBuffer_Release(&x);
    return PyErr_Occurred() ? NULL : Py_NewRef(Py_None);
}

PyDoc_STRVAR(histogram_doc,
"histogram(x, codec, e0, t, b, scale, threads)\n--\n\n"
"How many of the values have each tag, or how many groups of them each code: a tuple.");

static PyObject *histogram(PyObject *module, PyObject *const *arguments, Py_ssize_t given)
{
    (void)module;
    settings s;
    Py_buffer x;
    if (!arguments_are("histogram", given, 7) || !settings_of(arguments + 1, &s)
        || !values_of(arguments[0], &x, PyBUF_SIMPLE, &s.source))
        return NULL;
    const size_t lanes = lanes_of(&x, s.source);
    uint64_t counts[MAX_CLASSES] = {0};
    status result;
    BEGIN_WORK(lanes)
    result = stream_histogram(s, x.buf, lanes, counts);
    END_WORK
    PyBuffer_Release(&x);
    if (result)
        return fail(result, 0, s.scale, 0);
    PyObject *found = PyTuple_New((Py_ssize_t)s.coder->format->classes);
    for (Py_ssize_t i = 0; found && i < PyTuple_GET_SIZE(found); i++) {
        PyObject *number = PyLong_FromUnsignedLongLong(counts[i]);
        if (!number)
            Py_CLEAR(found);
        else
            PyTuple_SET_ITEM(found, i, number);
    }
    return found;
}

PyDoc_STRVAR(largest_doc,
"largest(x)\n--\n\n"
"Bit pattern, in float32, of the largest finite magnitude among the values; 0 if there is none.");

static PyObject *largest(PyObject *module, PyObject *object)
{
    (void)module;
    Py_buffer x;
    settings s = {.kernel = kernel_in_use()};
    if (!values_of(object, &x, PyBUF_SIMPLE, &s.source))
        return NULL;
    const size_t lanes = lanes_of(&x, s.source);
    uint32_t bits;
    BEGIN_WORK(lanes)
    bits = stream_largest(s, x.buf, lanes);
    END_WORK
    PyBuffer_Release(&x);
    return PyLong_FromUnsignedLong(bits);
}

PyDoc_STRVAR(crc32_doc, "crc32(data, value)\n--\n\nAs zlib.crc32. To be used if CRC32 is true.");

static PyObject *crc32(PyObject *module, PyObject *const *arguments, Py_ssize_t given)
{
    (void)module;
    Py_buffer data;
    if (!arguments_are("crc32", given, 2))
        return NULL;
    const unsigned long value = PyLong_AsUnsignedLongMask(arguments[1]);
    if (PyErr_Occurred() || PyObject_GetBuffer(arguments[0], &data, PyBUF_SIMPLE))
        return NULL;
    uint32_t crc;
    BEGIN_WORK(data.len / LANE_BYTES)
    crc = crc32_update((uint32_t)value, data.buf, (size_t)data.len);
    END_WORK
    PyBuffer_Release(&data);
    return PyLong_FromUnsignedLong(crc);
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
    FAST(split),
    FAST(convert),
    FAST(histogram),
    FAST(crc32),
    {"largest", largest, METH_O, largest_doc},
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

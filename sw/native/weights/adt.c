/* SPDX-License-Identifier: BSD-2-Clause */
/* The Python module inceptionn.native.adt: buffers, the GIL, errors. inceptionn.layers.a2dtwp.adt is its
 * only user; sizes are checked here all the same.
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "adt.h"

/* Words from which on other Python threads may run meanwhile. */
enum { RELEASE_WORDS = 4096 };

static const adt_kernel *const kernels[] = {
#if HAVE_X86
    &adt_avx512,
    &adt_avx2,
#endif
    &adt_scalar,
};
static const size_t kernel_count = sizeof kernels / sizeof *kernels;
static const adt_kernel *active = &adt_scalar;

/* Arguments of both functions: from, to, bytes to keep, threads. */
static PyObject *run(PyObject *const *arguments, Py_ssize_t given, bool pack)
{
    if (given != 4)
        return PyErr_Format(PyExc_TypeError, "4 arguments are needed, not %zd", given);
    const long keep = PyLong_AsLong(arguments[2]), threads = PyLong_AsLong(arguments[3]);
    if (PyErr_Occurred())
        return NULL;
    if (keep < 1 || keep > 4 || threads < 1 || threads > 4096)
        return PyErr_Format(PyExc_ValueError, "no such call: %ld bytes, %ld threads", keep, threads);
    Py_buffer from, to;
    if (PyObject_GetBuffer(arguments[0], &from, PyBUF_SIMPLE))
        return NULL;
    if (PyObject_GetBuffer(arguments[1], &to, PyBUF_WRITABLE)) {
        PyBuffer_Release(&from);
        return NULL;
    }
    const Py_buffer *values = pack ? &from : &to, *packed = pack ? &to : &from;
    const char *a = from.buf, *b = to.buf;
    if (values->len % 4 || packed->len != values->len / 4 * keep)
        PyErr_Format(PyExc_ValueError, "%zd bytes of values do not fit %zd bytes of %ld each", values->len,
                     packed->len, keep);
    else if (from.len && to.len && a < b + to.len && b < a + from.len)
        PyErr_SetString(PyExc_ValueError, "out must not overlap the values");
    else {
        const size_t words = (size_t)values->len / 4;
        PyThreadState *released = words >= RELEASE_WORDS ? PyEval_SaveThread() : NULL;
        adt_run(active, pack, from.buf, words, (unsigned)keep, to.buf, (unsigned)threads);
        if (released)
            PyEval_RestoreThread(released);
    }
    PyBuffer_Release(&to);
    PyBuffer_Release(&from);
    return PyErr_Occurred() ? NULL : Py_NewRef(Py_None);
}

PyDoc_STRVAR(pack_doc,
"pack(values, out, keep, threads)\n--\n\n"
"Write the `keep` most significant bytes of each little-endian 32-bit word to out.");

static PyObject *pack(PyObject *module, PyObject *const *arguments, Py_ssize_t given)
{
    (void)module;
    return run(arguments, given, true);
}

PyDoc_STRVAR(unpack_doc,
"unpack(packed, out, keep, threads)\n--\n\n"
"Write the words back to out, with zeros in the bytes that were not kept.");

static PyObject *unpack(PyObject *module, PyObject *const *arguments, Py_ssize_t given)
{
    (void)module;
    return run(arguments, given, false);
}

#define PREPARE(kernel) ((void)0)
#include "../paths.h"

static PyMethodDef methods[] = {
    {"pack", (PyCFunction)(void (*)(void))pack, METH_FASTCALL, pack_doc},
    {"unpack", (PyCFunction)(void (*)(void))unpack, METH_FASTCALL, unpack_doc},
    {"paths", paths, METH_NOARGS, paths_doc},
    {"use", use, METH_O, use_doc},
    {NULL, NULL, 0, NULL},
};

static PyModuleDef_Slot slots[] = {{0, NULL}};

static PyModuleDef definition = {
    PyModuleDef_HEAD_INIT,
    .m_name = "inceptionn.native.adt",
    .m_doc = "Kernels of Approximate Data Transfer; see inceptionn.layers.a2dtwp.adt.",
    .m_methods = methods,
    .m_slots = slots,
};

PyMODINIT_FUNC PyInit_adt(void)
{
    return PyModuleDef_Init(&definition);
}

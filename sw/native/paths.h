/* SPDX-License-Identifier: BSD-2-Clause */
/* The functions paths() and use(name) of a Python module. `kernels` holds its `kernel_count` kernels, best
 * first; `active` is the one in use. Included after these, with PREPARE(kernel) defined: what a kernel needs
 * before its first call.
 */
PyDoc_STRVAR(paths_doc, "paths()\n--\n\nNames of the kernels that this processor runs, best first.");

static PyObject *paths(PyObject *module, PyObject *nothing)
{
    (void)module;
    (void)nothing;
    PyObject *names = PyList_New(0);
    for (size_t i = 0; names && i < kernel_count; i++) {
        if (!kernels[i]->supported())
            continue;
        PyObject *name = PyUnicode_FromString(kernels[i]->name);
        if (!name || PyList_Append(names, name))
            Py_CLEAR(names);
        Py_XDECREF(name);
    }
    return names;
}

PyDoc_STRVAR(use_doc,
"use(name)\n--\n\n"
"Use the kernel of that name from now on. ValueError if there is none here.");

static PyObject *use(PyObject *module, PyObject *name)
{
    (void)module;
    const char *wanted = PyUnicode_AsUTF8(name);
    if (!wanted)
        return NULL;
    for (size_t i = 0; i < kernel_count; i++)
        if (!strcmp(kernels[i]->name, wanted) && kernels[i]->supported()) {
            PREPARE(kernels[i]);
            active = kernels[i];
            return Py_NewRef(Py_None);
        }
    return PyErr_Format(PyExc_ValueError, "this processor does not run the kernel %R", name);
}

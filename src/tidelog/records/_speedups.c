/* The record scanner of tidelog.records.scanner in C.
 *
 * This file is optional. `scanner.scan_in_python` defines what `scan` returns for every input, and a property test
 * holds the two equal; where no compiler was present at installation, the Python function is used.
 *
 * A record of magic 2 is
 *
 *     length, attributes, timestamp delta, offset delta, key size and key, value size and value, header count, headers
 *
 * where all numbers but the attributes byte are zigzag varints and a size of -1 stands for null.
 */

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdint.h>

/* The faults of scanner.Fault. */
enum { NO_FAULT, CUT_OFF, MALFORMED, UNEVEN_OFFSET, NO_KEY, TIMESTAMP_OUT_OF_RANGE, MANY_HEADERS };

/* Below this many records a scan takes less time than two changes of the interpreter lock may. */
#define RELEASE_LOCK_RECORDS 16384

typedef struct {
    const uint8_t *data;
    Py_ssize_t size;
    Py_ssize_t position;
    int64_t index;
    int64_t count;
    int64_t base_timestamp;
    int64_t earliest;
    int64_t latest;
    int64_t max_timestamp;
    int64_t headers_left;
    int needs_key;
} Scan;

/* Both readers return the position behind the varint, or NULL if it ends at or after `end` or is too large. */

static inline const uint8_t *
read_varint(const uint8_t *at, const uint8_t *end, int32_t *value)
{
    if (at < end && *at < 0x80) {
        *value = (int32_t)(*at >> 1) ^ -(int32_t)(*at & 1);
        return at + 1;
    }
    uint64_t raw = 0;
    for (int shift = 0; shift <= 28; shift += 7) {
        if (at >= end) {
            return NULL;
        }
        uint8_t byte = *at++;
        raw |= (uint64_t)(byte & 0x7F) << shift;
        if (byte < 0x80) {
            if (raw > UINT32_MAX) {
                return NULL;
            }
            *value = (int32_t)((uint32_t)raw >> 1) ^ -(int32_t)(raw & 1);
            return at;
        }
    }
    return NULL;
}

static inline const uint8_t *
read_varlong(const uint8_t *at, const uint8_t *end, int64_t *value)
{
    uint64_t raw = 0;
    for (int shift = 0; shift <= 63; shift += 7) {
        if (at >= end) {
            return NULL;
        }
        uint8_t byte = *at++;
        if (shift == 63 && (byte & 0x7F) > 1) {
            return NULL;
        }
        raw |= (uint64_t)(byte & 0x7F) << shift;
        if (byte < 0x80) {
            *value = (int64_t)(raw >> 1) ^ -(int64_t)(raw & 1);
            return at;
        }
    }
    return NULL;
}

/* Skip a key or a value: -1 is null, and any other negative size is an error. */
static inline const uint8_t *
skip_nullable(const uint8_t *at, const uint8_t *end, int32_t *size)
{
    at = read_varint(at, end, size);
    if (at == NULL || *size < -1) {
        return NULL;
    }
    if (*size <= 0) {
        return at;
    }
    return *size <= end - at ? at + *size : NULL;
}

/* Take the headers off `*left`, which is negative afterwards if there are more. */
static const uint8_t *
skip_headers(const uint8_t *at, const uint8_t *end, int64_t *left)
{
    int32_t count, size;
    at = read_varint(at, end, &count);
    if (at == NULL || count < 0) {
        return NULL;
    }
    *left -= count;
    if (*left < 0) {
        return NULL;
    }
    while (count-- > 0) {
        at = skip_nullable(at, end, &size);
        if (at == NULL || size < 0) {
            return NULL;
        }
        at = skip_nullable(at, end, &size);
        if (at == NULL) {
            return NULL;
        }
    }
    return at;
}

/* Find the end of the record that begins at `*start`: NO_FAULT, CUT_OFF or MALFORMED. */
static inline int
find_end(const uint8_t **start, const uint8_t *stop, const uint8_t **end)
{
    int32_t length;
    const uint8_t *at = *start;
    const uint8_t *body = read_varint(at, stop, &length);
    if (body == NULL) {
        /* A varint that the data ends in is cut off; one that is complete, or longer than five bytes, is malformed. */
        Py_ssize_t left = stop - at;
        for (Py_ssize_t place = 0; place < 5; place++) {
            if (place >= left) {
                return CUT_OFF;
            }
            if (at[place] < 0x80) {
                return MALFORMED;
            }
        }
        return MALFORMED;
    }
    if (length < 0) {
        return MALFORMED;
    }
    if (length > stop - body) {
        return CUT_OFF;
    }
    *start = body;
    *end = body + length;
    return NO_FAULT;
}

static int
scan_records(Scan *scan)
{
    const uint8_t *const stop = scan->data + scan->size;
    const uint8_t *record = scan->data + scan->position;
    int64_t index = scan->index;
    int fault = NO_FAULT;

    while (index < scan->count) {
        const uint8_t *at = record;
        const uint8_t *end;
        int64_t timestamp;
        int32_t offset_delta, key_size, value_size;

        fault = find_end(&at, stop, &end);
        if (fault != NO_FAULT) {
            break;
        }
        fault = MALFORMED;
        if (at >= end) {
            break;
        }
        at = read_varlong(at + 1, end, &timestamp);
        if (at == NULL) {
            break;
        }
        at = read_varint(at, end, &offset_delta);
        if (at == NULL) {
            break;
        }
        at = skip_nullable(at, end, &key_size);
        if (at == NULL) {
            break;
        }
        at = skip_nullable(at, end, &value_size);
        if (at == NULL) {
            break;
        }
        if (at + 1 == end && *at == 0) {
            at = end;
        }
        else {
            at = skip_headers(at, end, &scan->headers_left);
            if (scan->headers_left < 0) {
                fault = MANY_HEADERS;
                break;
            }
        }
        if (at != end) {
            break;
        }
        if (scan->base_timestamp >= 0 ? timestamp > INT64_MAX - scan->base_timestamp
                                      : timestamp < INT64_MIN - scan->base_timestamp) {
            break;
        }
        timestamp += scan->base_timestamp;
        if (offset_delta != index) {
            fault = UNEVEN_OFFSET;
            break;
        }
        if (key_size < 0 && scan->needs_key) {
            fault = NO_KEY;
            break;
        }
        if ((timestamp < scan->earliest || timestamp > scan->latest) && timestamp != -1) {
            fault = TIMESTAMP_OUT_OF_RANGE;
            break;
        }
        fault = NO_FAULT;
        record = end;
        index++;
        if (timestamp > scan->max_timestamp) {
            scan->max_timestamp = timestamp;
        }
    }
    scan->position = record - scan->data;
    scan->index = index;
    return fault;
}

PyDoc_STRVAR(scan_doc,
"scan(data, position, index, count, base_timestamp, earliest, latest, needs_key, max_timestamp, headers_max)\n"
"--\n\n"
"Return (position, index, max_timestamp, fault); tidelog.records.scanner.scan_in_python says what they are.");

static PyObject *
scan(PyObject *Py_UNUSED(module), PyObject *const *arguments, Py_ssize_t argument_count)
{
    if (argument_count != 10) {
        PyErr_Format(PyExc_TypeError, "scan() takes 10 arguments (%zd given)", argument_count);
        return NULL;
    }
    Scan state;
    state.position = PyLong_AsSsize_t(arguments[1]);
    state.index = PyLong_AsLongLong(arguments[2]);
    state.count = PyLong_AsLongLong(arguments[3]);
    state.base_timestamp = PyLong_AsLongLong(arguments[4]);
    state.earliest = PyLong_AsLongLong(arguments[5]);
    state.latest = PyLong_AsLongLong(arguments[6]);
    state.needs_key = PyObject_IsTrue(arguments[7]);
    state.max_timestamp = PyLong_AsLongLong(arguments[8]);
    state.headers_left = PyLong_AsLongLong(arguments[9]);
    if (PyErr_Occurred()) {
        return NULL;
    }
    Py_buffer buffer;
    if (PyObject_GetBuffer(arguments[0], &buffer, PyBUF_SIMPLE) < 0) {
        return NULL;
    }
    if (state.position < 0 || state.position > buffer.len || state.index < 0 || state.headers_left < 0) {
        PyBuffer_Release(&buffer);
        PyErr_SetString(PyExc_ValueError, "scan() must begin inside the data, at an index and with a limit that are not negative");
        return NULL;
    }
    state.data = buffer.buf;
    state.size = buffer.len;
    int fault;
    if (state.count - state.index >= RELEASE_LOCK_RECORDS) {
        Py_BEGIN_ALLOW_THREADS
        fault = scan_records(&state);
        Py_END_ALLOW_THREADS
    }
    else {
        fault = scan_records(&state);
    }
    PyBuffer_Release(&buffer);
    return Py_BuildValue("(nLLi)", state.position, (long long)state.index, (long long)state.max_timestamp, fault);
}

static PyMethodDef methods[] = {
    {"scan", (PyCFunction)(void (*)(void))scan, METH_FASTCALL, scan_doc},
    {NULL, NULL, 0, NULL},
};

/* Raised with every change of arguments or results: a library that was built from older sources is not used. */
#define VERSION 1

static int
execute(PyObject *module)
{
    return PyModule_AddIntConstant(module, "VERSION", VERSION);
}

static struct PyModuleDef_Slot slots[] = {
    {Py_mod_exec, execute},
#ifdef Py_mod_gil
    {Py_mod_gil, Py_MOD_GIL_NOT_USED},
#endif
    {0, NULL},
};

static struct PyModuleDef module = {
    PyModuleDef_HEAD_INIT,
    .m_name = "tidelog.records._speedups",
    .m_doc = "The record scanner of tidelog.records.scanner in C.",
    .m_methods = methods,
    .m_slots = slots,
};

PyMODINIT_FUNC
PyInit__speedups(void)
{
    return PyModuleDef_Init(&module);
}

/* The record scanner of tidelog.records.scanner, the batch check of `usual`, the batch encoder of `bulk` and the reader
 * of `rows` in C.
 *
 * This file is optional. `scanner.scan_in_python` defines what `scan` returns for every input, `read_usual_in_python`
 * what `read_usual` returns, `bulk.assemble_in_python` what `assemble` returns, `rows.read_rows_in_python` what
 * `read_rows` returns, and property tests hold them equal;
 * where no compiler was present at installation, the Python functions are used.
 *
 * A record of magic 2 is
 *
 *     length, attributes, timestamp delta, offset delta, key size and key, value size and value, header count, headers
 *
 * where all numbers but the attributes byte are zigzag varints and a size of -1 stands for null.
 */

#include "../speedups.h"
#include <string.h>

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

/* Scan, without the interpreter lock if that takes long. */
static int
scan_all(Scan *scan)
{
    int fault;
    if (scan->count - scan->index >= RELEASE_LOCK_RECORDS) {
        Py_BEGIN_ALLOW_THREADS
        fault = scan_records(scan);
        Py_END_ALLOW_THREADS
    }
    else {
        fault = scan_records(scan);
    }
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
    int fault = scan_all(&state);
    PyBuffer_Release(&buffer);
    return Py_BuildValue("(nLLi)", state.position, (long long)state.index, (long long)state.max_timestamp, fault);
}

/* Batches.
 *
 * `assemble` encodes uncompressed batches of plain records: exact tuples of an exact int, bytes or None, bytes or None,
 * and no headers. It returns None for everything else, which the Python function then encodes or rejects.
 */

#define HEADER_BYTES 61
#define LENGTH_PREFIX_BYTES 12
#define CRC_POSITION 17
#define ATTRIBUTES_POSITION 21
#define RECORD_FIELDS 4

typedef struct {
    int64_t timestamp;
    PyObject *key;
    PyObject *value;
} Plain;

static inline uint64_t
zigzag(int64_t value)
{
    return ((uint64_t)value << 1) ^ (uint64_t)(value >> 63);
}

static inline Py_ssize_t
varint_bytes(int64_t value)
{
    uint64_t rest = zigzag(value);
    Py_ssize_t size = 1;
    while (rest >= 0x80) {
        rest >>= 7;
        size++;
    }
    return size;
}

static inline uint8_t *
write_varint(uint8_t *at, int64_t value)
{
    uint64_t rest = zigzag(value);
    while (rest >= 0x80) {
        *at++ = (uint8_t)rest | 0x80;
        rest >>= 7;
    }
    *at++ = (uint8_t)rest;
    return at;
}

/* Read one record; 0 for one that is not plain. No reference is taken. */
static inline int
read_plain(PyObject *item, Plain *record)
{
    if (!PyTuple_CheckExact(item) || PyTuple_GET_SIZE(item) != RECORD_FIELDS) {
        return 0;
    }
    PyObject *timestamp = PyTuple_GET_ITEM(item, 0);
    PyObject *headers = PyTuple_GET_ITEM(item, 3);
    record->key = PyTuple_GET_ITEM(item, 1);
    record->value = PyTuple_GET_ITEM(item, 2);
    if (!PyLong_CheckExact(timestamp) || !PyTuple_CheckExact(headers) || PyTuple_GET_SIZE(headers) != 0 ||
        !(record->key == Py_None || PyBytes_CheckExact(record->key)) ||
        !(record->value == Py_None || PyBytes_CheckExact(record->value))) {
        return 0;
    }
    int overflow;
    record->timestamp = PyLong_AsLongLongAndOverflow(timestamp, &overflow);
    return !overflow;
}

static inline Py_ssize_t
nullable_bytes(PyObject *content)
{
    if (content == Py_None) {
        return 1;
    }
    Py_ssize_t size = PyBytes_GET_SIZE(content);
    return varint_bytes(size) + size;
}

static inline uint8_t *
write_nullable(uint8_t *at, PyObject *content)
{
    if (content == Py_None) {
        return write_varint(at, -1);
    }
    Py_ssize_t size = PyBytes_GET_SIZE(content);
    at = write_varint(at, size);
    memcpy(at, PyBytes_AS_STRING(content), (size_t)size);
    return at + size;
}

/* The size of a record behind its length: attributes, deltas, key, value and the count of headers. */
static inline Py_ssize_t
body_bytes(const Plain *record, int64_t timestamp_delta, Py_ssize_t offset_delta)
{
    return 2 + varint_bytes(timestamp_delta) + varint_bytes(offset_delta) + nullable_bytes(record->key) +
           nullable_bytes(record->value);
}

static inline int
subtract(int64_t left, int64_t right, int64_t *difference)
{
    if (right < 0 ? left > INT64_MAX + right : left < INT64_MIN + right) {
        return 0;
    }
    *difference = left - right;
    return 1;
}

typedef struct {
    Py_ssize_t size;
    int64_t base_timestamp;
    int64_t max_timestamp;
    int has_one_timestamp;
} Measures;

/* Measure the records of a list or tuple; 0 if one of them is not plain. */
static int
measure(PyObject *records, Measures *measures)
{
    Py_ssize_t count = PySequence_Fast_GET_SIZE(records);
    Plain record;
    int64_t delta;
    measures->size = 0;
    measures->has_one_timestamp = 1;
    for (Py_ssize_t index = 0; index < count; index++) {
        if (!read_plain(PySequence_Fast_GET_ITEM(records, index), &record)) {
            return 0;
        }
        if (index == 0) {
            measures->base_timestamp = measures->max_timestamp = record.timestamp;
        }
        else if (record.timestamp != measures->base_timestamp) {
            measures->has_one_timestamp = 0;
            if (record.timestamp > measures->max_timestamp) {
                measures->max_timestamp = record.timestamp;
            }
        }
        if (!subtract(record.timestamp, measures->base_timestamp, &delta)) {
            return 0;
        }
        Py_ssize_t body = body_bytes(&record, delta, index);
        if (body > INT32_MAX) {
            return 0;
        }
        measures->size += varint_bytes(body) + body;
        if (measures->size > INT32_MAX - HEADER_BYTES) {
            return 0;
        }
    }
    return 1;
}

/* Write the records that were measured; 0 if they are others by now. */
static int
write_records(PyObject *records, const Measures *measures, Py_ssize_t count, uint8_t *at)
{
    uint8_t *const end = at + measures->size;
    Plain record;
    int64_t delta;
    if (PySequence_Fast_GET_SIZE(records) != count) {
        return 0;
    }
    for (Py_ssize_t index = 0; index < count; index++) {
        if (!read_plain(PySequence_Fast_GET_ITEM(records, index), &record) ||
            !subtract(record.timestamp, measures->base_timestamp, &delta)) {
            return 0;
        }
        Py_ssize_t body = body_bytes(&record, delta, index);
        if (varint_bytes(body) + body > end - at) {
            return 0;
        }
        at = write_varint(at, body);
        *at++ = 0;
        at = write_varint(at, delta);
        at = write_varint(at, index);
        at = write_nullable(at, record.key);
        at = write_nullable(at, record.value);
        *at++ = 0;
    }
    return at == end;
}

typedef struct {
    int64_t attributes;
    int64_t producer_id;
    int64_t producer_epoch;
    int64_t base_sequence;
} Stamp;

static void
write_header(uint8_t *at, const Measures *measures, const Stamp *stamp, Py_ssize_t count)
{
    at = write_big_endian(at, 0, 8);
    at = write_big_endian(at, (uint64_t)(HEADER_BYTES - LENGTH_PREFIX_BYTES + measures->size), 4);
    at = write_big_endian(at, UINT32_MAX, 4);
    *at++ = 2;
    at = write_big_endian(at, 0, 4);
    at = write_big_endian(at, (uint64_t)stamp->attributes, 2);
    at = write_big_endian(at, (uint64_t)(count - 1), 4);
    at = write_big_endian(at, (uint64_t)measures->base_timestamp, 8);
    at = write_big_endian(at, (uint64_t)measures->max_timestamp, 8);
    at = write_big_endian(at, (uint64_t)stamp->producer_id, 8);
    at = write_big_endian(at, (uint64_t)stamp->producer_epoch, 2);
    at = write_big_endian(at, (uint64_t)stamp->base_sequence, 4);
    write_big_endian(at, (uint64_t)count, 4);
}

/* The checksum of a batch, which `crc32c` computes; -1 with an exception set if it fails. */
static int
checksum(uint8_t *batch, Py_ssize_t size, PyObject *crc32c, uint32_t *value)
{
    PyObject *covered = PyMemoryView_FromMemory((char *)batch + ATTRIBUTES_POSITION, size - ATTRIBUTES_POSITION, PyBUF_READ);
    if (covered == NULL) {
        return -1;
    }
    PyObject *found = PyObject_CallOneArg(crc32c, covered);
    Py_DECREF(covered);
    if (found == NULL) {
        return -1;
    }
    unsigned long number = PyLong_AsUnsignedLong(found);
    Py_DECREF(found);
    if (number == (unsigned long)-1 && PyErr_Occurred()) {
        return -1;
    }
    *value = (uint32_t)number;
    return 0;
}

static int
seal(uint8_t *batch, Py_ssize_t size, PyObject *crc32c)
{
    uint32_t value;
    if (checksum(batch, size, crc32c, &value) < 0) {
        return -1;
    }
    write_big_endian(batch + CRC_POSITION, value, 4);
    return 0;
}

/* The usual batch: its header and, if it is not compressed, its records. */

#define HEADER_FIELDS 13
#define MAGIC 2
#define CODEC_MASK 0x07
#define TRANSACTIONAL_BIT 0x10
#define NO_TIMESTAMP (-1)

static const uint8_t field_bytes[HEADER_FIELDS] = {8, 4, 4, 1, 4, 2, 4, 8, 8, 8, 2, 4, 4};
enum {
    BASE_OFFSET,
    LENGTH,
    LEADER_EPOCH,
    MAGIC_FIELD,
    CRC,
    ATTRIBUTES,
    LAST_OFFSET_DELTA,
    BASE_TIMESTAMP,
    MAX_TIMESTAMP,
    PRODUCER_ID,
    PRODUCER_EPOCH,
    BASE_SEQUENCE,
    RECORD_COUNT,
};

/* Read the fields of a header; all are signed but the checksum. */
static void
read_header(const uint8_t *at, int64_t *fields)
{
    for (int field = 0; field < HEADER_FIELDS; field++) {
        int size = field_bytes[field];
        fields[field] = field == CRC ? (int64_t)read_unsigned(at, size) : read_signed(at, size);
        at += size;
    }
}

/* Whether the header is that of a usual batch of this size. */
static int
is_usual(const int64_t *fields, Py_ssize_t size, int64_t bytes_max, int64_t count_max)
{
    int64_t attributes = fields[ATTRIBUTES];
    int64_t count = fields[RECORD_COUNT];
    return fields[MAGIC_FIELD] == MAGIC && fields[LENGTH] == size - LENGTH_PREFIX_BYTES && size <= bytes_max &&
           fields[BASE_OFFSET] == 0 && count == fields[LAST_OFFSET_DELTA] + 1 && count > 0 && count <= count_max &&
           !(attributes & ~(int64_t)(CODEC_MASK | TRANSACTIONAL_BIT)) &&
           (fields[PRODUCER_ID] >= 0 ? fields[BASE_SEQUENCE] >= 0 && fields[PRODUCER_EPOCH] >= 0
                                     : !(attributes & TRANSACTIONAL_BIT));
}

static PyObject *
header_tuple(const int64_t *fields)
{
    PyObject *header = PyTuple_New(HEADER_FIELDS);
    for (int field = 0; header != NULL && field < HEADER_FIELDS; field++) {
        PyObject *number = PyLong_FromLongLong(fields[field]);
        if (number == NULL) {
            Py_CLEAR(header);
            break;
        }
        PyTuple_SET_ITEM(header, field, number);
    }
    return header;
}

PyDoc_STRVAR(read_usual_doc,
"read_usual(batch, bytes_max, count_max, earliest, latest, needs_key, headers_max, crc32c)\n"
"--\n\n"
"Return the fields of a header, or None; tidelog.records.usual.read_usual_in_python says which.");

static PyObject *
read_usual(PyObject *Py_UNUSED(module), PyObject *const *arguments, Py_ssize_t argument_count)
{
    if (argument_count != 8) {
        PyErr_Format(PyExc_TypeError, "read_usual() takes 8 arguments (%zd given)", argument_count);
        return NULL;
    }
    int64_t bytes_max = PyLong_AsLongLong(arguments[1]);
    int64_t count_max = PyLong_AsLongLong(arguments[2]);
    Scan state;
    state.earliest = PyLong_AsLongLong(arguments[3]);
    state.latest = PyLong_AsLongLong(arguments[4]);
    state.needs_key = PyObject_IsTrue(arguments[5]);
    state.headers_left = PyLong_AsLongLong(arguments[6]);
    if (PyErr_Occurred()) {
        return NULL;
    }
    if (state.headers_left < 0) {
        PyErr_SetString(PyExc_ValueError, "the limit of headers must not be negative");
        return NULL;
    }
    Py_buffer buffer;
    if (PyObject_GetBuffer(arguments[0], &buffer, PyBUF_SIMPLE) < 0) {
        return NULL;
    }
    int64_t fields[HEADER_FIELDS];
    PyObject *header = NULL;
    if (buffer.len >= HEADER_BYTES) {
        read_header(buffer.buf, fields);
        uint32_t found;
        if (is_usual(fields, buffer.len, bytes_max, count_max) &&
            checksum(buffer.buf, buffer.len, arguments[7], &found) == 0 && found == (uint32_t)fields[CRC]) {
            int fault = NO_FAULT;
            if (!(fields[ATTRIBUTES] & CODEC_MASK)) {
                state.data = buffer.buf;
                state.size = buffer.len;
                state.position = HEADER_BYTES;
                state.index = 0;
                state.count = fields[RECORD_COUNT];
                state.base_timestamp = fields[BASE_TIMESTAMP];
                state.max_timestamp = NO_TIMESTAMP;
                fault = scan_all(&state);
                if (state.position != state.size || state.max_timestamp != fields[MAX_TIMESTAMP]) {
                    fault = MALFORMED;
                }
            }
            if (fault == NO_FAULT) {
                header = header_tuple(fields);
            }
        }
    }
    PyBuffer_Release(&buffer);
    if (header == NULL && !PyErr_Occurred()) {
        Py_RETURN_NONE;
    }
    return header;
}

static int
fits(int64_t value, int bits)
{
    return value >= -((int64_t)1 << (bits - 1)) && value < (int64_t)1 << (bits - 1);
}

PyDoc_STRVAR(assemble_doc,
"assemble(records, buffer_of, attributes, producer_id, producer_epoch, base_sequence, crc32c)\n"
"--\n\n"
"Return (buffer, size_bytes, raw_bytes, has_one_timestamp) as tidelog.records.bulk.assemble_in_python does, or None for\n"
"records that are left to it.");

static PyObject *
assemble(PyObject *Py_UNUSED(module), PyObject *const *arguments, Py_ssize_t argument_count)
{
    if (argument_count != 7) {
        PyErr_Format(PyExc_TypeError, "assemble() takes 7 arguments (%zd given)", argument_count);
        return NULL;
    }
    PyObject *records = arguments[0];
    PyObject *buffer_of = arguments[1];
    Stamp stamp;
    stamp.attributes = PyLong_AsLongLong(arguments[2]);
    stamp.producer_id = PyLong_AsLongLong(arguments[3]);
    stamp.producer_epoch = PyLong_AsLongLong(arguments[4]);
    stamp.base_sequence = PyLong_AsLongLong(arguments[5]);
    if (PyErr_Occurred()) {
        return NULL;
    }
    Measures measures = {0};
    if (!(PyList_CheckExact(records) || PyTuple_CheckExact(records)) || PySequence_Fast_GET_SIZE(records) == 0 ||
        !fits(stamp.attributes, 16) || !fits(stamp.producer_epoch, 16) || !fits(stamp.base_sequence, 32) ||
        !measure(records, &measures)) {
        Py_RETURN_NONE;
    }
    Py_ssize_t count = PySequence_Fast_GET_SIZE(records);
    Py_ssize_t size = HEADER_BYTES + measures.size;
    PyObject *buffer;
    if (buffer_of == (PyObject *)&PyByteArray_Type) {
        buffer = PyByteArray_FromStringAndSize(NULL, size);
    }
    else {
        buffer = PyObject_CallFunction(buffer_of, "n", size);
    }
    if (buffer == NULL) {
        return NULL;
    }
    Py_buffer view;
    if (PyObject_GetBuffer(buffer, &view, PyBUF_WRITABLE) < 0) {
        Py_DECREF(buffer);
        return NULL;
    }
    int is_sealed = -1;
    if (view.len < size || !write_records(records, &measures, count, (uint8_t *)view.buf + HEADER_BYTES)) {
        PyErr_SetString(PyExc_ValueError, "the records changed, or the buffer is too small for them");
    }
    else {
        write_header(view.buf, &measures, &stamp, count);
        is_sealed = seal(view.buf, size, arguments[6]);
    }
    PyBuffer_Release(&view);
    if (is_sealed < 0) {
        Py_DECREF(buffer);
        return NULL;
    }
    return Py_BuildValue("(NnnO)", buffer, size, measures.size, measures.has_one_timestamp ? Py_True : Py_False);
}

typedef struct {
    PyObject *topic;
    PyObject *partition;
    PyObject *timestamp_type;
    PyObject *leader_epoch;
    PyObject *no_headers;
    PyTypeObject *row_class;
    int64_t base_offset;
    int64_t base_timestamp;
} Rows;

/* A key or a value; None for a negative size. */
static PyObject *
bytes_or_none(const uint8_t *at, int32_t size)
{
    return size < 0 ? Py_NewRef(Py_None) : PyBytes_FromStringAndSize((const char *)at, size);
}

/* (topic, partition, offset, timestamp, key, value, headers, timestamp_type, leader_epoch) */
static PyObject *
make_row(const Rows *rows, int64_t offset, int64_t timestamp, PyObject *key, PyObject *value)
{
    PyObject *offset_number = PyLong_FromLongLong(offset);
    PyObject *timestamp_number = PyLong_FromLongLong(timestamp);
    PyObject *row = NULL;
    if (offset_number != NULL && timestamp_number != NULL) {
        row = rows->row_class->tp_alloc(rows->row_class, 9);
    }
    if (row == NULL) {
        Py_XDECREF(offset_number);
        Py_XDECREF(timestamp_number);
        return NULL;
    }
    PyTuple_SET_ITEM(row, 0, Py_NewRef(rows->topic));
    PyTuple_SET_ITEM(row, 1, Py_NewRef(rows->partition));
    PyTuple_SET_ITEM(row, 2, offset_number);
    PyTuple_SET_ITEM(row, 3, timestamp_number);
    PyTuple_SET_ITEM(row, 4, Py_NewRef(key));
    PyTuple_SET_ITEM(row, 5, Py_NewRef(value));
    PyTuple_SET_ITEM(row, 6, Py_NewRef(rows->no_headers));
    PyTuple_SET_ITEM(row, 7, Py_NewRef(rows->timestamp_type));
    PyTuple_SET_ITEM(row, 8, Py_NewRef(rows->leader_epoch));
    return row;
}

/* Append the record at `*record` to `found`: 1, 0 if the plain decoder has to read it, -1 on an error. */
static int
append_row(const Rows *rows, int64_t index, const uint8_t **record, const uint8_t *stop, PyObject *found)
{
    const uint8_t *at = *record, *end, *key_at, *value_at;
    int64_t timestamp;
    int32_t offset_delta, key_size, value_size;
    if (find_end(&at, stop, &end) != NO_FAULT || at >= end || (at = read_varlong(at + 1, end, &timestamp)) == NULL ||
        (at = read_varint(at, end, &offset_delta)) == NULL || offset_delta != index ||
        (at = skip_nullable(at, end, &key_size)) == NULL) {
        return 0;
    }
    key_at = at - (key_size > 0 ? key_size : 0);
    if ((at = skip_nullable(at, end, &value_size)) == NULL || at + 1 != end ||
        __builtin_add_overflow(timestamp, rows->base_timestamp, &timestamp)) {
        return 0;
    }
    value_at = at - (value_size > 0 ? value_size : 0);
    PyObject *key = bytes_or_none(key_at, key_size);
    PyObject *value = key == NULL ? NULL : bytes_or_none(value_at, value_size);
    PyObject *row = value == NULL ? NULL : make_row(rows, rows->base_offset + index, timestamp, key, value);
    int is_appended = row == NULL ? -1 : PyList_Append(found, row);
    Py_XDECREF(key);
    Py_XDECREF(value);
    Py_XDECREF(row);
    *record = end;
    return is_appended < 0 ? -1 : 1;
}

PyDoc_STRVAR(read_rows_doc,
"read_rows(data, position, index, stop, base_offset, base_timestamp, topic, partition, timestamp_type, leader_epoch,\n"
"    row_class, rows)\n"
"--\n\n"
"Append rows and return (position, index); tidelog.records.rows.read_rows_in_python says which.");

static PyObject *
read_rows(PyObject *Py_UNUSED(module), PyObject *const *arguments, Py_ssize_t argument_count)
{
    if (argument_count != 12) {
        PyErr_Format(PyExc_TypeError, "read_rows() takes 12 arguments (%zd given)", argument_count);
        return NULL;
    }
    PyObject *data = arguments[0], *found = arguments[11];
    if (!PyBytes_Check(data) || !PyList_Check(found) || !PyType_Check(arguments[10]) ||
        !PyType_IsSubtype((PyTypeObject *)arguments[10], &PyTuple_Type)) {
        PyErr_SetString(PyExc_TypeError, "read_rows() takes bytes, a class of tuples and a list");
        return NULL;
    }
    Py_ssize_t position = PyLong_AsSsize_t(arguments[1]);
    int64_t index = PyLong_AsLongLong(arguments[2]), last = PyLong_AsLongLong(arguments[3]);
    Rows rows = {
        .topic = arguments[6],
        .partition = arguments[7],
        .timestamp_type = arguments[8],
        .leader_epoch = arguments[9],
        .row_class = (PyTypeObject *)arguments[10],
        .base_offset = PyLong_AsLongLong(arguments[4]),
        .base_timestamp = PyLong_AsLongLong(arguments[5]),
    };
    if (PyErr_Occurred()) {
        return NULL;
    }
    if (position < 0 || position > PyBytes_GET_SIZE(data)) {
        PyErr_SetString(PyExc_ValueError, "the position is not in the data");
        return NULL;
    }
    rows.no_headers = PyTuple_New(0);
    const uint8_t *first = (const uint8_t *)PyBytes_AS_STRING(data);
    const uint8_t *record = first + position, *end = first + PyBytes_GET_SIZE(data);
    int state = rows.no_headers == NULL ? -1 : 1;
    while (state > 0 && index < last && (state = append_row(&rows, index, &record, end, found)) > 0) {
        index++;
    }
    Py_XDECREF(rows.no_headers);
    return state < 0 ? NULL : Py_BuildValue("(nL)", (Py_ssize_t)(record - first), (long long)index);
}

static PyMethodDef methods[] = {
    {"scan", (PyCFunction)(void (*)(void))scan, METH_FASTCALL, scan_doc},
    {"read_usual", (PyCFunction)(void (*)(void))read_usual, METH_FASTCALL, read_usual_doc},
    {"assemble", (PyCFunction)(void (*)(void))assemble, METH_FASTCALL, assemble_doc},
    {"read_rows", (PyCFunction)(void (*)(void))read_rows, METH_FASTCALL, read_rows_doc},
    {NULL, NULL, 0, NULL},
};

SPEEDUPS_MODULE("tidelog.records._speedups",
                "The record scanner, the batch check, the batch encoder and the reader of rows of tidelog.records in C.",
                methods, SPEEDUPS_FUNCTIONS_ONLY, 3)

/* The decoders of OffsetCommit requests, and of Produce requests for one partition, of tidelog.wire in C.
 *
 * This file is optional. `offset_commit.decode_in_python` and `produce.decode_in_python` define the result for every
 * input: the functions here return the same, or None for requests that they leave to the Python functions, which decode
 * or reject them. These are requests that break the format, those with tagged fields and, for Produce, those of versions
 * before 3 and for more or less than one partition. Property tests compare them.
 *
 * Every read is checked against the end of the request, never against what a length or count in it claims.
 */

#include "../speedups.h"

#define FLEXIBLE_FROM 8
#define MEMBERS_FROM 1
#define TIMESTAMPS_IN 1
#define RETENTION_UNTIL 4
#define LEADER_EPOCHS_FROM 6
#define INSTANCE_IDS_FROM 7
#define STRING_BYTES_MAX 32767
#define PRODUCE_FROM 3
#define PRODUCE_FLEXIBLE_FROM 9
#define PRODUCE_FIELDS 4
#define NAME_BYTES_MAX 249

/* A request that is being read. `at` is NULL once something in it could not be read. */
typedef struct {
    const uint8_t *at;
    const uint8_t *end;
    int is_flexible;
    int version;
} Reader;

static inline int
has(const Reader *reader, Py_ssize_t size)
{
    return reader->at != NULL && reader->end - reader->at >= size;
}

static int64_t
read_number(Reader *reader, int size)
{
    if (!has(reader, size)) {
        reader->at = NULL;
        return 0;
    }
    int64_t value = read_signed(reader->at, size);
    reader->at += size;
    return value;
}

static uint32_t
read_uvarint(Reader *reader)
{
    uint64_t value = 0;
    for (int shift = 0; shift <= 28; shift += 7) {
        if (!has(reader, 1)) {
            break;
        }
        uint8_t byte = *reader->at++;
        value |= (uint64_t)(byte & 0x7F) << shift;
        if (byte < 0x80) {
            if (value > INT32_MAX) {
                break;
            }
            return (uint32_t)value;
        }
    }
    reader->at = NULL;
    return 0;
}

/* The number of elements that follow, at most as many as there are bytes. */
static Py_ssize_t
read_count(Reader *reader)
{
    int64_t count = reader->is_flexible ? (int64_t)read_uvarint(reader) - 1 : read_number(reader, 4);
    if (count < 0 || !has(reader, count)) {
        reader->at = NULL;
        return 0;
    }
    return (Py_ssize_t)count;
}

/* A string, None for null where that is allowed; NULL, with no exception set, for anything else. */
static PyObject *
read_string(Reader *reader, int is_nullable)
{
    int64_t size = reader->is_flexible ? (int64_t)read_uvarint(reader) - 1 : read_number(reader, 2);
    if (reader->at != NULL && size < 0 && is_nullable) {
        Py_RETURN_NONE;
    }
    if (size < 0 || size > STRING_BYTES_MAX || !has(reader, size)) {
        reader->at = NULL;
        return NULL;
    }
    PyObject *text = PyUnicode_DecodeUTF8((const char *)reader->at, size, NULL);
    if (text == NULL) {
        PyErr_Clear();
        reader->at = NULL;
        return NULL;
    }
    reader->at += size;
    return text;
}

/* The end of a struct: no tagged fields. */
static void
read_no_tags(Reader *reader)
{
    if (reader->is_flexible && (!has(reader, 1) || *reader->at++ != 0)) {
        reader->at = NULL;
    }
}

static PyObject *
read_partition(Reader *reader)
{
    int64_t index = read_number(reader, 4);
    int64_t offset = read_number(reader, 8);
    int64_t leader_epoch = -1;
    int64_t timestamp = -1;
    if (reader->version >= LEADER_EPOCHS_FROM) {
        leader_epoch = read_number(reader, 4);
    }
    else if (reader->version == TIMESTAMPS_IN) {
        timestamp = read_number(reader, 8);
    }
    PyObject *metadata = read_string(reader, 1);
    read_no_tags(reader);
    if (reader->at == NULL) {
        Py_XDECREF(metadata);
        return NULL;
    }
    PyObject *partition = PyTuple_New(5);
    if (partition == NULL) {
        Py_DECREF(metadata);
        return NULL;
    }
    PyTuple_SET_ITEM(partition, 3, metadata);
    int64_t numbers[] = {index, offset, leader_epoch, timestamp};
    int places[] = {0, 1, 2, 4};
    for (int each = 0; each < 4; each++) {
        PyObject *number = PyLong_FromLongLong(numbers[each]);
        if (number == NULL) {
            Py_DECREF(partition);
            return NULL;
        }
        PyTuple_SET_ITEM(partition, places[each], number);
    }
    return partition;
}

/* A list of what `read_element` reads; NULL if it cannot be read. */
static PyObject *
read_list(Reader *reader, PyObject *(*read_element)(Reader *))
{
    Py_ssize_t count = read_count(reader);
    if (reader->at == NULL) {
        return NULL;
    }
    PyObject *list = PyList_New(0);
    if (list == NULL) {
        return NULL;
    }
    for (Py_ssize_t index = 0; index < count; index++) {
        PyObject *element = read_element(reader);
        if (element == NULL || PyList_Append(list, element) < 0) {
            Py_XDECREF(element);
            Py_DECREF(list);
            return NULL;
        }
        Py_DECREF(element);
    }
    return list;
}

static PyObject *
read_topic(Reader *reader)
{
    PyObject *name = read_string(reader, 0);
    if (name == NULL) {
        return NULL;
    }
    PyObject *partitions = read_list(reader, read_partition);
    if (partitions != NULL) {
        read_no_tags(reader);
    }
    PyObject *topic = NULL;
    if (partitions != NULL && reader->at != NULL) {
        topic = PyTuple_Pack(2, name, partitions);
    }
    Py_DECREF(name);
    Py_XDECREF(partitions);
    return topic;
}

static PyObject *
read_request(Reader *reader)
{
    int64_t generation = -1;
    int64_t retention_ms = -1;
    PyObject *member_id = NULL;
    PyObject *instance_id = NULL;
    PyObject *topics = NULL;
    PyObject *request = NULL;
    PyObject *group_id = read_string(reader, 0);
    if (reader->version >= MEMBERS_FROM) {
        generation = read_number(reader, 4);
        member_id = read_string(reader, 0);
    }
    else {
        member_id = PyUnicode_New(0, 0);
    }
    if (reader->version >= INSTANCE_IDS_FROM) {
        instance_id = read_string(reader, 1);
    }
    else {
        instance_id = Py_NewRef(Py_None);
    }
    if (TIMESTAMPS_IN < reader->version && reader->version <= RETENTION_UNTIL) {
        retention_ms = read_number(reader, 8);
    }
    if (group_id != NULL && member_id != NULL && instance_id != NULL && reader->at != NULL) {
        topics = read_list(reader, read_topic);
    }
    if (topics != NULL) {
        read_no_tags(reader);
        if (reader->at != NULL) {
            request = Py_BuildValue(
                "(OLOOLO)", group_id, (long long)generation, member_id, instance_id, (long long)retention_ms, topics);
        }
    }
    Py_XDECREF(group_id);
    Py_XDECREF(member_id);
    Py_XDECREF(instance_id);
    Py_XDECREF(topics);
    return request;
}

PyDoc_STRVAR(decode_offset_commit_doc,
"decode_offset_commit(data, position, end, version)\n"
"--\n\n"
"Return what tidelog.wire.offset_commit.decode_in_python does, or None for a request that is left to it.");

static PyObject *
decode_offset_commit(PyObject *Py_UNUSED(module), PyObject *const *arguments, Py_ssize_t argument_count)
{
    if (argument_count != 4) {
        PyErr_Format(PyExc_TypeError, "decode_offset_commit() takes 4 arguments (%zd given)", argument_count);
        return NULL;
    }
    Py_ssize_t position = PyLong_AsSsize_t(arguments[1]);
    Py_ssize_t end = PyLong_AsSsize_t(arguments[2]);
    long version = PyLong_AsLong(arguments[3]);
    if (PyErr_Occurred()) {
        return NULL;
    }
    Py_buffer buffer;
    if (PyObject_GetBuffer(arguments[0], &buffer, PyBUF_SIMPLE) < 0) {
        return NULL;
    }
    PyObject *request = NULL;
    if (0 <= position && position <= end && end <= buffer.len && 0 <= version && version <= INT16_MAX) {
        const uint8_t *data = buffer.buf;
        Reader reader = {data + position, data + end, version >= FLEXIBLE_FROM, (int)version};
        request = read_request(&reader);
    }
    PyBuffer_Release(&buffer);
    if (request == NULL && !PyErr_Occurred()) {
        Py_RETURN_NONE;
    }
    return request;
}

/* A topic's name as bytes; NULL, with no exception set unless memory is short, for one that is not short ASCII. */
static PyObject *
read_topic_name(Reader *reader)
{
    int64_t size = reader->is_flexible ? (int64_t)read_uvarint(reader) - 1 : read_number(reader, 2);
    if (size < 0 || size > NAME_BYTES_MAX || !has(reader, size)) {
        reader->at = NULL;
        return NULL;
    }
    for (int64_t place = 0; place < size; place++) {
        if (reader->at[place] >= 0x80) {
            reader->at = NULL;
            return NULL;
        }
    }
    PyObject *name = PyBytes_FromStringAndSize((const char *)reader->at, (Py_ssize_t)size);
    reader->at += size;
    return name;
}

/* A request for one partition as an instance of `type`, a named tuple of four fields; NULL for any other. */
static PyObject *
read_produce(Reader *reader, PyTypeObject *type, const uint8_t *data)
{
    PyObject *transactional_id = read_string(reader, 1);
    int64_t acks = read_number(reader, 2);
    int64_t timeout_ms = read_number(reader, 4);
    Py_ssize_t topic_count = read_count(reader);
    PyObject *topic = read_topic_name(reader);
    Py_ssize_t partition_count = read_count(reader);
    int64_t index = read_number(reader, 4);
    int64_t size = reader->is_flexible ? (int64_t)read_uvarint(reader) - 1 : read_number(reader, 4);
    PyObject *request = NULL;
    PyObject *partitions = NULL;
    if (topic != NULL && topic_count == 1 && partition_count == 1 && size >= 0 && has(reader, size)) {
        Py_ssize_t start = reader->at - data;
        reader->at += size;
        /* No tags follow the partition, the topic and the request. */
        for (int end = 0; end < 3; end++) {
            read_no_tags(reader);
        }
        if (reader->at == reader->end) {
            partitions = Py_BuildValue("[(OLnn)]", topic, (long long)index, start, start + (Py_ssize_t)size);
        }
    }
    if (partitions != NULL) {
        request = type->tp_alloc(type, PRODUCE_FIELDS);
    }
    if (request != NULL) {
        PyTuple_SET_ITEM(request, 0, Py_NewRef(transactional_id));
        PyTuple_SET_ITEM(request, 1, PyLong_FromLong((long)acks));
        PyTuple_SET_ITEM(request, 2, PyLong_FromLong((long)timeout_ms));
        PyTuple_SET_ITEM(request, 3, Py_NewRef(partitions));
        if (PyTuple_GET_ITEM(request, 1) == NULL || PyTuple_GET_ITEM(request, 2) == NULL) {
            Py_CLEAR(request);
        }
    }
    Py_XDECREF(transactional_id);
    Py_XDECREF(topic);
    Py_XDECREF(partitions);
    return request;
}

PyDoc_STRVAR(decode_produce_doc,
"decode_produce(data, position, end, version, type)\n"
"--\n\n"
"Return what tidelog.wire.produce.decode_in_python does, or None for a request that is left to it. `type` is the named\n"
"tuple of the result.");

static PyObject *
decode_produce(PyObject *Py_UNUSED(module), PyObject *const *arguments, Py_ssize_t argument_count)
{
    if (argument_count != 5 || !PyType_Check(arguments[4]) ||
        !PyType_IsSubtype((PyTypeObject *)arguments[4], &PyTuple_Type)) {
        PyErr_SetString(PyExc_TypeError, "decode_produce() takes 5 arguments, the last of them a named tuple's type");
        return NULL;
    }
    Py_ssize_t position = PyLong_AsSsize_t(arguments[1]);
    Py_ssize_t end = PyLong_AsSsize_t(arguments[2]);
    long version = PyLong_AsLong(arguments[3]);
    if (PyErr_Occurred()) {
        return NULL;
    }
    Py_buffer buffer;
    if (PyObject_GetBuffer(arguments[0], &buffer, PyBUF_SIMPLE) < 0) {
        return NULL;
    }
    PyObject *request = NULL;
    if (0 <= position && position <= end && end <= buffer.len && PRODUCE_FROM <= version && version <= INT16_MAX) {
        const uint8_t *data = buffer.buf;
        Reader reader = {data + position, data + end, version >= PRODUCE_FLEXIBLE_FROM, (int)version};
        request = read_produce(&reader, (PyTypeObject *)arguments[4], data);
    }
    PyBuffer_Release(&buffer);
    if (request == NULL && !PyErr_Occurred()) {
        Py_RETURN_NONE;
    }
    return request;
}

static PyMethodDef methods[] = {
    {"decode_produce", (PyCFunction)(void (*)(void))decode_produce, METH_FASTCALL, decode_produce_doc},
    {"decode_offset_commit", (PyCFunction)(void (*)(void))decode_offset_commit, METH_FASTCALL, decode_offset_commit_doc},
    {NULL, NULL, 0, NULL},
};

SPEEDUPS_MODULE("tidelog.wire._speedups", "The decoders of OffsetCommit and Produce requests of tidelog.wire in C.",
                methods, SPEEDUPS_FUNCTIONS_ONLY, 2)

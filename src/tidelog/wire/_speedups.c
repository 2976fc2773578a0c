/* Reads requests of the hot path into rows, for tidelog.wire in C.
 *
 * This file is optional. The functions that `_span_source` generates define the result for every input: `decode_rows`
 * returns the same, or None for a request that it leaves to them, because it breaks the format or has a name that is not
 * ASCII. What it reads is not written here: it follows the program that `_span_program` makes of the declared message.
 * Property tests compare the two in every version.
 *
 * Every read is checked against the end of the request, never against what a length or count in it claims.
 */

#include "../speedups.h"

#define STRING_BYTES_MAX 32767
#define TAGS_MAX 64
#define NO_COLUMN 255
#define INNER 255
#define COLUMNS_MAX 16

enum { INTEGER = 1, UUID, STRING, NAME, RECORDS, NUMBERS, ROWS, CONSTANT, ROOM, TAGS };

/* A request that is being read. `at` is NULL once something in it could not be read. */
typedef struct {
    const uint8_t *data;
    const uint8_t *at;
    const uint8_t *end;
    PyObject *constants;
    int64_t room;
    int is_flexible;
} Reader;

/* The columns of a row that is being read, of which the first `width` are set or NULL. `list` is where rows of an array inside it go, or NULL. */
typedef struct {
    PyObject *columns[COLUMNS_MAX];
    int width;
    PyObject *list;
} Row;

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

/* The number of elements that follow, at most as many as there are bytes and as there is room for. */
static Py_ssize_t
read_count(Reader *reader)
{
    int64_t count = reader->is_flexible ? (int64_t)read_uvarint(reader) - 1 : read_number(reader, 4);
    reader->room -= count;
    if (count < 0 || reader->room < 0 || !has(reader, count)) {
        reader->at = NULL;
        return 0;
    }
    return (Py_ssize_t)count;
}

/* The size of a string or of records; negative for null. */
static int64_t
read_size(Reader *reader, int classic_bytes)
{
    return reader->is_flexible ? (int64_t)read_uvarint(reader) - 1 : read_number(reader, classic_bytes);
}

/* A string, None for null where that is allowed; NULL, with no exception set, for anything else. */
static PyObject *
read_string(Reader *reader, int is_nullable)
{
    int64_t size = read_size(reader, 2);
    if (reader->at != NULL && size < 0 && is_nullable) {
        Py_RETURN_NONE;
    }
    if (size < 0 || size > STRING_BYTES_MAX || !has(reader, size)) {
        reader->at = NULL;
        return NULL;
    }
    PyObject *text = PyUnicode_DecodeUTF8((const char *)reader->at, (Py_ssize_t)size, NULL);
    if (text == NULL) {
        PyErr_Clear();
        reader->at = NULL;
        return NULL;
    }
    reader->at += size;
    return text;
}

/* A name as bytes; NULL, with no exception set unless memory is short, for one that is not ASCII. */
static PyObject *
read_name(Reader *reader)
{
    int64_t size = read_size(reader, 2);
    if (size < 0 || size > STRING_BYTES_MAX || !has(reader, size)) {
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

static PyObject *
read_integer(Reader *reader, int size)
{
    int64_t number = read_number(reader, size);
    return reader->at == NULL ? NULL : PyLong_FromLongLong(number);
}

static PyObject *
read_uuid(Reader *reader)
{
    if (!has(reader, 16)) {
        reader->at = NULL;
        return NULL;
    }
    PyObject *uuid = PyBytes_FromStringAndSize((const char *)reader->at, 16);
    reader->at += 16;
    return uuid;
}

static PyObject *
read_numbers(Reader *reader, int size)
{
    Py_ssize_t count = read_count(reader);
    if (reader->at == NULL || !has(reader, count * size)) {
        reader->at = NULL;
        return NULL;
    }
    PyObject *list = PyList_New(count);
    for (Py_ssize_t index = 0; list != NULL && index < count; index++) {
        PyObject *number = read_integer(reader, size);
        if (number == NULL) {
            Py_CLEAR(list);
            break;
        }
        PyList_SET_ITEM(list, index, number);
    }
    return list;
}

/* Make `value`, which may be NULL, the value of a column, if it is one. */
static void
set_column(Row *row, int column, PyObject *value)
{
    if (column >= COLUMNS_MAX) {
        Py_XDECREF(value);
        return;
    }
    while (row->width <= column) {
        row->columns[row->width++] = NULL;
    }
    Py_XSETREF(row->columns[column], value);
}

static void
clear_row(Row *row)
{
    for (int column = 0; column < row->width; column++) {
        Py_CLEAR(row->columns[column]);
    }
}

/* Where records start and stop in the data, as two columns; -1 for null. */
static void
read_records(Reader *reader, Row *row, int column)
{
    int64_t size = read_size(reader, 4);
    Py_ssize_t start = -1;
    Py_ssize_t stop = -1;
    if (reader->at == NULL || (size >= 0 && !has(reader, size))) {
        reader->at = NULL;
        return;
    }
    if (size >= 0) {
        start = reader->at - reader->data;
        stop = start + (Py_ssize_t)size;
        reader->at += size;
    }
    set_column(row, column, PyLong_FromSsize_t(start));
    set_column(row, column + 1, PyLong_FromSsize_t(stop));
}

/* The tuple of a row that was read; its columns are given to it. NULL if one is missing. */
static PyObject *
make_row(Reader *reader, Row *row, int index)
{
    PyObject *kind = PyTuple_GET_ITEM(reader->constants, index);
    PyTypeObject *type = (PyTypeObject *)PyTuple_GET_ITEM(kind, 0);
    Py_ssize_t width = PyLong_AsSsize_t(PyTuple_GET_ITEM(kind, 1));
    PyObject *made = type == &PyTuple_Type ? PyTuple_New(width) : type->tp_alloc(type, width);
    for (Py_ssize_t column = 0; made != NULL && column < width; column++) {
        if (column >= row->width || row->columns[column] == NULL) {
            Py_CLEAR(made);
            reader->at = NULL;
            break;
        }
        PyTuple_SET_ITEM(made, column, row->columns[column]);
        row->columns[column] = NULL;
    }
    return made;
}

static void read_struct(Reader *reader, const uint8_t *program, const uint8_t *program_end, Row *row);

/* An array of structs. Rows go to a list of its own or, if the struct around it has none, to the list of that one's array. */
static PyObject *
read_rows(Reader *reader, const uint8_t *program, const uint8_t *program_end, int index, int shared, const Row *around)
{
    Py_ssize_t count = read_count(reader);
    if (reader->at == NULL) {
        return NULL;
    }
    PyObject *list = around->list == NULL ? PyList_New(0) : Py_NewRef(around->list);
    Row row;
    row.width = 0;
    row.list = index == INNER ? list : NULL;
    for (Py_ssize_t element = 0; list != NULL && reader->at != NULL && element < count; element++) {
        for (int column = 0; column < shared; column++) {
            set_column(&row, column, column < around->width ? Py_XNewRef(around->columns[column]) : NULL);
        }
        read_struct(reader, program, program_end, &row);
        if (reader->at == NULL || index == INNER) {
            continue;
        }
        PyObject *made = make_row(reader, &row, index);
        if (made == NULL || PyList_Append(list, made) < 0) {
            reader->at = NULL;
        }
        Py_XDECREF(made);
    }
    clear_row(&row);
    if (reader->at == NULL) {
        Py_CLEAR(list);
    }
    return list;
}

/* Tagged fields. `program` has the operations of those that are columns; the others are skipped. Returns its end. */
static const uint8_t *
read_tags(Reader *reader, const uint8_t *program, int known_count, Row *row)
{
    const uint8_t *known = program;
    for (int each = 0; each < known_count; each++) {
        program += 3 + read_unsigned(program + 1, 2);
    }
    if (!reader->is_flexible) {
        return program;
    }
    uint32_t count = read_uvarint(reader);
    if (count > TAGS_MAX) {
        reader->at = NULL;
    }
    for (uint32_t index = 0; reader->at != NULL && index < count; index++) {
        uint32_t tag = read_uvarint(reader);
        uint32_t size = read_uvarint(reader);
        if (!has(reader, size)) {
            reader->at = NULL;
            break;
        }
        const uint8_t *after = reader->at + size;
        const uint8_t *field = known;
        for (int each = 0; each < known_count; each++) {
            const uint8_t *operations = field + 3;
            const uint8_t *operations_end = operations + read_unsigned(field + 1, 2);
            if (*field == tag) {
                read_struct(reader, operations, operations_end, row);
                if (reader->at != after) {
                    reader->at = NULL;
                    return program;
                }
            }
            field = operations_end;
        }
        reader->at = after;
    }
    return program;
}

/* Follow the operations of a struct: read its fields into the columns of `row`. */
static void
read_struct(Reader *reader, const uint8_t *program, const uint8_t *program_end, Row *row)
{
    while (reader->at != NULL && program < program_end) {
        int operation = program[0];
        int column = program[1];
        switch (operation) {
        case INTEGER:
            set_column(row, column, read_integer(reader, program[2]));
            program += 3;
            break;
        case UUID:
            set_column(row, column, read_uuid(reader));
            program += 2;
            break;
        case STRING:
            set_column(row, column, read_string(reader, program[2]));
            program += 3;
            break;
        case NAME:
            set_column(row, column, read_name(reader));
            program += 2;
            break;
        case RECORDS:
            read_records(reader, row, column);
            program += 2;
            break;
        case NUMBERS:
            set_column(row, column, read_numbers(reader, program[2]));
            program += 3;
            break;
        case ROWS: {
            const uint8_t *operations = program + 6;
            program = operations + read_unsigned(operations - 2, 2);
            set_column(row, column, read_rows(reader, operations, program, operations[-4], operations[-3], row));
            break;
        }
        case CONSTANT: {
            PyObject *value = PyTuple_GET_ITEM(reader->constants, program[2]);
            set_column(row, column, PyList_CheckExact(value) ? PyList_New(0) : Py_NewRef(value));
            program += 3;
            break;
        }
        case ROOM:
            reader->room = (int64_t)read_unsigned(program + 1, 4);
            program += 5;
            break;
        case TAGS:
            program = read_tags(reader, program + 2, column, row);
            break;
        default:
            reader->at = NULL;
        }
    }
}

PyDoc_STRVAR(decode_rows_doc,
"decode_rows(data, position, end, program)\n"
"--\n\n"
"Return the row of the request data[position:end], or None for a request that is left to the generated functions.\n"
"`program` is what _span_program.span_program returns.");

static PyObject *
decode_rows(PyObject *Py_UNUSED(module), PyObject *const *arguments, Py_ssize_t argument_count)
{
    if (argument_count != 4 || !PyTuple_Check(arguments[3]) || PyTuple_GET_SIZE(arguments[3]) != 4) {
        PyErr_SetString(PyExc_TypeError, "decode_rows() takes 4 arguments, the last of them a program");
        return NULL;
    }
    PyObject *program = arguments[3];
    PyObject *operations = PyTuple_GET_ITEM(program, 2);
    Py_ssize_t position = PyLong_AsSsize_t(arguments[1]);
    Py_ssize_t end = PyLong_AsSsize_t(arguments[2]);
    long row_index = PyLong_AsLong(PyTuple_GET_ITEM(program, 1));
    if (PyErr_Occurred()) {
        return NULL;
    }
    Py_buffer buffer;
    if (PyObject_GetBuffer(arguments[0], &buffer, PyBUF_SIMPLE) < 0) {
        return NULL;
    }
    PyObject *request = NULL;
    if (0 <= position && position <= end && end <= buffer.len) {
        const uint8_t *data = buffer.buf;
        const uint8_t *first = (const uint8_t *)PyBytes_AS_STRING(operations);
        Reader reader = {data, data + position, data + end, PyTuple_GET_ITEM(program, 3), INT64_MAX,
                         PyTuple_GET_ITEM(program, 0) == Py_True};
        Row row;
        row.width = 0;
        row.list = NULL;
        read_struct(&reader, first, first + PyBytes_GET_SIZE(operations), &row);
        if (reader.at != NULL) {
            request = make_row(&reader, &row, (int)row_index);
        }
        clear_row(&row);
    }
    PyBuffer_Release(&buffer);
    if (request == NULL && !PyErr_Occurred()) {
        Py_RETURN_NONE;
    }
    return request;
}

static PyMethodDef methods[] = {
    {"decode_rows", (PyCFunction)(void (*)(void))decode_rows, METH_FASTCALL, decode_rows_doc},
    {NULL, NULL, 0, NULL},
};

SPEEDUPS_MODULE("tidelog.wire._speedups", "The decoder of hot requests of tidelog.wire in C.", methods,
                SPEEDUPS_FUNCTIONS_ONLY, 3)

/* The short way of a record into an open batch, `RecordSink.append`, and `Producer.send` around it, in C.
 *
 * This file is optional. `sink.append_in_python` defines what an `Appender` returns and changes for every call, and a
 * property test holds the two equal; `Send` leaves to the Python method what is not that short. Where no compiler was present at installation, the Python function is used.
 */

#include "../speedups.h"
#include <stddef.h>
#include <structmember.h>
#include <time.h>

/* The slots that are read and written, in the order of `slot_names`. */
enum { STICKY, QUEUES, PARTITION_COUNT, OPEN, SIZE_BYTES, LIMIT_BYTES, RECORDS, BATCH, INDEX, SLOT_COUNT };

static const char *const slot_names[SLOT_COUNT] = {
    "sticky", "queues", "partition_count", "open", "size_bytes", "limit_bytes", "records", "_batch", "_index",
};

/* Which of the four classes has each slot. */
enum { TOPIC_QUEUE, PARTITION_QUEUE, PRODUCER_BATCH, DELIVERY, CLASS_COUNT };

static const int class_of_slot[SLOT_COUNT] = {
    TOPIC_QUEUE,    TOPIC_QUEUE,    TOPIC_QUEUE,    PARTITION_QUEUE, PRODUCER_BATCH,
    PRODUCER_BATCH, PRODUCER_BATCH, DELIVERY,       DELIVERY,
};

typedef struct {
    PyObject_HEAD
    vectorcallfunc call;
    PyObject *topics;
    PyTypeObject *classes[CLASS_COUNT];
    Py_ssize_t offsets[SLOT_COUNT];
    int64_t overhead_bytes;
    PyObject *no_headers;
} Appender;

/* The value of a slot, borrowed; NULL where it was not set. */
static inline PyObject *
slot(const Appender *self, PyObject *object, int which)
{
    return *(PyObject **)((char *)object + self->offsets[which]);
}

/* Kafka's murmur2, as client.partitioner.murmur2 defines it. */
static uint32_t
murmur2(const uint8_t *data, Py_ssize_t size)
{
    const uint32_t multiplier = 0x5BD1E995u;
    uint32_t value = 0x9747B28Cu ^ (uint32_t)size;
    Py_ssize_t whole = size & ~(Py_ssize_t)3;
    for (Py_ssize_t at = 0; at < whole; at += 4) {
        uint32_t word = (uint32_t)data[at] | (uint32_t)data[at + 1] << 8 | (uint32_t)data[at + 2] << 16 |
                        (uint32_t)data[at + 3] << 24;
        word *= multiplier;
        word ^= word >> 24;
        value = value * multiplier ^ word * multiplier;
    }
    if (whole < size) {
        uint32_t rest = 0;
        for (Py_ssize_t at = size - 1; at >= whole; at--) {
            rest = rest << 8 | data[at];
        }
        value = (value ^ rest) * multiplier;
    }
    value ^= value >> 13;
    value *= multiplier;
    return value ^ value >> 15;
}

/* The queue of a record: the sticky one, or that of its key. Borrowed; NULL if the longer way decides. */
static PyObject *
choose(const Appender *self, PyObject *topic_queue, PyObject *key)
{
    if (key == Py_None) {
        return slot(self, topic_queue, STICKY);
    }
    PyObject *queues = slot(self, topic_queue, QUEUES);
    PyObject *count = slot(self, topic_queue, PARTITION_COUNT);
    if (queues == NULL || !PyList_CheckExact(queues) || count == NULL || !PyLong_CheckExact(count)) {
        return NULL;
    }
    long partitions = PyLong_AsLong(count);
    if (partitions <= 0) {
        PyErr_Clear();
        return NULL;
    }
    uint32_t hash = murmur2((const uint8_t *)PyBytes_AS_STRING(key), PyBytes_GET_SIZE(key)) & 0x7FFFFFFFu;
    Py_ssize_t index = (Py_ssize_t)(hash % (unsigned long)partitions);
    return index < PyList_GET_SIZE(queues) ? PyList_GET_ITEM(queues, index) : NULL;
}

/* The number in a slot; -1 if there is none. */
static inline int64_t
number(const Appender *self, PyObject *object, int which)
{
    PyObject *found = slot(self, object, which);
    if (found == NULL || !PyLong_CheckExact(found)) {
        return -1;
    }
    int64_t value = PyLong_AsLongLong(found);
    if (value < 0) {
        PyErr_Clear();
        return -1;
    }
    return value;
}

/* Milliseconds since 1970: those given, or now. A new reference; NULL without an error if the longer way decides. */
static PyObject *
timestamp_of(PyObject *given)
{
    if (given == Py_None) {
        struct timespec now;
        clock_gettime(CLOCK_REALTIME, &now);
        return PyLong_FromLongLong((int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000);
    }
    int overflow;
    if (!PyLong_CheckExact(given) || PyLong_AsLongLongAndOverflow(given, &overflow) < 0 || overflow) {
        PyErr_Clear();
        return NULL;
    }
    return Py_NewRef(given);
}

static PyObject *
deliver(const Appender *self, PyObject *batch, PyObject *index)
{
    PyTypeObject *type = self->classes[DELIVERY];
    PyObject *delivery = type->tp_alloc(type, 0);
    if (delivery != NULL) {
        *(PyObject **)((char *)delivery + self->offsets[BATCH]) = Py_NewRef(batch);
        *(PyObject **)((char *)delivery + self->offsets[INDEX]) = Py_NewRef(index);
    }
    return delivery;
}

/* Add a record that has room to an open batch. A new delivery; NULL without an error if the longer way decides. */
static PyObject *
add(const Appender *self, PyObject *batch, int64_t size, PyObject *records, PyObject *key, PyObject *value,
    PyObject *given_timestamp)
{
    PyObject *timestamp = timestamp_of(given_timestamp);
    if (timestamp == NULL) {
        return NULL;
    }
    PyObject *delivery = NULL;
    PyObject *record = PyTuple_Pack(4, timestamp, key, value, self->no_headers);
    PyObject *index = PyLong_FromSsize_t(PyList_GET_SIZE(records));
    PyObject *new_size = PyLong_FromLongLong(size);
    if (record != NULL && index != NULL && new_size != NULL) {
        delivery = deliver(self, batch, index);
    }
    /* The record comes last: what fails before it changes nothing. */
    if (delivery != NULL && PyList_Append(records, record) < 0) {
        Py_CLEAR(delivery);
    }
    if (delivery != NULL) {
        PyObject **place = (PyObject **)((char *)batch + self->offsets[SIZE_BYTES]);
        PyObject *before = *place;
        *place = Py_NewRef(new_size);
        Py_XDECREF(before);
    }
    Py_DECREF(timestamp);
    Py_XDECREF(record);
    Py_XDECREF(index);
    Py_XDECREF(new_size);
    return delivery;
}

/* (topic, value, key, partition, headers, timestamp_ms, on_delivery) */
static PyObject *
append(PyObject *callable, PyObject *const *arguments, size_t flags, PyObject *names)
{
    const Appender *self = (const Appender *)callable;
    if (PyVectorcall_NARGS(flags) != 7 || (names != NULL && PyTuple_GET_SIZE(names) > 0)) {
        PyErr_SetString(PyExc_TypeError, "append takes 7 positional arguments");
        return NULL;
    }
    PyObject *value = arguments[1], *key = arguments[2], *headers = arguments[4];
    PyObject *topic_queue = PyDict_GetItemWithError(self->topics, arguments[0]);
    if (topic_queue == NULL && PyErr_Occurred()) {
        return NULL;
    }
    if (topic_queue == NULL || Py_TYPE(topic_queue) != self->classes[TOPIC_QUEUE] || arguments[3] != Py_None ||
        arguments[6] != Py_None || (key != Py_None && !PyBytes_CheckExact(key)) ||
        (value != Py_None && !PyBytes_CheckExact(value))) {
        Py_RETURN_NONE;
    }
    if (headers != Py_None) {
        int has_headers = PyObject_IsTrue(headers);
        if (has_headers < 0) {
            return NULL;
        }
        if (has_headers) {
            Py_RETURN_NONE;
        }
    }
    PyObject *queue = choose(self, topic_queue, key);
    if (queue == NULL || Py_TYPE(queue) != self->classes[PARTITION_QUEUE]) {
        Py_RETURN_NONE;
    }
    PyObject *batch = slot(self, queue, OPEN);
    if (batch == NULL || Py_TYPE(batch) != self->classes[PRODUCER_BATCH]) {
        Py_RETURN_NONE;
    }
    PyObject *records = slot(self, batch, RECORDS);
    int64_t before = number(self, batch, SIZE_BYTES);
    if (before < 0 || records == NULL || !PyList_CheckExact(records)) {
        Py_RETURN_NONE;
    }
    int64_t size = before + self->overhead_bytes + (key == Py_None ? 0 : PyBytes_GET_SIZE(key)) +
                   (value == Py_None ? 0 : PyBytes_GET_SIZE(value));
    if (size > number(self, batch, LIMIT_BYTES)) {
        Py_RETURN_NONE;
    }
    PyObject *delivery = add(self, batch, size, records, key, value, arguments[5]);
    if (delivery == NULL && !PyErr_Occurred()) {
        Py_RETURN_NONE;
    }
    return delivery;
}

/* Where a class keeps a slot; -1 with an error if it has none of that name. */
static Py_ssize_t
offset_of(PyTypeObject *type, const char *name)
{
    PyObject *descriptor = PyObject_GetAttrString((PyObject *)type, name);
    if (descriptor == NULL) {
        return -1;
    }
    Py_ssize_t offset = -1;
    if (Py_TYPE(descriptor) == &PyMemberDescr_Type) {
        offset = ((PyMemberDescrObject *)descriptor)->d_member->offset;
    }
    else {
        PyErr_Format(PyExc_TypeError, "%s.%s is not a slot", type->tp_name, name);
    }
    Py_DECREF(descriptor);
    return offset;
}

PyDoc_STRVAR(appender_doc,
"Appender(topics, topic_queue_class, partition_queue_class, batch_class, delivery_class, overhead_bytes)\n"
"--\n\n"
"Does what tidelog.client.aio.producer.sink.append_in_python does. `topics` is the dictionary of appendable topics.");

static PyObject *
appender_new(PyTypeObject *type, PyObject *arguments, PyObject *Py_UNUSED(keywords))
{
    PyObject *topics;
    PyTypeObject *classes[CLASS_COUNT];
    long long overhead_bytes;
    if (!PyArg_ParseTuple(arguments, "O!O!O!O!O!L", &PyDict_Type, &topics, &PyType_Type, &classes[TOPIC_QUEUE], &PyType_Type,
                          &classes[PARTITION_QUEUE], &PyType_Type, &classes[PRODUCER_BATCH], &PyType_Type,
                          &classes[DELIVERY], &overhead_bytes)) {
        return NULL;
    }
    Appender *self = (Appender *)type->tp_alloc(type, 0);
    if (self == NULL) {
        return NULL;
    }
    self->call = append;
    self->topics = Py_NewRef(topics);
    self->overhead_bytes = overhead_bytes;
    self->no_headers = PyTuple_New(0);
    for (int each = 0; each < CLASS_COUNT; each++) {
        self->classes[each] = (PyTypeObject *)Py_NewRef(classes[each]);
    }
    for (int which = 0; which < SLOT_COUNT; which++) {
        self->offsets[which] = offset_of(classes[class_of_slot[which]], slot_names[which]);
        if (self->offsets[which] < 0) {
            Py_DECREF(self);
            return NULL;
        }
    }
    return (PyObject *)self;
}

static int
appender_traverse(Appender *self, visitproc visit, void *arg)
{
    Py_VISIT(Py_TYPE(self));
    Py_VISIT(self->topics);
    for (int each = 0; each < CLASS_COUNT; each++) {
        Py_VISIT(self->classes[each]);
    }
    return 0;
}

static int
appender_clear(Appender *self)
{
    Py_CLEAR(self->topics);
    Py_CLEAR(self->no_headers);
    for (int each = 0; each < CLASS_COUNT; each++) {
        Py_CLEAR(self->classes[each]);
    }
    return 0;
}

static void
appender_free(Appender *self)
{
    PyTypeObject *type = Py_TYPE(self);
    PyObject_GC_UnTrack(self);
    appender_clear(self);
    type->tp_free(self);
    Py_DECREF(type);
}

static PyMemberDef appender_members[] = {
    {"__vectorcalloffset__", T_PYSSIZET, offsetof(Appender, call), READONLY, NULL},
    {NULL, 0, 0, 0, NULL},
};

static PyType_Slot appender_slots[] = {
    {Py_tp_doc, (void *)appender_doc},
    {Py_tp_new, appender_new},
    {Py_tp_traverse, appender_traverse},
    {Py_tp_clear, appender_clear},
    {Py_tp_dealloc, appender_free},
    {Py_tp_call, PyVectorcall_Call},
    {Py_tp_members, appender_members},
    {0, NULL},
};

static PyType_Spec appender_spec = {
    .name = "tidelog.client._speedups.Appender",
    .basicsize = sizeof(Appender),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL,
    .slots = appender_slots,
};

/* `Producer.send`: the short way under the producer's lock, and the Python method for all other calls. */

typedef struct {
    PyObject_HEAD
    vectorcallfunc call;
    PyObject *function;
} Send;

static PyObject *name_append, *name_lock, *name_acquire, *name_release, *name_key, *name_value;

/* Sort the arguments of a call into topic, value and key; 0 if there are others. */
static int
take_arguments(PyObject *const *arguments, Py_ssize_t count, PyObject *names, PyObject **taken)
{
    if (count < 1 || count > 3) {
        return 0;
    }
    taken[0] = arguments[0];
    taken[1] = count > 1 ? arguments[1] : NULL;
    taken[2] = count > 2 ? arguments[2] : NULL;
    for (Py_ssize_t each = 0; names != NULL && each < PyTuple_GET_SIZE(names); each++) {
        PyObject *name = PyTuple_GET_ITEM(names, each);
        PyObject **place = name == name_value ? &taken[1] : name == name_key ? &taken[2] : NULL;
        if (place == NULL || *place != NULL) {
            return 0;
        }
        *place = arguments[count + each];
    }
    for (int each = 1; each < 3; each++) {
        if (taken[each] == NULL) {
            taken[each] = Py_None;
        }
    }
    return 1;
}

/* Append under the lock. A delivery or None; NULL with an error. */
static PyObject *
append_locked(PyObject *producer, PyObject *appender, PyObject *const *taken)
{
    PyObject *lock = PyObject_GetAttr(producer, name_lock);
    if (lock == NULL) {
        return NULL;
    }
    PyObject *result = PyObject_CallMethodNoArgs(lock, name_acquire);
    if (result != NULL) {
        Py_DECREF(result);
        PyObject *const all[7] = {taken[0], taken[1], taken[2], Py_None, Py_None, Py_None, Py_None};
        result = append(appender, all, 7, NULL);
        PyObject *type, *value, *trace;
        PyErr_Fetch(&type, &value, &trace);
        PyObject *released = PyObject_CallMethodNoArgs(lock, name_release);
        if (released == NULL) {
            Py_CLEAR(result);
        }
        else {
            Py_DECREF(released);
            PyErr_Restore(type, value, trace);
        }
    }
    Py_DECREF(lock);
    return result;
}

static PyObject *
send_record(PyObject *callable, PyObject *const *arguments, size_t flags, PyObject *names)
{
    Send *self = (Send *)callable;
    Py_ssize_t count = PyVectorcall_NARGS(flags);
    PyObject *taken[3];
    if (count > 1 && take_arguments(arguments + 1, count - 1, names, taken)) {
        PyObject *appender = PyObject_GetAttr(arguments[0], name_append);
        if (appender == NULL) {
            return NULL;
        }
        PyObject *delivery = Py_None;
        if (appender != Py_None) {
            delivery = append_locked(arguments[0], appender, taken);
            Py_XDECREF(delivery == Py_None ? delivery : NULL);
        }
        Py_DECREF(appender);
        if (delivery != Py_None) {
            return delivery;
        }
    }
    return PyObject_Vectorcall(self->function, arguments, flags, names);
}

static PyObject *
send_bind(PyObject *self, PyObject *instance, PyObject *Py_UNUSED(owner))
{
    if (instance == NULL || instance == Py_None) {
        return Py_NewRef(self);
    }
    return PyMethod_New(self, instance);
}

/* Its name, documentation and signature are those of the Python method. */
static PyObject *
send_getattr(PyObject *self, PyObject *name)
{
    PyObject *function = ((Send *)self)->function;
    if (PyUnicode_CompareWithASCIIString(name, "__wrapped__") == 0) {
        return Py_NewRef(function);
    }
    if (PyUnicode_CompareWithASCIIString(name, "__class__") == 0) {
        return Py_NewRef(Py_TYPE(self));
    }
    return PyObject_GetAttr(function, name);
}

PyDoc_STRVAR(send_doc,
"Send(function)\n"
"--\n\n"
"`function`, a producer's method `send`, in C for calls with a topic, a value and a key only. The producer's `_in_c` is\n"
"its `Appender`, or None if every record goes the longer way.");

static PyObject *
send_new(PyTypeObject *type, PyObject *arguments, PyObject *Py_UNUSED(keywords))
{
    PyObject *function;
    if (!PyArg_ParseTuple(arguments, "O!", &PyFunction_Type, &function)) {
        return NULL;
    }
    Send *self = (Send *)type->tp_alloc(type, 0);
    if (self != NULL) {
        self->call = send_record;
        self->function = Py_NewRef(function);
    }
    return (PyObject *)self;
}

static int
send_traverse(Send *self, visitproc visit, void *arg)
{
    Py_VISIT(Py_TYPE(self));
    Py_VISIT(self->function);
    return 0;
}

static int
send_clear(Send *self)
{
    Py_CLEAR(self->function);
    return 0;
}

static void
send_free(Send *self)
{
    PyTypeObject *type = Py_TYPE(self);
    PyObject_GC_UnTrack(self);
    send_clear(self);
    type->tp_free(self);
    Py_DECREF(type);
}

static PyMemberDef send_members[] = {
    {"__vectorcalloffset__", T_PYSSIZET, offsetof(Send, call), READONLY, NULL},
    {NULL, 0, 0, 0, NULL},
};

static PyType_Slot send_slots[] = {
    {Py_tp_doc, (void *)send_doc},     {Py_tp_new, send_new},           {Py_tp_traverse, send_traverse},
    {Py_tp_clear, send_clear},         {Py_tp_dealloc, send_free},      {Py_tp_call, PyVectorcall_Call},
    {Py_tp_descr_get, send_bind},      {Py_tp_getattro, send_getattr},  {Py_tp_members, send_members},
    {0, NULL},
};

static PyType_Spec send_spec = {
    .name = "tidelog.client._speedups.Send",
    .basicsize = sizeof(Send),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL | Py_TPFLAGS_METHOD_DESCRIPTOR,
    .slots = send_slots,
};

static int
add_type(PyObject *module, PyType_Spec *spec, const char *name)
{
    PyObject *type = PyType_FromSpec(spec);
    if (type == NULL) {
        return -1;
    }
    int added = PyModule_AddObjectRef(module, name, type);
    Py_DECREF(type);
    return added;
}

/* Names are compared by identity, as the interpreter interns those of keyword arguments. */
static int
intern(PyObject **place, const char *text)
{
    *place = PyUnicode_InternFromString(text);
    return *place == NULL ? -1 : 0;
}

static int
fill(PyObject *module)
{
    if (intern(&name_append, "_in_c") < 0 || intern(&name_lock, "_lock") < 0 || intern(&name_acquire, "acquire") < 0 ||
        intern(&name_release, "release") < 0 || intern(&name_key, "key") < 0 || intern(&name_value, "value") < 0) {
        return -1;
    }
    return add_type(module, &appender_spec, "Appender") < 0 ? -1 : add_type(module, &send_spec, "Send");
}

static PyMethodDef methods[] = {
    {NULL, NULL, 0, NULL},
};

SPEEDUPS_MODULE("tidelog.client._speedups", "The short way of a record into a batch of tidelog.client in C.", methods, fill,
                1)

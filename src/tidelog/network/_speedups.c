/* A thread that sends the replies of one turn while the event loop goes on.
 *
 * This file is optional: without it the event loop sends every reply itself (`tidelog.network.sender`).
 *
 * The thread knows descriptors and memory only. It never holds the interpreter's lock, so neither waits for the other.
 * Each batch is handed over whole, sent in order, and collected before the next one is handed over. Until then the
 * caller closes none of its descriptors, and the sender keeps its bytes and slices of files alive.
 *
 * A reply is bytes, or a list of bytes and slices of files, which are gathered in a buffer and leave in one call.
 *
 * `is_busy` says which thread owns the jobs: the sender's while it is set, the event loop's while it is not. It is set
 * and cleared with release semantics and read with acquire semantics, so each thread sees what the other has written.
 */

#include "../speedups.h"
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#ifndef MSG_NOSIGNAL
#define MSG_NOSIGNAL 0 /* the interpreter ignores SIGPIPE */
#endif

/* Bytes in memory, or, where `data` is NULL, of a file. */
typedef struct {
    const char *data;
    int fd;
    off_t position;
    Py_ssize_t size;
} Piece;

typedef struct {
    int fd;
    int error;
    Py_ssize_t first_piece;
    Py_ssize_t pieces;
    Py_ssize_t size;
    Py_ssize_t sent;
} Job;

typedef struct {
    PyObject_HEAD
    pthread_t thread;
    pthread_mutex_t mutex;
    pthread_cond_t handed_over;
    pthread_cond_t finished;
    atomic_int is_busy;
    int is_stopping;
    int is_started;
    int notify_fd;
    int is_incomplete;
    Job *jobs;
    Py_ssize_t count;
    Py_ssize_t capacity;
    Piece *pieces;
    Py_ssize_t piece_count;
    Py_ssize_t piece_capacity;
    char *gathered;
    Py_ssize_t gathered_capacity;
    PyObject *held;
} Sender;

/* Read a slice of a file, all of it. Returns 0, or an error number. */
static int
read_piece(const Piece *piece, char *into)
{
    Py_ssize_t done = 0;
    while (done < piece->size) {
        ssize_t count = pread(piece->fd, into + done, (size_t)(piece->size - done), piece->position + done);
        if (count < 0 && errno == EINTR) {
            continue;
        }
        if (count <= 0) {
            return count < 0 ? errno : EIO; /* the file ended before the bytes that were promised from it */
        }
        done += count;
    }
    return 0;
}

/* The bytes of a reply in one place: those of its only piece, or a copy of all of them. NULL if a file fails. */
static const char *
gather(const Sender *self, Job *job)
{
    const Piece *pieces = self->pieces + job->first_piece;
    if (job->pieces == 1 && pieces[0].data != NULL) {
        return pieces[0].data;
    }
    char *at = self->gathered;
    for (Py_ssize_t index = 0; index < job->pieces; index++) {
        const Piece *piece = &pieces[index];
        if (piece->data != NULL) {
            memcpy(at, piece->data, (size_t)piece->size);
        }
        else if ((job->error = read_piece(piece, at))) {
            return NULL;
        }
        at += piece->size;
    }
    return self->gathered;
}

static void
send_job(const Sender *self, Job *job)
{
    const char *data = gather(self, job);
    if (data == NULL) {
        return;
    }
    ssize_t sent;
    do {
        sent = send(job->fd, data, (size_t)job->size, MSG_DONTWAIT | MSG_NOSIGNAL);
    } while (sent < 0 && errno == EINTR);
    if (sent >= 0) {
        job->sent = sent;
    }
    else if (errno != EAGAIN && errno != EWOULDBLOCK) {
        job->error = errno;
    }
}

/* Send a batch. A reply that did not leave whole is reported to the event loop through `notify_fd`. */
static void
send_batch(Sender *self)
{
    int is_incomplete = 0;
    for (Py_ssize_t index = 0; index < self->count; index++) {
        Job *job = &self->jobs[index];
        send_job(self, job);
        is_incomplete |= job->sent < job->size;
    }
    self->is_incomplete = is_incomplete;
    if (is_incomplete) {
        const uint64_t one = 1;
        ssize_t written = write(self->notify_fd, &one, sizeof one);
        (void)written; /* full: the event loop has a notification to read already */
    }
}

static void *
run(void *argument)
{
    Sender *self = argument;
    pthread_mutex_lock(&self->mutex);
    for (;;) {
        while (!atomic_load_explicit(&self->is_busy, memory_order_acquire) && !self->is_stopping) {
            pthread_cond_wait(&self->handed_over, &self->mutex);
        }
        if (!atomic_load_explicit(&self->is_busy, memory_order_acquire)) {
            break;
        }
        pthread_mutex_unlock(&self->mutex);
        send_batch(self);
        pthread_mutex_lock(&self->mutex);
        atomic_store_explicit(&self->is_busy, 0, memory_order_release);
        pthread_cond_signal(&self->finished);
    }
    pthread_mutex_unlock(&self->mutex);
    return NULL;
}

/* Wait until the batch is sent: microseconds, because no send waits for room, unless a file is read from the disk. */
static void
wait_until_sent(Sender *self)
{
    if (!atomic_load_explicit(&self->is_busy, memory_order_acquire)) {
        return;
    }
    Py_BEGIN_ALLOW_THREADS
    pthread_mutex_lock(&self->mutex);
    while (atomic_load_explicit(&self->is_busy, memory_order_acquire)) {
        pthread_cond_wait(&self->finished, &self->mutex);
    }
    pthread_mutex_unlock(&self->mutex);
    Py_END_ALLOW_THREADS
}

static PyObject *
sender_new(PyTypeObject *type, PyObject *arguments, PyObject *names)
{
    int notify_fd;
    static char *words[] = {"notify_fd", NULL};
    if (!PyArg_ParseTupleAndKeywords(arguments, names, "i:Sender", words, &notify_fd)) {
        return NULL;
    }
    Sender *self = (Sender *)type->tp_alloc(type, 0);
    if (self == NULL) {
        return NULL;
    }
    self->notify_fd = notify_fd;
    pthread_mutex_init(&self->mutex, NULL);
    pthread_cond_init(&self->handed_over, NULL);
    pthread_cond_init(&self->finished, NULL);
    atomic_init(&self->is_busy, 0);
    int failed = pthread_create(&self->thread, NULL, run, self);
    if (failed) {
        errno = failed;
        PyErr_SetFromErrno(PyExc_OSError);
        Py_DECREF(self);
        return NULL;
    }
    self->is_started = 1;
    return (PyObject *)self;
}

/* Make room for `count` elements of `size` bytes. Only called while the event loop owns the jobs. */
static int
reserve(void **memory, Py_ssize_t *capacity, Py_ssize_t count, size_t size)
{
    if (count <= *capacity) {
        return 0;
    }
    Py_ssize_t grown = count > 2 * *capacity ? count : 2 * *capacity;
    void *moved = PyMem_RawRealloc(*memory, (size_t)grown * size);
    if (moved == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    *memory = moved;
    *capacity = grown;
    return 0;
}

/* A number that is an attribute of a slice of a file; -1 with an exception. */
static long long
number_of(PyObject *slice, const char *name)
{
    PyObject *value = PyObject_GetAttrString(slice, name);
    if (value == NULL) {
        return -1;
    }
    long long number = PyLong_AsLongLong(value);
    Py_DECREF(value);
    if (number < 0 && !PyErr_Occurred()) {
        PyErr_Format(PyExc_ValueError, "a slice of a file has a negative %s", name);
    }
    return number;
}

/* Add a piece of a reply; returns its size, or -1 with an exception. */
static Py_ssize_t
add_piece(Sender *self, PyObject *chunk)
{
    if (reserve((void **)&self->pieces, &self->piece_capacity, self->piece_count + 1, sizeof(Piece)) < 0) {
        return -1;
    }
    Piece piece;
    if (PyBytes_CheckExact(chunk)) {
        piece = (Piece){PyBytes_AS_STRING(chunk), -1, 0, PyBytes_GET_SIZE(chunk)};
    }
    else {
        long long fd = number_of(chunk, "fd");
        long long position = fd < 0 ? -1 : number_of(chunk, "position");
        Py_ssize_t size = position < 0 ? -1 : PyObject_Size(chunk);
        if (size < 0) {
            return -1;
        }
        piece = (Piece){NULL, (int)fd, (off_t)position, size};
    }
    self->pieces[self->piece_count++] = piece;
    return piece.size;
}

/* Add the job of sending `reply` on `fd`. */
static int
add_job(Sender *self, PyObject *reply, long fd)
{
    Job job = {(int)fd, 0, self->piece_count, 0, 0, 0};
    if (PyBytes_CheckExact(reply)) {
        job.size = add_piece(self, reply);
        if (job.size < 0) {
            return -1;
        }
    }
    else if (PyList_CheckExact(reply)) {
        for (Py_ssize_t index = 0; index < PyList_GET_SIZE(reply); index++) {
            Py_ssize_t size = add_piece(self, PyList_GET_ITEM(reply, index));
            if (size < 0) {
                return -1;
            }
            job.size += size;
        }
        if (reserve((void **)&self->gathered, &self->gathered_capacity, job.size, 1) < 0) {
            return -1;
        }
    }
    else {
        PyErr_SetString(PyExc_TypeError, "a reply to send is bytes, or a list of bytes and slices of files");
        return -1;
    }
    job.pieces = self->piece_count - job.first_piece;
    self->jobs[self->count++] = job;
    return 0;
}

PyDoc_STRVAR(sender_submit_doc,
             "submit(descriptors, replies)\n\n"
             "Send each of `replies`, a list of bytes and of lists of bytes and slices of files, on the descriptor in\n"
             "the same place of `descriptors`. A slice has `fd`, `position` and a length.\n"
             "The batch before must have been collected, and the lists must not change until this one is.");

static PyObject *
sender_submit(Sender *self, PyObject *const *arguments, Py_ssize_t count)
{
    if (count != 2 || !PyList_CheckExact(arguments[0]) || !PyList_CheckExact(arguments[1]) ||
        PyList_GET_SIZE(arguments[0]) != PyList_GET_SIZE(arguments[1])) {
        PyErr_SetString(PyExc_TypeError, "submit takes two lists of one length");
        return NULL;
    }
    if (self->held != NULL || !self->is_started) {
        PyErr_SetString(PyExc_RuntimeError, "the batch before was not collected, or the sender is closed");
        return NULL;
    }
    Py_ssize_t size = PyList_GET_SIZE(arguments[0]);
    if (reserve((void **)&self->jobs, &self->capacity, size, sizeof(Job)) < 0) {
        return NULL;
    }
    self->count = self->piece_count = 0;
    for (Py_ssize_t index = 0; index < size; index++) {
        long fd = PyLong_AsLong(PyList_GET_ITEM(arguments[0], index));
        if ((fd == -1 && PyErr_Occurred()) || add_job(self, PyList_GET_ITEM(arguments[1], index), fd) < 0) {
            self->count = 0;
            return NULL;
        }
    }
    self->held = Py_NewRef(arguments[1]);
    pthread_mutex_lock(&self->mutex);
    atomic_store_explicit(&self->is_busy, 1, memory_order_release);
    pthread_cond_signal(&self->handed_over);
    pthread_mutex_unlock(&self->mutex);
    Py_RETURN_NONE;
}

PyDoc_STRVAR(sender_collect_doc,
             "collect() -> list[tuple[int, int, int]]\n\n"
             "Wait until the batch is sent. Returns, for every reply of it that did not leave whole, its index, how\n"
             "many bytes of it left, and the error number of the socket, 0 if it only had no room.");

static PyObject *
sender_collect(Sender *self, PyObject *Py_UNUSED(none))
{
    wait_until_sent(self);
    PyObject *incomplete = PyList_New(0);
    if (incomplete == NULL) {
        return NULL;
    }
    if (self->is_incomplete) {
        for (Py_ssize_t index = 0; index < self->count; index++) {
            const Job *job = &self->jobs[index];
            if (job->sent == job->size) {
                continue;
            }
            PyObject *entry = Py_BuildValue("(nni)", index, job->sent, job->error);
            if (entry == NULL || PyList_Append(incomplete, entry) < 0) {
                Py_XDECREF(entry);
                Py_DECREF(incomplete);
                return NULL;
            }
            Py_DECREF(entry);
        }
    }
    self->is_incomplete = 0;
    self->count = 0;
    Py_CLEAR(self->held);
    return incomplete;
}

/* End the thread, after what was handed over is sent. */
static void
stop(Sender *self)
{
    if (!self->is_started) {
        return;
    }
    pthread_mutex_lock(&self->mutex);
    self->is_stopping = 1;
    pthread_cond_signal(&self->handed_over);
    pthread_mutex_unlock(&self->mutex);
    Py_BEGIN_ALLOW_THREADS
    pthread_join(self->thread, NULL);
    Py_END_ALLOW_THREADS
    self->is_started = 0;
}

PyDoc_STRVAR(sender_close_doc, "close()\n\nEnd the thread, once what was handed over is sent.");

static PyObject *
sender_close(Sender *self, PyObject *Py_UNUSED(none))
{
    stop(self);
    Py_RETURN_NONE;
}

static void
sender_dealloc(Sender *self)
{
    PyTypeObject *type = Py_TYPE(self);
    stop(self);
    Py_CLEAR(self->held);
    PyMem_RawFree(self->jobs);
    PyMem_RawFree(self->pieces);
    PyMem_RawFree(self->gathered);
    pthread_cond_destroy(&self->handed_over);
    pthread_cond_destroy(&self->finished);
    pthread_mutex_destroy(&self->mutex);
    type->tp_free(self);
    Py_DECREF(type);
}

static PyMethodDef sender_methods[] = {
    {"submit", (PyCFunction)(void (*)(void))sender_submit, METH_FASTCALL, sender_submit_doc},
    {"collect", (PyCFunction)sender_collect, METH_NOARGS, sender_collect_doc},
    {"close", (PyCFunction)sender_close, METH_NOARGS, sender_close_doc},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot sender_slots[] = {
    {Py_tp_new, sender_new},
    {Py_tp_dealloc, sender_dealloc},
    {Py_tp_methods, sender_methods},
    {Py_tp_doc, "A thread that sends batches of replies without the interpreter's lock."},
    {0, NULL},
};

static PyType_Spec sender_spec = {
    .name = "tidelog.network._speedups.Sender",
    .basicsize = sizeof(Sender),
    .flags = Py_TPFLAGS_DEFAULT,
    .slots = sender_slots,
};

static int
add_sender(PyObject *module)
{
    PyObject *type = PyType_FromModuleAndSpec(module, &sender_spec, NULL);
    int is_added = type == NULL ? -1 : PyModule_AddObjectRef(module, "Sender", type);
    Py_XDECREF(type);
    return is_added;
}

SPEEDUPS_MODULE("tidelog.network._speedups", "A thread that sends replies while the event loop goes on.",
                NULL, add_sender, 2)

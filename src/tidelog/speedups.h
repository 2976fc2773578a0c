/* What the optional C modules `_speedups` share: Kafka's big-endian numbers, and the frame of a module. */

#ifndef TIDELOG_SPEEDUPS_H
#define TIDELOG_SPEEDUPS_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdint.h>

/* Read an unsigned number of `size` bytes, at most 8. The caller has checked that they are there. */
static inline uint64_t
read_unsigned(const uint8_t *at, int size)
{
    uint64_t value = 0;
    for (int place = 0; place < size; place++) {
        value = value << 8 | at[place];
    }
    return value;
}

/* Read a signed number of 1, 2, 4 or 8 bytes. The caller has checked that they are there. */
static inline int64_t
read_signed(const uint8_t *at, int size)
{
    switch (size) {
    case 1:
        return (int8_t)read_unsigned(at, 1);
    case 2:
        return (int16_t)read_unsigned(at, 2);
    case 4:
        return (int32_t)read_unsigned(at, 4);
    default:
        return (int64_t)read_unsigned(at, 8);
    }
}

/* Write the last `size` bytes of a number; returns the position behind them. */
static inline uint8_t *
write_big_endian(uint8_t *at, uint64_t value, int size)
{
    for (int place = size - 1; place >= 0; place--) {
        at[place] = (uint8_t)value;
        value >>= 8;
    }
    return at + size;
}

/* Define the module NAME with its methods. `fill(module)` adds what is no function, and returns 0, or -1 on an error.
 *
 * VERSION is raised with every change of arguments or results: a library that was built from older sources is not used.
 */
#define SPEEDUPS_MODULE(NAME, DOC, METHODS, FILL, VERSION)                                                                \
    static int execute(PyObject *module)                                                                                  \
    {                                                                                                                     \
        return FILL(module) < 0 ? -1 : PyModule_AddIntConstant(module, "VERSION", VERSION);                               \
    }                                                                                                                     \
    static struct PyModuleDef_Slot slots[] = {{Py_mod_exec, execute}, SPEEDUPS_WITHOUT_GIL{0, NULL}};                     \
    static struct PyModuleDef definition = {                                                                              \
        PyModuleDef_HEAD_INIT, .m_name = NAME, .m_doc = DOC, .m_methods = METHODS, .m_slots = slots,                      \
    };                                                                                                                    \
    PyMODINIT_FUNC PyInit__speedups(void)                                                                                 \
    {                                                                                                                     \
        return PyModuleDef_Init(&definition);                                                                             \
    }

#ifdef Py_mod_gil
#define SPEEDUPS_WITHOUT_GIL {Py_mod_gil, Py_MOD_GIL_NOT_USED},
#else
#define SPEEDUPS_WITHOUT_GIL
#endif

#define SPEEDUPS_FUNCTIONS_ONLY(module) 0

#endif

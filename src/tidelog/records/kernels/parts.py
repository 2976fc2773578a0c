"""For kernels in other rooms: the decorator, types of arguments, and the smallest kernels. Needs Numba.

A kernel in another room reads data that the kernels here have checked, and imports no other private name.
"""

from tidelog.records.kernels._arrow_copy import copy_bytes
from tidelog.records.kernels._arrow_decode import WITH_HEADERS
from tidelog.records.kernels._arrow_encode import murmur2
from tidelog.records.kernels._bytes import varint_at
from tidelog.records.kernels._compile import Bytes, Int, Numbers, kernel

__all__ = ["WITH_HEADERS", "Bytes", "Int", "Numbers", "copy_bytes", "kernel", "murmur2", "varint_at"]

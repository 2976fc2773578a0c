"""What kernels of other rooms are built from: the decorator, types of arguments, and the smallest kernels. Needs Numba.

A kernel elsewhere reads what the kernels here have checked, and hashes as they do. It imports no other private name.
"""

from tidelog.records.kernels._arrow_copy import copy_bytes
from tidelog.records.kernels._arrow_decode import WITH_HEADERS
from tidelog.records.kernels._arrow_encode import murmur2
from tidelog.records.kernels._bytes import varint_at
from tidelog.records.kernels._compile import Bytes, Int, Numbers, kernel

__all__ = ["WITH_HEADERS", "Bytes", "Int", "Numbers", "copy_bytes", "kernel", "murmur2", "varint_at"]

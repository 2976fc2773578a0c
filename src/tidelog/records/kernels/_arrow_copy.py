"""Copying bytes inside a kernel as the C library does. A loop over bytes would be ten times as slow.

Bounds are not checked: callers have checked both sides.
"""

from typing import Any, Final

from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

_memcpy: Final[Any] = cgutils.raw_memcpy


def _copy_bytes(_context: Any, source: Any, _start: Any, _size: Any, target: Any, _position: Any) -> Any:
    """How `copy_bytes` is typed and compiled."""
    signature = types.void(source, types.int64, types.int64, target, types.int64)

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        source_type, _, _, target_type, _ = signature.args
        source, start, size, target, position = arguments
        read = context.make_array(source_type)(context, builder, source).data
        write = context.make_array(target_type)(context, builder, target).data
        _memcpy(builder, builder.gep(write, [position]), builder.gep(read, [start]), size, 1)
        return context.get_dummy_value()

    return signature, generate


copy_bytes: Any = intrinsic(_copy_bytes)
"""`copy_bytes(source, start, size, target, position)`: `size` bytes of one byte array into another."""

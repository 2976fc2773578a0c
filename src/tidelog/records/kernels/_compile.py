"""The decorator of kernels: compiled at the first call, cached on disk, run without the interpreter lock.

Kernels may be annotated as ordinary functions; the compiler uses the types of the arguments.
"""

from collections.abc import Callable
from typing import Any, TypeAlias, TypeVar, cast

import numpy as np
from numba import njit
from numpy.typing import NDArray

Int: TypeAlias = Any
"""A 64-bit integer inside a kernel, Python's or NumPy's: the compiler treats both alike."""

Bytes: TypeAlias = NDArray[np.uint8]
Numbers: TypeAlias = NDArray[np.int64]
Words: TypeAlias = NDArray[np.uint64]

Function = TypeVar("Function", bound=Callable[..., Any])


def kernel(function: Function) -> Function:
    """Compile `function`. Compiled code does not check bounds: kernels check positions before they read."""
    return cast("Function", njit(cache=True, nogil=True)(function))

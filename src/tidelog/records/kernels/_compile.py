"""How a kernel is declared: compiled at its first call, kept on disk for the next process, free of the interpreter.

Kernels may be annotated as ordinary functions; what the compiler sees are the types of the arguments.
"""

from collections.abc import Callable
from typing import Any, TypeAlias, TypeVar, cast

import numpy as np
from numba import njit
from numpy.typing import NDArray

Int: TypeAlias = Any
"""A 64-bit integer inside a kernel, Python's or NumPy's: the compiler makes no difference."""

Bytes: TypeAlias = NDArray[np.uint8]
Numbers: TypeAlias = NDArray[np.int64]
Words: TypeAlias = NDArray[np.uint64]

Function = TypeVar("Function", bound=Callable[..., Any])


def kernel(function: Function) -> Function:
    """Compile `function`. Bounds are not checked by the machine: kernels check positions before they read."""
    return cast("Function", njit(cache=True, nogil=True)(function))

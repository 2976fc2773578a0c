"""Memory for columns that are being decoded. Called by `reading`, and by other users of decoders."""

from typing import Any

import numpy as np
import pyarrow as pa


def arrow_memory(count: int, kind: Any) -> Any:
    """`count` numbers of a NumPy type, whatever they were before, out of Arrow's own pool.

    The pool hands out again what was given back. The C library returns columns of some megabytes to the system, and
    pages that are new to a process cost it more than to fill them: a third of reading, where values are large.
    """
    return np.frombuffer(pa.allocate_buffer(count * np.dtype(kind).itemsize), kind)

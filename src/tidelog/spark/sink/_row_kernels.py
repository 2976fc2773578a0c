"""The kernel behind `row_fingerprint`; the plain function there defines it."""

from typing import Any

import numpy as np

from tidelog.records.kernels.parts import Int, kernel, murmur2

_KEY = np.uint64(0x9E3779B97F4A7C15)
_VALUE = np.uint64(0xC2B2AE3D27D4EB4F)
_MIX = np.uint64(0xFF51AFD7ED558CCD)
_SHIFT = np.uint64(29)


@kernel
def hash_sum(keys: Any, values: Any, row_count: Int) -> Any:
    """The sum of the rows' hashes modulo 2^64."""
    total = np.uint64(0)
    for row in range(row_count):
        mixed = np.uint64(0)
        if keys.sizes[row] >= 0:
            mixed += _KEY * np.uint64(murmur2(keys.data, np.int64(keys.positions[row]), np.int64(keys.sizes[row])) + 1)
        if values.sizes[row] >= 0:
            size = np.int64(values.sizes[row])
            mixed += _VALUE * np.uint64(murmur2(values.data, np.int64(values.positions[row]), size) + 1)
        total += (mixed ^ (mixed >> _SHIFT)) * _MIX
    return total

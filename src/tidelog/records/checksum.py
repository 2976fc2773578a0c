"""CRC-32C, the checksum of record batches: the `crc32c` extension without the cost of its package.

Importing the package runs its `__init__`, which reads installation metadata and builds a command line: about 35 ms, a
quarter of what a broker may take to start. The extension module inside it needs none of that, so it is loaded alone.
"""

from collections.abc import Callable
from importlib.machinery import PathFinder
from importlib.util import module_from_spec
from typing import Any

_Crc32c = Callable[..., int]


def _load_extension() -> Any:
    package = PathFinder.find_spec("crc32c")
    if package is None or package.submodule_search_locations is None:
        return None
    spec = PathFinder.find_spec("crc32c._crc32c", package.submodule_search_locations)
    if spec is None or spec.loader is None:
        return None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return getattr(module, "crc32c", None)


def _load() -> _Crc32c:
    function = _load_extension()
    if function is None:
        from crc32c import crc32c as function
    loaded: _Crc32c = function
    return loaded


crc32c: _Crc32c = _load()
"""`crc32c(data, value=0) -> int`; releases the interpreter lock for data of 32 KiB and more."""

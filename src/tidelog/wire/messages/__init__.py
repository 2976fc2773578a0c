"""Every message of the protocol: one module for each API, with the request, the response and the structs inside them.

    from tidelog.wire.messages.metadata import MetadataRequest, MetadataResponse

The module has the name of the API. By that rule a program that is handed the name of a request or a response, as tests
and load generators are, finds the class as an attribute of this package, which loads its module and no other.
"""

import re
from importlib import import_module
from typing import Any, Final

_MESSAGE: Final = re.compile(r"([A-Z]\w+)(?:Request|Response)")
_WORD_START: Final = re.compile(r"(?<=[a-z])(?=[A-Z])")


def __getattr__(name: str) -> Any:
    found = _MESSAGE.fullmatch(name)
    if found is not None:
        module = _WORD_START.sub("_", found[1]).lower()
        try:
            return getattr(import_module(f"{__name__}.{module}"), name)
        except ModuleNotFoundError:
            pass
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

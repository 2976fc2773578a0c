"""Loads the optional C modules `_speedups`, each of which a package may have beside its Python twin.

A module is left out where it was not built, where it is older than its source, and with `TIDELOG_SPEEDUPS=off` in the
environment.
"""

import os
from importlib import import_module
from types import ModuleType


def load_speedups(name: str, version: int) -> ModuleType | None:
    """The module of that name if its VERSION is `version`; None if the Python functions are to be used.

    A library in a source tree may be older than its source; `make setup` rebuilds it.
    """
    if os.environ.get("TIDELOG_SPEEDUPS", "on") == "off":
        return None
    try:
        module = import_module(name)
    except ImportError:
        return None
    return module if getattr(module, "VERSION", None) == version else None

"""Clients for Tidelog and any other Kafka cluster: under asyncio and, without `Async`, for programs without a loop.

    AsyncProducer, Producer    send records, idempotently and in transactions
    AsyncConsumer, Consumer    read topics, alone or as members of a group
    AsyncAdmin, Admin          topics, settings, groups, transactions, the cluster
    AsyncRetryingConsumer, RetryingConsumer, @retrying    call a handler, and try failed records again

and their types and errors: every error is a ClientError; ApiError is an error that a broker returned. See
docs/clients.md.

Names are imported on first use, from where `__init__.pyi` has them: that list is the only one.
"""

import re
from importlib import import_module
from os.path import dirname, join


def _read_homes() -> dict[str, str]:
    """The module of each public name."""
    # The loader is asked and not the disk: the package may be in a zip file that Spark hands to its workers.
    listed = __loader__.get_data(join(dirname(__file__), "__init__.pyi")).decode()
    return {name: module for module, name in re.findall(r"^from (\S+) import (\w+)", listed, re.MULTILINE)}


_HOMES = _read_homes()
__all__ = sorted(_HOMES)  # noqa: PLE0605 - the stub is what checkers read


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)

"""Decides which errors are shown as one line, and which as a traceback."""

from tidelog.client.errors import BootstrapFailed, ClientError
from tidelog.cluster.layout import ClusterError
from tidelog.config.errors import ConfigError
from tidelog.records.errors import CorruptRecordError
from tidelog.testing.runner import BrokerFailed
from tidelog.wire.errors import ApiError


class CommandError(Exception):
    """An error of a command; the user sees only the message."""


def explain(error: Exception) -> str | None:
    """One line for the user, or None for an unexpected error."""
    if isinstance(error, ApiError):
        return f"{error.message or error.code.text} ({error.code.name})"
    if isinstance(error, BootstrapFailed):
        tried = "; ".join(f"{address}: {reason}" for address, reason in error.failures.items())
        return f"no broker at {tried} (check bootstrap.servers or --bootstrap-server)"
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename}: {error.strerror}" if error.filename else error.strerror
    if isinstance(error, CommandError | ClientError | ClusterError | ConfigError | CorruptRecordError | BrokerFailed):
        return str(error)
    return None

"""Talking to a cluster: a small synchronous client, used by the command line, the demo and the testing kit.

    Connection       one socket to one broker: versions negotiated, requests pipelined
    ClusterClient    metadata, routing to leaders and the controller, retries within a deadline
    RecordWriter     records in, batches out, partitioned as Kafka's own clients do
    RecordReader     records of chosen partitions from chosen offsets

Nothing is imported until it is asked for.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tidelog.client.cluster import ClusterClient
    from tidelog.client.connection import Connection
    from tidelog.client.errors import BrokerUnavailable, ClientError, ConnectionLost, UnsupportedByBroker
    from tidelog.client.reader import RecordReader
    from tidelog.client.writer import RecordWriter

__all__ = [
    "BrokerUnavailable",
    "ClientError",
    "ClusterClient",
    "Connection",
    "ConnectionLost",
    "RecordReader",
    "RecordWriter",
    "UnsupportedByBroker",
]

_HOMES = {
    "BrokerUnavailable": "errors",
    "ClientError": "errors",
    "ClusterClient": "cluster",
    "Connection": "connection",
    "ConnectionLost": "errors",
    "RecordReader": "reader",
    "RecordWriter": "writer",
    "UnsupportedByBroker": "errors",
}


def __getattr__(name: str) -> object:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"{__name__}.{home}"), name)

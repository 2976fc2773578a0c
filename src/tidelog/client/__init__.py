"""Talking to a cluster: a small synchronous client, used by the command line, the demo and the testing kit.

    Connection       one socket to one broker: versions negotiated, requests pipelined
    ClusterClient    metadata, routing to leaders and the controller, retries within a deadline
    RecordWriter     records in, batches out, partitioned as Kafka's own clients do
    RecordReader     records of chosen partitions from chosen offsets

and, under asyncio or with a background thread, the consumer that applications use:

    AsyncConsumer    reads topics, alone or as a member of a group
    Consumer         the same for programs without an event loop

Nothing is imported until it is asked for.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tidelog.client.aio.consumer.consumer import AsyncConsumer
    from tidelog.client.aio.consumer.listeners import RebalanceListener
    from tidelog.client.aio.consumer.types import ConsumerRecord, ConsumerRecords
    from tidelog.client.cluster import ClusterClient
    from tidelog.client.connection import Connection
    from tidelog.client.consumer import Consumer
    from tidelog.client.errors import BrokerUnavailable, ClientError, ConnectionLost, UnsupportedByBroker
    from tidelog.client.reader import RecordReader
    from tidelog.client.types import OffsetAndMetadata, TopicPartition
    from tidelog.client.writer import RecordWriter

__all__ = [
    "AsyncConsumer",
    "BrokerUnavailable",
    "ClientError",
    "ClusterClient",
    "Connection",
    "ConnectionLost",
    "Consumer",
    "ConsumerRecord",
    "ConsumerRecords",
    "OffsetAndMetadata",
    "RebalanceListener",
    "RecordReader",
    "RecordWriter",
    "TopicPartition",
    "UnsupportedByBroker",
]

_HOMES = {
    "AsyncConsumer": "aio.consumer.consumer",
    "BrokerUnavailable": "errors",
    "ClientError": "errors",
    "ClusterClient": "cluster",
    "Connection": "connection",
    "ConnectionLost": "errors",
    "Consumer": "consumer",
    "ConsumerRecord": "aio.consumer.types",
    "ConsumerRecords": "aio.consumer.types",
    "OffsetAndMetadata": "types",
    "RebalanceListener": "aio.consumer.listeners",
    "RecordReader": "reader",
    "RecordWriter": "writer",
    "TopicPartition": "types",
    "UnsupportedByBroker": "errors",
}


def __getattr__(name: str) -> object:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"{__name__}.{home}"), name)

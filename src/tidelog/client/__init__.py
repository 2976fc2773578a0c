"""Talking to a cluster: a small synchronous client, used by the command line, the demo and the testing kit.

    Connection       one socket to one broker: versions negotiated, requests pipelined
    ClusterClient    metadata, routing to leaders and the controller, retries within a deadline
    RecordWriter     records in, batches out, partitioned as Kafka's own clients do
    RecordReader     records of chosen partitions from chosen offsets

and the clients that applications use, each under asyncio and, without `Async`, for programs without an event loop:

    AsyncProducer    sends records, idempotently and in transactions
    AsyncConsumer    reads topics, alone or as a member of a group
    AsyncAdmin       topics, settings, groups, transactions, the cluster

and what they raise: ClientError and what is below it, and ApiError for what a broker refused. See docs/clients.md.

Nothing is imported until it is asked for.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tidelog.client.admin import Admin
    from tidelog.client.aio.admin.admin import AsyncAdmin
    from tidelog.client.aio.admin.driver import PartlyRefused
    from tidelog.client.aio.admin.types import (
        AlterOperation,
        ConfigChange,
        ConfigResource,
        NewPartitions,
        NewTopic,
        ResourceType,
    )
    from tidelog.client.aio.consumer.consumer import AsyncConsumer
    from tidelog.client.aio.consumer.errors import (
        CommitFailed,
        ConcurrentAccess,
        DeserializationFailed,
        InvalidOffset,
        LogTruncated,
        NoOffset,
        OffsetOutOfRange,
        RebalanceInProgress,
        Woken,
    )
    from tidelog.client.aio.consumer.listeners import RebalanceListener
    from tidelog.client.aio.consumer.types import ConsumerRecord, ConsumerRecords
    from tidelog.client.aio.producer.batch import RecordMetadata
    from tidelog.client.aio.producer.delivery import Delivery
    from tidelog.client.aio.producer.producer import AsyncProducer
    from tidelog.client.aio.producer.record import ProducerRecord
    from tidelog.client.aio.producer.transaction_state import TransactionHandle
    from tidelog.client.cluster import ClusterClient
    from tidelog.client.connection import Connection
    from tidelog.client.consumer import Consumer
    from tidelog.client.errors import (
        BootstrapFailed,
        BrokerUnavailable,
        BufferExhausted,
        ClientClosed,
        ClientConfigError,
        ClientError,
        ConnectionLost,
        DeadlinePassed,
        IllegalState,
        ProducerFenced,
        RecordTooLarge,
        SerializationFailed,
        TransactionFailed,
        UnsupportedByBroker,
    )
    from tidelog.client.producer import Producer
    from tidelog.client.reader import RecordReader
    from tidelog.client.types import ConsumerGroupMetadata, OffsetAndMetadata, TopicPartition
    from tidelog.client.writer import RecordWriter
    from tidelog.wire.errors import ApiError, ErrorCode

__all__ = [
    "Admin",
    "AlterOperation",
    "ApiError",
    "AsyncAdmin",
    "AsyncConsumer",
    "AsyncProducer",
    "BootstrapFailed",
    "BrokerUnavailable",
    "BufferExhausted",
    "ClientClosed",
    "ClientConfigError",
    "ClientError",
    "ClusterClient",
    "CommitFailed",
    "ConcurrentAccess",
    "ConfigChange",
    "ConfigResource",
    "Connection",
    "ConnectionLost",
    "Consumer",
    "ConsumerGroupMetadata",
    "ConsumerRecord",
    "ConsumerRecords",
    "DeadlinePassed",
    "Delivery",
    "DeserializationFailed",
    "ErrorCode",
    "IllegalState",
    "InvalidOffset",
    "LogTruncated",
    "NewPartitions",
    "NewTopic",
    "NoOffset",
    "OffsetAndMetadata",
    "OffsetOutOfRange",
    "PartlyRefused",
    "Producer",
    "ProducerFenced",
    "ProducerRecord",
    "RebalanceInProgress",
    "RebalanceListener",
    "RecordMetadata",
    "RecordReader",
    "RecordTooLarge",
    "RecordWriter",
    "ResourceType",
    "SerializationFailed",
    "TopicPartition",
    "TransactionFailed",
    "TransactionHandle",
    "UnsupportedByBroker",
    "Woken",
]

_HOMES = {
    "Admin": "admin",
    "AlterOperation": "aio.admin.types",
    "AsyncAdmin": "aio.admin.admin",
    "AsyncConsumer": "aio.consumer.consumer",
    "AsyncProducer": "aio.producer.producer",
    "BootstrapFailed": "errors",
    "BrokerUnavailable": "errors",
    "BufferExhausted": "errors",
    "ClientClosed": "errors",
    "ClientConfigError": "errors",
    "ClientError": "errors",
    "ClusterClient": "cluster",
    "CommitFailed": "aio.consumer.errors",
    "ConcurrentAccess": "aio.consumer.errors",
    "ConfigChange": "aio.admin.types",
    "ConfigResource": "aio.admin.types",
    "Connection": "connection",
    "ConnectionLost": "errors",
    "Consumer": "consumer",
    "ConsumerGroupMetadata": "types",
    "ConsumerRecord": "aio.consumer.types",
    "ConsumerRecords": "aio.consumer.types",
    "DeadlinePassed": "errors",
    "Delivery": "aio.producer.delivery",
    "DeserializationFailed": "aio.consumer.errors",
    "IllegalState": "errors",
    "InvalidOffset": "aio.consumer.errors",
    "LogTruncated": "aio.consumer.errors",
    "NewPartitions": "aio.admin.types",
    "NewTopic": "aio.admin.types",
    "NoOffset": "aio.consumer.errors",
    "OffsetAndMetadata": "types",
    "OffsetOutOfRange": "aio.consumer.errors",
    "PartlyRefused": "aio.admin.driver",
    "Producer": "producer",
    "ProducerFenced": "errors",
    "ProducerRecord": "aio.producer.record",
    "RebalanceInProgress": "aio.consumer.errors",
    "RebalanceListener": "aio.consumer.listeners",
    "RecordMetadata": "aio.producer.batch",
    "RecordReader": "reader",
    "RecordTooLarge": "errors",
    "RecordWriter": "writer",
    "ResourceType": "aio.admin.types",
    "SerializationFailed": "errors",
    "TopicPartition": "types",
    "TransactionFailed": "errors",
    "TransactionHandle": "aio.producer.transaction_state",
    "UnsupportedByBroker": "errors",
    "Woken": "aio.consumer.errors",
}


def __getattr__(name: str) -> object:
    from importlib import import_module

    if name in ("ApiError", "ErrorCode"):
        return getattr(import_module("tidelog.wire.errors"), name)
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{home}"), name)

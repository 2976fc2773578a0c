"""Talking to a cluster: a small synchronous client, used by the command line, the demo and the testing kit.

    Connection       one socket to one broker: versions negotiated, requests pipelined
    ClusterClient    metadata, routing to leaders and the controller, retries within a deadline
    RecordWriter     records in, batches out, partitioned as Kafka's own clients do
    RecordReader     records of chosen partitions from chosen offsets

and the clients that applications use, each under asyncio and, without `Async`, for programs without an event loop:

    AsyncProducer    sends records, idempotently and in transactions
    AsyncConsumer    reads topics, alone or as a member of a group
    AsyncAdmin       topics, settings, groups, transactions, the cluster

and what they raise: ClientError and what is below it, ApiError for what a broker refused. See docs/clients.md.

Nothing is imported until it is asked for.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tidelog.client.admin import Admin
    from tidelog.client.aio.admin.admin import AsyncAdmin
    from tidelog.client.aio.admin.driver import PartlyRefused
    from tidelog.client.aio.admin.types import (
        EARLIEST,
        HIGH_WATERMARK,
        LATEST,
        MAX_TIMESTAMP,
        ActiveProducer,
        AlterOperation,
        ClusterDescription,
        ConfigChange,
        ConfigEntry,
        ConfigResource,
        ConfigSource,
        ConfigSynonym,
        CreatedTopic,
        ElectionType,
        GroupDescription,
        GroupListing,
        ListedOffset,
        LogDirectory,
        MemberDescription,
        MemberToRemove,
        NewPartitions,
        NewTopic,
        PartitionDescription,
        Reassignment,
        ReplicaOnDisk,
        ResourceType,
        TopicDescription,
        TopicListing,
        TransactionDescription,
        TransactionListing,
        TransactionStatus,
    )
    from tidelog.client.aio.consumer.assignors.base import Assignor, PartitionRacks, RebalanceProtocol
    from tidelog.client.aio.consumer.async_commits import CommitCallback
    from tidelog.client.aio.consumer.consumer import AsyncConsumer
    from tidelog.client.aio.consumer.errors import (
        CommitFailed,
        ConcurrentAccess,
        CorruptRecords,
        DeserializationFailed,
        InvalidOffset,
        LogTruncated,
        NoOffset,
        OffsetOutOfRange,
        RebalanceInProgress,
        Woken,
    )
    from tidelog.client.aio.consumer.listeners import ConsumerInterceptor, RebalanceListener
    from tidelog.client.aio.consumer.protocol import Assignment, Subscription
    from tidelog.client.aio.consumer.types import (
        ConsumerRecord,
        ConsumerRecords,
        FetchedBatches,
        OffsetAndTimestamp,
        TimestampType,
    )
    from tidelog.client.aio.metadata import PartitionMetadata
    from tidelog.client.aio.producer.batch import DeliveryCallback, RecordMetadata
    from tidelog.client.aio.producer.delivery import Delivery
    from tidelog.client.aio.producer.partitioners import (
        ConsistentRandomPartitioner,
        Murmur2RandomPartitioner,
        Partitioner,
        RoundRobinPartitioner,
    )
    from tidelog.client.aio.producer.producer import AsyncProducer
    from tidelog.client.aio.producer.record import ProducerInterceptor, ProducerRecord
    from tidelog.client.aio.producer.transaction_state import TransactionHandle
    from tidelog.client.arrow.deliveries import BlockingTableDelivery, SentTable, TableDelivery
    from tidelog.client.consumer import Consumer
    from tidelog.client.errors import (
        ApiError,
        BootstrapFailed,
        BrokerUnavailable,
        BufferExhausted,
        ClientClosed,
        ClientConfigError,
        ClientError,
        ConnectionLost,
        DeadlinePassed,
        IllegalState,
        InvalidReply,
        ProducerFenced,
        RecordTooLarge,
        SerializationFailed,
        TransactionFailed,
        UnsupportedByBroker,
    )
    from tidelog.client.options import AdminOptions, CommonOptions, ConsumerOptions, ProducerOptions
    from tidelog.client.producer import BlockingDelivery, Producer
    from tidelog.client.serialization import Deserializer, HeadersDeserializer, HeadersSerializer, Serializer
    from tidelog.client.types import BrokerNode, ConsumerGroupMetadata, OffsetAndMetadata, TopicPartition
    from tidelog.wire.errors import ErrorCode

__all__ = [
    "EARLIEST",
    "HIGH_WATERMARK",
    "LATEST",
    "MAX_TIMESTAMP",
    "ActiveProducer",
    "Admin",
    "AdminOptions",
    "AlterOperation",
    "ApiError",
    "Assignment",
    "Assignor",
    "AsyncAdmin",
    "AsyncConsumer",
    "AsyncProducer",
    "BlockingDelivery",
    "BlockingTableDelivery",
    "BootstrapFailed",
    "BrokerNode",
    "BrokerUnavailable",
    "BufferExhausted",
    "ClientClosed",
    "ClientConfigError",
    "ClientError",
    "ClusterDescription",
    "CommitCallback",
    "CommitFailed",
    "CommonOptions",
    "ConcurrentAccess",
    "ConfigChange",
    "ConfigEntry",
    "ConfigResource",
    "ConfigSource",
    "ConfigSynonym",
    "ConnectionLost",
    "ConsistentRandomPartitioner",
    "Consumer",
    "ConsumerGroupMetadata",
    "ConsumerInterceptor",
    "ConsumerOptions",
    "ConsumerRecord",
    "ConsumerRecords",
    "CorruptRecords",
    "CreatedTopic",
    "DeadlinePassed",
    "Delivery",
    "DeliveryCallback",
    "DeserializationFailed",
    "Deserializer",
    "ElectionType",
    "ErrorCode",
    "FetchedBatches",
    "GroupDescription",
    "GroupListing",
    "HeadersDeserializer",
    "HeadersSerializer",
    "IllegalState",
    "InvalidOffset",
    "InvalidReply",
    "ListedOffset",
    "LogDirectory",
    "LogTruncated",
    "MemberDescription",
    "MemberToRemove",
    "Murmur2RandomPartitioner",
    "NewPartitions",
    "NewTopic",
    "NoOffset",
    "OffsetAndMetadata",
    "OffsetAndTimestamp",
    "OffsetOutOfRange",
    "PartitionDescription",
    "PartitionMetadata",
    "PartitionRacks",
    "Partitioner",
    "PartlyRefused",
    "Producer",
    "ProducerFenced",
    "ProducerInterceptor",
    "ProducerOptions",
    "ProducerRecord",
    "Reassignment",
    "RebalanceInProgress",
    "RebalanceListener",
    "RebalanceProtocol",
    "RecordMetadata",
    "RecordTooLarge",
    "ReplicaOnDisk",
    "ResourceType",
    "RoundRobinPartitioner",
    "SentTable",
    "SerializationFailed",
    "Serializer",
    "Subscription",
    "TableDelivery",
    "TimestampType",
    "TopicDescription",
    "TopicListing",
    "TopicPartition",
    "TransactionDescription",
    "TransactionFailed",
    "TransactionHandle",
    "TransactionListing",
    "TransactionStatus",
    "UnsupportedByBroker",
    "Woken",
]

_HOMES = {
    "ActiveProducer": "aio.admin.types",
    "Admin": "admin",
    "AdminOptions": "options",
    "AlterOperation": "aio.admin.types",
    "ApiError": "errors",
    "Assignment": "aio.consumer.protocol",
    "Assignor": "aio.consumer.assignors.base",
    "AsyncAdmin": "aio.admin.admin",
    "AsyncConsumer": "aio.consumer.consumer",
    "AsyncProducer": "aio.producer.producer",
    "BlockingDelivery": "producer",
    "BlockingTableDelivery": "arrow.deliveries",
    "BootstrapFailed": "errors",
    "BrokerNode": "types",
    "BrokerUnavailable": "errors",
    "BufferExhausted": "errors",
    "ClientClosed": "errors",
    "ClientConfigError": "errors",
    "ClientError": "errors",
    "ClusterClient": "cluster",
    "ClusterDescription": "aio.admin.types",
    "CommitCallback": "aio.consumer.async_commits",
    "CommitFailed": "aio.consumer.errors",
    "CommonOptions": "options",
    "ConcurrentAccess": "aio.consumer.errors",
    "ConfigChange": "aio.admin.types",
    "ConfigEntry": "aio.admin.types",
    "ConfigResource": "aio.admin.types",
    "ConfigSource": "aio.admin.types",
    "ConfigSynonym": "aio.admin.types",
    "Connection": "connection",
    "ConnectionLost": "errors",
    "ConsistentRandomPartitioner": "aio.producer.partitioners",
    "Consumer": "consumer",
    "ConsumerGroupMetadata": "types",
    "ConsumerInterceptor": "aio.consumer.listeners",
    "ConsumerOptions": "options",
    "ConsumerRecord": "aio.consumer.types",
    "ConsumerRecords": "aio.consumer.types",
    "CorruptRecords": "aio.consumer.errors",
    "CreatedTopic": "aio.admin.types",
    "DeadlinePassed": "errors",
    "Delivery": "aio.producer.delivery",
    "DeliveryCallback": "aio.producer.batch",
    "DeserializationFailed": "aio.consumer.errors",
    "Deserializer": "serialization",
    "EARLIEST": "aio.admin.types",
    "ElectionType": "aio.admin.types",
    "FetchedBatches": "aio.consumer.types",
    "GroupDescription": "aio.admin.types",
    "GroupListing": "aio.admin.types",
    "HIGH_WATERMARK": "aio.admin.types",
    "HeadersDeserializer": "serialization",
    "HeadersSerializer": "serialization",
    "IllegalState": "errors",
    "InvalidOffset": "aio.consumer.errors",
    "InvalidReply": "errors",
    "LATEST": "aio.admin.types",
    "ListedOffset": "aio.admin.types",
    "LogDirectory": "aio.admin.types",
    "LogTruncated": "aio.consumer.errors",
    "MAX_TIMESTAMP": "aio.admin.types",
    "MemberDescription": "aio.admin.types",
    "MemberToRemove": "aio.admin.types",
    "Murmur2RandomPartitioner": "aio.producer.partitioners",
    "NewPartitions": "aio.admin.types",
    "NewTopic": "aio.admin.types",
    "NoOffset": "aio.consumer.errors",
    "OffsetAndMetadata": "types",
    "OffsetAndTimestamp": "aio.consumer.types",
    "OffsetOutOfRange": "aio.consumer.errors",
    "PartitionDescription": "aio.admin.types",
    "PartitionMetadata": "aio.metadata",
    "PartitionRacks": "aio.consumer.assignors.base",
    "Partitioner": "aio.producer.partitioners",
    "PartlyRefused": "aio.admin.driver",
    "Producer": "producer",
    "ProducerFenced": "errors",
    "ProducerInterceptor": "aio.producer.record",
    "ProducerOptions": "options",
    "ProducerRecord": "aio.producer.record",
    "Reassignment": "aio.admin.types",
    "RebalanceInProgress": "aio.consumer.errors",
    "RebalanceListener": "aio.consumer.listeners",
    "RebalanceProtocol": "aio.consumer.assignors.base",
    "RecordMetadata": "aio.producer.batch",
    "RecordReader": "reader",
    "RecordTooLarge": "errors",
    "RecordWriter": "writer",
    "ReplicaOnDisk": "aio.admin.types",
    "ResourceType": "aio.admin.types",
    "RoundRobinPartitioner": "aio.producer.partitioners",
    "SentTable": "arrow.deliveries",
    "SerializationFailed": "errors",
    "Serializer": "serialization",
    "Subscription": "aio.consumer.protocol",
    "TableDelivery": "arrow.deliveries",
    "TimestampType": "aio.consumer.types",
    "TopicDescription": "aio.admin.types",
    "TopicListing": "aio.admin.types",
    "TopicPartition": "types",
    "TransactionDescription": "aio.admin.types",
    "TransactionFailed": "errors",
    "TransactionHandle": "aio.producer.transaction_state",
    "TransactionListing": "aio.admin.types",
    "TransactionStatus": "aio.admin.types",
    "UnsupportedByBroker": "errors",
    "Woken": "aio.consumer.errors",
}


def __getattr__(name: str) -> object:
    from importlib import import_module

    if name == "ErrorCode":
        return import_module("tidelog.wire.errors").ErrorCode
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{home}"), name)

"""The settings of a producer as typed keywords; see `client.aio.options`."""

from collections.abc import Sequence
from typing import Generic, Literal

from tidelog.client.aio.options import CommonOptions
from tidelog.client.aio.producer.partitioners import Choose, Partitioner
from tidelog.client.aio.producer.record import ProducerInterceptor
from tidelog.client.serialization import AnySerializer, K, V


class ProducerOptions(CommonOptions, Generic[K, V], total=False):
    """What a producer takes."""

    acks: Literal["all", -1, 0, 1]
    allow_auto_create_topics: bool
    batch_size: int
    buffer_memory: int
    compression_type: Literal["none", "gzip", "snappy", "lz4", "zstd"]
    compression_gzip_level: int
    compression_lz4_level: int
    compression_zstd_level: int
    delivery_timeout_ms: int
    enable_idempotence: bool
    interceptor_classes: Sequence[ProducerInterceptor | type[ProducerInterceptor] | str]
    key_serializer: AnySerializer[K] | None
    value_serializer: AnySerializer[V] | None
    linger_ms: int
    max_block_ms: int
    max_in_flight_requests_per_connection: int
    max_request_size: int
    metadata_max_idle_ms: int
    partitioner_class: Partitioner | type[Partitioner] | Choose | str | None
    partitioner_ignore_keys: bool
    partitioner_adaptive_partitioning_enable: bool
    retries: int
    transaction_timeout_ms: int
    transactional_id: str | None

"""The settings of each client as keywords, typed: a misspelt name or a value of the wrong kind is found by mypy.

They are the settings that the clients declare, with underscores for dots; a test holds the two equal. The dict that
clients take first is not checked this way: it may come from a properties file.
"""

from collections.abc import Callable, Sequence
from typing import Any, Generic, Literal, TypedDict

from tidelog.client.aio.consumer.assignors.base import Assignor
from tidelog.client.aio.consumer.listeners import ConsumerInterceptor
from tidelog.client.aio.producer.partitioners import Choose, Partitioner
from tidelog.client.aio.producer.record import ProducerInterceptor
from tidelog.client.serialization import AnyDeserializer, AnySerializer, K, V


class SecurityOptions(TypedDict, total=False):
    """How every client connects."""

    security_protocol: Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"]
    sasl_mechanism: str
    sasl_jaas_config: str | None
    sasl_kerberos_service_name: str | None
    sasl_login_callback_handler_class: str | None
    sasl_oauthbearer_token_endpoint_url: str | None
    sasl_login_refresh_window_factor: float
    sasl_login_refresh_window_jitter: float
    sasl_login_refresh_min_period_seconds: int
    sasl_login_refresh_buffer_seconds: int
    sasl_login_connect_timeout_ms: int | None
    sasl_login_read_timeout_ms: int | None
    sasl_login_retry_backoff_ms: int
    sasl_login_retry_backoff_max_ms: int
    ssl_protocol: str
    ssl_enabled_protocols: str | Sequence[str]
    ssl_cipher_suites: str | Sequence[str]
    ssl_keystore_type: str
    ssl_keystore_location: str | None
    ssl_keystore_password: str | None
    ssl_keystore_key: str | None
    ssl_keystore_certificate_chain: str | None
    ssl_key_password: str | None
    ssl_truststore_type: str
    ssl_truststore_location: str | None
    ssl_truststore_password: str | None
    ssl_truststore_certificates: str | None
    ssl_endpoint_identification_algorithm: str


class CommonOptions(SecurityOptions, total=False):
    """What every client takes."""

    bootstrap_servers: str | Sequence[str]
    bootstrap_timeout_ms: int
    client_id: str
    client_rack: str
    request_timeout_ms: int
    retry_backoff_ms: int
    retry_backoff_max_ms: int
    reconnect_backoff_ms: int
    reconnect_backoff_max_ms: int
    connections_max_idle_ms: int
    socket_connection_setup_timeout_ms: int
    socket_connection_setup_timeout_max_ms: int
    send_buffer_bytes: int
    receive_buffer_bytes: int
    metadata_max_age_ms: int
    statistics_interval_ms: int
    sasl_oauthbearer_token_callback: Callable[[], str | tuple[str, float]] | None
    statistics_callback: Callable[[Any], object] | None


class AdminOptions(CommonOptions, total=False):
    """What an admin takes."""

    default_api_timeout_ms: int
    visible_timeout_ms: int


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


class ConsumerOptions(CommonOptions, Generic[K, V], total=False):
    """What a consumer takes."""

    group_id: str | None
    group_instance_id: str | None
    group_protocol: Literal["classic", "consumer"]
    group_remote_assignor: str | None
    partition_assignment_strategy: str | Sequence[Assignor | type[Assignor] | str]
    session_timeout_ms: int
    heartbeat_interval_ms: int
    max_poll_interval_ms: int
    max_poll_records: int
    enable_auto_commit: bool | None
    auto_commit_interval_ms: int
    auto_offset_reset: str
    isolation_level: Literal["read_uncommitted", "read_committed"]
    fetch_min_bytes: int
    fetch_max_bytes: int
    fetch_max_wait_ms: int
    max_partition_fetch_bytes: int
    check_crcs: bool
    key_deserializer: AnyDeserializer[K] | None
    value_deserializer: AnyDeserializer[V] | None
    interceptor_classes: Sequence[ConsumerInterceptor | type[ConsumerInterceptor] | str]
    exclude_internal_topics: bool
    allow_auto_create_topics: bool
    default_api_timeout_ms: int

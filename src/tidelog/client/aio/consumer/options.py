"""The settings of a consumer as typed keywords; see `client.aio.options`."""

from collections.abc import Sequence
from typing import Generic, Literal

from tidelog.client.aio.consumer.assignors.base import Assignor
from tidelog.client.aio.consumer.listeners import ConsumerInterceptor
from tidelog.client.aio.options import CommonOptions
from tidelog.client.serialization import AnyDeserializer, K, V


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

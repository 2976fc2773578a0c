"""The settings of a share consumer as typed keywords; see `client.aio.options`."""

from typing import Generic, Literal

from tidelog.client.aio.options import CommonOptions
from tidelog.client.serialization import AnyDeserializer, K, V


class ShareConsumerOptions(CommonOptions, Generic[K, V], total=False):
    """What a share consumer takes."""

    group_id: str | None
    share_acknowledgement_mode: Literal["implicit", "explicit"]
    share_acquire_mode: Literal["batch_optimized", "record_limit"]
    max_poll_interval_ms: int
    max_poll_records: int
    fetch_min_bytes: int
    fetch_max_bytes: int
    fetch_max_wait_ms: int
    check_crcs: bool
    key_deserializer: AnyDeserializer[K] | None
    value_deserializer: AnyDeserializer[V] | None
    allow_auto_create_topics: bool
    default_api_timeout_ms: int

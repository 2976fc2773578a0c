"""The settings of a share consumer, under Kafka's names and with Kafka's defaults."""

from collections.abc import Mapping
from typing import Any

from tidelog.client.aio.settings import OBJECT, CommonSettings, load_settings
from tidelog.client.errors import ClientConfigError
from tidelog.config.declaration import MIB, MINUTE_MS, setting


class ShareConsumerSettings(CommonSettings):
    """The settings of a share consumer. What the group decides, such as where it begins, is set on the broker."""

    group_id: str | None = setting(
        "group.id", None, importance="high", doc="The share group to join; it must be given."
    )
    share_acknowledgement_mode: str = setting(
        "share.acknowledgement.mode",
        "implicit",
        one_of=("implicit", "explicit"),
        doc="implicit: a poll or commit accepts what the last poll returned; explicit: every record is acknowledged.",
    )
    share_acquire_mode: str = setting(
        "share.acquire.mode",
        "batch_optimized",
        one_of=("batch_optimized", "record_limit"),
        doc="batch_optimized: whole batches, possibly more than max.poll.records; record_limit: never more.",
    )
    max_poll_interval_ms: int = setting(
        "max.poll.interval.ms",
        5 * MINUTE_MS,
        at_least=1,
        doc="A member that does not poll for this time leaves its group.",
    )
    max_poll_records: int = setting("max.poll.records", 500, at_least=1, doc="Most records that one poll returns.")
    fetch_min_bytes: int = setting("fetch.min.bytes", 1, at_least=0, doc="Bytes that a fetch waits for.")
    fetch_max_bytes: int = setting("fetch.max.bytes", 50 * MIB, at_least=0, doc="Most bytes that one fetch returns.")
    fetch_max_wait_ms: int = setting("fetch.max.wait.ms", 500, at_least=0, doc="The longest a fetch waits for bytes.")
    check_crcs: bool = setting("check.crcs", True, doc="Whether the checksum of every batch is checked.")
    key_deserializer: Any = setting("key.deserializer", None, type=OBJECT, doc="Decodes keys.")
    value_deserializer: Any = setting(
        "value.deserializer",
        None,
        type=OBJECT,
        doc="Decodes values: a function of the bytes, or an object with deserialize(topic, data).",
    )
    allow_auto_create_topics: bool = setting(
        "allow.auto.create.topics", True, doc="Whether subscribing may create a topic, if brokers allow it."
    )
    default_api_timeout_ms: int = setting(
        "default.api.timeout.ms", MINUTE_MS, at_least=0, doc="Timeout of calls without a timeout argument."
    )

    @property
    def is_explicit(self) -> bool:
        """Whether the application acknowledges every record itself."""
        return self.share_acknowledgement_mode == "explicit"

    @property
    def is_strict(self) -> bool:
        """Whether no more than max.poll.records are locked at once."""
        return self.share_acquire_mode == "record_limit"


def load_share_settings(properties: Mapping[str, Any] | None, keywords: Mapping[str, Any]) -> ShareConsumerSettings:
    """The settings, checked one by one and against each other."""
    settings = load_settings(ShareConsumerSettings, properties, keywords)
    if not settings.group_id:
        raise ClientConfigError(f"group.id={settings.group_id!r}: a share consumer needs a group")
    return settings

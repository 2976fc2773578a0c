"""The settings of a producer, under Kafka's names, and what they demand of each other."""

import logging
from collections.abc import Mapping
from typing import Any, Final

from tidelog.client.aio.settings import OBJECT, CommonSettings, read_values
from tidelog.client.errors import ClientConfigError
from tidelog.config.declaration import INT_MAX, KIB, MIB, MINUTE_MS, Check, setting
from tidelog.config.kinds import LONG, Kind
from tidelog.records.compression import DEFAULT_LEVELS, Codec

IN_FLIGHT_MAX_IDEMPOTENT: Final = 5
"""Brokers remember the last five batches of a producer: more in flight could not be put in order again."""

_ACKS: Final = {"all": -1, "-1": -1, "0": 0, "1": 1}


def _parse_acks(text: str) -> int:
    found = _ACKS.get(text.strip())
    if found is None:
        raise ValueError("String must be one of: all, -1, 0, 1")
    return found


_ACKS_KIND: Final = Kind("string", 2, _parse_acks, str)
_LOG: Final = logging.getLogger("tidelog.client.producer")
_CODECS: Final = tuple(codec.name.lower() for codec in Codec)


def _acks_problem(value: Any) -> str | None:
    return None if value in (-1, 0, 1) and type(value) is int else "Value must be one of: all, -1, 0, 1"


def _gzip_level_problem(value: Any) -> str | None:
    return None if value == -1 or 1 <= value <= 9 else "Value must be between 1 and 9 or equal to -1"


class ProducerSettings(CommonSettings):
    """The settings of a producer."""

    acks: int = setting(
        "acks",
        -1,
        type=_ACKS_KIND,
        validator=Check("all, -1, 0, 1", _acks_problem),
        importance="high",
        doc="Replicas that must store a record before it is acknowledged: none (0), the leader (1), all in-sync (-1).",
    )
    allow_auto_create_topics: bool = setting(
        "allow.auto.create.topics",
        True,
        doc="Whether sending to an unknown topic may create it, if brokers allow that.",
    )
    batch_size: int = setting(
        "batch.size",
        64 * KIB,
        at_least=0,
        doc="Bytes of a batch; 0 sends each record alone. Kafka's default is 16384, but batches cost more in Python.",
    )
    buffer_memory: int = setting(
        "buffer.memory",
        32 * MIB,
        at_least=0,
        type=LONG,
        importance="high",
        doc="Bytes of records that may wait to be sent.",
    )
    compression_type: str = setting(
        "compression.type", "none", one_of=_CODECS, importance="high", doc="The codec of batches."
    )
    compression_gzip_level: int = setting(
        "compression.gzip.level",
        -1,
        validator=Check("1 to 9, or -1", _gzip_level_problem),
        doc="Strength of gzip; -1: the default.",
    )
    compression_lz4_level: int = setting("compression.lz4.level", 9, at_least=1, at_most=17, doc="Strength of lz4.")
    compression_zstd_level: int = setting(
        "compression.zstd.level", 3, at_least=-131072, at_most=22, doc="Strength of zstd."
    )
    delivery_timeout_ms: int = setting(
        "delivery.timeout.ms", 2 * MINUTE_MS, at_least=0, doc="A record that is not stored within this time fails."
    )
    enable_idempotence: bool = setting(
        "enable.idempotence", True, doc="Number the batches, so that retries store each batch once and in order."
    )
    interceptor_classes: tuple[Any, ...] = setting(
        "interceptor.classes", (), doc="Objects with on_send(record) and on_acknowledgement(metadata, error)."
    )
    key_serializer: Any = setting("key.serializer", None, type=OBJECT, doc="Turns keys into bytes.")
    value_serializer: Any = setting(
        "value.serializer",
        None,
        type=OBJECT,
        doc="Turns values into bytes: a function of them, or an object with serialize(topic, value).",
    )
    linger_ms: int = setting("linger.ms", 0, at_least=0, type=LONG, doc="Time to wait for a batch to fill.")
    max_block_ms: int = setting(
        "max.block.ms", MINUTE_MS, at_least=0, type=LONG, doc="How long send() may wait for metadata and memory."
    )
    max_in_flight_requests_per_connection: int = setting(
        "max.in.flight.requests.per.connection", 5, at_least=1, doc="Requests to a broker that may be unanswered."
    )
    max_request_size: int = setting(
        "max.request.size", MIB, at_least=0, doc="Largest record, and largest request, in bytes."
    )
    metadata_max_idle_ms: int = setting(
        "metadata.max.idle.ms",
        5 * MINUTE_MS,
        at_least=5000,
        type=LONG,
        doc="Drop the metadata of topics unused for this time.",
    )
    partitioner_class: Any = setting(
        "partitioner.class", None, type=OBJECT, doc="Chooses partitions; None: the built-in partitioner."
    )
    partitioner_ignore_keys: bool = setting(
        "partitioner.ignore.keys", False, doc="Ignore keys when choosing partitions."
    )
    partitioner_adaptive_partitioning_enable: bool = setting(
        "partitioner.adaptive.partitioning.enable", True, doc="Send fewer records without a key to slow brokers."
    )
    retries: int = setting("retries", INT_MAX, at_least=0, at_most=INT_MAX, doc="How often a batch is retried.")
    transaction_timeout_ms: int = setting(
        "transaction.timeout.ms", MINUTE_MS, at_least=1, doc="The broker aborts transactions that are open for longer."
    )
    transactional_id: str | None = setting(
        "transactional.id", None, doc="Identifies this producer over restarts; enables transactions."
    )

    @property
    def codec(self) -> Codec:
        """The codec of batches."""
        return Codec[self.compression_type.upper()]

    @property
    def codec_level(self) -> int | None:
        """Its strength; None for codecs that have none."""
        codec = self.codec
        return getattr(self, f"compression_{codec.name.lower()}_level") if codec in DEFAULT_LEVELS else None


def load_producer_settings(
    properties: Mapping[str, Any] | None, keywords: Mapping[str, Any] | None
) -> ProducerSettings:
    """Read the settings and let them agree, as Kafka's producer does."""
    given = read_values(ProducerSettings, properties, keywords)
    settings = ProducerSettings(**given)
    if settings.transactional_id == "":
        raise ClientConfigError("transactional.id='' is empty; omit it for a producer without transactions")
    if settings.transactional_id is not None and not settings.enable_idempotence:
        raise ClientConfigError("transactional.id needs enable.idempotence=true")
    settings = _settle_idempotence(settings, given)
    return _settle_delivery_timeout(settings, given)


def _settle_idempotence(settings: ProducerSettings, given: Mapping[str, Any]) -> ProducerSettings:
    """Idempotence is on unless something given rules it out; asked for and ruled out is an error."""
    if not settings.enable_idempotence:
        return settings
    in_flight = settings.max_in_flight_requests_per_connection
    problems = [
        (settings.acks != -1, f"acks=all, not {settings.acks}"),
        (settings.retries == 0, "retries above 0"),
        (
            in_flight > IN_FLIGHT_MAX_IDEMPOTENT,
            f"max.in.flight.requests.per.connection of at most {IN_FLIGHT_MAX_IDEMPOTENT}, not {in_flight}",
        ),
    ]
    problem = next((text for is_broken, text in problems if is_broken), None)
    if problem is None:
        return settings
    if "enable_idempotence" in given or settings.transactional_id is not None:
        raise ClientConfigError(f"enable.idempotence=true needs {problem}")
    _LOG.info("producer: idempotence is off: it needs %s", problem)
    return settings.replace(enable_idempotence=False)


def _settle_delivery_timeout(settings: ProducerSettings, given: Mapping[str, Any]) -> ProducerSettings:
    needed_ms = min(settings.linger_ms + settings.request_timeout_ms, INT_MAX)
    if settings.delivery_timeout_ms >= needed_ms:
        return settings
    if "delivery_timeout_ms" in given:
        raise ClientConfigError(
            f"delivery.timeout.ms={settings.delivery_timeout_ms} must be at least linger.ms + request.timeout.ms, "
            f"which is {needed_ms}"
        )
    return settings.replace(delivery_timeout_ms=needed_ms)

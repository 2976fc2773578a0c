"""Dead letters of others: the headers of Spring for Apache Kafka and of Kafka Connect, read as a trail. Pure.

Both keep the record's own headers beside theirs. What they do not say is -1, or 0 for the number of attempts.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from tidelog.client.retry.headers import Header, HeaderError, Origin, Trail

Texts = Mapping[str, bytes]


@dataclass(frozen=True, slots=True)
class Convention:
    """How one framework writes the headers of its dead letters."""

    name: str
    prefixes: tuple[str, ...]
    """What the names of its headers begin with."""
    topic: str
    partition: str
    offset: str
    timestamp_ms: str
    attempts: str
    pipeline: tuple[str, ...]
    """Headers that name what failed; the first that is there counts, as with the two that follow."""
    error_type: tuple[str, ...]
    error_message: tuple[str, ...]
    number: Callable[[bytes], int]


def _big_endian(value: bytes) -> int:
    if len(value) not in (4, 8):
        raise HeaderError(f"{bytes(value)!r} is no number of 4 or 8 bytes")
    return int.from_bytes(value, "big", signed=True)


def _decimal(value: bytes) -> int:
    try:
        return int(bytes(value))
    except ValueError:
        raise HeaderError(f"{bytes(value)!r} is no number") from None


SPRING: Final = Convention(
    name="Spring",
    prefixes=("kafka_dlt-", "kafka_original-", "kafka_exception-", "retry_topic-"),
    topic="kafka_dlt-original-topic",
    partition="kafka_dlt-original-partition",
    offset="kafka_dlt-original-offset",
    timestamp_ms="kafka_dlt-original-timestamp",
    attempts="retry_topic-attempts",
    pipeline=("kafka_dlt-original-consumer-group",),
    # The exception itself is Spring's own, around the cause.
    error_type=("kafka_dlt-exception-cause-fqcn", "kafka_dlt-exception-fqcn"),
    error_message=("kafka_dlt-exception-message",),
    number=_big_endian,
)
CONNECT: Final = Convention(
    name="Kafka Connect",
    prefixes=("__connect.errors.",),
    topic="__connect.errors.topic",
    partition="__connect.errors.partition",
    offset="__connect.errors.offset",
    timestamp_ms="",
    attempts="",
    pipeline=("__connect.errors.connector.name",),
    error_type=("__connect.errors.exception.class.name",),
    error_message=("__connect.errors.exception.message",),
    number=_decimal,
)
CONVENTIONS: Final = (SPRING, CONNECT)


def decode_other(headers: Iterable[Header]) -> tuple[Convention, Trail] | None:
    """The trail that another framework wrote; None if there is none. Raises HeaderError when it is broken."""
    texts = {name: value for name, value in headers if value is not None}
    for convention in CONVENTIONS:
        if convention.topic in texts:
            return convention, _trail(convention, texts)
    return None


def strip_other(headers: Iterable[Header], convention: Convention) -> tuple[Header, ...]:
    """The record's own headers."""
    return tuple(header for header in headers if not header[0].startswith(convention.prefixes))


def _trail(convention: Convention, texts: Texts) -> Trail:
    def number(name: str, default: int) -> int:
        return convention.number(texts[name]) if name in texts else default

    timestamp_ms = number(convention.timestamp_ms, -1)
    topic = _text(texts, (convention.topic,))
    origin = Origin(topic, number(convention.partition, -1), number(convention.offset, -1), timestamp_ms)
    pipeline = _text(texts, convention.pipeline) or convention.name
    error_type, error_message = _text(texts, convention.error_type), _text(texts, convention.error_message)
    return Trail(pipeline, number(convention.attempts, 0), error_type, error_message, -1, origin)


def _text(texts: Texts, names: Iterable[str]) -> str:
    return next((bytes(texts[name]).decode("utf-8", "replace") for name in names if name in texts), "")

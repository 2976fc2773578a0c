"""The headers a failed row carries through retry and dead-letter topics: its failure and its origin. Pure.

Values are text, so that any consumer can read them. The record's own headers stay in front of these, in their order.
`columns` writes the same headers as Spark expressions; `replay` and tools read and strip them here.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

PIPELINE: Final = "tidelog.pipeline"
ATTEMPTS: Final = "tidelog.attempts"
ERROR_TYPE: Final = "tidelog.error.type"
ERROR_MESSAGE: Final = "tidelog.error.message"
FAILED_MS: Final = "tidelog.failed.ms"
DUE_MS: Final = "tidelog.due.ms"
ORIGIN_TOPIC: Final = "tidelog.origin.topic"
ORIGIN_PARTITION: Final = "tidelog.origin.partition"
ORIGIN_OFFSET: Final = "tidelog.origin.offset"
ORIGIN_TIMESTAMP_MS: Final = "tidelog.origin.timestamp.ms"
SEQUENCE: Final = "tidelog.sequence"
RETURN_TOPIC: Final = "tidelog.return.topic"
REPLAYED_BY: Final = "tidelog.replayed.by"
"""Who sent a dead letter back, where that is known."""
REPLAYED: Final = "tidelog.replayed"
"""On a dead letter that was sent back, so that a pipeline knows that it comes late."""

OWN: Final = frozenset(
    {
        PIPELINE,
        ATTEMPTS,
        ERROR_TYPE,
        ERROR_MESSAGE,
        FAILED_MS,
        DUE_MS,
        ORIGIN_TOPIC,
        ORIGIN_PARTITION,
        ORIGIN_OFFSET,
        ORIGIN_TIMESTAMP_MS,
        SEQUENCE,
        RETURN_TOPIC,
        REPLAYED_BY,
        REPLAYED,
    }
)

MESSAGE_CHARACTERS_MAX: Final = 2_000
_INT64_MAX: Final = 2**63 - 1

Header = tuple[str, bytes | None]


class HeaderError(ValueError):
    """Headers that are not a trail: one is missing or is not a number."""


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a record was first read."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int


@dataclass(frozen=True, slots=True)
class Trail:
    """The history of a record.

    `due_ms` is None for dead letters, `sequence` where order is not kept. `return_topic` is where a retry service sends
    the record when it is due; a record that is read there with this header is a retry.
    """

    pipeline: str
    attempts: int
    error_type: str
    error_message: str
    failed_ms: int
    origin: Origin
    due_ms: int | None = None
    sequence: int | None = None
    return_topic: str | None = None


def encode(trail: Trail) -> tuple[Header, ...]:
    """The headers of a trail, in a fixed order."""
    values: dict[str, object] = {
        PIPELINE: trail.pipeline,
        ATTEMPTS: trail.attempts,
        ERROR_TYPE: trail.error_type,
        ERROR_MESSAGE: trail.error_message[:MESSAGE_CHARACTERS_MAX],
        FAILED_MS: trail.failed_ms,
        DUE_MS: trail.due_ms,
        ORIGIN_TOPIC: trail.origin.topic,
        ORIGIN_PARTITION: trail.origin.partition,
        ORIGIN_OFFSET: trail.origin.offset,
        ORIGIN_TIMESTAMP_MS: trail.origin.timestamp_ms,
        SEQUENCE: trail.sequence,
        RETURN_TOPIC: trail.return_topic,
    }
    return tuple((name, str(value).encode("utf-8", "replace")) for name, value in values.items() if value is not None)


def decode(headers: Iterable[Header]) -> Trail | None:
    """The trail in a record's headers; None if there is none. Raises HeaderError when it is there but broken."""
    texts = {name: value for name, value in headers if name in OWN and value is not None}
    if ORIGIN_TOPIC not in texts:
        return None
    origin = Origin(
        _text(texts, ORIGIN_TOPIC),
        _number(texts, ORIGIN_PARTITION),
        _number(texts, ORIGIN_OFFSET),
        _number(texts, ORIGIN_TIMESTAMP_MS),
    )
    return Trail(
        _text(texts, PIPELINE),
        _number(texts, ATTEMPTS),
        _text(texts, ERROR_TYPE),
        _text(texts, ERROR_MESSAGE),
        _number(texts, FAILED_MS),
        origin,
        _number(texts, DUE_MS) if DUE_MS in texts else None,
        _number(texts, SEQUENCE) if SEQUENCE in texts else None,
        _text(texts, RETURN_TOPIC) if RETURN_TOPIC in texts else None,
    )


def strip(headers: Iterable[Header]) -> tuple[Header, ...]:
    """The record's own headers, as they were before it failed."""
    return tuple(header for header in headers if header[0] not in OWN)


def _text(texts: Mapping[str, bytes], name: str) -> str:
    value = texts.get(name)
    if value is None:
        raise HeaderError(f"header {name!r} is missing")
    return value.decode("utf-8", "replace")


def _number(texts: Mapping[str, bytes], name: str) -> int:
    text = _text(texts, name)
    digits = text.removeprefix("-")
    if not digits.isascii() or not digits.isdigit() or len(digits) > 19 or int(digits) > _INT64_MAX:
        raise HeaderError(f"header {name!r} is {text!r}: it must be a whole number")
    return int(text)

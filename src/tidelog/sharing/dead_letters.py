"""Dead letters: what a share group has rejected, or was delivered too often, as records of another topic (KIP-1191).

A dead letter says in its headers, which are Kafka's, where its record is, which group had it and why it failed. It has
the record's key and value if the group wants a copy. It goes to the partition of the other topic whose number is that
of the record's, modulo the partitions there. No I/O here.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from tidelog.records.batch import iterate_batches, iterate_records
from tidelog.records.builder import RECORD_OVERHEAD_BYTES_MAX, BatchBuilder
from tidelog.records.header import HEADER_BYTES
from tidelog.records.record import Record
from tidelog.sharing.partition import Letter

TOPIC_HEADER: Final = "__dlq.errors.topic"
PARTITION_HEADER: Final = "__dlq.errors.partition"
OFFSET_HEADER: Final = "__dlq.errors.offset"
GROUP_HEADER: Final = "__dlq.errors.group"
COUNT_HEADER: Final = "__dlq.errors.delivery.count"
MESSAGE_HEADER: Final = "__dlq.errors.message"
REJECTED: Final = "Offset rejected by client."
EXHAUSTED: Final = "Offset delivery count exceeded the threshold."
_ORIGIN: Final = frozenset((TOPIC_HEADER, PARTITION_HEADER, OFFSET_HEADER, GROUP_HEADER))
_HEADER_OVERHEAD_BYTES: Final = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadLetterRules:
    """The settings of a group that has dead letters."""

    topic: str
    copies_records: bool = False
    name_prefix: str = ""
    """What the topic's name must begin with."""
    may_create: bool = False
    """Whether the topic is created if it does not exist."""


class Origin(NamedTuple):
    """The share partition whose records become dead letters."""

    group_id: str
    topic: str
    partition: int


class LetterBatch(NamedTuple):
    """Dead letters of these offsets, as a record batch."""

    first_offset: int
    last_offset: int
    records: bytes
    record_count: int


def refusal_of(rules: DeadLetterRules, *, exists: bool, is_enabled: bool) -> str | None:
    """Why the topic cannot take dead letters, which it is enabled for or not if it exists; None if it can."""
    name = rules.topic
    if name.startswith("__"):
        return f"{name} is an internal topic's name"
    if not name.startswith(rules.name_prefix):
        return f"its name does not begin with errors.deadletterqueue.topic.name.prefix ({rules.name_prefix})"
    if not exists:
        text = "it does not exist, and errors.deadletterqueue.auto.create.topics.enable is false"
        return None if rules.may_create else text
    return None if is_enabled else "its errors.deadletterqueue.group.enable is not true"


def letter_batches(
    letter: Letter,
    origin: Origin,
    originals: Mapping[int, Record],
    written: Container[int],
    now_ms: int,
    batch_bytes_max: int,
) -> Iterator[LetterBatch]:
    """The dead letters in batches of at most that size, but for offsets in `written`; one that is larger is alone.

    `originals` are the records to copy, as far as they are still there.
    """
    first, position = letter.first_offset, letter.first_offset
    builder, size_bytes = BatchBuilder(), HEADER_BYTES
    for position in range(letter.first_offset, letter.last_offset + 1):
        if position in written:
            continue
        original = originals.get(position)
        key, value = (None, None) if original is None else (original.key, original.value)
        headers = _headers_of(letter, origin, position)
        record_bytes = _size_of(key, value, headers)
        if builder.record_count and size_bytes + record_bytes > batch_bytes_max:
            yield LetterBatch(first, position - 1, builder.build(), builder.record_count)
            first, builder, size_bytes = position, BatchBuilder(), HEADER_BYTES
        builder.append(now_ms, key, value, headers)
        size_bytes += record_bytes
    yield LetterBatch(first, position, builder.build() if builder.record_count else b"", builder.record_count)


def _headers_of(letter: Letter, origin: Origin, offset: int) -> Sequence[tuple[str, bytes]]:
    message = REJECTED if letter.is_rejected else EXHAUSTED
    values = (
        (TOPIC_HEADER, origin.topic),
        (PARTITION_HEADER, str(origin.partition)),
        (OFFSET_HEADER, str(offset)),
        (GROUP_HEADER, origin.group_id),
        (COUNT_HEADER, str(letter.delivery_count)),
        (MESSAGE_HEADER, message),
    )
    return [(name, value.encode()) for name, value in values]


def _size_of(key: bytes | None, value: bytes | None, headers: Sequence[tuple[str, bytes]]) -> int:
    size_bytes = RECORD_OVERHEAD_BYTES_MAX + len(key or b"") + len(value or b"")
    return size_bytes + sum(len(name) + len(text) + _HEADER_OVERHEAD_BYTES for name, text in headers)


def offsets_written(data: bytes, origin: Origin) -> Iterator[int]:
    """The offsets of the origin's records that have a dead letter in these batches."""
    expected = (origin.topic.encode(), str(origin.partition).encode(), origin.group_id.encode())
    for position, header in iterate_batches(data):
        if header.is_control:
            continue
        for record in iterate_records(data, position):
            found = {name: value for name, value in record.headers if name in _ORIGIN}
            names = (found.get(TOPIC_HEADER), found.get(PARTITION_HEADER), found.get(GROUP_HEADER))
            offset = found.get(OFFSET_HEADER) or b""
            if names == expected and offset.isdigit():
                yield int(offset)


def records_of(data: bytes, first: int, last: int) -> Iterator[Record]:
    """The records from `first` to `last` in these batches."""
    for position, header in iterate_batches(data):
        if header.base_offset > last:
            return
        if header.last_offset >= first and not header.is_control:
            yield from (record for record in iterate_records(data, position) if first <= record.offset <= last)

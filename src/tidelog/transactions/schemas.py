"""The records of `__transaction_state`: Kafka's keys and values, byte for byte.

    key 0     transactional id
    value 0   producer id, epoch, timeout, state, partitions by topic (null when Empty), time of last change, of start
    value 1   the same in the compact form, with tagged fields for what later versions add

Version 1 is written where `transaction.version` is 1 or higher, as by Kafka; both are read.
"""

from __future__ import annotations

import struct
from typing import Final

from tidelog.records.header import NO_PRODUCER_ID
from tidelog.transactions.states import TransactionState
from tidelog.transactions.transaction import Transaction
from tidelog.wire.partitions import PartitionKey
from tidelog.wire.primitives import encode_uvarint

KEY_VERSION: Final = 0
VALUE_VERSION: Final = 0
_COMPACT_VERSION: Final = 1
FLEXIBLE_FROM: Final = 1
"""The level of `transaction.version` from which values are written in the compact form."""

STATE_IDS: Final = {state: number for number, state in enumerate(TransactionState)}
_STATES: Final = dict(enumerate(TransactionState))
_NEVER_STORED: Final = frozenset({TransactionState.DEAD, TransactionState.PREPARE_EPOCH_FENCE})
_PREVIOUS_PRODUCER_ID_TAG: Final = 0
_NEXT_PRODUCER_ID_TAG: Final = 1
_PROTOCOL_TAG: Final = 2

_INT16: Final = struct.Struct(">h")
_INT32: Final = struct.Struct(">i")
_INT64: Final = struct.Struct(">q")
_KEY_HEAD: Final = struct.Struct(">hh")
_HEAD: Final = struct.Struct(">hqhib")
_PRODUCER_ID: Final = struct.Struct(">hq")
_EPOCH_TIMEOUT_STATE: Final = struct.Struct(">hib")
_TIMES: Final = struct.Struct(">qq")


class SchemaError(ValueError):
    """The bytes of a record do not match its version."""


def transaction_key(transactional_id: str) -> bytes:
    name = transactional_id.encode()
    return _KEY_HEAD.pack(KEY_VERSION, len(name)) + name


def read_transaction_key(key: bytes) -> str | None:
    """The transactional id, or None for a kind of key that a later version may add."""
    try:
        version, length = _KEY_HEAD.unpack_from(key)
        if version != KEY_VERSION:
            return None
        if length < 0 or len(key) < _KEY_HEAD.size + length:
            raise SchemaError(f"a key of {len(key)} bytes claims a transactional id of {length} bytes")
        return key[_KEY_HEAD.size : _KEY_HEAD.size + length].decode()
    except (struct.error, UnicodeDecodeError) as error:
        raise SchemaError(f"the key cannot be read: {error}") from None


def transaction_value(transaction: Transaction, *, is_flexible: bool = False) -> bytes:
    assert transaction.state not in _NEVER_STORED, f"{transaction.state.value} is never stored"
    head = _HEAD.pack(
        _COMPACT_VERSION if is_flexible else VALUE_VERSION,
        transaction.producer_id,
        transaction.producer_epoch,
        transaction.timeout_ms,
        STATE_IDS[transaction.state],
    )
    is_empty = transaction.state is TransactionState.EMPTY
    if is_flexible:
        partitions = b"\x00" if is_empty else _compact_partitions(transaction.partitions)
        return head + partitions + _TIMES.pack(transaction.updated_ms, transaction.start_ms) + _tags(transaction)
    partitions = b"\xff\xff\xff\xff" if is_empty else _partitions(transaction.partitions)
    return head + partitions + _TIMES.pack(transaction.updated_ms, transaction.start_ms)


def _partitions(partitions: frozenset[PartitionKey]) -> bytes:
    topics = by_topic(partitions)
    parts = [_INT32.pack(len(topics))]
    for topic, indexes in topics.items():
        name = topic.encode()
        parts.append(_INT16.pack(len(name)) + name + struct.pack(f">i{len(indexes)}i", len(indexes), *indexes))
    return b"".join(parts)


def _compact_partitions(partitions: frozenset[PartitionKey]) -> bytes:
    topics = by_topic(partitions)
    parts = [encode_uvarint(len(topics) + 1)]
    for topic, indexes in topics.items():
        name = topic.encode()
        parts += (encode_uvarint(len(name) + 1), name, encode_uvarint(len(indexes) + 1))
        parts += (struct.pack(f">{len(indexes)}i", *indexes), b"\x00")
    return b"".join(parts)


def _tags(transaction: Transaction) -> bytes:
    """The tagged fields, as far as they are not what they are by default."""
    found = []
    if transaction.last_producer_id != NO_PRODUCER_ID:
        found.append((_PREVIOUS_PRODUCER_ID_TAG, _INT64.pack(transaction.last_producer_id)))
    if transaction.next_producer_id != NO_PRODUCER_ID:
        found.append((_NEXT_PRODUCER_ID_TAG, _INT64.pack(transaction.next_producer_id)))
    if transaction.protocol:
        found.append((_PROTOCOL_TAG, _INT16.pack(transaction.protocol)))
    fields = (encode_uvarint(tag) + encode_uvarint(len(value)) + value for tag, value in found)
    return encode_uvarint(len(found)) + b"".join(fields)


def by_topic(partitions: frozenset[PartitionKey]) -> dict[str, list[int]]:
    """Partitions of each topic, everything in order."""
    topics: dict[str, list[int]] = {}
    for topic, index in sorted(partitions):
        topics.setdefault(topic, []).append(index)
    return topics


def read_transaction_value(transactional_id: str, value: bytes) -> Transaction:
    """Decode a stored transaction of any version; raises SchemaError."""
    try:
        version, producer_id = _PRODUCER_ID.unpack_from(value)
        if version not in (VALUE_VERSION, _COMPACT_VERSION):
            raise SchemaError(f"the transaction has unknown version {version}")
        reader = (_CompactReader if version == _COMPACT_VERSION else _Reader)(value, _PRODUCER_ID.size)
        epoch, timeout_ms, number = reader.unpack(_EPOCH_TIMEOUT_STATE)
        state = _STATES.get(number)
        if state is None or state in _NEVER_STORED:
            raise SchemaError(f"the transaction has unknown state {number}")
        partitions = frozenset((topic, index) for topic, indexes in reader.topics() for index in indexes)
        updated_ms, start_ms = reader.unpack(_TIMES)
        tags = reader.tags()
        previous, following, in_protocol = (tags.get(tag) for tag in range(_PROTOCOL_TAG + 1))
        last_producer_id = NO_PRODUCER_ID if previous is None else _INT64.unpack(previous)[0]
        next_producer_id = NO_PRODUCER_ID if following is None else _INT64.unpack(following)[0]
        protocol = 0 if in_protocol is None else _INT16.unpack(in_protocol)[0]
    except (struct.error, UnicodeDecodeError, IndexError) as error:
        raise SchemaError(f"the transaction cannot be read: {error}") from None
    return Transaction(
        transactional_id,
        producer_id,
        epoch,
        timeout_ms,
        state,
        partitions,
        start_ms,
        updated_ms,
        last_producer_id,
        next_producer_id=next_producer_id,
        protocol=protocol,
    )


class _Reader:
    """Reads a value of version 0 from its start to its end."""

    def __init__(self, data: bytes, position: int) -> None:
        self._data = data
        self._position = position

    def unpack(self, layout: struct.Struct) -> tuple[int, ...]:
        numbers = layout.unpack_from(self._data, self._position)
        self._position += layout.size
        return numbers

    def topics(self) -> list[tuple[str, tuple[int, ...]]]:
        return [self._topic() for _ in range(self._count())]

    def _topic(self) -> tuple[str, tuple[int, ...]]:
        name = self._text()
        count = self._count()
        return name, self.unpack(struct.Struct(f">{count}i"))

    def tags(self) -> dict[int, bytes]:
        """Version 0 has none."""
        return {}

    def _text(self) -> str:
        return self._take(self.unpack(_INT16)[0]).decode()

    def _count(self) -> int:
        """How many elements follow; 0 for a null array."""
        return self._checked(self.unpack(_INT32)[0])

    def _checked(self, count: int) -> int:
        if count > len(self._data) - self._position:
            raise SchemaError(f"an array claims {count} elements, {len(self._data) - self._position} bytes are left")
        return max(count, 0)

    def _take(self, length: int) -> bytes:
        end = self._position + length
        if length < 0 or end > len(self._data):
            raise SchemaError(f"a field claims {length} bytes, {len(self._data) - self._position} are left")
        data = self._data[self._position : end]
        self._position = end
        return data


class _CompactReader(_Reader):
    """Reads a value of version 1: lengths are varints of length + 1, and structures end with tagged fields."""

    def _topic(self) -> tuple[str, tuple[int, ...]]:
        topic = super()._topic()
        self.tags()
        return topic

    def tags(self) -> dict[int, bytes]:
        found = {}
        for _ in range(self._checked(self._varint())):
            tag = self._varint()
            found[tag] = self._take(self._varint())
        return found

    def _text(self) -> str:
        return self._take(self._varint() - 1).decode()

    def _count(self) -> int:
        return self._checked(self._varint() - 1)

    def _varint(self) -> int:
        value = shift = 0
        while True:
            byte = self._data[self._position]
            self._position += 1
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
            shift += 7
            if shift > 28:
                raise SchemaError("a varint has more than five bytes")

"""Produce requests as a client writes them: the batches go to the socket from where they lie.

A frame is a list of pieces, small ones of ours and the batches between them, so that no batch is copied into a request.
`tidelog.wire.messages.produce` declares the message; a test holds the two together.
"""

from collections.abc import Mapping, Sequence
from struct import Struct

from tidelog.client.aio.producer.batch import ProducerBatch
from tidelog.wire.api_keys import ApiKey
from tidelog.wire.primitives import Buffer, encode_string, encode_uvarint

VERSION_MIN = 3
"""The first version with batches of magic 2; brokers before 0.11 are not supported."""

TOPIC_IDS_FROM = 13
"""The first version that names topics by their ids."""
_FLEXIBLE_FROM = 9
_pack_start = Struct(">ihhi").pack
_pack_acks_timeout = Struct(">hi").pack
_pack_int = Struct(">i").pack
_pack_two_ints = Struct(">ii").pack


def produce_frame(
    version: int,
    correlation_id: int,
    client_id: str,
    transactional_id: str | None,
    acks: int,
    timeout_ms: int,
    batches: Sequence[ProducerBatch],
    topic_ids: Mapping[str, bytes] | None = None,
) -> list[Buffer]:
    """The frame of one request, length first. `topic_ids` are those of the topics, in versions that have them."""
    topics: dict[str, list[ProducerBatch]] = {}
    for batch in batches:
        topics.setdefault(batch.topic, []).append(batch)
    is_flexible = version >= _FLEXIBLE_FROM
    parts = (
        _flexible(transactional_id, acks, timeout_ms, topics, topic_ids)
        if is_flexible
        else _classic(transactional_id, acks, timeout_ms, topics)
    )
    head = encode_string(client_id) + (b"\0" if is_flexible else b"")
    length = 8 + len(head) + sum([len(part) for part in parts])
    parts[0] = _pack_start(length, ApiKey.PRODUCE, version, correlation_id) + head + parts[0]
    return parts


def _flexible(
    transactional_id: str | None,
    acks: int,
    timeout_ms: int,
    topics: dict[str, list[ProducerBatch]],
    topic_ids: Mapping[str, bytes] | None,
) -> list[Buffer]:
    parts: list[Buffer] = []
    small = bytearray(_compact_string(transactional_id))
    small += _pack_acks_timeout(acks, timeout_ms) + encode_uvarint(len(topics) + 1)
    for topic, batches in topics.items():
        small += (_compact_string(topic) if topic_ids is None else topic_ids[topic]) + encode_uvarint(len(batches) + 1)
        for batch in batches:
            small += _pack_int(batch.partition) + encode_uvarint(batch.encoded_bytes + 1)
            parts += (bytes(small), batch.encoded())
            small = bytearray(b"\0")
        small += b"\0"
    small += b"\0"
    parts.append(bytes(small))
    return parts


def _classic(
    transactional_id: str | None, acks: int, timeout_ms: int, topics: dict[str, list[ProducerBatch]]
) -> list[Buffer]:
    parts: list[Buffer] = []
    small = bytearray(encode_string(transactional_id))
    small += _pack_acks_timeout(acks, timeout_ms) + _pack_int(len(topics))
    for topic, batches in topics.items():
        small += encode_string(topic) + _pack_int(len(batches))
        for batch in batches:
            small += _pack_two_ints(batch.partition, batch.encoded_bytes)
            parts += (bytes(small), batch.encoded())
            small = bytearray()
    if small:
        parts.append(bytes(small))
    return parts


def _compact_string(text: str | None) -> bytes:
    if text is None:
        return b"\0"
    raw = text.encode()
    return encode_uvarint(len(raw) + 1) + raw

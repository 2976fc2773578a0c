"""The hot codec of OffsetCommit: decodes requests into plain tuples, encodes responses in one pass.

The decoder is compiled from `messages.OffsetCommitRequest` (`spans`). Consumers send only fetches more often than
commits.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from struct import Struct
from typing import Final, TypeAlias

from tidelog.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from tidelog.wire.primitives import encode_uvarint
from tidelog.wire.spans import Row, RowDecoder

FLEXIBLE_FROM: Final = 8
TOPIC_IDS_FROM: Final = 10
NO_TIMESTAMP: Final = -1
_THROTTLE_FROM: Final = 3

CommittedPartition: TypeAlias = tuple[int, int, int, str | None, int]
"""Index, offset, leader epoch, metadata and timestamp of the commit; -1 for the last unless it is of version 1."""

CommittedTopic: TypeAlias = tuple[str, Sequence[CommittedPartition]]

TopicKey: TypeAlias = str | bytes
"""A topic's name, or its id from version 10 on."""

CommitFields: TypeAlias = tuple[str, int, str, str | None, int, list[tuple[TopicKey, Sequence[CommittedPartition]]]]
"""An OffsetCommit request: group, generation, member, instance id, retention in ms, topics by `TopicKey`."""


_DECODER: Final = RowDecoder[CommitFields](
    OffsetCommitRequest,
    {
        OffsetCommitRequest: Row(
            (
                "group_id",
                "generation_id_or_member_epoch",
                "member_id",
                "group_instance_id",
                "retention_time_ms",
                "topics",
            )
        ),
        OffsetCommitRequestTopic: Row(("name|topic_id", "partitions")),
        OffsetCommitRequestPartition: Row(
            (
                "partition_index",
                "committed_offset",
                "committed_leader_epoch",
                "committed_metadata",
                "commit_timestamp",
            )
        ),
    },
)
decode_request: Final = _DECODER.decode
"""The request whose body is `data[position:end]`. Raises WireError."""


# --- responses -------------------------------------------------------------------------------------------------------

TopicReply = tuple[TopicKey, Sequence[tuple[int, int]]]
"""A topic by the key that it has in this version and, for each of its partitions, index and error code."""

_pack_int = Struct(">i").pack
_pack_short = Struct(">h").pack
_pack_head = Struct(">ii").pack
_pack_code = Struct(">ih").pack
_pack_flexible_code = Struct(">ihx").pack


def encode_response(correlation_id: int, version: int, topics: Sequence[TopicReply]) -> bytes:
    """A whole response frame, length and header included, without throttling."""
    if len(topics) == 1 and len(topics[0][1]) == 1:
        topic, ((index, code),) = topics[0]
        if not code:
            # A partition that exists, for which the same response is sent repeatedly.
            body = _encode_success(topic, index, version)
            return _pack_head(len(body) + 4, correlation_id) + body
    body = _encode_body(version, topics)
    return _pack_head(len(body) + 4, correlation_id) + body


@lru_cache(maxsize=1024)
def _encode_success(topic: TopicKey, index: int, version: int) -> bytes:
    return _encode_body(version, [(topic, [(index, 0)])])


def _encode_body(version: int, topics: Sequence[TopicReply]) -> bytes:
    """What follows the correlation id."""
    if version >= FLEXIBLE_FROM:
        # Tags of the header, throttle time.
        parts = [b"\x00\x00\x00\x00\x00", encode_uvarint(len(topics) + 1)]
        for topic, codes in topics:
            parts += (_flexible_key(topic), encode_uvarint(len(codes) + 1))
            parts += [_pack_flexible_code(index, code) for index, code in codes]
            parts.append(b"\x00")
        parts.append(b"\x00")
    else:
        parts = [b"\x00\x00\x00\x00"] if version >= _THROTTLE_FROM else []
        parts.append(_pack_int(len(topics)))
        for topic, codes in topics:
            assert isinstance(topic, str), "topic ids are flexible"
            raw = topic.encode()
            parts += (_pack_short(len(raw)), raw, _pack_int(len(codes)))
            parts += [_pack_code(index, code) for index, code in codes]
    return b"".join(parts)


def _flexible_key(topic: TopicKey) -> bytes:
    if isinstance(topic, bytes):
        return topic
    raw = topic.encode()
    return encode_uvarint(len(raw) + 1) + raw

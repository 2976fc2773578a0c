"""Fetch: open the session, read what is there, answer now or when there is enough.

Records leave as slices of their files; replies of versions before 4 are converted down to what those clients know.
Every version takes the same steps; `wire.fetch` reads and writes requests for one partition faster.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from tidelog.broker.routes import REQUEST_BYTES_MAX
from tidelog.records.errors import CorruptRecordError, UnsupportedCompressionError
from tidelog.replication.fetch import FetchParameters, Wanted
from tidelog.wire.errors import ErrorCode, WireError
from tidelog.wire.fetch import TOPIC_IDS_FROM, FetchSpans, PartitionReply, decode_request, encode_response

if TYPE_CHECKING:
    from tidelog.broker.node import Node
    from tidelog.network.connection import Slot
    from tidelog.storage.types import FileSlice

logger = logging.getLogger(__name__)

_WHOLE_BATCHES_FROM: Final = 3
_MAGIC_2_FROM: Final = 4
_ZSTD_FROM: Final = 10
_new = tuple.__new__


def handle_bytes(
    node: Node, slot: Slot, data: bytearray, position: int, stop: int, version: int, correlation_id: int
) -> None:
    """One request, from its bytes to a reply now or later."""
    if stop - position > REQUEST_BYTES_MAX:
        raise WireError(f"a Fetch of {stop - position} bytes is larger than {REQUEST_BYTES_MAX}")
    spans = decode_request(data, position, stop, version)
    context = node.fetch_sessions.open(
        spans, version >= TOPIC_IDS_FROM, node.image.topic_name, node.clock.monotonic_ms()
    )
    if context.error:
        slot.fill(encode_response(correlation_id, version, (), error_code=context.error))  # type: ignore[arg-type]
        return
    session_id = context.session_id

    def respond(replies: list[PartitionReply]) -> None:
        if version < _ZSTD_FROM:
            pairs = zip(context.wanted, replies, strict=True)
            replies = [_for_old_client(node, entry, reply, version) for entry, reply in pairs]
        topics = context.select(replies)
        slot.fill(encode_response(correlation_id, version, topics, session_id=session_id))  # type: ignore[arg-type]

    def fail(cause: Exception) -> None:
        slot.fail("Fetch", cause)

    waiting = node.replica_manager.fetch(_parameters(node, spans, version), context.wanted, respond, fail)
    if waiting is not None:
        slot.park(waiting.force_complete)
        # The end of a turn sets the timer for the new deadline. A request that only waits must ask for one.
        node.socket_server.wake()


def _parameters(node: Node, spans: FetchSpans, version: int) -> FetchParameters:
    replica_id, max_wait_ms, min_bytes, max_bytes, isolation_level = spans[:5]
    max_bytes = min(max_bytes, node.config.fetch_max_bytes)
    is_first_whole = version >= _WHOLE_BATCHES_FROM
    return _new(
        FetchParameters,
        (replica_id, max_wait_ms, min(min_bytes, max_bytes), max_bytes, isolation_level, is_first_whole),
    )


def _for_old_client(node: Node, entry: Wanted, reply: PartitionReply, version: int) -> PartitionReply:
    """What a client can read that knows no zstd (before version 10) or no batches of magic 2 (before version 4)."""
    records: FileSlice | bytes | None = reply.records  # type: ignore[assignment]
    if records is None or isinstance(records, bytes) or entry.topic is None:
        return reply
    config = node.replica_manager.partition(entry.topic, reply.partition_index).log.config
    if config.compression_type == "zstd":
        return PartitionReply(reply.partition_index, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE)
    if version >= _MAGIC_2_FROM:
        return reply
    if not config.message_downconversion_enable:
        return PartitionReply(reply.partition_index, ErrorCode.UNSUPPORTED_VERSION)
    from tidelog.broker.handlers._old_fetch import readable_by

    try:
        return reply._replace(records=readable_by(records, version, entry.fetch.fetch_offset))
    except UnsupportedCompressionError:
        return PartitionReply(reply.partition_index, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE)
    except CorruptRecordError as error:
        logger.warning("%s-%d cannot be converted for an old client: %s", entry.topic, reply.partition_index, error)
        return PartitionReply(reply.partition_index, ErrorCode.CORRUPT_MESSAGE)

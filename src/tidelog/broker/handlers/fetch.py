"""Fetch: open the session, read what is there, answer now or when there is enough.

Records leave as slices of their files; replies of versions before 4 are converted down to what those clients know.
Every version takes the same steps; `wire.fetch` reads and writes requests for one partition faster.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final

from tidelog.broker.routes import REQUEST_BYTES_MAX
from tidelog.records.errors import CorruptRecordError, UnsupportedCompressionError
from tidelog.replication.fetch import FetchParameters, Wanted
from tidelog.replication.replica_selection import ClientMetadata
from tidelog.replication.wide_fetch import PARTITIONS_AT_ONCE
from tidelog.security.acls import AclOperation, AclResourceType
from tidelog.wire.errors import ErrorCode, WireError
from tidelog.wire.fetch import TOPIC_IDS_FROM, FetchSpans, PartitionReply, decode_request, encode_response

if TYPE_CHECKING:
    from tidelog.broker.access import Access
    from tidelog.broker.node import Node
    from tidelog.network.connection import Slot
    from tidelog.network.session import Session
    from tidelog.replication.fetch_session import FetchContext
    from tidelog.storage.types import FileSlice

logger = logging.getLogger(__name__)

_WHOLE_BATCHES_FROM: Final = 3
CONVERTED_BEFORE: Final = 4
ZSTD_FROM: Final = 10
_FOLLOWER_READS_FROM: Final = 11
_PARTITION_BYTES: Final = 50
"""What a partition takes in a response, besides its records."""
_new = tuple.__new__


def handle_bytes(
    node: Node, slot: Slot, data: bytearray | memoryview, position: int, stop: int, version: int, correlation_id: int
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
    if node.access is not None:
        context = _only_allowed(node.access, slot.connection.session, context, spans.replica_id)
    wanted = context.wanted
    parameters = _parameters(node, slot, spans, version)
    if len(wanted) > PARTITIONS_AT_ONCE:
        from tidelog.broker.handlers import _wide_fetch

        _wide_fetch.serve(node, slot, context, parameters, version, correlation_id)
        return
    replies = node.replica_manager.read_now(parameters, wanted)
    if replies is not None and version >= CONVERTED_BEFORE:
        if version < ZSTD_FROM:
            replies = _without_zstd(node, wanted, replies)
        _fill(node, slot, context, parameters, replies, version, correlation_id)
        return
    respond, fail = _responding(node, slot, context, parameters, version, correlation_id)
    if replies is not None:
        respond(replies)
        return
    waiting = node.replica_manager.wait_for_more(parameters, wanted, respond, fail)
    if waiting is not None:
        slot.park(waiting.force_complete)
        # The end of a turn sets the timer for the new deadline. A request that only waits must ask for one.
        node.socket_server.wake()


def _only_allowed(access: Access, session: Session, context: FetchContext, replica_id: int) -> FetchContext:
    """The same request, in which partitions that the client may not read are refused. A follower reads all or none."""
    if replica_id >= 0:
        if access.allows(session, AclOperation.CLUSTER_ACTION, AclResourceType.CLUSTER):
            return context
        return context._replace(wanted=[_denied(entry) for entry in context.wanted])
    return context._replace(
        wanted=[
            entry
            if entry.topic is None or access.allows(session, AclOperation.READ, AclResourceType.TOPIC, entry.topic)
            else _denied(entry)
            for entry in context.wanted
        ]
    )


def _denied(entry: Wanted) -> Wanted:
    return entry._replace(topic=None, error=ErrorCode.TOPIC_AUTHORIZATION_FAILED)


def _fill(
    node: Node,
    slot: Slot,
    context: FetchContext,
    parameters: FetchParameters,
    replies: list[PartitionReply],
    version: int,
    correlation_id: int,
) -> None:
    """Answer with what was read."""
    throttle_ms = throttle_of(node, slot, parameters, replies) if node.client_quotas.limits_fetch else 0
    if node.replica_manager.traffic is not None and not throttle_ms:
        node.replica_manager.traffic.count_fetch(parameters, context.wanted, replies)
    topics = () if throttle_ms else context.select(replies)
    session_id = context.session_id
    throttle_ms = throttle_ms or slot.connection.throttle_ms
    slot.fill(
        encode_response(correlation_id, version, topics, session_id=session_id, throttle_time_ms=throttle_ms)  # type: ignore[arg-type]
    )


def throttle_of(node: Node, slot: Slot, parameters: FetchParameters, replies: Iterable[PartitionReply]) -> int:
    """How long the client has to wait because of a quota, in milliseconds: it is then answered without records."""
    if parameters.is_from_follower:
        return 0
    return node.client_quotas.count_fetched(slot.connection, sum(map(_size_of, replies)))


def _size_of(reply: PartitionReply) -> int:
    """The bytes of a partition in a response, nearly."""
    records = reply.records
    size = 0 if records is None else len(records) if isinstance(records, bytes) else records.length
    return _PARTITION_BYTES + size


def _responding(
    node: Node, slot: Slot, context: FetchContext, parameters: FetchParameters, version: int, correlation_id: int
) -> tuple[Callable[[list[PartitionReply]], None], Callable[[Exception], None]]:
    """The callbacks of a request that waits or is converted: one for its reply, one for a defect of the broker."""

    def answer(replies: list[PartitionReply]) -> None:
        _fill(node, slot, context, parameters, replies, version, correlation_id)

    def fail(cause: Exception) -> None:
        slot.fail("Fetch", cause)

    def respond(replies: list[PartitionReply]) -> None:
        if version < ZSTD_FROM:
            replies = _without_zstd(node, context.wanted, replies)
        if version >= CONVERTED_BEFORE:
            answer(replies)
        elif not node.slices.start(converted(node, slot, context.wanted, replies, version), answer, fail):
            slot.park()

    return respond, fail


def _parameters(node: Node, slot: Slot, spans: FetchSpans, version: int) -> FetchParameters:
    replica_id, max_wait_ms, min_bytes, max_bytes, isolation_level = spans[:5]
    max_bytes = min(max_bytes, node.config.fetch_max_bytes)
    if node.client_quotas.limits_fetch and replica_id < 0:
        max_bytes = node.client_quotas.fetch_bytes_max(slot.connection, max_bytes)
    is_first_whole = version >= _WHOLE_BATCHES_FROM
    is_leader_only = version < _FOLLOWER_READS_FROM or replica_id >= 0
    client = None
    if node.replica_manager.replica_selector is not None and not is_leader_only:
        client = ClientMetadata(spans.rack_id, slot.connection.session.listener)
    return _new(
        FetchParameters,
        (
            replica_id,
            max_wait_ms,
            min(min_bytes, max_bytes),
            max_bytes,
            isolation_level,
            is_first_whole,
            is_leader_only,
            client,
        ),
    )


def _without_zstd(node: Node, wanted: Sequence[Wanted], replies: list[PartitionReply]) -> list[PartitionReply]:
    return [without_zstd(node, entry, reply) for entry, reply in zip(wanted, replies, strict=True)]


def without_zstd(node: Node, entry: Wanted, reply: PartitionReply) -> PartitionReply:
    """Clients before version 10 cannot read zstd. The topic's compression.type decides: records are not inspected."""
    if reply.records is None or entry.topic is None:
        return reply
    config = node.replica_manager.partition(entry.topic, reply.partition_index).log.config
    if config.compression_type == "zstd":
        return PartitionReply(reply.partition_index, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE)
    return reply


async def converted(
    node: Node, slot: Slot, wanted: Sequence[Wanted], replies: Sequence[PartitionReply], version: int
) -> list[PartitionReply]:
    """What clients before version 4 can read, which know no batches of magic 2. It may take a second: off the loop."""
    converted = []
    for entry, reply in zip(wanted, replies, strict=True):
        if reply.records is None or entry.topic is None or slot.connection.is_closed:
            converted.append(reply)
        else:
            converted.append(await _convert(node, entry, reply, version))
    return converted


async def _convert(node: Node, entry: Wanted, reply: PartitionReply, version: int) -> PartitionReply:
    records: FileSlice = reply.records  # type: ignore[assignment]
    assert entry.topic is not None, "it has records"
    partition = node.replica_manager.find(entry.topic, reply.partition_index)
    if partition is None:
        return PartitionReply(reply.partition_index, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    if not partition.log.config.message_downconversion_enable:
        return PartitionReply(reply.partition_index, ErrorCode.UNSUPPORTED_VERSION)
    from tidelog.broker.handlers._old_fetch import readable_by

    if node.replica_manager.traffic is not None:
        node.replica_manager.traffic.count_conversion(entry.topic)
    try:
        data = await node.background.run_alone(partial(readable_by, records, version, entry.fetch.fetch_offset))
    except UnsupportedCompressionError:
        return PartitionReply(reply.partition_index, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE)
    except CorruptRecordError as error:
        logger.warning("%s-%d cannot be converted for an old client: %s", entry.topic, reply.partition_index, error)
        return PartitionReply(reply.partition_index, ErrorCode.CORRUPT_MESSAGE)
    return reply._replace(records=data)

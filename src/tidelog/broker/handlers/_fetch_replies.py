"""From what a Fetch has read to its reply: one sequence of steps, for few partitions and for many.

Records leave as slices of their files; replies of versions before 4 are converted down to what those clients know.
"""

from __future__ import annotations

import logging
from collections.abc import Generator, Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple

from tidelog.broker.serving.context import ClientLeft
from tidelog.records.errors import CorruptRecordError, UnsupportedCompressionError
from tidelog.wire.errors import ErrorCode
from tidelog.wire.fetch import PartitionReply, encode_response

if TYPE_CHECKING:
    from tidelog.broker.serving.node import Node
    from tidelog.network.connection import Slot
    from tidelog.replication.fetch import FetchParameters, Wanted
    from tidelog.replication.fetch_session import FetchContext
    from tidelog.storage.types import FileSlice

logger = logging.getLogger(__name__)

_CONVERTED_BEFORE: Final = 4
_ZSTD_FROM: Final = 10
_PARTITION_BYTES: Final = 50
"""What a partition takes in a response, besides its records."""


class Reading(NamedTuple):
    """A Fetch whose partitions are known: what its reply is made of, beside what is read."""

    node: Node
    slot: Slot
    context: FetchContext
    parameters: FetchParameters
    version: int
    correlation_id: int

    def respond(self, replies: list[PartitionReply]) -> None:
        """Answer a request for a few partitions: now, or when its records are converted."""
        if self.version >= _CONVERTED_BEFORE:
            for _ in _filling(self, replies):
                pass  # in place, because nearly every Fetch comes here
            return
        node, slot = self.node, self.slot
        if not node.slices.start(_converted(self, replies), self._fill, partial(slot.fail, "Fetch")):
            slot.park()

    async def respond_in_slices(self, replies: list[PartitionReply]) -> None:
        """Answer a request for many partitions. Raises `ClientLeft`."""
        if self.version < _CONVERTED_BEFORE:
            replies = await _converted(self, replies)
        for _ in _filling(self, replies):
            await self.pause()

    async def pause(self) -> None:
        """Let others be served; raises `ClientLeft` if the rest of the work is not needed any more."""
        await self.node.slices.pause()
        if self.slot.connection.is_closed:
            raise ClientLeft

    def _fill(self, replies: list[PartitionReply]) -> None:
        for _ in _filling(self, replies):
            pass


def _filling(reading: Reading, replies: list[PartitionReply]) -> Generator[None, None, None]:
    """Fill the slot with what was read; yields where it may take long with many partitions."""
    node, slot, context, parameters, version, correlation_id = reading
    wanted = context.wanted
    if _CONVERTED_BEFORE <= version < _ZSTD_FROM:
        for position, entry in enumerate(wanted):
            replies[position] = _without_zstd(node, entry, replies[position])
            yield
    throttle_ms = 0
    if node.client_quotas.limits_fetch:
        throttle_ms = _throttle_of(node, slot, parameters, replies)
        yield
    if node.replica_manager.traffic is not None and not throttle_ms:
        node.replica_manager.traffic.count_fetch(parameters, wanted, replies)
        yield
    topics = () if throttle_ms else context.select(replies)
    yield
    session_id = context.session_id
    throttle_ms = throttle_ms or slot.connection.throttle_ms
    slot.fill(
        encode_response(correlation_id, version, topics, session_id=session_id, throttle_time_ms=throttle_ms)  # type: ignore[arg-type]
    )


def _throttle_of(node: Node, slot: Slot, parameters: FetchParameters, replies: Iterable[PartitionReply]) -> int:
    """How long the client has to wait because of a quota, in milliseconds: it is then answered without records."""
    if parameters.is_from_follower:
        return 0
    return node.client_quotas.count_fetched(slot.connection, sum(map(_size_of, replies)))


def _size_of(reply: PartitionReply) -> int:
    """The bytes of a partition in a response, nearly."""
    records = reply.records
    size = 0 if records is None else len(records) if isinstance(records, bytes) else records.length
    return _PARTITION_BYTES + size


def _without_zstd(node: Node, entry: Wanted, reply: PartitionReply) -> PartitionReply:
    """Clients before version 10 cannot read zstd. The topic's compression.type decides: records are not inspected."""
    if reply.records is None or entry.topic is None:
        return reply
    config = node.replica_manager.partition(entry.topic, reply.partition_index).log.config
    if config.compression_type == "zstd":
        return PartitionReply(reply.partition_index, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE)
    return reply


async def _converted(reading: Reading, replies: Sequence[PartitionReply]) -> list[PartitionReply]:
    """What clients before version 4 can read, which know no batches of magic 2. It may take a second: off the loop."""
    node, slot, context, _, version, _ = reading
    converted = []
    for entry, read in zip(context.wanted, replies, strict=True):
        reply = _without_zstd(node, entry, read)
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

    try:
        found = await node.background.run_alone(partial(readable_by, records, version, entry.fetch.fetch_offset))
    except UnsupportedCompressionError:
        return PartitionReply(reply.partition_index, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE)
    except CorruptRecordError as error:
        logger.warning("%s-%d cannot be converted for an old client: %s", entry.topic, reply.partition_index, error)
        return PartitionReply(reply.partition_index, ErrorCode.CORRUPT_MESSAGE)
    if node.replica_manager.traffic is not None and found.record_count:
        size_bytes = len(found.messages)
        node.replica_manager.traffic.count_fetch_conversion(entry.topic, found.record_count, size_bytes, found.took_ns)
    return reply._replace(records=found.messages)

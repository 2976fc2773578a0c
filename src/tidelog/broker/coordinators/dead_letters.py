"""Writes the dead letters of the share partitions that this broker leads, to wherever their topic is (KIP-1191).

Each is written once as far as one leader goes: its records are stored as being archived before, and as archived after.
A leader that takes over what another had begun reads the dead letters that were written since, and leaves out what is
there. What can be tried again raises ApiError; a topic that cannot take dead letters is reported, and the records are
archived without one, as in Kafka.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

from tidelog.config.topics import topic_config
from tidelog.network.log_rate_limit import LogRateLimit
from tidelog.records.errors import CorruptRecordError
from tidelog.sharing.dead_letters import (
    DeadLetterRules,
    LetterBatch,
    Origin,
    letter_batches,
    offsets_written,
    records_of,
    refusal_of,
)
from tidelog.storage.errors import LogDirFailure
from tidelog.wire.errors import ApiError, ErrorCode

if TYPE_CHECKING:
    from tidelog.broker.coordinators.edge import EdgeParts
    from tidelog.broker.topology.topology import Topology
    from tidelog.config import LogConfig
    from tidelog.metadata.image import PartitionImage, TopicImage
    from tidelog.records.record import Record
    from tidelog.replication.partition import Partition
    from tidelog.sharing.partition import Letter

logger = logging.getLogger(__name__)
logger.addFilter(LogRateLimit())

_READ_BYTES: Final = 1 << 20
_CLOCK_DIFFERENCE_MS: Final = 60_000
"""So much may the clocks of two brokers differ: what another has written is looked for from so long before."""
_TIMEOUT_MS: Final = 5_000
_TOPIC_OVERRIDES: Final = {"errors.deadletterqueue.group.enable": "true", "message.timestamp.type": "CreateTime"}
_RETRIED: Final = frozenset(
    {
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        ErrorCode.BROKER_NOT_AVAILABLE,
        ErrorCode.KAFKA_STORAGE_ERROR,
    }
)


def may_be_retried(error: ApiError) -> bool:
    """Whether a dead letter may be written later that could not be written now."""
    return error.code.retriable or error.code in _RETRIED


class DeadLetters:
    """The dead letters of all share partitions of a broker."""

    def __init__(
        self,
        broker_id: int,
        parts: EdgeParts,
        topology: Topology,
        topic_overrides: Callable[[str], Awaitable[Mapping[str, str]]],
    ) -> None:
        """`topic_overrides` has the settings of a topic, whether this broker has a replica of it or not."""
        self._broker_id = broker_id
        self._parts = parts
        self._topology = topology
        self._topic_overrides = topic_overrides
        self.written = 0
        """How many dead letters this broker has written."""

    async def write(
        self,
        letter: Letter,
        group_id: str,
        partition: Partition,
        rules: DeadLetterRules,
        on_written: Callable[[int], None],
    ) -> None:
        """Write the dead letters of some records of a partition.

        `on_written` is called with the last offset of those that may be archived now. After an ApiError that may be
        retried, the rest is to be written again, and may be there.
        """
        origin = Origin(group_id, partition.topic, partition.index)
        topic = await self._topic_for(rules, origin)
        if topic is None:
            on_written(letter.last_offset)
            return
        index = origin.partition % len(topic.partitions)
        target = topic.partitions[index]
        written = await self._written_since(topic, target, origin, letter) if letter.may_be_written else frozenset()
        originals = {}
        if rules.copies_records:
            originals = {record.offset: record for record in self._originals(partition, letter)}
        bytes_max = (await self._config_of(topic.name)).max_message_bytes
        now_ms = self._parts.clock.wall_ms()
        for batch in letter_batches(letter, origin, originals, written, now_ms, bytes_max):
            if batch.record_count:
                alone = letter._replace(first_offset=batch.first_offset, last_offset=batch.last_offset)
                bare = letter_batches(alone, origin, {}, written, now_ms, bytes_max)
                await self._append_or_report(topic, index, batch, bare, origin)
            on_written(batch.last_offset)

    async def _topic_for(self, rules: DeadLetterRules, origin: Origin) -> TopicImage | None:
        """The topic, created if need be; None if it cannot take dead letters."""
        image = self._parts.image
        topic = image.topic(rules.topic)
        is_enabled = topic is not None and (await self._config_of(rules.topic)).errors_deadletterqueue_group_enable
        refusal = refusal_of(rules, exists=topic is not None, is_enabled=is_enabled)
        if refusal is not None:
            _report(origin, rules.topic, refusal)
            return None
        if topic is None:
            await self._topology.topics.create_automatically(rules.topic, _TOPIC_OVERRIDES)
            topic = image.topic(rules.topic)
        if topic is None:
            raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"{rules.topic} was created and is not known yet")
        return topic

    async def _config_of(self, topic: str) -> LogConfig:
        overrides = await self._topic_overrides(topic)
        return topic_config(overrides, self._parts.settings.config, ignore_unknown=True)

    # --- the records themselves ---

    def _originals(self, partition: Partition, letter: Letter) -> Iterator[Record]:
        """The records, as far as they are there and can be read."""
        log = partition.log
        offset = max(letter.first_offset, log.log_start_offset)
        try:
            while offset <= letter.last_offset:
                read = log.read(offset, _READ_BYTES, log.high_watermark, True)
                if read.slice is None:
                    return
                yield from records_of(read.slice.read(), offset, letter.last_offset)
                offset = log.read_end_offset(read)
        except (CorruptRecordError, LogDirFailure, ApiError) as error:
            logger.warning("records of %s-%d are not copied: %s", partition.topic, partition.index, error)

    # --- what another leader has written ---

    async def _written_since(
        self, topic: TopicImage, target: PartitionImage, origin: Origin, letter: Letter
    ) -> frozenset[int]:
        """The offsets that have a dead letter since the records were to be archived."""
        since_ms = max(letter.since_ms - _CLOCK_DIFFERENCE_MS, 0)
        offset, end_offset = await self._range_since(topic, target, since_ms)
        found: set[int] = set()
        while offset < end_offset:
            data = await self._read(topic, target, offset)
            found.update(offsets_written(data, origin))
            offset = _end_of(data, offset)
        return frozenset(found)

    async def _range_since(self, topic: TopicImage, target: PartitionImage, since_ms: int) -> tuple[int, int]:
        if target.leader_id == self._broker_id:
            log = self._own(topic, target).log
            if log.high_watermark < log.log_end_offset:
                text = f"{topic.name}-{target.index} has records that are not committed"
                raise ApiError(ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND, text)
            at = log.offset_for_timestamp(since_ms)
            return (log.log_end_offset if at is None else at.offset), log.high_watermark
        from tidelog.wire.messages import list_offsets as messages

        found = []
        for timestamp in (since_ms, -1):
            entry = messages.ListOffsetsPartition(partition_index=target.index, timestamp=timestamp)
            request = messages.ListOffsetsRequest(
                replica_id=-1, topics=[messages.ListOffsetsTopic(name=topic.name, partitions=[entry])]
            )
            response: Any = await self._topology.ask(target.leader_id, request)
            answer = response.topics[0].partitions[0]
            _check(answer.error_code)
            found.append(answer.offset)
        begin, end_offset = found
        return (end_offset if begin < 0 else begin), end_offset

    async def _read(self, topic: TopicImage, target: PartitionImage, offset: int) -> bytes:
        if target.leader_id == self._broker_id:
            log = self._own(topic, target).log
            read = log.read(offset, _READ_BYTES, log.high_watermark, True)
            return b"" if read.slice is None else read.slice.read()
        from tidelog.wire.messages import fetch as messages

        entry = messages.FetchPartition(partition=target.index, fetch_offset=offset, partition_max_bytes=_READ_BYTES)
        request = messages.FetchRequest(
            max_bytes=_READ_BYTES,
            topics=[messages.FetchTopic(topic=topic.name, topic_id=topic.topic_id, partitions=[entry])],
        )
        response: Any = await self._topology.ask(target.leader_id, request)
        _check(response.error_code)
        answer = response.responses[0].partitions[0]
        _check(answer.error_code)
        return bytes(answer.records or b"")

    def _own(self, topic: TopicImage, target: PartitionImage) -> Partition:
        partition = self._parts.replica_manager.partition(topic.name, target.index)
        partition.check_readable(-1)
        return partition

    # --- appending ---

    async def _append_or_report(
        self, topic: TopicImage, index: int, batch: LetterBatch, bare: Iterable[LetterBatch], origin: Origin
    ) -> None:
        """Append a batch, or the `bare` headers of its records if it is too large."""
        try:
            await self._append(topic, index, batch.records)
        except ApiError as error:
            if may_be_retried(error):
                raise
            if error.code is ErrorCode.MESSAGE_TOO_LARGE and bare:
                for each in bare:
                    await self._append_or_report(topic, index, each, (), origin)
            else:
                _report(origin, topic.name, str(error))
            return
        self.written += batch.record_count

    async def _append(self, topic: TopicImage, index: int, records: bytes) -> None:
        leader_id = topic.partitions[index].leader_id
        if leader_id < 0:
            raise ApiError(ErrorCode.LEADER_NOT_AVAILABLE, f"{topic.name}-{index} has no leader")
        if leader_id != self._broker_id:
            await self._append_elsewhere(leader_id, topic, index, records)
            return
        done: asyncio.Future[ErrorCode] = asyncio.get_running_loop().create_future()

        def on_committed(code: ErrorCode, _offset: int) -> None:
            if not done.done():
                done.set_result(code)

        self._parts.replica_manager.append(
            topic.name, index, bytearray(records), on_committed, _TIMEOUT_MS, is_own=False
        )
        self._parts.wake()
        _check(await done)

    async def _append_elsewhere(self, leader_id: int, topic: TopicImage, index: int, records: bytes) -> None:
        from tidelog.wire.messages import produce as messages

        entry = messages.PartitionProduceData(index=index, records=records)
        request = messages.ProduceRequest(
            acks=-1,
            timeout_ms=_TIMEOUT_MS,
            topic_data=[messages.TopicProduceData(name=topic.name, topic_id=topic.topic_id, partition_data=[entry])],
        )
        response: Any = await self._topology.ask(leader_id, request)
        answer = response.responses[0].partition_responses[0]
        _check(answer.error_code, answer.error_message)


def _check(code: int, message: str | None = None) -> None:
    if code:
        raise ApiError(ErrorCode(code), message)


def _end_of(data: bytes, offset: int) -> int:
    """Where to read on; past what cannot be read whole, so that reading ends."""
    from tidelog.records.batch import iterate_batches

    end_offset = offset
    for _, header in iterate_batches(data):
        end_offset = header.last_offset + 1
    return max(end_offset, offset + 1)


def _report(origin: Origin, topic: str, text: str) -> None:
    logger.error(
        "share group %s: records of %s-%d are archived without a dead letter in %s: %s",
        origin.group_id,
        origin.topic,
        origin.partition,
        topic,
        text,
    )

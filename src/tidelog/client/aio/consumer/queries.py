"""Queries of a consumer: offsets of partitions, partitions of topics, lag."""

from collections.abc import Collection, Mapping, Sequence

from tidelog.client.aio.consumer.engine import ConsumerEngine
from tidelog.client.aio.consumer.offset_lookup import FoundOffset
from tidelog.client.aio.consumer.offset_reset import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP
from tidelog.client.aio.consumer.partition_state import PartitionState
from tidelog.client.aio.consumer.types import OffsetAndTimestamp
from tidelog.client.aio.metadata import MetadataCache, PartitionMetadata
from tidelog.client.aio.reactions import error_code_of
from tidelog.client.errors import ApiError, IllegalState
from tidelog.client.metrics import ConsumerMetrics, ConsumerPartitionMetrics
from tidelog.client.types import TopicPartition, as_partition
from tidelog.wire.errors import ErrorCode
from tidelog.wire.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse


async def end_offsets(
    engine: ConsumerEngine, partitions: Collection[TopicPartition], timeout_ms: int
) -> dict[TopicPartition, int]:
    """The offset after the last record that may be read: the high watermark, or the last stable offset."""
    return await _offsets_at(engine, partitions, LATEST_TIMESTAMP, timeout_ms)


async def beginning_offsets(
    engine: ConsumerEngine, partitions: Collection[TopicPartition], timeout_ms: int
) -> dict[TopicPartition, int]:
    """The first offset there is."""
    return await _offsets_at(engine, partitions, EARLIEST_TIMESTAMP, timeout_ms)


async def offsets_for_times(
    engine: ConsumerEngine, times: Mapping[TopicPartition, int], timeout_ms: int
) -> dict[TopicPartition, OffsetAndTimestamp | None]:
    """The first record at or after each time in milliseconds; None where there is none."""
    asked = {as_partition(each): time_ms for each, time_ms in times.items()}
    for partition, time_ms in asked.items():
        if time_ms < 0:
            raise IllegalState(f"{partition}: {time_ms} is not a timestamp; use beginning_offsets() or end_offsets()")
    found = await _find(engine, asked, timeout_ms)
    return {
        partition: None if place.offset < 0 else OffsetAndTimestamp(place.offset, place.timestamp, place.leader_epoch)
        for partition, place in found.items()
    }


async def partitions_for(engine: ConsumerEngine, topic: str, timeout_ms: int) -> Sequence[PartitionMetadata]:
    """The partitions of a topic with leaders and replicas; empty if there is no such topic."""
    known = engine.client.metadata.topic(topic)
    if known is not None and known.partitions:
        return known.partitions
    topics = await _ask(engine, [topic], timeout_ms)
    return topics.get(topic, ())


async def list_topics(engine: ConsumerEngine, timeout_ms: int) -> dict[str, Sequence[PartitionMetadata]]:
    """All topics with their partitions."""
    return await _ask(engine, None, timeout_ms)


def lag(engine: ConsumerEngine, partition: TopicPartition) -> int | None:
    """How many offsets the position is behind what may be read; None while that is being asked for."""
    state = engine.subscription.state_of(partition)
    found = _known_lag(engine, state)
    if found is None:
        engine.call_soon(lambda: engine.lookup.start_finding_end(state))
    return found


def _known_lag(engine: ConsumerEngine, state: PartitionState) -> int | None:
    end = state.last_stable_offset if engine.settings.reads_committed else state.high_watermark
    return None if end < 0 or state.position is None else max(0, end - state.position.offset)


def metrics(engine: ConsumerEngine) -> ConsumerMetrics:
    """What the consumer has read, and how far it is behind."""
    partitions = {
        state.topic_partition: ConsumerPartitionMetrics(
            leader_id=state.leader.node_id,
            position=None if state.position is None else state.position.offset,
            lag=_known_lag(engine, state),
            records_returned=state.records_returned,
            bytes_fetched=state.bytes_fetched,
            fetches_waiting=engine.buffer.count_for(state.topic_partition),
            is_paused=state.is_paused,
        )
        for state in engine.subscription
    }
    return ConsumerMetrics(
        client_id=engine.settings.client_id,
        age_s=engine.client.age_s(),
        brokers=engine.client.broker_metrics(),
        partitions=partitions,
        records_returned=engine.buffer.records_returned,
        bytes_fetched=engine.buffer.bytes_fetched,
        lag=sum(each.lag for each in partitions.values() if each.lag is not None),
    )


async def _offsets_at(
    engine: ConsumerEngine, partitions: Collection[TopicPartition], time: int, timeout_ms: int
) -> dict[TopicPartition, int]:
    found = await _find(engine, dict.fromkeys(partitions, time), timeout_ms)
    return {partition: place.offset for partition, place in found.items()}


async def _find(
    engine: ConsumerEngine, times: Mapping[TopicPartition, int], timeout_ms: int
) -> dict[TopicPartition, FoundOffset]:
    until_ms = engine.client.now_ms() + timeout_ms
    what = f"looking up offsets of {', '.join(map(str, times))}"
    return await engine.wait_for(engine.lookup.find(times, until_ms), until_ms, what)


async def _ask(
    engine: ConsumerEngine, topics: Sequence[str] | None, timeout_ms: int
) -> dict[str, Sequence[PartitionMetadata]]:
    """Metadata of topics that the consumer may have nothing else to do with."""
    request = MetadataRequest(
        topics=None if topics is None else [MetadataRequestTopic(name=name) for name in topics],
        allow_auto_topic_creation=engine.settings.allow_auto_create_topics and topics is not None,
    )
    client = engine.client

    async def ask() -> MetadataResponse:
        if not client.metadata.version:
            await client.refresh(timeout_ms)  # a broker that is still starting is waited for, as by every other call
        return await client.send_to_any(request, MetadataResponse)

    reply = await engine.wait_for(ask(), client.now_ms() + timeout_ms, "asking for metadata")
    cache = MetadataCache(max_age_ms=0)
    cache.update(reply, 0, wanted=None)
    for topic in cache.topics.values():
        if topic.error_code in (ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.INVALID_TOPIC_EXCEPTION):
            code = error_code_of(topic.error_code)
            raise ApiError(code, f"topic {topic.name!r}: {code.text}")
    return {topic.name: topic.partitions for topic in cache.topics.values() if not topic.error_code}

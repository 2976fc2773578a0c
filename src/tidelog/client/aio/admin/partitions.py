"""Partitions and what is in them: offsets, deletion of records, log directories, producers, leaders, reassignment."""

from collections.abc import Iterable, Mapping, Sequence

from tidelog.client.aio.admin.driver import Answers, Driver, answer_of
from tidelog.client.aio.admin.types import (
    ActiveProducer,
    ElectionType,
    ListedOffset,
    LogDirectory,
    Reassignment,
    ReplicaOnDisk,
    TopicPartitionReplica,
)
from tidelog.client.aio.reactions import error_code_of
from tidelog.client.errors import ApiError
from tidelog.client.types import TopicPartition
from tidelog.wire.errors import ErrorCode
from tidelog.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartition,
    ReassignableTopic,
)
from tidelog.wire.messages.alter_replica_log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopic,
)
from tidelog.wire.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopic,
)
from tidelog.wire.messages.describe_log_dirs import (
    DescribableLogDirTopic,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
)
from tidelog.wire.messages.describe_producers import DescribeProducersRequest, DescribeProducersResponse, TopicRequest
from tidelog.wire.messages.elect_leaders import ElectLeadersRequest, ElectLeadersResponse, TopicPartitions
from tidelog.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from tidelog.wire.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    ListPartitionReassignmentsTopics,
)

_CONSUMER = -1


def by_topic(partitions: Iterable[TopicPartition]) -> dict[str, list[int]]:
    """Partitions grouped by their topic, as most requests want them."""
    topics: dict[str, list[int]] = {}
    for topic, partition in sorted(partitions):
        topics.setdefault(topic, []).append(partition)
    return topics


async def list_offsets(
    driver: Driver, times: Mapping[TopicPartition, int], *, read_committed: bool
) -> dict[TopicPartition, ListedOffset]:
    """For each partition the first offset at or after a time, or what LATEST and its like ask for."""

    async def ask(node_id: int, items: list[TopicPartition]) -> Answers[TopicPartition, ListedOffset]:
        request = ListOffsetsRequest(
            replica_id=_CONSUMER,
            isolation_level=int(read_committed),
            topics=[
                ListOffsetsTopic(
                    name=topic,
                    partitions=[
                        ListOffsetsPartition(partition_index=index, timestamp=times[TopicPartition(topic, index)])
                        for index in indexes
                    ],
                )
                for topic, indexes in by_topic(items).items()
            ],
        )
        reply = await driver.client.send(node_id, request, ListOffsetsResponse)
        answers: Answers[TopicPartition, ListedOffset] = {}
        for topic in reply.topics:
            for each in topic.partitions:
                where = TopicPartition(topic.name, each.partition_index)
                found = ListedOffset(each.offset, each.timestamp, each.leader_epoch)
                answers[where] = answer_of(each.error_code, None, found, where)
        return answers

    return await driver.run(times, driver.to_leader, ask)


async def delete_records(driver: Driver, before: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
    """Delete the records before these offsets; returns the new start offsets."""

    async def ask(node_id: int, items: list[TopicPartition]) -> Answers[TopicPartition, int]:
        request = DeleteRecordsRequest(
            topics=[
                DeleteRecordsTopic(
                    name=topic,
                    partitions=[
                        DeleteRecordsPartition(partition_index=index, offset=before[TopicPartition(topic, index)])
                        for index in indexes
                    ],
                )
                for topic, indexes in by_topic(items).items()
            ],
            timeout_ms=driver.client.settings.request_timeout_ms,
        )
        reply = await driver.client.send(node_id, request, DeleteRecordsResponse)
        answers: Answers[TopicPartition, int] = {}
        for topic in reply.topics:
            for each in topic.partitions:
                where = TopicPartition(topic.name, each.partition_index)
                answers[where] = answer_of(each.error_code, None, each.low_watermark, where)
        return answers

    return await driver.run(before, driver.to_leader, ask)


async def describe_producers(
    driver: Driver, partitions: Iterable[TopicPartition]
) -> dict[TopicPartition, list[ActiveProducer]]:
    """Which producers each partition remembers."""

    async def ask(node_id: int, items: list[TopicPartition]) -> Answers[TopicPartition, list[ActiveProducer]]:
        request = DescribeProducersRequest(
            topics=[TopicRequest(name=topic, partition_indexes=each) for topic, each in by_topic(items).items()]
        )
        reply = await driver.client.send(node_id, request, DescribeProducersResponse)
        answers: Answers[TopicPartition, list[ActiveProducer]] = {}
        for topic in reply.topics:
            for partition in topic.partitions:
                where = TopicPartition(topic.name, partition.partition_index)
                active = [
                    ActiveProducer(
                        each.producer_id,
                        each.producer_epoch,
                        each.last_sequence,
                        each.last_timestamp,
                        each.coordinator_epoch,
                        each.current_txn_start_offset,
                    )
                    for each in partition.active_producers
                ]
                answers[where] = answer_of(partition.error_code, partition.error_message, active, where)
        return answers

    return await driver.run(list(partitions), driver.to_leader, ask)


async def describe_log_dirs(
    driver: Driver, broker_ids: Sequence[int], partitions: Iterable[TopicPartition] | None
) -> dict[int, list[LogDirectory]]:
    """The log directories of brokers, and what of `partitions` (None: of all) is in them."""
    topics = None
    if partitions is not None:
        topics = [DescribableLogDirTopic(topic=name, partitions=each) for name, each in by_topic(partitions).items()]

    async def ask(node_id: int, items: list[int]) -> Answers[int, list[LogDirectory]]:
        reply = await driver.client.send(node_id, DescribeLogDirsRequest(topics=topics), DescribeLogDirsResponse)
        found = [_log_directory(each) for each in reply.results]
        return {items[0]: answer_of(reply.error_code, None, found, f"broker {node_id}")}

    return await driver.run(broker_ids, driver.to_broker, ask)


async def alter_replica_log_dirs(driver: Driver, paths: Mapping[TopicPartitionReplica, str]) -> None:
    """Move replicas to other log directories of their brokers."""

    async def to_broker(replica: TopicPartitionReplica) -> int:
        return await driver.to_broker(replica.broker_id)

    async def ask(node_id: int, items: list[TopicPartitionReplica]) -> Answers[TopicPartitionReplica, None]:
        partitions: dict[str, list[TopicPartition]] = {}
        for replica in items:
            partitions.setdefault(paths[replica], []).append(TopicPartition(replica.topic, replica.partition))
        directories = [
            AlterReplicaLogDir(
                path=path,
                topics=[AlterReplicaLogDirTopic(name=name, partitions=each) for name, each in by_topic(some).items()],
            )
            for path, some in partitions.items()
        ]
        reply = await driver.client.send(
            node_id, AlterReplicaLogDirsRequest(dirs=directories), AlterReplicaLogDirsResponse
        )
        answers: Answers[TopicPartitionReplica, None] = {}
        for topic in reply.results:
            for each in topic.partitions:
                replica = TopicPartitionReplica(topic.topic_name, each.partition_index, node_id)
                answers[replica] = answer_of(each.error_code, None, None, f"{replica} to {paths[replica]}")
        return answers

    await driver.run(paths, to_broker, ask)


async def elect_leaders(
    driver: Driver, partitions: Iterable[TopicPartition] | None, kind: ElectionType
) -> dict[TopicPartition, ApiError | None]:
    """Elect leaders; for each partition None or why not (ELECTION_NOT_NEEDED if it has the wanted one)."""
    topics = None
    if partitions is not None:
        topics = [TopicPartitions(topic=name, partitions=each) for name, each in by_topic(partitions).items()]

    async def ask(node_id: int, _items: list[str]) -> Answers[str, dict[TopicPartition, ApiError | None]]:
        request = ElectLeadersRequest(
            election_type=kind, topic_partitions=topics, timeout_ms=driver.client.settings.request_timeout_ms
        )
        reply = await driver.client.send(node_id, request, ElectLeadersResponse)
        found: dict[TopicPartition, ApiError | None] = {}
        for topic in reply.replica_election_results:
            for each in topic.partition_result:
                where = TopicPartition(topic.topic, each.partition_id)
                found[where] = answer_of(each.error_code, each.error_message, None, where)
        return {"": answer_of(reply.error_code, None, found, "election of leaders")}

    return (await driver.run([""], driver.to_controller, ask))[""]


async def alter_partition_reassignments(driver: Driver, targets: Mapping[TopicPartition, Sequence[int] | None]) -> None:
    """Move partitions to other brokers; None ends a move that is under way."""

    async def ask(node_id: int, items: list[TopicPartition]) -> Answers[TopicPartition, None]:
        topics = [
            ReassignableTopic(
                name=topic,
                partitions=[
                    ReassignablePartition(
                        partition_index=index, replicas=_listed(targets[TopicPartition(topic, index)])
                    )
                    for index in indexes
                ],
            )
            for topic, indexes in by_topic(items).items()
        ]
        request = AlterPartitionReassignmentsRequest(
            topics=topics, timeout_ms=driver.client.settings.request_timeout_ms
        )
        reply = await driver.client.send(node_id, request, AlterPartitionReassignmentsResponse)
        if reply.error_code != ErrorCode.NONE:
            raise ApiError(error_code_of(reply.error_code), reply.error_message)
        answers: Answers[TopicPartition, None] = {}
        for topic in reply.responses:
            for each in topic.partitions:
                where = TopicPartition(topic.name, each.partition_index)
                answers[where] = answer_of(each.error_code, each.error_message, None, where)
        return answers

    await driver.run(targets, driver.to_controller, ask)


async def list_partition_reassignments(
    driver: Driver, partitions: Iterable[TopicPartition] | None
) -> dict[TopicPartition, Reassignment]:
    """The moves under way, of `partitions` or of all."""
    topics = None
    if partitions is not None:
        topics = [
            ListPartitionReassignmentsTopics(name=name, partition_indexes=each)
            for name, each in by_topic(partitions).items()
        ]

    async def ask(node_id: int, _items: list[str]) -> Answers[str, dict[TopicPartition, Reassignment]]:
        request = ListPartitionReassignmentsRequest(topics=topics, timeout_ms=driver.client.settings.request_timeout_ms)
        reply = await driver.client.send(node_id, request, ListPartitionReassignmentsResponse)
        found = {
            TopicPartition(topic.name, each.partition_index): Reassignment(
                tuple(each.replicas), tuple(each.adding_replicas), tuple(each.removing_replicas)
            )
            for topic in reply.topics
            for each in topic.partitions
        }
        return {"": answer_of(reply.error_code, reply.error_message, found, "reassignments")}

    return (await driver.run([""], driver.to_controller, ask))[""]


def _listed(replicas: Sequence[int] | None) -> list[int] | None:
    return None if replicas is None else list(replicas)


def _log_directory(directory: DescribeLogDirsResult) -> LogDirectory:
    replicas = {
        TopicPartition(topic.name, each.partition_index): ReplicaOnDisk(
            each.partition_size, each.offset_lag, each.is_future_key
        )
        for topic in directory.topics
        for each in topic.partitions
    }
    return LogDirectory(
        directory.log_dir, directory.error_code, directory.total_bytes, directory.usable_bytes, replicas
    )

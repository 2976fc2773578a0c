"""ElectLeaders: preferred leaders are elected, or unclean ones; the answer waits until they are known here."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tidelog.controller.events import ElectionType
from tidelog.security.acls import AclOperation, AclResourceType
from tidelog.wire.errors import ApiError, ErrorCode
from tidelog.wire.messages.elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    PartitionResult,
    ReplicaElectionResult,
)
from tidelog.wire.partitions import TopicPartition

if TYPE_CHECKING:
    from tidelog.broker.serving.context import Context

_TYPES: Final = frozenset(ElectionType)


async def handle(request: ElectLeadersRequest, context: Context) -> ElectLeadersResponse:
    """Answer each partition once. A request for all partitions is answered with those that need an election."""
    if not context.is_allowed(AclOperation.ALTER, AclResourceType.CLUSTER):
        return await _refused(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, request, context)
    if request.election_type not in _TYPES:
        return await _refused(ErrorCode.UNKNOWN_SERVER_ERROR, request, context)
    deadline_ms = context.node.clock.monotonic_ms() + request.timeout_ms
    asked = await _partitions_of(request, context)
    outcomes = await context.node.topology.elect_leaders(tuple(asked), ElectionType(request.election_type), deadline_ms)
    topics: dict[str, ReplicaElectionResult] = {}
    for (name, index), outcome in outcomes.items():
        await context.pause()
        error = outcome or ApiError(ErrorCode.NONE)
        if request.topic_partitions is None and error.code is ErrorCode.ELECTION_NOT_NEEDED:
            continue
        topic = topics.setdefault(name, ReplicaElectionResult(topic=name))
        message = error.message or error.code.text or None
        topic.partition_result.append(PartitionResult(partition_id=index, error_code=error.code, error_message=message))
    return ElectLeadersResponse(replica_election_results=list(topics.values()))


async def _refused(code: ErrorCode, request: ElectLeadersRequest, context: Context) -> ElectLeadersResponse:
    """The same error for the request and for each of its partitions."""
    topics: dict[str, ReplicaElectionResult] = {}
    for topic in request.topic_partitions or ():
        result = topics.setdefault(topic.topic, ReplicaElectionResult(topic=topic.topic))
        for index in dict.fromkeys(topic.partitions):
            result.partition_result.append(
                PartitionResult(partition_id=index, error_code=code, error_message=code.text)
            )
            await context.pause()
    return ElectLeadersResponse(error_code=code, replica_election_results=list(topics.values()))


async def _partitions_of(request: ElectLeadersRequest, context: Context) -> dict[TopicPartition, None]:
    """Each once, in the order of the request; without any, all that this broker knows."""
    partitions: dict[TopicPartition, None] = {}
    if request.topic_partitions is None:
        for image in list(context.node.image.topics()):
            partitions.update(dict.fromkeys(TopicPartition(image.name, each.index) for each in image.partitions))
            await context.pause()
    for topic in request.topic_partitions or ():
        partitions.update(dict.fromkeys(TopicPartition(topic.topic, index) for index in topic.partitions))
        await context.pause()
    return partitions

"""ElectLeaders: the controller elects preferred leaders, or unclean ones; the answer waits until they are known here.

On a single broker no other replica can lead: the response says which partitions have a leader.
"""

from __future__ import annotations

from collections.abc import Mapping
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
    from tidelog.broker.cluster import ClusterMember
    from tidelog.broker.context import Context

# By type of election: the error where no replica that may be elected is alive.
_NO_CANDIDATE: Final = {0: ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE, 1: ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE}


async def handle(request: ElectLeadersRequest, context: Context) -> ElectLeadersResponse:
    """Answer each partition once. A request for all partitions is answered with those that need an election."""
    if not context.is_allowed(AclOperation.ALTER, AclResourceType.CLUSTER):
        return await _denied(request, context)
    no_candidate = _NO_CANDIDATE.get(request.election_type)
    if context.node.member is not None and no_candidate is not None:
        return await _elect_in_cluster(request, context.node.member, context)
    response = ElectLeadersResponse(error_code=ErrorCode.NONE if no_candidate else ErrorCode.UNKNOWN_SERVER_ERROR)
    if request.topic_partitions is None:
        if no_candidate is not None:
            response.replica_election_results = await _leaderless(no_candidate, context)
        return response
    codes: dict[str, dict[int, ErrorCode]] = {}
    for topic in request.topic_partitions:
        found = codes.setdefault(topic.topic, {})
        await context.pause()
        for index in topic.partitions:
            found[index] = _code_of(topic.topic, index, no_candidate, context)
            await context.pause()
    for name, found in codes.items():
        response.replica_election_results.append(await _result(name, found, context))
    return response


async def _denied(request: ElectLeadersRequest, context: Context) -> ElectLeadersResponse:
    code = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    response = ElectLeadersResponse(error_code=code)
    for topic in request.topic_partitions or ():
        response.replica_election_results.append(
            await _result(topic.topic, dict.fromkeys(topic.partitions, code), context)
        )
    return response


async def _elect_in_cluster(
    request: ElectLeadersRequest, member: ClusterMember, context: Context
) -> ElectLeadersResponse:
    clock = context.node.clock
    deadline_ms = clock.monotonic_ms() + request.timeout_ms
    asked = await _partitions_of(request, context)
    outcomes = await member.controller.elect_leaders(tuple(asked), ElectionType(request.election_type))
    elected = {partition: leader for partition, leader in outcomes.items() if isinstance(leader, int)}
    left_ms = deadline_ms - clock.monotonic_ms()
    await member.metadata_waiters.wait(lambda: not _unknown_leaders(elected, context), left_ms)
    late = _unknown_leaders(elected, context)
    topics: dict[str, ReplicaElectionResult] = {}
    for partition, outcome in outcomes.items():
        await context.pause()
        error = outcome if isinstance(outcome, ApiError) else ApiError(ErrorCode.NONE)
        if partition in late:
            error = ApiError(ErrorCode.REQUEST_TIMED_OUT)
        if request.topic_partitions is None and error.code is ErrorCode.ELECTION_NOT_NEEDED:
            continue
        topic = topics.setdefault(partition.topic, ReplicaElectionResult(topic=partition.topic))
        message = error.message or error.code.text or None
        topic.partition_result.append(
            PartitionResult(partition_id=partition.partition, error_code=error.code, error_message=message)
        )
    return ElectLeadersResponse(replica_election_results=list(topics.values()))


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


def _unknown_leaders(elected: Mapping[TopicPartition, int], context: Context) -> set[TopicPartition]:
    """The partitions that have, in the image, another leader than was elected."""
    image = context.node.image
    return {
        partition
        for partition, leader in elected.items()
        if (known := image.partition(*partition)) is None or known.leader_id != leader
    }


async def _leaderless(no_candidate: ErrorCode, context: Context) -> list[ReplicaElectionResult]:
    codes: dict[str, dict[int, ErrorCode]] = {}
    for topic in list(context.node.image.topics()):
        for partition in topic.partitions:
            if partition.leader_id < 0:
                codes.setdefault(topic.name, {})[partition.index] = no_candidate
        await context.pause()
    return [await _result(name, found, context) for name, found in codes.items()]


def _code_of(topic: str, index: int, no_candidate: ErrorCode | None, context: Context) -> ErrorCode:
    if no_candidate is None:
        return ErrorCode.UNKNOWN_SERVER_ERROR
    partition = context.node.image.partition(topic, index)
    if partition is None:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return ErrorCode.ELECTION_NOT_NEEDED if partition.leader_id >= 0 else no_candidate


async def _result(topic: str, codes: dict[int, ErrorCode], context: Context) -> ReplicaElectionResult:
    result = ReplicaElectionResult(topic=topic)
    for index, code in codes.items():
        result.partition_result.append(PartitionResult(partition_id=index, error_code=code, error_message=code.text))
        await context.pause()
    return result

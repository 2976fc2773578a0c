"""ElectLeaders: a replica that leads already need not be elected, and on one broker no other replica can lead."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tidelog.wire.errors import ErrorCode
from tidelog.wire.messages.elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    PartitionResult,
    ReplicaElectionResult,
)

if TYPE_CHECKING:
    from tidelog.broker.context import Context

# By type of election: the error where no replica that may be elected is alive.
_NO_CANDIDATE: Final = {0: ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE, 1: ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE}


async def handle(request: ElectLeadersRequest, context: Context) -> ElectLeadersResponse:
    """Answer each partition once. A request for all partitions is answered with those that need an election."""
    no_candidate = _NO_CANDIDATE.get(request.election_type)
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

"""Groups of Kafka Streams whose tasks the broker assigns (KIP-1071).

StreamsGroupHeartbeat: join, stay in and leave a streams group. Internal topics that its application lacks are created
before the response, which says so if that fails.
StreamsGroupDescribe: streams groups, their topologies, members and tasks.
StreamsGroupTopologyDescriptionUpdate: rejected, as by every broker that stores no descriptions (KIP-1331).
"""

from __future__ import annotations

import logging
from functools import partial
from typing import TYPE_CHECKING, Final

from tidelog.broker.handlers._answers import Answers
from tidelog.broker.handlers._groups import check_group_id, check_streams_protocol
from tidelog.broker.handlers._operations import NOT_ASKED
from tidelog.broker.handlers._topics import partition_limit_error
from tidelog.broker.topology.internal_topics import AutomaticTopic
from tidelog.groups.streams.topology import StatusCode
from tidelog.metadata.image import INTERNAL_TOPICS
from tidelog.metadata.topic_names import check_topic_name
from tidelog.security.acls import AclOperation, AclResourceType
from tidelog.wire.errors import ApiError, ErrorCode
from tidelog.wire.messages.streams_group_describe import (
    DescribedGroup,
    StreamsGroupDescribeRequest,
    StreamsGroupDescribeResponse,
    Topology,
)
from tidelog.wire.messages.streams_group_heartbeat import (
    StreamsGroupHeartbeatRequest,
    StreamsGroupHeartbeatResponse,
)
from tidelog.wire.messages.streams_group_heartbeat import Topology as SentTopology
from tidelog.wire.messages.streams_group_topology_description_update import (
    StreamsGroupTopologyDescriptionUpdateRequest,
    StreamsGroupTopologyDescriptionUpdateResponse,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tidelog.broker.serving.context import Context
    from tidelog.groups.streams.service import Heartbeat
    from tidelog.groups.streams.topology import InternalTopic

logger = logging.getLogger(__name__)

_FAILURES_LISTED_MAX: Final = 3
_NO_DESCRIPTION: Final = 1
"""The status of a topology description that is not stored."""


async def handle_heartbeat(request: StreamsGroupHeartbeatRequest, context: Context) -> StreamsGroupHeartbeatResponse:
    """Ask the group's coordinator, and create the topics that it misses."""
    check_streams_protocol(context)
    context.check_allowed(AclOperation.READ, AclResourceType.GROUP, request.group_id)
    if request.topology is not None:
        _check_topics(request.topology, context)
    client_id, client_host = context.client_id or "", f"/{context.session.address}"
    outcome: Heartbeat | ApiError = await context.node.groups.ask(
        request.group_id,
        lambda shard, _respond, now_ms: shard.streams_heartbeat(request, client_id, client_host, now_ms),
    )
    if isinstance(outcome, ApiError):
        return StreamsGroupHeartbeatResponse(error_code=outcome.code, error_message=outcome.message)
    if outcome.missing:
        await _create(outcome.missing, outcome.response, context)
    return outcome.response


def _check_topics(topology: SentTopology, context: Context) -> None:
    names = list(dict.fromkeys(_topics(topology)))
    internal = [name for name in names if name in INTERNAL_TOPICS]
    if internal:
        text = f"Use of Kafka internal topics {','.join(internal)} in a Kafka Streams topology is prohibited."
        raise ApiError(ErrorCode.STREAMS_INVALID_TOPOLOGY, text)
    invalid = [name for name in names if not _is_valid(name)]
    if invalid:
        text = f"Topic names {','.join(invalid)} are not valid topic names."
        raise ApiError(ErrorCode.STREAMS_INVALID_TOPOLOGY, text)
    if context.denied_topics(AclOperation.DESCRIBE, names):
        raise ApiError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)


def _is_valid(name: str) -> bool:
    try:
        check_topic_name(name)
    except ApiError:
        return False
    return True


def _topics(topology: SentTopology | Topology) -> Iterator[str]:
    """Every topic that a topology names."""
    for subtopology in topology.subtopologies or ():
        yield from subtopology.source_topics
        yield from subtopology.repartition_sink_topics
        for info in (*subtopology.repartition_source_topics, *subtopology.state_changelog_topics):
            yield info.name


async def _create(missing: Sequence[InternalTopic], response: StreamsGroupHeartbeatResponse, context: Context) -> None:
    """Create internal topics as the member, who needs the right to; what fails is added to the status."""
    denied = _denied(missing, context)
    if denied:
        _add_detail(response, f"Unauthorized to CREATE on topics {', '.join(denied)}.")
        return
    topics, quota = context.node.topology.topics, context.mutation_quota()
    too_many = partition_limit_error(sum(topic.partition_count for topic in missing))
    failures: list[str] = []
    for topic in missing:
        await context.node.slices.pause()
        try:
            if too_many is not None:
                raise too_many
            quota.take(topic.partition_count)
            wanted = AutomaticTopic(topic.partition_count, topic.replication_factor, topic.overrides)
            await topics.create_needed(topic.name, wanted)
        except ApiError as error:
            failures.append(f"{topic.name} ({error.message or error.code.text})")
    if failures:
        logger.warning("internal topics of a streams group cannot be created: %s", ", ".join(failures))
        more = len(failures) - _FAILURES_LISTED_MAX
        listed = ", ".join(failures[:_FAILURES_LISTED_MAX]) + (f" and {more} more" if more > 0 else "")
        _add_detail(response, f"Creation failed: {listed}.")


def _denied(missing: Sequence[InternalTopic], context: Context) -> list[str]:
    if context.is_allowed(AclOperation.CREATE, AclResourceType.CLUSTER, is_logged=False):
        return []
    return [
        topic.name
        for topic in missing
        if not context.is_allowed(AclOperation.CREATE, AclResourceType.TOPIC, topic.name)
    ]


def _add_detail(response: StreamsGroupHeartbeatResponse, text: str) -> None:
    for status in response.status or ():
        if status.status_code == StatusCode.MISSING_INTERNAL_TOPICS:
            status.status_detail = f"{status.status_detail}; {text}"


async def handle_describe(request: StreamsGroupDescribeRequest, context: Context) -> StreamsGroupDescribeResponse:
    """Look at each group."""
    answers: Answers[DescribedGroup] = Answers()
    for group_id in request.group_ids:
        answers.add(group_id, partial(_describe, group_id, request, context))
        await context.pause()
    return StreamsGroupDescribeResponse(groups=answers.all)


def _describe(group_id: str, request: StreamsGroupDescribeRequest, context: Context) -> DescribedGroup:
    try:
        context.check_allowed(AclOperation.DESCRIBE, AclResourceType.GROUP, group_id)
        check_streams_protocol(context)
        check_group_id(group_id)
        described = context.node.groups.shard_of(group_id).describe_streams_group(group_id)
        if described.topology is not None and context.denied_topics(AclOperation.DESCRIBE, _topics(described.topology)):
            text = "The described group uses topics that the client is not authorized to describe."
            raise ApiError(ErrorCode.TOPIC_AUTHORIZATION_FAILED, text)
    except ApiError as error:
        return DescribedGroup(error_code=error.code, error_message=error.message, group_id=group_id)
    described.authorized_operations = (
        context.operations_allowed(AclResourceType.GROUP, group_id)
        if request.include_authorized_operations
        else NOT_ASKED
    )
    if request.include_topology_description:
        described.topology_description_status = _NO_DESCRIPTION
    return described


def handle_description(
    request: StreamsGroupTopologyDescriptionUpdateRequest, context: Context
) -> StreamsGroupTopologyDescriptionUpdateResponse:
    """Say that descriptions are not stored; no heartbeat asks for them."""
    context.check_allowed(AclOperation.READ, AclResourceType.GROUP, request.group_id)
    raise ApiError(ErrorCode.UNSUPPORTED_VERSION, "This broker stores no descriptions of topologies.")

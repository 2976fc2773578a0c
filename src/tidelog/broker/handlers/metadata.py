"""Metadata: brokers, topics, partitions and their leaders; missing topics are created if client and broker allow it."""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from typing import TYPE_CHECKING, Final, NamedTuple

from tidelog.broker.handlers._operations import NOT_ASKED, cluster_operations
from tidelog.broker.handlers._topics import create_automatically
from tidelog.metadata.image import INTERNAL_TOPICS
from tidelog.metadata.topics import check_topic_name
from tidelog.security.acls import AclOperation, AclResourceType
from tidelog.wire.errors import ApiError, ErrorCode
from tidelog.wire.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from tidelog.wire.primitives import NO_UUID

if TYPE_CHECKING:
    from tidelog.broker.serving.context import Context
    from tidelog.metadata.image import PartitionImage, TopicImage

_AUTO_CREATION_ASKED_FROM: Final = 4
_NULL_MEANS_ALL_FROM: Final = 1
CREATED_PER_REQUEST_MAX: Final = 100
"""How many topics one request may auto-create; clients retry the others."""
_PARTITIONS_AT_ONCE: Final = 200
"""Half a millisecond's worth."""
_LISTENER_NOT_FOUND_FROM: Final = 6
_NO_LEADER: Final = -1
_TOPIC_IDS_FROM: Final = 12
"""Versions 10 and 11 have the field, but brokers did not support topic ids yet, and their responses need names."""


async def handle(request: MetadataRequest, context: Context) -> MetadataResponse:
    """Describe the topics asked for, or all of them; those that are missing may be made first."""
    failures = {}
    for name in await _names_to_create(request, context):
        try:
            await create_automatically(name, context)
        except ApiError as error:
            failures[name] = error.code
    return await _describe_all(request, context, failures)


def _may_create(request: MetadataRequest, context: Context) -> bool:
    is_wanted = request.allow_auto_topic_creation or context.api_version < _AUTO_CREATION_ASKED_FROM
    return is_wanted and context.node.config.auto_create_topics_enable


async def _names_to_create(request: MetadataRequest, context: Context) -> list[str]:
    """Of the topics that are asked for by name and that do not exist, as many as one request may make."""
    names: dict[str, None] = {}
    if _may_create(request, context):
        image = context.node.image
        for asked in request.topics or ():
            if (
                asked.name is not None
                and asked.topic_id == NO_UUID
                and image.topic(asked.name) is None
                and _may_create_topic(asked.name, context)
            ):
                names[asked.name] = None
                if len(names) == CREATED_PER_REQUEST_MAX:
                    break
            await context.pause()
    return list(names)


def _may_create_topic(name: str, context: Context) -> bool:
    return context.is_allowed(AclOperation.DESCRIBE, AclResourceType.TOPIC, name, is_logged=False) and (
        context.is_allowed(AclOperation.CREATE, AclResourceType.CLUSTER, is_logged=False)
        or context.is_allowed(AclOperation.CREATE, AclResourceType.TOPIC, name)
    )


async def _describe_all(
    request: MetadataRequest, context: Context, failures: Mapping[str, ErrorCode]
) -> MetadataResponse:
    """`failures` says why topics that were to be made do not exist."""
    node = context.node
    # Brokers first: the image may change while topics are described, and no leader may be named without its address.
    brokers = [
        MetadataResponseBroker(node_id=broker.broker_id, host=endpoint.host, port=endpoint.port, rack=broker.rack)
        for broker in node.image.brokers()
        if (endpoint := broker.endpoint(context.session.listener)) is not None
    ]
    shape = _Shape(request.include_topic_authorized_operations, {broker.node_id for broker in brokers}, context)
    if request.topics is None or (not request.topics and context.api_version < _NULL_MEANS_ALL_FROM):
        topics = [
            await _describe(topic, shape)
            for topic in list(node.image.topics())
            if context.is_allowed(AclOperation.DESCRIBE, AclResourceType.TOPIC, topic.name, is_logged=False)
        ]
    else:
        may_create = _may_create(request, context)
        # A topic that is named twice is answered once.
        once: dict[tuple[str | None, bytes], MetadataRequestTopic] = {}
        for asked in request.topics:
            once.setdefault((asked.name, asked.topic_id), asked)
            await context.pause()
        topics = [await _find(asked, may_create, failures, shape) for asked in once.values()]
    return MetadataResponse(
        brokers=brokers,
        cluster_id=node.image.cluster_id,
        controller_id=node.image.controller_id,
        topics=topics,
        cluster_authorized_operations=cluster_operations(request.include_cluster_authorized_operations, context),
    )


class _Shape(NamedTuple):
    """What the descriptions of all topics of a response have in common."""

    has_operations: bool
    """Whether the operations that the client may do are asked for."""
    reachable: AbstractSet[int]
    """Brokers that the response names; only these are named as leaders."""
    context: Context

    def operations(self, topic: str) -> int:
        return self.context.operations_allowed(AclResourceType.TOPIC, topic) if self.has_operations else NOT_ASKED

    def code_of_lost_leader(self, leader_id: int) -> ErrorCode:
        """Why a partition's leader cannot be named."""
        is_alive = self.context.node.image.broker(leader_id) is not None
        if is_alive and self.context.api_version >= _LISTENER_NOT_FOUND_FROM:
            return ErrorCode.LISTENER_NOT_FOUND
        return ErrorCode.LEADER_NOT_AVAILABLE


async def _find(
    asked: MetadataRequestTopic, may_create: bool, failures: Mapping[str, ErrorCode], shape: _Shape
) -> MetadataResponseTopic:
    context = shape.context
    await context.pause()
    image = context.node.image
    name = asked.name
    if name is None or asked.topic_id != NO_UUID:
        if context.api_version < _TOPIC_IDS_FROM:
            return _failed(name or "", asked.topic_id, ErrorCode.INVALID_REQUEST)
        found = image.topic_by_id(asked.topic_id)
        if found is None:
            return _failed(None, asked.topic_id, ErrorCode.UNKNOWN_TOPIC_ID)
        if not context.is_allowed(AclOperation.DESCRIBE, AclResourceType.TOPIC, found.name):
            # An id gives nothing away; a name does.
            return _failed(None, asked.topic_id, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        return await _describe(found, shape)
    if not context.is_allowed(AclOperation.DESCRIBE, AclResourceType.TOPIC, name):
        return _failed(name, NO_UUID, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    found = image.topic(name)
    if found is None:
        if may_create and not _may_create_topic(name, context):
            return _failed(name, NO_UUID, ErrorCode.TOPIC_AUTHORIZATION_FAILED, is_internal=name in INTERNAL_TOPICS)
        code = failures.get(name) or _code_of_missing(name, may_create)
        return _failed(name, NO_UUID, code, shape.operations(name), is_internal=name in INTERNAL_TOPICS)
    return await _describe(found, shape)


def _code_of_missing(name: str, may_create: bool) -> ErrorCode:
    try:
        check_topic_name(name)
    except ApiError as error:
        return error.code
    # A topic that may be created either has been, and has no leaders yet, or is when it is asked for again.
    return ErrorCode.LEADER_NOT_AVAILABLE if may_create else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def _failed(
    name: str | None, topic_id: bytes, code: ErrorCode, operations: int = NOT_ASKED, *, is_internal: bool = False
) -> MetadataResponseTopic:
    return MetadataResponseTopic(
        error_code=code, name=name, topic_id=topic_id, is_internal=is_internal, topic_authorized_operations=operations
    )


async def _describe(topic: TopicImage, shape: _Shape) -> MetadataResponseTopic:
    await shape.context.pause()
    partitions = topic.partitions
    described = MetadataResponseTopic(
        name=topic.name,
        topic_id=topic.topic_id,
        is_internal=topic.is_internal,
        topic_authorized_operations=shape.operations(topic.name),
    )
    for start in range(0, len(partitions), _PARTITIONS_AT_ONCE):
        if start:
            await shape.context.pause()
        described.partitions += [
            _describe_partition(partition, shape) for partition in partitions[start : start + _PARTITIONS_AT_ONCE]
        ]
    return described


def _describe_partition(partition: PartitionImage, shape: _Shape) -> MetadataResponsePartition:
    leader_id = partition.leader_id
    is_reachable = leader_id in shape.reachable
    return MetadataResponsePartition(
        error_code=ErrorCode.NONE if is_reachable else shape.code_of_lost_leader(leader_id),
        partition_index=partition.index,
        leader_id=leader_id if is_reachable else _NO_LEADER,
        leader_epoch=partition.leader_epoch,
        replica_nodes=list(partition.replicas),
        isr_nodes=list(partition.isr),
        offline_replicas=list(partition.offline_replicas),
    )

"""Offsets shown to tools that watch consumer groups: `commitGroupId`.

Spark keeps a query's offsets in its checkpoint; what is committed to the group is for lag monitors only, one
micro-batch late, and the last one before a stop is never told. That it fails is said and changes nothing.
"""

import time
from collections.abc import Mapping
from typing import Final

from tidelog.client.cluster import ClusterClient, Node
from tidelog.client.errors import ClientError
from tidelog.client.refusals import raise_if_refused
from tidelog.client.types import TopicPartition
from tidelog.spark.source.data_loss import LOG
from tidelog.wire.errors import ApiError
from tidelog.wire.messages import (
    FindCoordinatorRequest,
    FindCoordinatorResponse,
    OffsetCommitRequest,
    OffsetCommitResponse,
)
from tidelog.wire.messages.offset_commit import OffsetCommitRequestPartition, OffsetCommitRequestTopic

PATIENCE_S: Final = 5.0
_BACKOFF_S: Final = 0.1
_GROUP: Final = 0


class GroupOffsets:
    """Commits for one group, as a client from outside it: the group may have no members."""

    def __init__(self, cluster: ClusterClient, group_id: str) -> None:
        self._cluster = cluster
        self._group_id = group_id
        self._coordinator: Node | None = None
        self._patience_s = PATIENCE_S

    def commit(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Tell the group's coordinator. A failure is logged.

        Clusters make the topic of offsets when the first group shows up, so a coordinator is waited for a moment; after
        a failure not again before a commit went well, because the query waits as long.
        """
        deadline = time.monotonic() + self._patience_s
        while True:
            try:
                self._commit(offsets)
                self._patience_s = PATIENCE_S
                return
            except (ClientError, ApiError) as error:
                # The coordinator may have moved: look for it again.
                self._coordinator = None
                is_passing = isinstance(error, ApiError) and error.code.retriable
                if not is_passing or time.monotonic() >= deadline:
                    self._patience_s = 0.0
                    LOG.warning("offsets were not committed for group %r (commitGroupId): %s", self._group_id, error)
                    return
            time.sleep(_BACKOFF_S)

    def _commit(self, offsets: Mapping[TopicPartition, int]) -> None:
        if self._coordinator is None:
            self._coordinator = self._find_coordinator()
        answer = self._cluster.on_node(self._coordinator, self._request(offsets), OffsetCommitResponse)
        for topic in answer.topics:
            for told in topic.partitions:
                raise_if_refused(f"{topic.name}-{told.partition_index}", told.error_code)

    def _find_coordinator(self) -> Node:
        request = FindCoordinatorRequest(key=self._group_id, key_type=_GROUP, coordinator_keys=[self._group_id])
        answer = self._cluster.on_any(request, FindCoordinatorResponse)
        # From version 4 on several groups can be asked for at once.
        found = answer.coordinators[0] if answer.coordinators else answer
        raise_if_refused(f"group {self._group_id!r}", found.error_code, found.error_message)
        return Node(found.node_id, found.host, found.port)

    def _request(self, offsets: Mapping[TopicPartition, int]) -> OffsetCommitRequest:
        topics: dict[str, OffsetCommitRequestTopic] = {}
        for (name, index), offset in offsets.items():
            topic = topics.setdefault(name, OffsetCommitRequestTopic(name=name, partitions=[]))
            topic.partitions.append(
                OffsetCommitRequestPartition(partition_index=index, committed_offset=offset, committed_metadata="")
            )
        return OffsetCommitRequest(group_id=self._group_id, topics=list(topics.values()))

"""Incremental fetch sessions, the client's side (KIP-227): a request has only what changed since the last one.

A broker remembers which partitions a session reads and from where. The first request names them all; later ones name
those that are new, that moved or that are no longer wanted. One session per broker and channel. Pure.
"""

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from tidelog.client.types import TopicPartition
from tidelog.wire.errors import ErrorCode
from tidelog.wire.messages import FetchRequest, FetchResponse
from tidelog.wire.messages.fetch import FetchPartition, FetchTopic, ForgottenTopic, PartitionData
from tidelog.wire.primitives import NO_UUID

NO_SESSION: Final = 0
FIRST_EPOCH: Final = 0
LAST_VERSION_WITH_NAMES: Final = 12
_EPOCH_MAX: Final = 2**31 - 1


class FetchTarget(NamedTuple):
    """The fetch parameters of one partition."""

    topic_id: bytes
    offset: int
    leader_epoch: int
    max_bytes: int


class FetchSession:
    """The session with one broker."""

    __slots__ = ("_asked", "_epoch", "_session_id", "_topic_names", "_uses_ids")

    def __init__(self) -> None:
        self._session_id = NO_SESSION
        self._epoch = FIRST_EPOCH
        self._asked: dict[TopicPartition, FetchTarget] = {}
        self._topic_names: dict[bytes, str] = {}
        self._uses_ids = True

    @property
    def version_max(self) -> int | None:
        """The highest version the next reply can be read in: without topic ids, the last one with names."""
        return None if self._uses_ids else LAST_VERSION_WITH_NAMES

    def fill(self, request: FetchRequest, wanted: Mapping[TopicPartition, FetchTarget]) -> None:
        """Fill `request` with the changes of the session, so that the broker sends exactly the `wanted` partitions."""
        uses_ids = all(target.topic_id != NO_UUID for target in wanted.values())
        if uses_ids != self._uses_ids:
            self._uses_ids = uses_ids
            self._epoch = FIRST_EPOCH
        if self._epoch == FIRST_EPOCH:
            self._asked = {}
        before, self._asked = self._asked, dict(wanted)
        request.session_id = self._session_id
        request.session_epoch = self._epoch
        request.topics = _fetch_topics((each, to) for each, to in wanted.items() if before.get(each) != to)
        # A recreated topic has a new id; the old id must be in the forgotten topics.
        gone = [
            (each, to.topic_id)
            for each, to in before.items()
            if each not in wanted or wanted[each].topic_id != to.topic_id
        ]
        request.forgotten_topics_data = _forgotten_topics(gone)
        self._topic_names = {target.topic_id: each.topic for each, target in wanted.items()}

    def accept(self, reply: FetchResponse) -> list[tuple[TopicPartition, PartitionData]] | None:
        """The reply's data by partition; None if it cannot be used and the session is reset."""
        if reply.error_code != ErrorCode.NONE:
            self._restart(keep_id=reply.error_code != ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
            return None
        answered = self._answered(reply)
        is_full = self._epoch == FIRST_EPOCH
        if answered is None or (is_full and len(answered) != len(self._asked)):
            self._restart(keep_id=True)
            return None
        if is_full:
            self._session_id = reply.session_id
        elif reply.session_id != self._session_id:
            self._restart(keep_id=False)
            return answered
        if self._session_id != NO_SESSION:
            self._epoch = self._epoch % _EPOCH_MAX + 1
        return answered

    def fail(self) -> None:
        """The request got no answer: the broker may have taken it or not, so the session cannot go on."""
        self._restart(keep_id=True)

    def _answered(self, reply: FetchResponse) -> list[tuple[TopicPartition, PartitionData]] | None:
        answered: list[tuple[TopicPartition, PartitionData]] = []
        for topic in reply.responses:
            name = self._topic_names.get(topic.topic_id) if self._uses_ids else topic.topic
            for data in topic.partitions:
                partition = TopicPartition(name or "", data.partition_index)
                if partition not in self._asked:
                    return None
                answered.append((partition, data))
        return answered

    def _restart(self, *, keep_id: bool) -> None:
        """Ask for everything next time. With the id, the broker closes the old session as it opens the new one."""
        self._epoch = FIRST_EPOCH
        if not keep_id:
            self._session_id = NO_SESSION


def _fetch_topics(targets: Iterable[tuple[TopicPartition, FetchTarget]]) -> list[FetchTopic]:
    topics: dict[tuple[str, bytes], FetchTopic] = {}
    for (name, partition), (topic_id, offset, leader_epoch, max_bytes) in targets:
        topic = topics.get((name, topic_id))
        if topic is None:
            topic = topics[name, topic_id] = FetchTopic(topic=name, topic_id=topic_id, partitions=[])
        topic.partitions.append(
            FetchPartition(
                partition=partition,
                current_leader_epoch=leader_epoch,
                fetch_offset=offset,
                partition_max_bytes=max_bytes,
            )
        )
    return list(topics.values())


def _forgotten_topics(gone: Iterable[tuple[TopicPartition, bytes]]) -> list[ForgottenTopic]:
    topics: dict[tuple[str, bytes], ForgottenTopic] = {}
    for (name, partition), topic_id in gone:
        topic = topics.get((name, topic_id))
        if topic is None:
            topic = topics[name, topic_id] = ForgottenTopic(topic=name, topic_id=topic_id, partitions=[])
        topic.partitions.append(partition)
    return list(topics.values())

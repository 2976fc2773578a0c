"""The client's side of an incremental fetch session (KIP-227): a request carries only what changed since the last.

Consumers and followers have one session per broker and connection. `want` says what is wanted of a partition, `build`
makes a request of what changed since the one before, and `accept` returns what an answer has of these partitions.
A session that the broker has forgotten, or that got out of step, begins again with a full request. What ends a session
and which answers are used is as in Kafka's FetchSessionHandler: an answer that names another session counts, because
answers come in the order of the requests, and the session goes on.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple, TypeVar

from tidelog.wire.errors import ErrorCode
from tidelog.wire.messages.fetch import FetchPartition, FetchResponse, FetchTopic, ForgottenTopic, PartitionData
from tidelog.wire.partitions import PartitionKey
from tidelog.wire.primitives import NO_UUID

_NO_SESSION: Final = 0
_INITIAL_EPOCH: Final = 0
_LAST_EPOCH: Final = 2**31 - 1

LAST_VERSION_WITH_NAMES: Final = 12

Key = TypeVar("Key", bound=PartitionKey)


class FetchEntry(NamedTuple):
    """What is asked of one partition."""

    topic_id: bytes
    fetch_offset: int
    log_start_offset: int
    max_bytes: int
    current_leader_epoch: int
    last_fetched_epoch: int


class SessionRequest(NamedTuple):
    """The session's part of a Fetch request."""

    session_id: int
    session_epoch: int
    topics: list[FetchTopic]
    forgotten: list[ForgottenTopic]


class FetchSession:
    """One session with one broker. Its cost is that of the partitions that change, not of all that it has."""

    def __init__(self) -> None:
        self._session_id = _NO_SESSION
        self._epoch = _INITIAL_EPOCH
        self.wanted: dict[PartitionKey, FetchEntry] = {}
        """What the broker is asked for, or will be with the next request."""
        self._before: dict[PartitionKey, FetchEntry | None] = {}
        """What it was asked for with the last request, of the partitions that changed since."""
        self._names: dict[bytes, tuple[str, int]] = {}
        """The name and the number of wanted partitions of each topic id."""
        self._has_ids = True

    def want(self, key: PartitionKey, entry: FetchEntry | None) -> None:
        """Ask for a partition from here on; None: ask for it no longer."""
        before = self.wanted.get(key)
        if before == entry:
            return
        self._before.setdefault(key, before)
        if entry is None:
            del self.wanted[key]
        else:
            self.wanted[key] = entry
        if before is None or entry is None or before[0] != entry[0]:
            self._count(key[0], before, -1)
            self._count(key[0], entry, 1)

    def want_only(self, wanted: Mapping[Key, FetchEntry]) -> None:
        """Ask for these partitions and no others."""
        for key in [key for key in self.wanted if key not in wanted]:
            self.want(key, None)
        for key, entry in wanted.items():
            self.want(key, entry)

    @property
    def version_max(self) -> int | None:
        """The highest version of the request last built: without topic ids, the last one with names."""
        return None if self._has_ids else LAST_VERSION_WITH_NAMES

    def _count(self, name: str, entry: FetchEntry | None, step: int) -> None:
        if entry is not None:
            count = self._names.get(entry.topic_id, ("", 0))[1] + step
            if count:
                self._names[entry.topic_id] = name, count
            else:
                del self._names[entry.topic_id]

    def name_of(self, topic_id: bytes) -> str:
        """The name of a topic that is asked for; empty for another."""
        return self._names.get(topic_id, ("", 0))[0]

    def build(self) -> SessionRequest:
        """The next request. It names only partitions that were added, changed or removed since the last one."""
        before, self._before = self._before, {}
        has_ids = NO_UUID not in self._names
        if has_ids != self._has_ids:
            self._has_ids = has_ids
            self._restart(self._session_id)
        if self._epoch == _INITIAL_EPOCH:
            return SessionRequest(self._session_id, self._epoch, _topics(self.wanted), [])
        wanted = self.wanted
        changed: dict[PartitionKey, FetchEntry] = {}
        gone: list[tuple[PartitionKey, FetchEntry]] = []
        for key, old in before.items():
            new = wanted.get(key)
            if new == old:
                continue
            if new is not None:
                changed[key] = new
            # A topic that was deleted and created again has another id: the old one is forgotten by its own.
            if old is not None and (new is None or new.topic_id != old.topic_id):
                gone.append((key, old))
        return SessionRequest(self._session_id, self._epoch, _topics(changed), _forgotten(gone) if gone else [])

    def accept(self, reply: FetchResponse) -> list[tuple[PartitionKey, PartitionData]] | None:
        """What the answer to the last request has of each partition; None if it must not be used."""
        if reply.error_code != ErrorCode.NONE:
            is_unknown = reply.error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
            self._restart(_NO_SESSION if is_unknown else self._session_id)
            return None
        answered = self._answered(reply)
        is_full = self._epoch == _INITIAL_EPOCH
        if answered is None or (is_full and len(answered) != len(self.wanted)):
            # Of a full answer the broker keeps a session, if it does, that is not known here.
            self._restart(_NO_SESSION if is_full else self._session_id)
            return None
        if reply.session_id == _NO_SESSION:
            self._restart(_NO_SESSION)  # the broker has no room for a session, or closed it
        elif is_full:
            self._session_id, self._epoch = reply.session_id, 1
        else:
            self._epoch = self._epoch + 1 if self._epoch < _LAST_EPOCH else 1
        return answered

    def _answered(self, reply: FetchResponse) -> list[tuple[PartitionKey, PartitionData]] | None:
        """The partitions of an answer; None if it has one that was not asked for."""
        answered: list[tuple[PartitionKey, PartitionData]] = []
        for topic in reply.responses:
            name = topic.topic or self.name_of(topic.topic_id)
            for data in topic.partitions:
                key = name, data.partition_index
                if key not in self.wanted:
                    return None
                answered.append((key, data))
        return answered

    def fail(self) -> None:
        """The request failed. The broker may have processed it: the next one closes the session and opens another."""
        self._restart(self._session_id)

    def _restart(self, session_id: int) -> None:
        self._session_id, self._epoch = session_id, _INITIAL_EPOCH


def _topics(wanted: Mapping[PartitionKey, FetchEntry]) -> list[FetchTopic]:
    topics: dict[tuple[str, bytes], FetchTopic] = {}
    for (name, index), entry in wanted.items():
        topic = topics.get((name, entry.topic_id))
        if topic is None:
            topic = topics[name, entry.topic_id] = FetchTopic(topic=name, topic_id=entry.topic_id)
        topic.partitions.append(
            FetchPartition(
                partition=index,
                current_leader_epoch=entry.current_leader_epoch,
                fetch_offset=entry.fetch_offset,
                last_fetched_epoch=entry.last_fetched_epoch,
                log_start_offset=entry.log_start_offset,
                partition_max_bytes=entry.max_bytes,
            )
        )
    return list(topics.values())


def _forgotten(gone: Iterable[tuple[PartitionKey, FetchEntry]]) -> list[ForgottenTopic]:
    topics: dict[tuple[str, bytes], ForgottenTopic] = {}
    for (name, index), entry in gone:
        topic = topics.get((name, entry.topic_id))
        if topic is None:
            topic = topics[name, entry.topic_id] = ForgottenTopic(topic=name, topic_id=entry.topic_id)
        topic.partitions.append(index)
    return list(topics.values())

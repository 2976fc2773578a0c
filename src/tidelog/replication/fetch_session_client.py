"""The client's side of an incremental fetch session (KIP-227): a request carries only what changed since the last.

`want` says what a follower wants of a partition, `build` makes a request of what changed since the one before, and
`on_response` says whether the answer belongs to the session. A session that the leader has forgotten, or that got out
of step, begins again with a full request.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from tidelog.wire.errors import ErrorCode
from tidelog.wire.messages.fetch import FetchPartition, FetchTopic, ForgottenTopic

_NO_SESSION: Final = 0
_INITIAL_EPOCH: Final = 0
_LAST_EPOCH: Final = 2**31 - 1

PartitionKey = tuple[str, int]


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


class FetchSessionClient:
    """One session with one leader. Its cost is that of the partitions that change, not of all that it has."""

    def __init__(self) -> None:
        self._session_id = _NO_SESSION
        self._epoch = _INITIAL_EPOCH
        self.wanted: dict[PartitionKey, FetchEntry] = {}
        """What the leader is asked for, or will be with the next request."""
        self._before: dict[PartitionKey, FetchEntry | None] = {}
        """What it was asked for with the last request, of the partitions that changed since."""
        self._names: dict[bytes, tuple[str, int]] = {}
        """The name and the number of wanted partitions of each topic id."""

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

    def on_response(self, error: ErrorCode, session_id: int) -> bool:
        """Take the answer to the last request; whether its partitions may be used."""
        if error == ErrorCode.FETCH_SESSION_ID_NOT_FOUND:
            self._restart(_NO_SESSION)
        elif error != ErrorCode.NONE:
            self._restart(self._session_id)
        elif session_id == _NO_SESSION:
            self._restart(_NO_SESSION)  # the leader has no room for a session, or closed it
        elif self._epoch == _INITIAL_EPOCH:
            self._session_id, self._epoch = session_id, 1
        elif session_id != self._session_id:
            self._restart(_NO_SESSION)
            return False
        else:
            self._epoch = self._epoch + 1 if self._epoch < _LAST_EPOCH else 1
        return error == ErrorCode.NONE

    def on_failure(self) -> None:
        """The request failed. The leader may have processed it: the next one closes the session and opens another."""
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

"""Share sessions: which partitions a member reads, as of its last request (KIP-932).

A session belongs to a member of a group and lives on one connection. Its requests are numbered, as those of a fetch
session are: 0 begins a session, -1 ends it, and any other number must be the next one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final, TypeAlias

from tidelog.wire.errors import ApiError, ErrorCode

INITIAL_EPOCH: Final = 0
FINAL_EPOCH: Final = -1
_MAX_EPOCH: Final = 2**31 - 1

SessionKey: TypeAlias = tuple[str, str]
"""Group id and member id."""
TopicIdPartition: TypeAlias = tuple[bytes, int]


class ShareSession:
    """The partitions of a member, in the order in which they get their share of a response."""

    __slots__ = ("connection", "epoch", "key", "last_used_ms", "partitions")

    def __init__(self, key: SessionKey, connection: object, now_ms: int) -> None:
        self.key = key
        self.connection = connection
        self.epoch = 1
        self.last_used_ms = now_ms
        self.partitions: dict[TopicIdPartition, None] = {}

    def move_to_end(self, partition: TopicIdPartition) -> None:
        """A partition that had records goes last, so that the others get their share first next time."""
        if partition in self.partitions:
            del self.partitions[partition]
            self.partitions[partition] = None


class ShareSessions:
    """All sessions of a broker."""

    def __init__(self, on_closed: Callable[[ShareSession, bool], None]) -> None:
        """`on_closed` is called with a session that ended, and whether it was the last of its group here."""
        self._sessions: dict[SessionKey, ShareSession] = {}
        self._by_connection: dict[object, set[SessionKey]] = {}
        self._by_group: dict[str, int] = {}
        self._on_closed = on_closed

    def __len__(self) -> int:
        return len(self._sessions)

    def sessions(self) -> Iterable[ShareSession]:
        return self._sessions.values()

    def open(self, key: SessionKey, connection: object, sessions_max: int, now_ms: int) -> ShareSession:
        """Begin a session; one that the member had is replaced, and keeps its locks."""
        before = self._sessions.get(key)
        if before is not None:
            self._forget(before)
        elif len(self._sessions) >= sessions_max:
            raise ApiError(ErrorCode.SHARE_SESSION_LIMIT_REACHED, f"this broker has {sessions_max} share sessions")
        session = ShareSession(key, connection, now_ms)
        self._sessions[key] = session
        self._by_connection.setdefault(connection, set()).add(key)
        self._by_group[key[0]] = self._by_group.get(key[0], 0) + 1
        return session

    def advance(self, key: SessionKey, epoch: int, now_ms: int) -> ShareSession:
        """The session of a request, which is the next one or ends it; raises ApiError."""
        session = self._sessions.get(key)
        if session is None:
            raise ApiError(ErrorCode.SHARE_SESSION_NOT_FOUND, f"{key[1]} has no share session for {key[0]}")
        if epoch == FINAL_EPOCH:
            return session
        if epoch != session.epoch:
            text = f"the share session of {key[1]} expects epoch {session.epoch}, the request has {epoch}"
            raise ApiError(ErrorCode.INVALID_SHARE_SESSION_EPOCH, text)
        session.epoch = session.epoch + 1 if session.epoch < _MAX_EPOCH else 1
        session.last_used_ms = now_ms
        return session

    def close(self, session: ShareSession) -> None:
        """A session ends, and with it every lock of its member."""
        if self._sessions.get(session.key) is session:
            self._forget(session)
            self._on_closed(session, session.key[0] not in self._by_group)

    def connection_closed(self, connection: object) -> None:
        for key in list(self._by_connection.get(connection, ())):
            self.close(self._sessions[key])

    def close_member(self, key: SessionKey) -> None:
        """The member has left its group, or was removed from it."""
        session = self._sessions.get(key)
        if session is not None:
            self.close(session)

    def _forget(self, session: ShareSession) -> None:
        group_id, _ = key = session.key
        del self._sessions[key]
        keys = self._by_connection[session.connection]
        keys.discard(key)
        if not keys:
            del self._by_connection[session.connection]
        self._by_group[group_id] -= 1
        if not self._by_group[group_id]:
            del self._by_group[group_id]

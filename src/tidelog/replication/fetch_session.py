"""Incremental fetch sessions (KIP-227): the broker remembers what a client reads, requests carry only what changed.

A request names a session and an epoch. Which of five things it means is decided in `FetchSessionCache.open`:

    session   epoch     meaning
    0         -1        a full fetch, no session
    0         0         a full fetch that asks for a new session
    N         0         the same, and session N is given up
    N         -1        a full fetch, and session N is given up
    N         k > 0     request number k of session N: what changed since number k - 1

No I/O: the fetch handler hands in requests, names for topic ids, and the time.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

from tidelog.replication.fetch import Wanted
from tidelog.wire.errors import ErrorCode
from tidelog.wire.fetch import FetchPartition, FetchSpans, PartitionReply, TopicKey, TopicReply

FINAL_EPOCH: Final = -1
INITIAL_EPOCH: Final = 0
_MAX_EPOCH: Final = 2**31 - 1
EVICTION_MS_MIN: Final = 120_000
"""A session used more recently than this is evicted only for a larger one."""

_new = tuple.__new__
"""Makes a named tuple at half the cost of calling its class; for those that every request needs."""

ResolveTopic = Callable[[bytes], str | None]
SessionKey = tuple[TopicKey, int]


class CachedPartition:
    """A partition of a session: the last request for it and the last response sent."""

    __slots__ = ("fetch", "high_watermark", "log_start_offset", "topic")

    def __init__(self, fetch: FetchPartition, topic: str | None) -> None:
        self.fetch = fetch
        self.topic = topic
        self.high_watermark = -1
        self.log_start_offset = -1

    def has_news(self, reply: PartitionReply) -> bool:
        """Whether this response must be sent. Records its fields as sent."""
        is_news = (
            reply.records is not None
            or reply.error_code != 0
            or reply.high_watermark != self.high_watermark
            or reply.log_start_offset != self.log_start_offset
            or reply.preferred_read_replica != -1
            or reply.diverging_epoch is not None
        )
        # An error is sent in every response until it is gone, so the fields last sent no longer count.
        self.high_watermark = reply.high_watermark if not reply.error_code else -1
        self.log_start_offset = reply.log_start_offset
        return is_news


class FetchSession:
    """The partitions one client reads, in the order in which they get their share of a response."""

    __slots__ = ("epoch", "is_privileged", "last_used_ms", "partitions", "session_id", "uses_topic_ids")

    def __init__(self, session_id: int, is_privileged: bool, uses_topic_ids: bool, now_ms: int) -> None:
        self.session_id = session_id
        self.epoch = 1
        self.is_privileged = is_privileged
        self.uses_topic_ids = uses_topic_ids
        self.last_used_ms = now_ms
        self.partitions: dict[SessionKey, CachedPartition] = {}

    def update(self, spans: FetchSpans, resolve: ResolveTopic) -> None:
        """Take over what a request adds, changes and forgets."""
        known = self.partitions
        for topic_key, partitions in spans.topics:
            topic = _name(topic_key, resolve)
            for fetch in partitions:
                key = (topic_key, fetch[0])
                cached = known.get(key)
                if cached is None:
                    known[key] = CachedPartition(fetch, topic)
                else:
                    cached.fetch = fetch
        for topic_key, indexes in spans.forgotten:
            for index in indexes:
                self.partitions.pop((topic_key, index), None)

    def move_to_end(self, key: SessionKey) -> None:
        """A partition that had data goes last, so that the others get their share first next time."""
        self.partitions[key] = self.partitions.pop(key)


class FetchContext(NamedTuple):
    """The partitions of one request, and the form of its response."""

    wanted: list[Wanted]
    session: FetchSession | None = None
    is_incremental: bool = False
    error: ErrorCode = ErrorCode.NONE

    @property
    def session_id(self) -> int:
        return self.session.session_id if self.session is not None else 0

    def select(self, replies: list[PartitionReply]) -> list[TopicReply]:
        """Group replies by topic; an incremental response omits partitions that have not changed."""
        session = self.session
        if session is None and len(replies) == 1:
            return [(self.wanted[0].topic_key, replies)]
        topics: dict[TopicKey, list[PartitionReply]] = {}
        for entry, reply in zip(self.wanted, replies, strict=True):
            if session is not None:
                key = (entry.topic_key, entry.fetch.partition_index)
                cached = session.partitions.get(key)
                is_news = cached is not None and cached.has_news(reply)
                if self.is_incremental:
                    if not is_news:
                        continue
                    if reply.records is not None:
                        session.move_to_end(key)
            topics.setdefault(entry.topic_key, []).append(reply)
        return list(topics.items())


class FetchSessionCache:
    """All sessions of a broker, at most `slots_max` of them."""

    def __init__(self, slots_max: int, new_session_id: Callable[[], int]) -> None:
        self._slots_max = slots_max
        self._new_session_id = new_session_id
        self._sessions: dict[int, FetchSession] = {}  # least recently used first
        self.evictions = 0

    def __len__(self) -> int:
        return len(self._sessions)

    @property
    def partition_count(self) -> int:
        return sum(len(session.partitions) for session in self._sessions.values())

    def open(self, spans: FetchSpans, uses_topic_ids: bool, resolve: ResolveTopic, now_ms: int) -> FetchContext:
        """The context of one request."""
        session_id, epoch = spans.session_id, spans.session_epoch
        if epoch not in (INITIAL_EPOCH, FINAL_EPOCH):
            return self._continue(spans, uses_topic_ids, resolve, now_ms)
        if session_id:
            self._sessions.pop(session_id, None)
        wanted: list[Wanted] = []
        for topic_key, partitions in spans.topics:
            topic = resolve(topic_key) if isinstance(topic_key, bytes) else topic_key
            error = ErrorCode.UNKNOWN_TOPIC_ID if topic is None else ErrorCode.NONE
            wanted += [_new(Wanted, (topic_key, topic, fetch, error)) for fetch in partitions]
        if len(wanted) > 1 and _repeats(spans):
            wanted = _each_once(wanted)
        if epoch == FINAL_EPOCH:
            return _new(FetchContext, (wanted, None, False, ErrorCode.NONE))
        return FetchContext(wanted, self._create(spans, uses_topic_ids, resolve, len(wanted), now_ms))

    def _continue(self, spans: FetchSpans, uses_topic_ids: bool, resolve: ResolveTopic, now_ms: int) -> FetchContext:
        session = self._sessions.get(spans.session_id)
        if session is None:
            return FetchContext([], error=ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
        if session.epoch != spans.session_epoch:
            return FetchContext([], error=ErrorCode.INVALID_FETCH_SESSION_EPOCH)
        if session.uses_topic_ids != uses_topic_ids:
            return FetchContext([], error=ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR)
        if spans.topics or spans.forgotten:
            session.update(spans, resolve)
        if not session.partitions:
            del self._sessions[session.session_id]
            return FetchContext([])
        self._use(session, now_ms)
        return FetchContext(_wanted_of(session, resolve), session, is_incremental=True)

    def _use(self, session: FetchSession, now_ms: int) -> None:
        """One more request of a session."""
        session.epoch = session.epoch + 1 if session.epoch < _MAX_EPOCH else 1
        session.last_used_ms = now_ms
        self._sessions[session.session_id] = self._sessions.pop(session.session_id)

    def _create(
        self, spans: FetchSpans, uses_topic_ids: bool, resolve: ResolveTopic, size: int, now_ms: int
    ) -> FetchSession | None:
        is_privileged = spans.replica_id >= 0
        if len(self._sessions) >= self._slots_max and not self._evict_for(is_privileged, size, now_ms):
            return None
        session_id = 0
        while not session_id or session_id in self._sessions:
            session_id = self._new_session_id()
        session = FetchSession(session_id, is_privileged, uses_topic_ids, now_ms)
        session.update(spans, resolve)
        self._sessions[session_id] = session
        return session

    def _evict_for(self, is_privileged: bool, size: int, now_ms: int) -> bool:
        """Evict a session to make room: one unused for long, else one that is smaller than the new one."""
        if not self._sessions:
            return False
        oldest = next(iter(self._sessions.values()))
        if now_ms - oldest.last_used_ms > EVICTION_MS_MIN:
            del self._sessions[oldest.session_id]
            self.evictions += 1
            return True
        least = min(self._sessions.values(), key=lambda s: (s.is_privileged, len(s.partitions)))
        if (least.is_privileged, len(least.partitions)) < (is_privileged, size):
            del self._sessions[least.session_id]
            self.evictions += 1
            return True
        return False


def _wanted_of(session: FetchSession, resolve: ResolveTopic) -> list[Wanted]:
    wanted = []
    for (topic_key, _), cached in session.partitions.items():
        # A resolved name stays with the session: errors of a deleted topic are still sent under that name.
        if cached.topic is None:
            cached.topic = _name(topic_key, resolve)
        wanted.append(_wanted(topic_key, cached.topic, cached.fetch))
    return wanted


def _repeats(spans: FetchSpans) -> bool:
    """Whether a request names a partition, or a topic, several times."""
    topics = spans.topics
    return len({topic_key for topic_key, _ in topics}) < len(topics) or any(
        len({fetch[0] for fetch in partitions}) < len(partitions) for _, partitions in topics
    )


def _each_once(wanted: list[Wanted]) -> list[Wanted]:
    """A partition that a request names several times is read once, as its last entry says."""
    return list({(entry.topic_key, entry.fetch.partition_index): entry for entry in wanted}.values())


def _name(topic_key: TopicKey, resolve: ResolveTopic) -> str | None:
    return resolve(topic_key) if isinstance(topic_key, bytes) else topic_key


def _wanted(topic_key: TopicKey, topic: str | None, fetch: FetchPartition) -> Wanted:
    error = ErrorCode.UNKNOWN_TOPIC_ID if topic is None else ErrorCode.NONE
    return _new(Wanted, (topic_key, topic, fetch, error))

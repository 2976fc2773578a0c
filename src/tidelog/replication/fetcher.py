"""A follower's replication from one leader: the requests that are due, and what their responses change.

A partition that is followed is in one of these states:

    state         what is due                                         leads to
    TRUNCATING    ask where the leader's log left ours                FETCHING, or again TRUNCATING one epoch earlier
                  (OffsetForLeaderEpoch); without epochs, cut the log
                  at the high watermark
    FETCHING      ask for the records after our end; the leader       FETCHING; OUT_OF_RANGE
                  answers with them, or with where our log left its
                  own (the diverging epoch): then cut, and fetch on
    OUT_OF_RANGE  ask for the leader's first and last offset          FETCHING
                  (ListOffsets): cut, or begin again at its start
    FAILED        nothing, until the next LeaderAndIsr                -

Leaders that serve Fetch 12 name diverging epochs, so their partitions begin with FETCHING. A partition that is refused
rests, and so does the whole fetcher when its leader does not answer, `replica.fetch.backoff.ms` at most. A throttled
partition that is not caught up is not asked for while the quota is used up.

`Fetcher` sends nothing and never waits: its owner sends what `build_…` return and hands the responses to `on_…`. It
writes to the logs of its partitions. `on_fetch` is a generator that goes from one partition to the next.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Generator, Iterable
from enum import Enum
from typing import Final, NamedTuple, Protocol

from tidelog.client.fetch_session import FetchEntry, FetchSession
from tidelog.quotas import ReplicationQuota
from tidelog.replication.partition import Partition
from tidelog.storage.errors import AppendOffsetError, LogDirFailure
from tidelog.wire.errors import ApiError, ErrorCode
from tidelog.wire.messages.fetch import FetchRequest, FetchResponse, PartitionData, ReplicaState
from tidelog.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from tidelog.wire.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from tidelog.wire.partitions import NO_EPOCH, PartitionKey

logger = logging.getLogger(__name__)

_SWEEP_MS: Final = 1000
_FIRST_REST_MS: Final = 20
_FIRST_REST_UNANSWERED_MS: Final = 50
_FAILURES_COUNTED: Final = 20
_UNDEFINED: Final = -1
_LATEST: Final = -1
_EARLIEST: Final = -2


class FetchState(Enum):
    """What is due for a partition."""

    TRUNCATING = "truncating"
    FETCHING = "fetching"
    OUT_OF_RANGE = "out of range"
    FAILED = "failed"


class FetcherSettings(NamedTuple):
    """The `replica.fetch.*` settings."""

    partition_bytes_max: int = 1 << 20
    response_bytes_max: int = 10 << 20
    bytes_min: int = 1
    wait_ms_max: int = 500
    backoff_ms: int = 1000


class FollowerOwner(Protocol):
    """Takes the reports of a fetcher."""

    def fail_log_dir(self, failure: LogDirFailure) -> None: ...

    def on_followed(self, partition: Partition, *, has_watermark_moved: bool) -> None:
        """A follower's log has grown, or its high watermark moved."""
        ...


class _Followed:
    """One partition that is followed."""

    __slots__ = (
        "delayed_until_ms",
        "failures",
        "fetch_offset",
        "is_caught_up",
        "lag",
        "last_fetched_epoch",
        "leader_epoch",
        "partition",
        "state",
    )

    def __init__(self, partition: Partition, state: FetchState) -> None:
        self.partition = partition
        self.state = state
        self.leader_epoch = partition.leader_epoch
        self.fetch_offset = partition.log.log_end_offset
        self.last_fetched_epoch = partition.log.leader_epochs.latest_epoch
        self.delayed_until_ms = 0
        self.failures = 0
        """How often in a row it was refused, or not answered."""
        self.is_caught_up = False
        """Whether the log reached the leader's high watermark with the last response."""
        self.lag = 0
        """How far it was behind that high watermark then."""

    @property
    def name(self) -> str:
        return f"{self.partition.topic}-{self.partition.index}"


class Fetcher:
    """The partitions that one fetcher follows at one leader."""

    def __init__(
        self,
        broker_id: int,
        leader_id: int,
        settings: FetcherSettings,
        owner: FollowerOwner,
        wall_ms: Callable[[], int],
        *,
        broker_epoch: Callable[[], int] = lambda: -1,
        uses_diverging_epochs: bool = True,
        quota: ReplicationQuota | None = None,
    ) -> None:
        """`quota` limits what is fetched for throttled replicas."""
        self.leader_id = leader_id
        self.settings = settings
        self.uses_diverging_epochs = uses_diverging_epochs
        self._broker_id = broker_id
        self._broker_epoch = broker_epoch
        self._owner = owner
        self._wall_ms = wall_ms
        self._quota = quota or ReplicationQuota(broker_id)
        self._followed: dict[PartitionKey, _Followed] = {}
        self._session = FetchSession()
        self._stale: dict[PartitionKey, None] = {}
        """Partitions of which the leader may have to be asked something else than before."""
        self._apart: dict[PartitionKey, _Followed] = {}
        """Partitions that are not simply fetched: those in another state, and those that rest."""
        self._next_sweep_ms = 0
        self._unanswered = 0
        """How many fetches in a row got no answer."""
        self._rests_until_ms = 0
        self._was_limited = False
        self.requests = 0
        self.bytes_fetched = 0
        self.reassignment_bytes_fetched = 0
        """Those of `bytes_fetched` that are for partitions which a reassignment adds to this broker."""

    def __len__(self) -> int:
        return len(self._followed)

    def partitions(self) -> list[Partition]:
        """The partitions that are followed."""
        return [followed.partition for followed in self._followed.values()]

    def lags(self) -> list[tuple[PartitionKey, int]]:
        """How far each partition is behind its leader's high watermark."""
        return [(key, followed.lag) for key, followed in self._followed.items()]

    @property
    def failed_count(self) -> int:
        """Partitions that are not fetched any more, until the next LeaderAndIsr."""
        return sum(followed.state is FetchState.FAILED for followed in self._followed.values())

    @property
    def has_others(self) -> bool:
        """Whether a partition needs more than a Fetch, or rests."""
        return bool(self._apart)

    def state_of(self, topic: str, index: int) -> FetchState | None:
        """The state of a partition; None if it is not followed here."""
        followed = self._followed.get((topic, index))
        return None if followed is None else followed.state

    def add(self, partition: Partition) -> None:
        """Follow a partition in the leader epoch that it is in now."""
        before = self._followed.get(partition.key)
        if before is not None and before.leader_epoch == partition.leader_epoch and before.partition is partition:
            return
        followed = _Followed(partition, FetchState.TRUNCATING)
        self._followed[partition.key] = followed
        self._set_state(followed, FetchState.TRUNCATING)
        log = partition.log
        has_no_epochs = followed.last_fetched_epoch == NO_EPOCH
        if has_no_epochs and log.log_end_offset > log.log_start_offset:
            self._truncate(followed, log.high_watermark)
        elif has_no_epochs or self.uses_diverging_epochs:
            self._fetch_on(followed)

    def remove(self, keys: Iterable[PartitionKey]) -> None:
        """Follow these partitions no longer."""
        for key in keys:
            if self._followed.pop(key, None) is not None:
                self._apart.pop(key, None)
                self._stale[key] = None

    # --- states ---

    def _set_state(self, followed: _Followed, state: FetchState) -> None:
        followed.state = state
        self._changed(followed)

    def _fetch_on(self, followed: _Followed) -> None:
        """Go on at the end of the log, as it is now."""
        log = followed.partition.log
        followed.fetch_offset = log.log_end_offset
        followed.last_fetched_epoch = log.leader_epochs.latest_epoch
        self._set_state(followed, FetchState.FETCHING)

    def _delay(self, followed: _Followed, now_ms: int) -> None:
        """Rest, twice as long with every failure in a row, `replica.fetch.backoff.ms` at most.

        A leader may get to know of its epoch a moment after its followers. While they rest it can commit nothing.
        """
        rest_ms = min(_FIRST_REST_MS << followed.failures, self.settings.backoff_ms)
        followed.failures = min(followed.failures + 1, _FAILURES_COUNTED)
        followed.delayed_until_ms = now_ms + rest_ms
        self._changed(followed)

    def _changed(self, followed: _Followed) -> None:
        """The next request must say something else of this partition."""
        key = followed.partition.key
        if self._followed.get(key) is followed:
            self._stale[key] = None
            if followed.state is FetchState.FETCHING and not followed.delayed_until_ms:
                self._apart.pop(key, None)
            else:
                self._apart[key] = followed

    def next_due_ms(self, now_ms: int) -> int | None:
        """When something is due, `now_ms` or later; None if nothing is."""
        throttle_ms = self._throttle_ms(now_ms)
        throttled_until_ms = now_ms + min(throttle_ms, self.settings.backoff_ms)
        return min(
            (
                max(
                    followed.delayed_until_ms,
                    self._rests_until_ms,
                    throttled_until_ms if throttle_ms and self._is_covered(followed) else now_ms,
                )
                for followed in self._followed.values()
                if followed.state is not FetchState.FAILED
            ),
            default=None,
        )

    def _due(self, state: FetchState, now_ms: int) -> list[_Followed]:
        """Partitions of a state that are kept apart and need not rest any longer."""
        if not self._apart:
            return []
        return [each for each in self._apart.values() if each.state is state and each.delayed_until_ms <= now_ms]

    # --- records ---

    def build_fetch(self, now_ms: int) -> FetchRequest | None:
        """The next Fetch; None if no partition is ready."""
        if now_ms < self._rests_until_ms:
            return None
        self._update_session(now_ms)
        if not self._session.wanted:
            return None
        session = self._session.build()
        settings = self.settings
        return FetchRequest(
            replica_id=self._broker_id,
            replica_state=ReplicaState(replica_id=self._broker_id, replica_epoch=self._broker_epoch()),
            max_wait_ms=settings.wait_ms_max,
            min_bytes=settings.bytes_min,
            max_bytes=settings.response_bytes_max,
            session_id=session.session_id,
            session_epoch=session.session_epoch,
            topics=session.topics,
            forgotten_topics_data=session.forgotten,
        )

    def _update_session(self, now_ms: int) -> None:
        """Have the session ask for what is due now, of the partitions about which something changed.

        All of them are looked at once a second, because retention moves log start offsets without a word, and for as
        long as a quota limits some of them.
        """
        for followed in self._due(FetchState.FETCHING, now_ms):
            followed.delayed_until_ms = 0
            self._changed(followed)
        throttle_ms = self._throttle_ms(now_ms)
        if now_ms >= self._next_sweep_ms or self._quota.is_limited or self._was_limited:
            self._next_sweep_ms = now_ms + _SWEEP_MS
            self._was_limited = self._quota.is_limited
            self._stale.update(dict.fromkeys(self._followed))
        want = self._session.want
        for key in self._stale:
            each = self._followed.get(key)
            is_due = each is not None and each.state is FetchState.FETCHING and not each.delayed_until_ms
            if each is None or not is_due or (throttle_ms and self._is_covered(each)):
                want(key, None)
            else:
                want(key, self._entry(each))
        self._stale.clear()

    def _throttle_ms(self, now_ms: int) -> int:
        """How long throttled replicas that are not caught up have to wait."""
        return self._quota.throttle_ms(now_ms) if self._quota.is_limited else 0

    def _is_covered(self, followed: _Followed) -> bool:
        """Whether a replica has to wait while the quota is used up."""
        partition = followed.partition
        return (
            followed.state is FetchState.FETCHING
            and not followed.is_caught_up
            and self._quota.covers(*partition.key, partition.log.config.follower_replication_throttled_replicas)
        )

    def _entry(self, followed: _Followed) -> FetchEntry:
        return FetchEntry(
            followed.partition.topic_id,
            followed.fetch_offset,
            followed.partition.log.positions.log_start_offset,
            self.settings.partition_bytes_max,
            followed.leader_epoch,
            followed.last_fetched_epoch if self.uses_diverging_epochs else NO_EPOCH,
        )

    def on_fetch(self, response: FetchResponse, now_ms: int) -> Generator[None, None, None]:
        """Take what the leader sent, one partition a step."""
        session = self._session
        self._unanswered = 0
        self.requests += 1
        answered = session.accept(response)
        if answered is None:
            logger.info("the fetch session with broker %d begins again: %s", self.leader_id, response.error_code)
            return
        is_first = True
        for key, data in answered:
            if not is_first:
                yield
            is_first = False
            # What the session wants is what was asked: it changes when the next request is built.
            entry, followed = session.wanted.get(key), self._followed.get(key)
            if entry is not None and followed is not None and _is_answer_to(entry, followed):
                self._on_partition(followed, data, now_ms)

    def on_fetch_failed(self, now_ms: int) -> None:
        """A Fetch got no answer: nothing is fetched for a while, twice as long with every failure in a row."""
        self._session.fail()
        rest_ms = min(_FIRST_REST_UNANSWERED_MS << self._unanswered, self.settings.backoff_ms)
        self._unanswered = min(self._unanswered + 1, _FAILURES_COUNTED)
        self._rests_until_ms = now_ms + rest_ms

    def _on_partition(self, followed: _Followed, data: PartitionData, now_ms: int) -> None:
        error = ErrorCode(data.error_code)
        try:
            if error is ErrorCode.NONE:
                if data.diverging_epoch.epoch >= 0 or data.diverging_epoch.end_offset >= 0:
                    self._cut_at(followed, data.diverging_epoch.epoch, data.diverging_epoch.end_offset)
                else:
                    self._append(followed, data, now_ms)
            else:
                self._on_error(followed, error, now_ms)
        except LogDirFailure as failure:
            self._set_state(followed, FetchState.FAILED)
            self._owner.fail_log_dir(failure)
        except ApiError as problem:
            # Bytes may have been corrupted in transit: fetch them again.
            logger.warning("%s: records of broker %d cannot be appended: %s", followed.name, self.leader_id, problem)
            self._delay(followed, now_ms)
        except AppendOffsetError as problem:
            logger.error("%s: replication stops until the next LeaderAndIsr: %s", followed.name, problem)
            self._set_state(followed, FetchState.FAILED)

    def _append(self, followed: _Followed, data: PartitionData, now_ms: int) -> None:
        partition = followed.partition
        log = partition.log
        assert followed.fetch_offset == log.log_end_offset, f"{followed.name} was changed while it was fetched"
        if data.records:
            partition.append_fetched(data.records, self._wall_ms())
            self._fetch_on(followed)
            size_bytes = len(data.records)
            self.bytes_fetched += size_bytes
            if self._broker_id in partition.replica_set.adding_replicas:
                self.reassignment_bytes_fetched += size_bytes
            if self._quota.is_limited:
                self._count(partition, size_bytes, now_ms)
        followed.lag = max(data.high_watermark - followed.fetch_offset, 0)
        followed.is_caught_up = not followed.lag
        followed.failures = 0
        start_before = log.positions.log_start_offset
        has_moved = partition.follow_leader(data.high_watermark, data.log_start_offset)
        if log.positions.log_start_offset != start_before:
            self._changed(followed)
        self._owner.on_followed(partition, has_watermark_moved=has_moved)

    def _count(self, partition: Partition, size_bytes: int, now_ms: int) -> None:
        """All that is fetched for throttled replicas counts, also for those that need not wait."""
        if self._quota.covers(*partition.key, partition.log.config.follower_replication_throttled_replicas):
            self._quota.record(size_bytes, now_ms)

    def _on_error(self, followed: _Followed, error: ErrorCode, now_ms: int) -> None:
        if error is ErrorCode.OFFSET_OUT_OF_RANGE:
            self._set_state(followed, FetchState.OUT_OF_RANGE)
            return
        if error is ErrorCode.FENCED_LEADER_EPOCH and followed.leader_epoch == followed.partition.leader_epoch:
            logger.info("%s waits for a new leader: epoch %d is over", followed.name, followed.leader_epoch)
            self._set_state(followed, FetchState.FAILED)
            return
        logger.debug("%s: broker %d answered %s", followed.name, self.leader_id, error.name)
        self._delay(followed, now_ms)

    # --- epochs ---

    def build_epochs(self, now_ms: int) -> OffsetForLeaderEpochRequest | None:
        """Where the epochs of our logs end in the leader's; None if no log is to be compared."""
        topics: dict[str, OffsetForLeaderTopic] = {}
        for followed in self._due(FetchState.TRUNCATING, now_ms):
            name, index = followed.partition.key
            topic = topics.get(name)
            if topic is None:
                topic = topics[name] = OffsetForLeaderTopic(topic=name)
            topic.partitions.append(
                OffsetForLeaderPartition(
                    partition=index,
                    current_leader_epoch=followed.leader_epoch,
                    leader_epoch=followed.partition.log.leader_epochs.latest_epoch,
                )
            )
        if not topics:
            return None
        return OffsetForLeaderEpochRequest(replica_id=self._broker_id, topics=list(topics.values()))

    def on_epochs(
        self, request: OffsetForLeaderEpochRequest, response: OffsetForLeaderEpochResponse, now_ms: int
    ) -> None:
        """Cut the logs where they left the leader's."""
        asked = {
            (topic.topic, partition.partition): partition.current_leader_epoch
            for topic in request.topics
            for partition in topic.partitions
        }
        for topic in response.topics:
            for answer in topic.partitions:
                followed = self._followed.get((topic.topic, answer.partition))
                if followed is None or asked.get(followed.partition.key) != followed.leader_epoch:
                    continue
                try:
                    if answer.error_code:
                        self._on_error(followed, ErrorCode(answer.error_code), now_ms)
                    else:
                        self._cut_at(followed, answer.leader_epoch, answer.end_offset)
                except LogDirFailure as failure:
                    self._set_state(followed, FetchState.FAILED)
                    self._owner.fail_log_dir(failure)

    def on_epochs_failed(self, request: OffsetForLeaderEpochRequest, now_ms: int) -> None:
        """The request got no answer: its partitions rest."""
        for topic in request.topics:
            for partition in topic.partitions:
                followed = self._followed.get((topic.topic, partition.partition))
                if followed is not None:
                    self._delay(followed, now_ms)

    def _cut_at(self, followed: _Followed, leader_epoch: int, leader_end_offset: int) -> None:
        """Cut a log to what it has in common with the leader's, in which `leader_epoch` ends at `leader_end_offset`.

        If we do not know that epoch, the logs part at the end of an earlier one; the leader is asked about that one
        next.
        """
        log = followed.partition.log
        if leader_end_offset == _UNDEFINED:
            self._truncate(followed, log.high_watermark)
            return
        if leader_epoch == _UNDEFINED:
            self._truncate(followed, min(leader_end_offset, log.log_end_offset))
            return
        epoch, end_offset = log.end_offset_for_epoch(leader_epoch)
        if end_offset == _UNDEFINED:
            # All our epochs are later, or we have none.
            self._truncate(followed, min(leader_end_offset, log.log_end_offset))
        elif epoch != leader_epoch:
            is_over = self.uses_diverging_epochs
            self._truncate(followed, min(end_offset, log.log_end_offset), is_over=is_over)
        else:
            self._truncate(followed, min(end_offset, leader_end_offset, log.log_end_offset))

    def _truncate(self, followed: _Followed, offset: int, *, is_over: bool = True) -> None:
        log = followed.partition.log
        if offset < log.high_watermark:
            logger.warning(
                "%s is truncated to offset %d, below its high watermark %d", followed.name, offset, log.high_watermark
            )
        if log.truncate_to(offset, self._wall_ms()):
            logger.info("%s is truncated to offset %d, where it diverges from its leader's log", followed.name, offset)
        if is_over:
            self._fetch_on(followed)

    # --- offsets that the leader does not have ---

    def build_lookups(self, now_ms: int) -> tuple[ListOffsetsRequest, ListOffsetsRequest] | None:
        """Where the leader's logs end and where they begin, for partitions that are out of range; None if none is."""
        due = self._due(FetchState.OUT_OF_RANGE, now_ms)
        if not due:
            return None
        return self._lookup(due, _LATEST), self._lookup(due, _EARLIEST)

    def _lookup(self, due: Iterable[_Followed], timestamp: int) -> ListOffsetsRequest:
        topics: dict[str, ListOffsetsTopic] = {}
        for followed in due:
            name, index = followed.partition.key
            topic = topics.get(name)
            if topic is None:
                topic = topics[name] = ListOffsetsTopic(name=name)
            topic.partitions.append(
                ListOffsetsPartition(
                    partition_index=index, current_leader_epoch=followed.leader_epoch, timestamp=timestamp
                )
            )
        return ListOffsetsRequest(replica_id=self._broker_id, topics=list(topics.values()))

    def on_lookups(self, latest: ListOffsetsResponse, earliest: ListOffsetsResponse, now_ms: int) -> None:
        """Cut logs that are longer than the leader's, and begin again those that end before it begins."""
        ends, starts = _offsets_by_partition(latest), _offsets_by_partition(earliest)
        for followed in self._due(FetchState.OUT_OF_RANGE, now_ms):
            key = followed.partition.key
            end, start = ends.get(key), starts.get(key)
            if end is None or start is None:
                continue  # it left the range after these were asked for
            error = end[0] or start[0]
            try:
                if error:
                    self._on_lookup_error(followed, ErrorCode(error), now_ms)
                else:
                    self._come_in_range(followed, start[1], end[1])
            except LogDirFailure as failure:
                self._set_state(followed, FetchState.FAILED)
                self._owner.fail_log_dir(failure)

    def on_lookups_failed(self, now_ms: int) -> None:
        """A request got no answer: the partitions that are out of range rest."""
        for followed in self._due(FetchState.OUT_OF_RANGE, now_ms):
            self._delay(followed, now_ms)

    def _on_lookup_error(self, followed: _Followed, error: ErrorCode, now_ms: int) -> None:
        if error is ErrorCode.FENCED_LEADER_EPOCH:
            self._on_error(followed, error, now_ms)
        else:
            self._delay(followed, now_ms)

    def _come_in_range(self, followed: _Followed, leader_start_offset: int, leader_end_offset: int) -> None:
        """The leader's log is shorter (an unclean election), begins later (it was deleted meanwhile), or has grown."""
        log = followed.partition.log
        if leader_end_offset < log.log_end_offset:
            logger.warning(
                "%s ends at %d, its leader's log at %d: truncating",
                followed.name,
                log.log_end_offset,
                leader_end_offset,
            )
            self._truncate(followed, leader_end_offset)
            return
        if leader_start_offset > log.log_end_offset:
            logger.warning(
                "%s ends at %d, before its leader's log begins: it starts again at %d",
                followed.name,
                log.log_end_offset,
                leader_start_offset,
            )
            log.truncate_fully_and_start_at(leader_start_offset, self._wall_ms())
        self._fetch_on(followed)


def _is_answer_to(entry: FetchEntry, followed: _Followed) -> bool:
    """Whether a partition is still where it was when it was asked for."""
    return (
        followed.state is FetchState.FETCHING
        and entry.fetch_offset == followed.fetch_offset == followed.partition.log.log_end_offset
        and entry.current_leader_epoch == followed.leader_epoch == followed.partition.leader_epoch
        and not followed.partition.is_leader
    )


def _offsets_by_partition(response: ListOffsetsResponse) -> dict[PartitionKey, tuple[int, int]]:
    """The error and offset of each partition in a response."""
    return {
        (topic.name, answer.partition_index): (answer.error_code, answer.offset)
        for topic in response.topics
        for answer in topic.partitions
    }

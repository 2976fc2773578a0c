"""An observer of the quorum: what to ask of which controller next, and what its answer means. Does no network I/O.

An observer follows the leader of the metadata log without a vote. It asks it for what comes after its own copy (Fetch);
where the leader no longer has that, it takes a snapshot (FetchSnapshot); where the logs diverge, it truncates its own.
Who leads is in every answer. While that is not known, or the leader is silent, the bootstrap servers are asked in turn.

What is below the high watermark is committed, and only that is ever replayed (`Replayer`).
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from tidelog.metadata.errors import StoreError
from tidelog.metadata.quorum.frames import LogEntry, MetadataRecordError, Transactions
from tidelog.metadata.quorum.log_copy import TOPIC, TOPIC_ID, Leadership, MetadataLog, SnapshotId, decode_snapshot
from tidelog.metadata.quorum.state import MetadataState, Touched
from tidelog.wire.errors import ErrorCode
from tidelog.wire.messages import fetch, fetch_snapshot
from tidelog.wire.schema import Message

logger = logging.getLogger(__name__)

FETCH_WAIT_MS: Final = 500
"""How long the leader may wait for new records before it answers, as in Kafka."""
FIRST_BOOTSTRAP: Final = -2
"""The number of the first bootstrap server; those of the others are below it."""
_FETCH_BYTES_MAX: Final = 8 << 20
_SNAPSHOT_BYTES_MAX: Final = 1 << 30
"""A snapshot that claims to be larger is none: a hundred thousand partitions take some twenty megabytes."""

_IS_ELSEWHERE: Final = frozenset(
    {
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.BROKER_NOT_AVAILABLE,
    }
)


class QuorumError(StoreError):
    """The controllers refuse this broker, and asking again will not help."""


class Address(NamedTuple):
    """Where a controller listens."""

    host: str
    port: int


class Identity(NamedTuple):
    """Who asks."""

    node_id: int
    cluster_id: str
    directory_id: bytes


class Question(NamedTuple):
    """What to ask, and of whom: a controller by its id, or a bootstrap server by a number below 0."""

    node_id: int
    request: Message


class Observer:
    """Follows the metadata log into a copy."""

    def __init__(
        self,
        copy: MetadataLog,
        identity: Identity,
        bootstrap: Sequence[Address],
        voters: Mapping[int, Address] | None = None,
        *,
        copy_bytes_max: int = 100 << 20,
    ) -> None:
        """`bootstrap` are asked for the leader; `voters` are the addresses of controllers whose ids are known.

        A larger copy than `copy_bytes_max` begins again when the leader's log has a later start.
        """
        self._copy = copy
        self._copy_bytes_max = copy_bytes_max
        self._last_leader = -1
        self._identity = identity
        self._bootstrap = tuple(bootstrap)
        self._next_bootstrap = identity.node_id % len(self._bootstrap)
        self._addresses: dict[int, Address] = dict(voters or {})
        known = copy.read_leadership()
        self.leadership = Leadership(-1, max(known.epoch, copy.last_epoch))
        """The leader is asked for anew: the one that was followed last may be gone."""
        self.high_watermark = -1
        """Up to where the log is committed, as far as this copy reaches; -1 until the leader has said so."""
        self._leader_high_watermark = -1
        self.replaced = 0
        """How often a snapshot has taken the place of the log."""
        self._snapshot: SnapshotId | None = None
        self._downloaded = bytearray()

    @property
    def bootstrap_count(self) -> int:
        """How many bootstrap servers there are."""
        return len(self._bootstrap)

    @property
    def is_current(self) -> bool:
        """Whether all that was committed when the leader last answered is here."""
        return self._snapshot is None and 0 <= self._leader_high_watermark <= self._copy.end_offset

    @property
    def leader(self) -> Address | None:
        """Where the leader listens; None while it is not known."""
        return self._addresses.get(self.leadership.leader_id)

    @property
    def leader_id(self) -> int:
        """The leader's id if its address is known, else -1."""
        return self.leadership.leader_id if self.leader is not None else -1

    def address_of(self, node_id: int) -> Address | None:
        """Where a controller, or a bootstrap server, listens."""
        if node_id <= FIRST_BOOTSTRAP:
            return self._bootstrap[FIRST_BOOTSTRAP - node_id]
        return self._addresses.get(node_id)

    def learn(self, addresses: Mapping[int, Address]) -> None:
        """Where controllers listen, by their registrations."""
        for controller_id, address in addresses.items():
            self._addresses.setdefault(controller_id, address)

    # --- questions ---

    def next_question(self) -> Question:
        """What to ask next: of the leader, or of one that may know it."""
        leader = self.leader
        if leader is None:
            self._snapshot = None
            return Question(FIRST_BOOTSTRAP - self._next_bootstrap, self._fetch())
        request = self._fetch() if self._snapshot is None else self._fetch_snapshot(self._snapshot)
        return Question(self.leadership.leader_id, request)

    def _fetch(self) -> fetch.FetchRequest:
        identity, copy = self._identity, self._copy
        partition = fetch.FetchPartition(
            current_leader_epoch=self.leadership.epoch,
            fetch_offset=copy.end_offset,
            last_fetched_epoch=copy.last_epoch,
            partition_max_bytes=_FETCH_BYTES_MAX,
            replica_directory_id=identity.directory_id,
            high_watermark=max(self.high_watermark, 0),
        )
        return fetch.FetchRequest(
            cluster_id=identity.cluster_id,
            replica_state=fetch.ReplicaState(replica_id=identity.node_id),
            max_wait_ms=FETCH_WAIT_MS,
            max_bytes=_FETCH_BYTES_MAX,
            topics=[fetch.FetchTopic(topic_id=TOPIC_ID, partitions=[partition])],
        )

    def _fetch_snapshot(self, snapshot: SnapshotId) -> fetch_snapshot.FetchSnapshotRequest:
        identity = self._identity
        partition = fetch_snapshot.PartitionSnapshot(
            current_leader_epoch=self.leadership.epoch,
            snapshot_id=fetch_snapshot.SnapshotId(end_offset=snapshot.end_offset, epoch=snapshot.epoch),
            position=len(self._downloaded),
            replica_directory_id=identity.directory_id,
        )
        return fetch_snapshot.FetchSnapshotRequest(
            cluster_id=identity.cluster_id,
            replica_id=identity.node_id,
            max_bytes=_FETCH_BYTES_MAX,
            topics=[fetch_snapshot.TopicSnapshot(name=TOPIC, partitions=[partition])],
        )

    # --- answers ---

    def on_failure(self) -> None:
        """The last question got no answer: another controller may know who leads."""
        self._forget_leader()

    def _forget_leader(self) -> None:
        if self.leadership.leader_id >= 0:
            self.leadership = Leadership(-1, self.leadership.epoch)
        self._next_bootstrap = (self._next_bootstrap + 1) % len(self._bootstrap)

    def on_answer(self, answer: Message) -> bool:
        """Take the answer to the last question; whether the next one may follow at once.

        Raises QuorumError where the cluster is another one, and MetadataRecordError for what cannot be read.
        """
        if isinstance(answer, fetch.FetchResponse):
            return self._on_fetched(answer)
        assert isinstance(answer, fetch_snapshot.FetchSnapshotResponse), f"an observer does not ask for {answer!r}"
        return self._on_piece(answer)

    def _on_fetched(self, answer: fetch.FetchResponse) -> bool:
        self._addresses.update((each.node_id, Address(each.host, each.port)) for each in answer.node_endpoints)
        if not self._is_accepted(answer.error_code):
            return False
        partition = next((each for topic in answer.responses for each in topic.partitions), None)
        if partition is None:
            self._forget_leader()
            return False
        if not self._is_from_leader(partition.error_code, partition.current_leader):
            return False
        diverging, snapshot = partition.diverging_epoch, partition.snapshot_id
        if diverging.epoch >= 0:
            self._truncate(diverging.epoch, diverging.end_offset)
        elif snapshot.end_offset >= 0 and snapshot.epoch >= 0:
            self._snapshot = SnapshotId(snapshot.end_offset, snapshot.epoch)
            self._downloaded.clear()
        else:
            if partition.records:
                self._copy.append(partition.records)
            self._commit(partition.high_watermark)
            if self._copy.size_bytes > self._copy_bytes_max and partition.log_start_offset > self._copy.start_offset:
                self._copy.begin_again()
        return True

    def _is_accepted(self, code: int) -> bool:
        if code == ErrorCode.INCONSISTENT_CLUSTER_ID:
            raise QuorumError(
                f"the controllers belong to another cluster than this broker, whose cluster id is "
                f"{self._identity.cluster_id}: check controller.quorum.bootstrap.servers and log.dirs"
            )
        if code:
            logger.warning("the quorum refuses a request with %s", _name_of(code))
            self._forget_leader()
        return not code

    def _is_from_leader(self, code: int, leader: fetch.LeaderIdAndEpoch | fetch_snapshot.LeaderIdAndEpoch) -> bool:
        """Whether the leader has answered; if not, who leads may be known by now."""
        before = self.leadership
        if leader.leader_epoch > before.epoch or (leader.leader_epoch == before.epoch and before.leader_id < 0):
            self._follow(Leadership(leader.leader_id, leader.leader_epoch))
        if not code:
            return True
        if code not in _IS_ELSEWHERE:
            logger.warning("the leader of the quorum refuses a request with %s", _name_of(code))
        if self.leadership == before or self.leader is None:
            self._forget_leader()
        return False

    def _follow(self, leadership: Leadership) -> None:
        self.leadership = leadership
        self._snapshot = None
        if self.leader is not None and leadership.leader_id != self._last_leader:
            self._last_leader = leadership.leader_id
            logger.info("controller %d leads the quorum in epoch %d", *leadership)
        if self.leader is not None:
            self._copy.write_leadership(leadership)

    def _truncate(self, epoch: int, end_offset: int) -> None:
        """The log has records that the quorum does not: remove them. None of them was committed."""
        own = self._copy.end_offset_for(epoch)
        offset = min(own.end_offset, end_offset) if own.leader_epoch == epoch else own.end_offset
        if offset < self.high_watermark:
            raise MetadataRecordError(
                f"the leader of the quorum has another history from offset {offset} on, which was committed up to "
                f"{self.high_watermark}"
            )
        logger.info("the metadata log is cut off at offset %d: the leader's has no more of epoch %d", offset, epoch)
        self._copy.truncate(offset)

    def _commit(self, high_watermark: int) -> None:
        self._leader_high_watermark = high_watermark
        self.high_watermark = max(self.high_watermark, min(high_watermark, self._copy.end_offset))

    def _on_piece(self, answer: fetch_snapshot.FetchSnapshotResponse) -> bool:
        """A piece of the snapshot."""
        if not self._is_accepted(answer.error_code):
            return False
        self._addresses.update((each.node_id, Address(each.host, each.port)) for each in answer.node_endpoints)
        piece = next((each for topic in answer.topics for each in topic.partitions), None)
        snapshot = self._snapshot
        if piece is None or snapshot is None or not self._is_from_leader(piece.error_code, piece.current_leader):
            # The leader may have a later one by now: the next Fetch says which.
            self._snapshot = None
            return False
        if piece.position != len(self._downloaded) or not 0 < piece.size <= _SNAPSHOT_BYTES_MAX:
            self._snapshot = None
            return False
        self._downloaded += piece.unaligned_records or b""
        if len(self._downloaded) >= piece.size:
            self._install(snapshot)
        return True

    def _install(self, snapshot: SnapshotId) -> None:
        data = bytes(self._downloaded)
        self._downloaded.clear()
        self._snapshot = None
        for _ in decode_snapshot(data, snapshot.file_name):
            """Only whole ones are kept."""
        logger.info("a snapshot of the metadata up to offset %d takes the place of the log", snapshot.end_offset)
        self._copy.install_snapshot(snapshot, data)
        self.high_watermark = max(self.high_watermark, snapshot.end_offset)
        self.replaced += 1


class Replayer:
    """Replays what is committed in a copy into a state."""

    def __init__(self, copy: MetadataLog) -> None:
        self._copy = copy
        self._transactions = Transactions()
        self._replaced = 0
        self.state = MetadataState()
        self.next_offset = 0
        """The offset after the last one that was replayed."""
        if copy.snapshot is not None:
            self._load_snapshot()

    def advance(self, observer: Observer) -> Touched:
        """Replay what was committed since; what has changed. Raises MetadataRecordError."""
        touched = Touched()
        if observer.replaced != self._replaced:
            self._replaced = observer.replaced
            if self._copy.snapshot is not None and self._copy.snapshot.end_offset > self.next_offset:
                touched = self._load_snapshot()
        for batch in self._copy.batches(self.next_offset, observer.high_watermark):
            for entry in batch.entries:
                for effective in self._transactions.take(entry):
                    self._replay(effective, touched)
            self.next_offset = batch.last_offset + 1
        return touched

    def _load_snapshot(self) -> Touched:
        """The state is the snapshot's from now on; all that either has counts as changed."""
        assert self._copy.snapshot is not None, "the caller has looked"
        before, self.state = self.state.everything(), MetadataState()
        self._transactions = Transactions()
        touched = Touched()
        for batch in self._copy.snapshot_batches():
            for entry in batch.entries:
                self._replay(entry, touched)
        self.next_offset = self._copy.snapshot.end_offset
        return before.joined(touched)

    def _replay(self, entry: LogEntry, touched: Touched) -> None:
        try:
            self.state.replay(entry.record, touched)
        except MetadataRecordError as error:
            raise MetadataRecordError(f"at offset {entry.offset} of the metadata: {error}") from error


def _name_of(code: int) -> str:
    try:
        return ErrorCode(code).name
    except ValueError:
        return str(code)

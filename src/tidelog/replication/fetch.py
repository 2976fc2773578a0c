"""Reading from partitions for a Fetch, and fetches that wait for more to read.

`read_partitions` makes the response of each partition; `DelayedFetch` is a request that waits for `min_bytes`. Records
are returned as slices of files: their bytes are not touched here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple, Protocol

from tidelog.replication.partition import READ_COMMITTED, Partition
from tidelog.replication.replica_selection import ClientMetadata
from tidelog.storage.errors import LogDirFailure
from tidelog.timing import DelayedOperation
from tidelog.wire.errors import ApiError, ErrorCode
from tidelog.wire.fetch import FetchPartition, PartitionReply, TopicKey

_UNDEFINED: Final = -1
_new = tuple.__new__


class FetchParameters(NamedTuple):
    """What holds for a whole request."""

    replica_id: int
    max_wait_ms: int
    min_bytes: int
    max_bytes: int
    isolation_level: int
    is_first_batch_whole: bool
    """From version 3 on the first batch comes whole even above the limits; before, the limits are hard."""
    is_leader_only: bool = True
    """Consumers from version 11 on may read from followers (KIP-392); followers read from the leader."""
    client: ClientMetadata | None = None
    """The consumer's rack and listener, to choose a replica near it; None where every read is from the leader."""

    @property
    def is_from_follower(self) -> bool:
        return self.replica_id >= 0


class Wanted(NamedTuple):
    """One partition of a request. `topic` is None for an unknown topic id: `error` is then its error code."""

    topic_key: TopicKey
    topic: str | None
    fetch: FetchPartition
    error: ErrorCode = ErrorCode.NONE


class PartitionSource(Protocol):
    """Finds partitions, and takes reports of failed disks."""

    def partition(self, topic: str, index: int) -> Partition: ...
    def fail_log_dir(self, failure: LogDirFailure) -> None: ...

    def on_follower_fetch(self, partition: Partition, replica_id: int, fetch: FetchPartition) -> None:
        """A follower asks for an offset that is there, so it has everything before it."""
        ...

    def preferred_read_replica(self, partition: Partition, client: ClientMetadata, fetch_offset: int) -> int:
        """The follower that a consumer should read from, -1 for the leader."""
        ...

    def is_throttled(self, partition: Partition, replica_id: int) -> bool:
        """Whether a follower gets no records of a partition for now."""
        ...

    def may_be_behind(self, partition: Partition) -> bool:
        """Whether another broker may lead a partition, with records that this one does not have."""
        ...

    def count_sent(
        self, parameters: FetchParameters, wanted: Sequence[Wanted], replies: Sequence[PartitionReply]
    ) -> None:
        """These replies are sent."""
        ...


def read_partitions(
    source: PartitionSource,
    parameters: FetchParameters,
    wanted: Sequence[Wanted],
    *,
    has_waited: bool = False,
    bytes_before: int = 0,
) -> tuple[list[PartitionReply], int, bool]:
    """Read what is wanted, within the limits: the replies in order, their bytes, and whether one must not wait.

    The progress of a follower is noted when its request comes in, and not again when it `has_waited`. `bytes_before`
    were read already of other partitions of the same request.
    """
    replies: list[PartitionReply] = []
    bytes_left = max(parameters.max_bytes - bytes_before, 0) if bytes_before else parameters.max_bytes
    bytes_read = 0
    is_first = parameters.is_first_batch_whole and not bytes_before
    has_error = False
    replica_id, client = parameters[0], parameters[7]
    is_progress = replica_id >= 0 and not has_waited
    for topic_key, topic, fetch, error_code in wanted:
        try:
            if topic is None:
                raise ApiError(error_code)
            partition = source.partition(topic, fetch[0])
            if partition.topic_id != topic_key and isinstance(topic_key, bytes):
                raise ApiError(ErrorCode.INCONSISTENT_TOPIC_ID)  # it was deleted, and another topic has its name now
            if is_progress:
                _note_follower(source, partition, fetch, replica_id)
            elif client is not None and partition.is_leader:
                replica = source.preferred_read_replica(partition, client, fetch[1])
                if replica >= 0:
                    replies.append(_redirected(partition, fetch, replica))
                    has_error = True
                    continue
            reply = _read(partition, fetch, parameters, min(fetch[2], bytes_left), is_first)
            if replica_id >= 0 and reply.records is not None and source.is_throttled(partition, replica_id):
                reply = reply._replace(records=None)
        except ApiError as error:
            code = error.code
            if code is ErrorCode.OFFSET_OUT_OF_RANGE and replica_id < 0 and _is_ahead(source, partition, fetch):
                code = ErrorCode.NOT_LEADER_OR_FOLLOWER
            # Kafka lists no aborted transactions of a partition it did not look up, and has null for one it did.
            aborted_transactions = () if topic is None else None
            reply = PartitionReply(fetch.partition_index, code, aborted_transactions=aborted_transactions)
            has_error = True
        except LogDirFailure as failure:
            source.fail_log_dir(failure)
            reply = PartitionReply(fetch.partition_index, failure.code)
            has_error = True
        records = reply.records
        if records is not None:
            size = len(records) if isinstance(records, bytes) else records.length
            bytes_read += size
            bytes_left = bytes_left - size if bytes_left > size else 0
            is_first = False
        elif reply.diverging_epoch is not None:
            has_error = True
        replies.append(reply)
    return replies, bytes_read, has_error


def _is_ahead(source: PartitionSource, partition: Partition, fetch: FetchPartition) -> bool:
    """Whether a consumer may have read further than this replica has got.

    It must not begin again because of that: it learns of the leader, or finds this replica further on.
    """
    return fetch.fetch_offset > partition.log.log_end_offset and source.may_be_behind(partition)


def _read(
    partition: Partition, fetch: FetchPartition, parameters: FetchParameters, max_bytes: int, is_first: bool
) -> PartitionReply:
    index, offset, _, leader_epoch, last_fetched_epoch, _ = fetch
    replica_id, _, _, _, isolation_level, is_first_batch_whole, is_leader_only, _ = parameters
    end_offset = partition.readable_end(leader_epoch, replica_id >= 0, isolation_level, is_leader_only)
    diverging = _diverging_epoch(partition, fetch) if last_fetched_epoch >= 0 else None
    log = partition.log
    positions = log.positions
    high_watermark = positions.high_watermark
    last_stable_offset = positions.last_stable_offset
    if diverging is not None:
        start_offset = positions.log_start_offset
        return PartitionReply(index, 0, high_watermark, last_stable_offset, start_offset, diverging_epoch=diverging)
    records = None
    aborted: list[tuple[int, int]] | None = [] if isolation_level == READ_COMMITTED else None
    if offset != end_offset or offset < positions.log_start_offset:
        read = log.read(offset, max_bytes, end_offset, is_first)
        # Before version 3, a partial batch alone shows a client that its limit is too small. Later versions expect a
        # whole batch (KIP-74) and treat a partial one as corrupt, so this partition waits for the next fetch.
        if not read.is_first_batch_cut or not is_first_batch_whole:
            records = read.slice
        if aborted is not None and records is not None:
            found = log.aborted_transactions(offset, log.read_end_offset(read))
            aborted = [(entry.producer_id, entry.first_offset) for entry in found]
    start_offset = positions.log_start_offset
    return _new(
        PartitionReply,
        (index, 0, high_watermark, last_stable_offset, start_offset, aborted, -1, records, None, None),
    )


def _note_follower(source: PartitionSource, partition: Partition, fetch: FetchPartition, replica_id: int) -> None:
    """Note how far a follower is before its reply is made, so that the reply has the high watermark it moves.

    Ignores fetches that will be rejected, and those of a log that has diverged.
    """
    partition.check_readable(fetch.current_leader_epoch)
    partition.check_follower(replica_id, fetch.current_leader_epoch)
    log = partition.log
    if not log.log_start_offset <= fetch.fetch_offset <= log.written_end_offset:
        return
    if fetch.last_fetched_epoch >= 0 and _diverging_epoch(partition, fetch) is not None:
        return
    source.on_follower_fetch(partition, replica_id, fetch)


def _redirected(partition: Partition, fetch: FetchPartition, replica: int) -> PartitionReply:
    """An empty reply that sends a consumer to a replica near it."""
    partition.check_readable(fetch.current_leader_epoch)
    log = partition.log
    return PartitionReply(
        fetch.partition_index,
        0,
        log.high_watermark,
        log.last_stable_offset,
        log.log_start_offset,
        preferred_read_replica=replica,
    )


def _diverging_epoch(partition: Partition, fetch: FetchPartition) -> tuple[int, int] | None:
    """Where the reader's log diverged from this one, if it did (KIP-595): the reader then truncates."""
    log = partition.log
    if fetch[4] == log.leader_epochs.latest_epoch and fetch[1] <= log.positions.log_end_offset:
        return None  # its last record is of our last epoch, which ends at the end of our log
    epoch, end_offset = log.end_offset_for_epoch(fetch.last_fetched_epoch)
    if epoch == _UNDEFINED or end_offset == _UNDEFINED:
        raise ApiError(
            ErrorCode.OFFSET_OUT_OF_RANGE,
            f"{partition.topic}-{partition.index} has no epoch up to {fetch.last_fetched_epoch}",
        )
    # A reader from before the log start must begin again there, whatever its epochs say.
    if fetch.fetch_offset >= log.log_start_offset and (
        epoch < fetch.last_fetched_epoch or end_offset < fetch.fetch_offset
    ):
        return epoch, end_offset
    return None


class DelayedFetch(DelayedOperation):
    """A fetch that waits until there are `min_bytes` to read, something about a partition changes, or time is up."""

    __slots__ = ("_fail", "_parameters", "_respond", "_source", "_wanted")

    def __init__(
        self,
        source: PartitionSource,
        parameters: FetchParameters,
        wanted: Sequence[Wanted],
        respond: Callable[[list[PartitionReply]], None],
        fail: Callable[[Exception], None],
        deadline_ms: int,
    ) -> None:
        super().__init__(deadline_ms)
        self._source = source
        self._parameters = parameters
        self._wanted = wanted
        self._respond = respond
        self._fail = fail

    def try_complete(self) -> bool:
        """Complete once there are `min_bytes` to read, or waiting cannot bring more or brings an error.

        Nothing is read for that: the bytes are the distance between two positions in a segment, each partition's up to
        its own limit. The last partitions come first: a session puts those there that had something to read before.
        """
        bytes_found = 0
        bytes_min = max(self._parameters.min_bytes, 1)
        for entry in reversed(self._wanted):
            try:
                available = self._available(entry)
            except (ApiError, LogDirFailure):
                available = None
            if available is None:
                return self.force_complete()
            bytes_found += available
            if bytes_found >= bytes_min:
                return self.force_complete()
        return False

    def _available(self, entry: Wanted) -> int | None:
        """How much there is to read of a partition; None if the fetch must not wait for more of it.

        That is so before the last segment: what is left of a segment is all that one fetch gets of it, however little.
        """
        fetch, parameters = entry.fetch, self._parameters
        if entry.topic is None:
            return None
        partition = self._source.partition(entry.topic, fetch.partition_index)
        if partition.topic_id != entry.topic_key and isinstance(entry.topic_key, bytes):
            return None
        end_offset = partition.readable_end(
            fetch.current_leader_epoch,
            parameters.replica_id >= 0,
            parameters.isolation_level,
            parameters.is_leader_only,
        )
        offset = fetch.fetch_offset
        log = partition.log
        if not log.positions.log_start_offset <= offset <= log.positions.log_end_offset:
            return None
        if fetch.last_fetched_epoch >= 0 and _diverging_epoch(partition, fetch) is not None:
            return None
        if offset >= end_offset:
            return 0
        if parameters.replica_id >= 0 and self._source.is_throttled(partition, parameters.replica_id):
            return 0
        if parameters.min_bytes <= 1:
            return 1
        available = log.bytes_between(offset, end_offset)
        return None if available is None else min(available, fetch.max_bytes)

    def on_complete(self) -> None:
        replies, _, _ = read_partitions(self._source, self._parameters, self._wanted, has_waited=True)
        self._source.count_sent(self._parameters, self._wanted, replies)
        self._respond(replies)

    def on_failure(self, error: Exception) -> None:
        self._fail(error)

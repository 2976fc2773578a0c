"""Fetches a range of offsets: the next request is sent before the last response is decoded.

Leaders that move and brokers that restart are waited for, up to `kafkaConsumer.pollTimeoutMs` without progress. Offsets
that are no longer there are data loss; offsets without records are not. For one thread.
"""

import time
from collections.abc import Iterator
from concurrent.futures import Future
from typing import Final

from tidelog.client.aio.admin.types import EARLIEST, LATEST
from tidelog.client.aio.consumer.types import FetchedBatches
from tidelog.client.cluster import Cluster, FetchLimits
from tidelog.client.errors import BrokerUnavailable, InvalidReply
from tidelog.client.patience import Patience
from tidelog.client.types import TopicPartition
from tidelog.records.errors import CorruptRecordError
from tidelog.spark.sentences import ForeseenError
from tidelog.spark.source.batch_walk import modernised, walk_batches
from tidelog.spark.source.data_loss import DELETED, RETENTION, TRUNCATED, DataLoss
from tidelog.spark.source.ranges import OffsetRange
from tidelog.spark.source.settings import TaskSettings
from tidelog.wire.errors import ApiError, ErrorCode
from tidelog.wire.messages.fetch import PartitionData

FIRST_FETCH_BYTES: Final = 1024 * 1024
"""What is asked for before it is known how large records are."""

_SPARE_BYTES: Final = 64 * 1024
_GONE: Final = frozenset({ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID})
GONE_S: Final = 3.0
"""A broker that has just started knows little for a moment. A partition that is unknown for so long is deleted."""


class FetchTimeout(ForeseenError, RuntimeError):  # noqa: N818 - says what happened
    """No records were received within `kafkaConsumer.pollTimeoutMs`."""


class RangeFetcher:
    """The record batches of one range, in order."""

    def __init__(self, settings: TaskSettings, wanted: OffsetRange, cluster: Cluster, loss: DataLoss) -> None:
        self._settings = settings
        self._client = settings.client
        self._where = TopicPartition(wanted.topic, wanted.partition)
        self._position = wanted.start
        self._end = wanted.end
        self._cluster = cluster
        self._loss = loss
        self._asked: Future[PartitionData] | None = None
        self._fetch_bytes = min(FIRST_FETCH_BYTES, self._client.fetch_bytes)
        self._gone_since: float | None = None
        self._patience = Patience(self._settings.poll_timeout_ms / 1000)

    @property
    def is_reply_due(self) -> bool:
        """Whether a request is on its way, behind which the next one on its connection would have to wait."""
        return self._asked is not None

    def chunks(self) -> Iterator[FetchedBatches]:
        """Whole batches, to the end of the range. Raises FetchTimeout, DataLossError, ApiError, CorruptRecordError."""
        while self._position < self._end:
            try:
                data = self._answer()
            except (BrokerUnavailable, InvalidReply, ApiError) as error:
                self._recover(error)
                continue
            chunk = self._taken(data)
            if chunk is None:
                self._wait_for_more()
                continue
            self._progressed()
            del data  # so that its memory serves for the answer after the next
            if self._position < self._end:
                self._asked = self._ask()
            yield chunk
            del chunk

    def _answer(self) -> PartitionData:
        asked, self._asked = self._asked or self._ask(), None
        return asked.result()

    def _ask(self) -> "Future[PartitionData]":
        client = self._client
        limits = FetchLimits(
            self._fetch_bytes, client.fetch_max_wait_ms, client.fetch_min_bytes, read_committed=client.read_committed
        )
        return self._cluster.begin_fetch(self._where, self._position, limits)

    def _taken(self, data: PartitionData) -> FetchedBatches | None:
        """The batches of a response, and the position after them; None if there are none."""
        if not data.records:
            return None
        records, first = memoryview(data.records), self._position
        try:
            walk = walk_batches(records, first, self._end, check_crcs=self._client.check_crcs)
        except CorruptRecordError as error:
            raise CorruptRecordError(f"{self._where}, fetched from offset {first}: {error}") from error
        if walk.next_offset == first:
            self._allow_more_than(len(records))
            return None
        self._fit_fetch_bytes(walk.size_bytes / (walk.next_offset - first), walk.next_offset)
        self._position = walk.next_offset
        whole = records[: walk.size_bytes]
        if walk.has_old_format:
            whole = memoryview(modernised(whole))
        aborted = tuple((each.producer_id, each.first_offset) for each in data.aborted_transactions or ())
        return FetchedBatches(*self._where, whole, first, walk.next_offset, aborted)

    def _allow_more_than(self, size_bytes: int) -> None:
        """A first batch that is not whole: old brokers send no more of it than was asked for."""
        if size_bytes >= self._fetch_bytes:
            self._fetch_bytes = 2 * size_bytes

    def _fit_fetch_bytes(self, bytes_per_offset: float, next_offset: int) -> None:
        """Ask for as much as is left of the range, and for no more than the settings allow."""
        left = int((self._end - next_offset) * bytes_per_offset * 1.1) + _SPARE_BYTES
        self._fetch_bytes = min(left, self._client.fetch_bytes)

    def _out_of_range(self) -> None:
        """The broker has no such offset: find out on which side the log ends, and what of the range that takes away."""
        start, end = self._bounds()
        if self._position < start:
            after = min(start, self._end)
            self._loss.report(self._where, self._position, after, RETENTION)
            self._position = after
        elif self._position > end:
            self._lose_the_rest(TRUNCATED)
        else:
            self._pause("the leader does not have this offset yet")

    def _bounds(self) -> tuple[int, int]:
        start, end = (self._cluster.list_offsets({self._where: which})[self._where] for which in (EARLIEST, LATEST))
        return start.offset, end.offset

    def _lose_the_rest(self, why: str) -> None:
        self._loss.report(self._where, self._position, self._end, why)
        self._position = self._end

    def _wait_for_more(self) -> None:
        """The range promises offsets that the log does not have now: a new leader may have to catch up first."""
        if not self._patience.is_over:
            return
        _, end = self._bounds()
        if end <= self._position:
            self._lose_the_rest(TRUNCATED)
            return
        self._raise_timeout(f"the log ends at {end}; with read_committed, a transaction may be open before that")

    def _recover(self, error: BrokerUnavailable | InvalidReply | ApiError) -> None:
        """Wait a moment before asking again; raise what does not pass."""
        if isinstance(error, ApiError) and error.code is ErrorCode.OFFSET_OUT_OF_RANGE:
            self._out_of_range()
            return
        if isinstance(error, InvalidReply) or (isinstance(error, ApiError) and not error.code.retriable):
            raise error
        self._cluster.forget()
        if isinstance(error, ApiError) and error.code in _GONE:
            now = time.monotonic()
            self._gone_since = now if self._gone_since is None else self._gone_since
            if now - self._gone_since >= GONE_S:
                self._lose_the_rest(DELETED)
                return
        self._pause(str(error))

    def _pause(self, why: str) -> None:
        if not self._patience.pause():
            self._raise_timeout(why)

    def _raise_timeout(self, why: str) -> None:
        raise FetchTimeout(
            f"no record of {self._where} from offset {self._position} on was received within "
            f"{self._settings.poll_timeout_ms} ms (kafkaConsumer.pollTimeoutMs): {why}"
        )

    def _progressed(self) -> None:
        self._gone_since = None
        self._patience.renew()

"""A cluster that the source can be tested against without one: a view for the driver, a leader for tasks."""

from collections.abc import Iterable, Mapping
from concurrent.futures import Future
from typing import Any

from tidelog.client.aio.admin.types import EARLIEST, ListedOffset
from tidelog.client.cluster import FetchLimits
from tidelog.client.errors import ApiError, ConnectionLost
from tidelog.client.types import TopicPartition
from tidelog.records.builder import build_batch
from tidelog.records.header import read_header
from tidelog.records.record import Record
from tidelog.spark.source.client_settings import ClientSettings
from tidelog.spark.source.settings import SourceSettings, TaskSettings, load_stream_settings
from tidelog.wire.errors import ErrorCode
from tidelog.wire.messages.fetch import AbortedTransaction, PartitionData

SERVERS = {"kafka.bootstrap.servers": "localhost:9092"}


def tp(text: str) -> TopicPartition:
    """`t-0`"""
    topic, _, partition = text.rpartition("-")
    return TopicPartition(topic, int(partition))


def offsets(**by_name: int) -> dict[TopicPartition, int]:
    """`offsets(t_0=5)`"""
    return {tp(name.replace("_", "-")): offset for name, offset in by_name.items()}


def stream_settings(**options: str) -> SourceSettings:
    return load_stream_settings({**SERVERS, "subscribe": "t", **options})


class FakeView:
    """A `View` whose logs are pairs of first and last offset."""

    def __init__(self, **logs: tuple[int, int]) -> None:
        self.logs = {tp(name.replace("_", "-")): bounds for name, bounds in logs.items()}
        self.times: dict[TopicPartition, list[int]] = {}
        self.ids: dict[str, bytes] = {}
        self.absent: list[str] = []
        self.questions: list[str] = []

    def partitions(self, known: Iterable[TopicPartition] = ()) -> list[TopicPartition]:
        self.questions.append("partitions")
        return sorted(self.logs)

    def missing(self) -> list[str]:
        return self.absent

    def topic_ids(self) -> Mapping[str, bytes]:
        return {each.topic: self.ids.get(each.topic, b"i" * 16) for each in self.logs}

    def earliest(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        self.questions.append("earliest")
        return {each: self.logs[each][0] for each in partitions if each in self.logs}

    def latest(
        self, partitions: Iterable[TopicPartition], known: Mapping[TopicPartition, int] | None = None
    ) -> dict[TopicPartition, int]:
        self.questions.append("latest")
        return {each: self.logs[each][1] for each in partitions if each in self.logs}

    def at_times(self, times: Mapping[TopicPartition, int]) -> dict[TopicPartition, int | None]:
        """Records of a partition have the times in `self.times`, from its first offset on."""
        return {
            each: next(
                (self.logs[each][0] + index for index, at in enumerate(self.times.get(each, [])) if at >= time), None
            )
            for each, time in times.items()
        }


class FakeLog:
    """Batches of one partition."""

    def __init__(self) -> None:
        self.batches: list[bytes] = []
        self.start = 0
        self.end = 0
        self.aborted: list[tuple[int, int]] = []

    def append(self, *values: bytes | None, timestamp: int = 1_600_000_000_000, **batch: Any) -> None:
        records = [Record(self.end + index, timestamp, b"k", value) for index, value in enumerate(values)]
        self.add(build_batch(records, base_offset=self.end, **batch))

    def add(self, batch: bytes) -> None:
        self.batches.append(batch)
        self.end = read_header(batch).next_offset

    def read(self, offset: int, max_bytes: int) -> bytes:
        taken = b""
        for batch in self.batches:
            if read_header(batch).next_offset > offset and (not taken or len(taken) + len(batch) <= max_bytes):
                taken += batch
        return taken


class FakeCluster:
    """What a task uses of `Cluster`; one leader, which fails on request."""

    def __init__(self, **logs: FakeLog) -> None:
        self.logs = {tp(name.replace("_", "-")): log for name, log in logs.items()}
        self.troubles: list[Exception | ErrorCode] = []
        """Raised, or answered, one for each of the next fetches."""
        self.fetches: list[tuple[int, int]] = []
        self.forgotten = 0
        self.is_closed = False

    def begin_fetch(self, where: TopicPartition, offset: int, limits: FetchLimits) -> "Future[PartitionData]":
        self.fetches.append((offset, limits.partition_bytes_max))
        answer: Future[PartitionData] = Future()
        try:
            answer.set_result(self._answer(where, offset, limits))
        except Exception as error:
            answer.set_exception(error)
        return answer

    def list_offsets(self, times: Mapping[TopicPartition, int]) -> dict[TopicPartition, ListedOffset]:
        return {
            where: ListedOffset(self.logs[where].start if time == EARLIEST else self.logs[where].end, -1, -1)
            for where, time in times.items()
        }

    def forget(self) -> None:
        self.forgotten += 1

    def close(self) -> None:
        self.is_closed = True

    def _answer(self, where: TopicPartition, offset: int, limits: FetchLimits) -> PartitionData:
        trouble = self.troubles.pop(0) if self.troubles else ErrorCode.NONE
        if isinstance(trouble, Exception):
            raise trouble
        log = self.logs.get(where)
        if log is None:
            raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"{where}: gone")
        if trouble is ErrorCode.NONE and not log.start <= offset <= log.end:
            trouble = ErrorCode.OFFSET_OUT_OF_RANGE
        if trouble is not ErrorCode.NONE:
            raise ApiError(trouble, f"{where}: refused")
        aborted = [AbortedTransaction(producer_id=p, first_offset=o) for p, o in log.aborted]
        return PartitionData(
            partition_index=where.partition,
            high_watermark=log.end,
            log_start_offset=log.start,
            aborted_transactions=aborted if limits.read_committed else None,
            records=log.read(offset, limits.partition_bytes_max),
        )


def lost_connection() -> ConnectionLost:
    return ConnectionLost("fake:1", "restarted")


def task_settings(*, poll_timeout_ms: int = 2_000, fail_on_data_loss: bool = True, **client: Any) -> TaskSettings:
    return TaskSettings(ClientSettings("fake:1", **client), fail_on_data_loss, poll_timeout_ms)

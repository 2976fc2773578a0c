"""A cluster that the source can be tested against without one: a view for the driver, a leader for tasks."""

from collections.abc import Iterable, Mapping
from typing import Any

from tidelog.client.cluster import Node
from tidelog.client.errors import ConnectionLost
from tidelog.client.types import TopicPartition
from tidelog.records.builder import build_batch
from tidelog.records.header import read_header
from tidelog.records.record import Record
from tidelog.spark.source.client_settings import ClientSettings
from tidelog.spark.source.settings import SourceSettings, TaskSettings, load_stream_settings
from tidelog.wire.errors import ApiError, ErrorCode
from tidelog.wire.messages import FetchRequest, FetchResponse, ListOffsetsRequest, ListOffsetsResponse
from tidelog.wire.messages.fetch import AbortedTransaction, FetchableTopicResponse, PartitionData
from tidelog.wire.messages.list_offsets import ListOffsetsPartitionResponse, ListOffsetsTopicResponse

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
    """What a task uses of `ClusterClient`; one leader, which can be told to misbehave."""

    def __init__(self, **logs: FakeLog) -> None:
        self.logs = {tp(name.replace("_", "-")): log for name, log in logs.items()}
        self.troubles: list[Exception | ErrorCode] = []
        """Raised, or answered, one for each of the next fetches."""
        self.fetches: list[tuple[int, int]] = []
        self.forgotten = 0
        self.connection = FakeConnection(self)
        self.is_closed = False

    def leader_of(self, topic: str, partition: int) -> Node:
        if TopicPartition(topic, partition) not in self.logs:
            raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "gone")
        return Node(0, "fake", 1)

    def by_leader(self, topic: str, partitions: Iterable[int]) -> dict[Node, list[int]]:
        return {self.leader_of(topic, partition): [partition] for partition in partitions}

    def connection_to(self, node: Node) -> "FakeConnection":
        return self.connection

    def on_node(self, node: Node, request: ListOffsetsRequest, answer: type) -> ListOffsetsResponse:
        (topic,) = request.topics
        told = []
        for each in topic.partitions:
            log = self.logs[TopicPartition(topic.name, each.partition_index)]
            offset = log.start if each.timestamp == -2 else log.end
            told.append(ListOffsetsPartitionResponse(partition_index=each.partition_index, offset=offset))
        return ListOffsetsResponse(topics=[ListOffsetsTopicResponse(name=topic.name, partitions=told)])

    def retrying(self, attempt: Any, *, even_if_lost: bool = False) -> Any:
        return attempt()

    def forget(self) -> None:
        self.forgotten += 1

    def close(self) -> None:
        self.is_closed = True


class FakeConnection:
    """One request at a time, answered as a broker would."""

    def __init__(self, cluster: FakeCluster) -> None:
        self._cluster = cluster
        self.pending: list[FetchRequest] = []

    def write(self, request: FetchRequest, *, at_most: int | None = None) -> None:
        assert not self.pending, "two fetches under way"
        self.pending.append(request)

    def read_raw(self, *, is_passing: bool = False) -> tuple[int, bytearray, int]:
        request = self.pending.pop()
        return 12, bytearray(self._answer(request).encode(12)), 0

    def close(self) -> None:
        self.pending.clear()

    def _answer(self, request: FetchRequest) -> FetchResponse:
        (topic,) = request.topics
        (wanted,) = topic.partitions
        self._cluster.fetches.append((wanted.fetch_offset, wanted.partition_max_bytes))
        log = self._cluster.logs[TopicPartition(topic.topic, wanted.partition)]
        trouble = self._cluster.troubles.pop(0) if self._cluster.troubles else ErrorCode.NONE
        if isinstance(trouble, Exception):
            raise trouble
        if trouble is ErrorCode.NONE and not log.start <= wanted.fetch_offset <= log.end:
            trouble = ErrorCode.OFFSET_OUT_OF_RANGE
        data = PartitionData(
            partition_index=wanted.partition,
            error_code=trouble,
            high_watermark=log.end,
            log_start_offset=log.start,
            aborted_transactions=[AbortedTransaction(producer_id=p, first_offset=o) for p, o in log.aborted]
            if request.isolation_level
            else None,
            records=log.read(wanted.fetch_offset, wanted.partition_max_bytes) if trouble is ErrorCode.NONE else None,
        )
        return FetchResponse(responses=[FetchableTopicResponse(topic=topic.topic, partitions=[data])])


def lost_connection() -> ConnectionLost:
    return ConnectionLost("fake:1", "restarted")


def task_settings(*, poll_timeout_ms: int = 2_000, fail_on_data_loss: bool = True, **client: Any) -> TaskSettings:
    return TaskSettings(ClientSettings("fake:1", **client), fail_on_data_loss, poll_timeout_ms)

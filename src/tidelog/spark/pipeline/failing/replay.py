"""Sends dead letters back to their origin topic, or to another topic. No Spark.

Letters are read from where the last replay stopped (a group's committed offsets) and sent in transactions that also
commit how far they came, so that a new replay continues after the last committed transaction and no letter is sent
twice. Letters that do not match the filter are written to the end of their topic in the same transaction: they stay
dead letters, and the next replay reads them again.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from tidelog.client.admin import Admin
from tidelog.client.aio.admin.types import EARLIEST, LATEST
from tidelog.client.aio.consumer.types import ConsumerRecord
from tidelog.client.cluster import Cluster
from tidelog.client.errors import DeadlinePassed
from tidelog.client.producer import Producer
from tidelog.client.types import OffsetAndMetadata, TopicPartition
from tidelog.spark.pipeline.definition.pipeline import PipelineError
from tidelog.spark.pipeline.failing.dead_letters import DeadLetter, Filter, is_meant, read_letter

LETTERS_PER_TRANSACTION: Final = 5_000

Letter = tuple[ConsumerRecord[bytes, bytes], DeadLetter]
"""A record of a dead-letter topic, and its parsed form."""


@dataclass(slots=True)
class Replayed:
    """What a replay did."""

    sent: dict[str, int]
    kept: int = 0
    without_origin: int = 0

    @property
    def total(self) -> int:
        """Letters sent back."""
        return sum(self.sent.values())


@dataclass(frozen=True, slots=True)
class Replay:
    """A request to replay dead letters."""

    servers: str
    dead_letters: str
    to: str | None = None
    filters: Sequence[Filter] = ()
    from_beginning: bool = False
    security: Mapping[str, Any] = field(default_factory=dict, repr=False)
    """Client settings, such as those of encryption and authentication."""

    @property
    def group_id(self) -> str:
        """The group whose committed offsets are the progress of replays."""
        return f"tidelog-replay-{self.dead_letters}"

    @property
    def _client(self) -> dict[str, Any]:
        return {**self.security, "bootstrap.servers": self.servers}

    def spans(self) -> dict[int, tuple[int, int]]:
        """From where to where each partition would be read now; empty ones are left out."""
        with Cluster(self._client) as cluster:
            count = cluster.partition_count(self.dead_letters)
            partitions = [TopicPartition(self.dead_letters, each) for each in range(count)]
            ends = cluster.list_offsets(dict.fromkeys(partitions, LATEST), read_committed=True)
            first = cluster.list_offsets(dict.fromkeys(partitions, EARLIEST))
        committed = {} if self.from_beginning else self._committed()
        spans = {
            where.partition: (max(first[where].offset, committed.get(where.partition, 0)), ends[where].offset)
            for where in partitions
        }
        return {each: (start, end) for each, (start, end) in spans.items() if start < end}

    def look(self, spans: dict[int, tuple[int, int]], advance: Callable[[int], object]) -> Replayed:
        """What `send` would do, without doing it. `advance` gets the number of offsets passed."""
        done = Replayed({})
        passed = _Passed(spans, advance)
        for record, letter in self._letters(spans):
            self._target(letter, done)
            passed.reach(record.partition, record.offset + 1)
        passed.end()
        return done

    def send(self, spans: dict[int, tuple[int, int]], advance: Callable[[int], object]) -> Replayed:
        """Send letters back. Raises errors of the cluster; letters committed before stay sent.

        `advance` is called as in `look`.
        """
        done = Replayed({})
        settings = {**self._client, "transactional.id": self.group_id, "enable.idempotence": "true"}
        with Producer(settings) as producer:
            producer.init_transactions()
            # The former holder of the id may have committed more, once it was settled: only now ask how far it came.
            passed = _Passed(spans, advance)
            spans = self._still_unsent(spans)
            letters = self._letters(spans)
            while chunk := _take(letters, LETTERS_PER_TRANSACTION):
                ends = {each: end for each, (_, end) in spans.items()} if len(chunk) < LETTERS_PER_TRANSACTION else {}
                with producer.transaction():
                    self._send_chunk(producer, chunk, ends, done)
                for record, _ in chunk:
                    passed.reach(record.partition, record.offset + 1)
            passed.end()
        return done

    def _still_unsent(self, spans: dict[int, tuple[int, int]]) -> dict[int, tuple[int, int]]:
        committed = {} if self.from_beginning else self._committed()
        moved = {each: (max(start, committed.get(each, 0)), end) for each, (start, end) in spans.items()}
        return {each: (start, end) for each, (start, end) in moved.items() if start < end}

    def _send_chunk(self, producer: Producer, chunk: list[Letter], ends: dict[int, int], done: Replayed) -> None:
        """Send a part of the letters. With the last part come the `ends` of what was asked for, which markers hold."""
        positions: dict[TopicPartition, OffsetAndMetadata] = {}
        for record, letter in chunk:
            target = self._target(letter, done)
            if target is None:
                producer.send(self.dead_letters, record.value, record.key, headers=list(record.headers))
            else:
                producer.send(target, letter.value, letter.key, headers=list(letter.headers))
            positions[record.topic_partition] = OffsetAndMetadata(record.offset + 1)
        positions |= {TopicPartition(self.dead_letters, each): OffsetAndMetadata(end) for each, end in ends.items()}
        producer.send_offsets_to_transaction(positions, self.group_id)

    def _target(self, letter: DeadLetter, done: Replayed) -> str | None:
        """Where a letter goes, and the count of it; None if it stays."""
        target = self.to or (letter.trail.origin.topic if letter.trail else None)
        if target is None:
            done.without_origin += 1
        if target is None or not is_meant(letter, self.filters):
            done.kept += 1
            return None
        done.sent[target] = done.sent.get(target, 0) + 1
        return target

    def _committed(self) -> dict[int, int]:
        with Admin(self._client) as admin:
            offsets = admin.list_consumer_group_offsets(self.group_id, require_stable=True)
        return {each.partition: place.offset for each, place in offsets.items() if each.topic == self.dead_letters}

    def _letters(self, spans: dict[int, tuple[int, int]]) -> Iterator[Letter]:
        if not spans:
            return
        starts = {TopicPartition(self.dead_letters, each): start for each, (start, _) in spans.items()}
        ends = {TopicPartition(self.dead_letters, each): end for each, (_, end) in spans.items()}
        with Cluster(self._client) as cluster:
            try:
                for record in cluster.read(starts, ends, read_committed=True):
                    yield record, read_letter(record.key, record.value, record.headers)
            except DeadlinePassed as error:
                raise PipelineError(f"topic {self.dead_letters!r} could not be read to its end: {error}") from error


class _Passed:
    """How far a replay is. Offsets of transaction markers and of aborted records lie between the letters."""

    def __init__(self, spans: dict[int, tuple[int, int]], advance: Callable[[int], object]) -> None:
        self._reached = {each: start for each, (start, _) in spans.items()}
        self._ends = {each: end for each, (_, end) in spans.items()}
        self._advance = advance

    def reach(self, partition: int, offset: int) -> None:
        self._advance(offset - self._reached[partition])
        self._reached[partition] = offset

    def end(self) -> None:
        for partition, end in self._ends.items():
            self.reach(partition, end)


def _take(letters: Iterator[Letter], most: int) -> list[Letter]:
    chunk: list[Letter] = []
    for each in letters:
        chunk.append(each)
        if len(chunk) == most:
            break
    return chunk

"""Sends dead letters back to their origin topic, or to another topic. No Spark.

Letters are read from where the last replay stopped (a group's committed offsets) and sent in transactions that also
commit how far they came, so that a new replay continues after the last committed transaction and no letter is sent
twice. Letters that do not match the filter are not touched: what is committed says which letters behind them were sent
(`replay_progress`), and the next replay reads the others again.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from tidelog.client.aio.admin.types import EARLIEST, LATEST
from tidelog.client.aio.consumer.types import ConsumerRecord
from tidelog.client.cluster import Cluster
from tidelog.client.errors import DeadlinePassed
from tidelog.client.producer import Producer
from tidelog.client.retry.headers import REPLAYED, REPLAYED_BY, Header
from tidelog.client.types import TopicPartition
from tidelog.spark.pipeline.definition.pipeline import PipelineError
from tidelog.spark.pipeline.failing.dead_letters import DeadLetter, Filter, is_meant, read_letter
from tidelog.spark.pipeline.failing.replay_progress import ReplayProgress, committed_positions

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
    only: frozenset[tuple[int, int]] | None = None
    """Partitions and offsets of the letters that are meant; None: of all."""
    by: str = ""
    """Who asks for it: a header of each letter that is sent. Empty: letters are exactly as they were."""

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
        committed = {} if self.from_beginning else self._committed_positions()
        spans = {
            where.partition: (max(first[where].offset, committed.get(where.partition, 0)), ends[where].offset)
            for where in partitions
        }
        return {each: (start, end) for each, (start, end) in spans.items() if start < end}

    def look(self, spans: dict[int, tuple[int, int]], advance: Callable[[int], object]) -> Replayed:
        """What `send` would do, without doing it. `advance` gets the number of offsets passed."""
        done = Replayed({})
        passed = _Passed(spans, advance)
        progress = self._progress(spans)
        for record, letter in self._letters(spans, progress):
            self._target(record, letter, done)
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
            progress = self._progress(spans)
            letters = self._letters(spans, progress)
            reached = {each: start for each, (start, _) in spans.items()}
            is_last = not spans
            while not is_last:
                chunk = _take(letters, LETTERS_PER_TRANSACTION)
                # With the last part come the ends of what was asked for, which markers hold.
                is_last = len(chunk) < LETTERS_PER_TRANSACTION
                ends = {each: end for each, (_, end) in spans.items()} if is_last else {}
                reached |= {record.partition: record.offset + 1 for record, _ in chunk} | ends
                with producer.transaction():
                    self._send_chunk(producer, chunk, progress, done)
                    for group_id, positions in progress.positions(reached).items():
                        producer.send_offsets_to_transaction(positions, group_id)
                for record, _ in chunk:
                    passed.reach(record.partition, record.offset + 1)
            passed.end()
        return done

    def _still_unsent(self, spans: dict[int, tuple[int, int]]) -> dict[int, tuple[int, int]]:
        committed = {} if self.from_beginning else self._committed_positions()
        moved = {each: (max(start, committed.get(each, 0)), end) for each, (start, end) in spans.items()}
        return {each: (start, end) for each, (start, end) in moved.items() if start < end}

    def _send_chunk(self, producer: Producer, chunk: list[Letter], progress: ReplayProgress, done: Replayed) -> None:
        for record, letter in chunk:
            target = self._target(record, letter, done)
            if target is None:
                progress.note_kept(record.partition, record.offset)
                continue
            headers = [*letter.headers, *self._marks(letter)]
            producer.send(target, letter.value, letter.key, headers=headers)
            progress.note_sent(record.partition, record.offset)

    def _marks(self, letter: DeadLetter) -> list[Header]:
        """The headers by which a pipeline, and people, know a letter that was sent back."""
        marks: list[Header] = [(REPLAYED, b"1")] if letter.trail is not None else []
        return [*marks, (REPLAYED_BY, self.by.encode())] if self.by else marks

    def _target(self, record: ConsumerRecord[bytes, bytes], letter: DeadLetter, done: Replayed) -> str | None:
        """Where a letter goes, and the count of it; None if it stays."""
        if self.only is not None and (record.partition, record.offset) not in self.only:
            done.kept += 1
            return None
        target = self.to or (letter.trail.origin.topic if letter.trail else None)
        if target is None:
            done.without_origin += 1
        if target is None or not is_meant(letter, self.filters):
            done.kept += 1
            return None
        done.sent[target] = done.sent.get(target, 0) + 1
        return target

    def _committed_positions(self) -> dict[int, int]:
        return committed_positions(self._client, self.dead_letters, self.group_id)

    def _progress(self, spans: dict[int, tuple[int, int]]) -> ReplayProgress:
        progress = ReplayProgress(self.dead_letters, self.group_id)
        progress.load(self._client, spans)
        return progress

    def _letters(self, spans: dict[int, tuple[int, int]], progress: ReplayProgress) -> Iterator[Letter]:
        if not spans:
            return
        starts = {TopicPartition(self.dead_letters, each): start for each, (start, _) in spans.items()}
        ends = {TopicPartition(self.dead_letters, each): end for each, (_, end) in spans.items()}
        with Cluster(self._client) as cluster:
            try:
                for record in cluster.read(starts, ends, read_committed=True):
                    if not self.from_beginning and progress.was_sent(record.partition, record.offset):
                        continue
                    yield record, read_letter(record.key, record.value, record.headers, record.timestamp)
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
